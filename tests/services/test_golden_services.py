"""Every service on tables that Apache Hudi wrote, some with crashed writes and plans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.format.instants import InstantTime, State
from pyhudi.services import clean as clean_module
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.saved_files import saved_files
from pyhudi.timeline.table import open_table
from pyhudi.timeline.view import VIEWS
from tests.golden_tables import ALL, COPY_ON_WRITE, GoldenTable
from tests.reads.merged_table import opened
from tests.reads.merged_table import rows as merged_rows

SHARP = {
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "2",
}
COMMITS = ("commit", "replacecommit", "deltacommit")


@pytest.fixture(autouse=True)
def _old_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clean_module, "SPARED_MS", 0)


def rows(root: Path) -> list[dict[str, Any]]:
    """All columns of the rows that the newest snapshot has."""
    storage = LocalStorage(str(root))
    VIEWS.forget(storage)
    table = open_table(storage)
    files = [f"{root}/{file.path}" for file in table.view(table.timeline()).latest()]
    found = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    return sorted(found, key=lambda row: (row["_hoodie_partition_path"], row["_hoodie_record_key"]))


def commits(root: Path) -> set[tuple[InstantTime, str]]:
    """The completed commits, archived ones included."""
    return {
        (entry.instant, entry.operation)
        for entry in pyhudi.history(str(root), archived=True)
        if entry.action.value in COMMITS and entry.state is State.COMPLETED
    }


def data_files(root: Path) -> set[Path]:
    return {path for path in root.rglob("*.parquet") if ".hoodie" not in path.parts}


@pytest.mark.parametrize("table", COPY_ON_WRITE, ids=lambda table: table.name)
def test_rows_and_history_stay_through_every_service(table: GoldenTable, tmp_path: Path) -> None:
    root = table.unzip(tmp_path)
    rows_before, commits_before, files_before = rows(root), commits(root), data_files(root)

    turns = pyhudi.run_services(str(root), options=SHARP)
    again = pyhudi.run_services(str(root), options=SHARP)

    assert [turn.error for turn in [*turns, *again]] == [""] * 6
    assert [turn.done for turn in again] == [0, 0, 0], "nothing is left for a second round"
    assert rows(root) == rows_before
    if (expected := table.expected()) is not None:
        assert len(rows(root)) == len(expected)
    assert commits(root) == commits_before
    assert data_files(root) <= files_before
    timeline = open_table(LocalStorage(str(root))).timeline()
    assert [i for i in timeline.pending if i.action.value == "clean"] == []
    orphans = pyhudi.remove_orphans(str(root), older_than_hours=0)
    assert [each.file for each in orphans if each.fate.value.startswith("would")] == []


MERGE_ON_READ = [each for each in ALL if each.merge_on_read]


def merged(root: Path) -> list[dict[str, Any]]:
    """The rows of a merge-on-read table as a query gives them, without the names of files."""
    VIEWS.forget(LocalStorage(str(root)))
    found = [dict(row) for row in merged_rows(opened(root))]
    for row in found:
        row.pop("_hoodie_file_name")
    return sorted(found, key=repr)


@pytest.mark.parametrize("table", MERGE_ON_READ, ids=lambda table: table.name)
def test_rows_with_logs_and_history_stay_through_every_service(
    table: GoldenTable, tmp_path: Path
) -> None:
    root = table.unzip(tmp_path)
    before, commits_before = merged(root), commits(root)

    turns = pyhudi.run_services(str(root), options=SHARP)
    again = pyhudi.run_services(str(root), options=SHARP)

    assert [turn.error for turn in [*turns, *again]] == [""] * 6
    assert [turn.done for turn in again] == [0, 0, 0], "nothing is left for a second round"
    assert merged(root) == before
    assert commits(root) == commits_before
    orphans = pyhudi.remove_orphans(str(root), older_than_hours=0)
    assert [each.file for each in orphans if each.fate.value.startswith("would")] == []
    kept = pyhudi.savepoint(str(root))
    timeline = open_table(LocalStorage(str(root))).timeline()
    saved = {n for _, _, n in saved_files(open_table(LocalStorage(str(root))), timeline)}
    assert len(saved) == kept.files
    pyhudi.clean(str(root), options={**SHARP, "hoodie.clean.commits.retained": "1"})
    assert merged(root) == before
