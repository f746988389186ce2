"""What queries read of slices: snapshots need logs, footers decide on base files alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pyhudi.application.runtime import Runtime
from pyhudi.format.filenames import LogFileName
from pyhudi.reads.footers import slices_in_bounds
from pyhudi.reads.scan import Query, count_rows, open_query
from pyhudi.reads.scan_plan import plan_scan
from pyhudi.rows.spec import FileSystemSpec
from pyhudi.slices.files import FileSlice, LogFile
from pyhudi.storage.local import LocalStorage
from tests.fakes import FakeClock
from tests.golden_tables import ALL, BY_NAME, GoldenTable
from tests.reads.conditions import among

MERGE_ON_READ = [t for t in ALL if t.merge_on_read and t.moment != "midfail"]
OPTIMIZED = {"hoodie.datasource.query.type": "read_optimized"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("golden")


def query(folder: Path, table: GoldenTable, options: dict[str, str] | None = None) -> Query:
    runtime = Runtime(
        FakeClock(), LocalStorage, lambda root: (FileSystemSpec("local"), root), None, None  # type: ignore[arg-type]
    )  # fmt: skip
    return open_query(runtime, str(table.unzip(folder)), options or {}, {})


@pytest.mark.parametrize("table", MERGE_ON_READ, ids=lambda table: table.name)
def test_a_snapshot_counts_the_rows_of_base_files_and_of_logs(
    folder: Path, table: GoldenTable
) -> None:
    asked = query(folder, table)
    rows = table.expected()
    names = {row["_hoodie_file_name"] for row in rows or []}
    held = {name for name in names if name.endswith(".parquet")}
    assert {s.base.name for s in asked.slices([]) if s.base is not None} >= held
    if rows is not None:
        assert count_rows(asked, []) in (len(rows), None)
    assert (plan_scan(asked, []).log_rows > 0) or names == held


@pytest.mark.parametrize("table", MERGE_ON_READ, ids=lambda table: table.name)
def test_read_optimized_takes_the_base_files_of_slices_alone(
    folder: Path, table: GoldenTable
) -> None:
    asked = query(folder, table, OPTIMIZED)
    slices = asked.slices([])
    assert [s.base for s in slices] == asked.view().latest()
    assert all(s.logs == () for s in slices)


def test_change_data_beside_base_files_changes_no_scan(folder: Path) -> None:
    asked = query(folder, BY_NAME["h120_v9-cow_cdc"])
    assert asked.view().logs
    assert all(s.logs == () for s in asked.slices([]))
    assert count_rows(asked, []) == len(BY_NAME["h120_v9-cow_cdc"].expected() or [])


def test_a_slice_with_logs_is_read_whatever_the_footer_of_its_base_file_says(folder: Path) -> None:
    asked = query(folder, BY_NAME["h120_v9-cow_part"])
    beyond = [among("id", 10**15)]
    bare = asked.slices([])
    kept = slices_in_bounds(asked, beyond, bare)
    first, second, *_ = (each for each in bare if each not in kept)

    name = LogFileName(first.file_id, first.instant, 1, "0-1-2")
    log = LogFile(first.partition_path, name, size_bytes=1)
    touched, alone = replace(first, logs=(log,)), FileSlice(None, (log,))
    assert slices_in_bounds(asked, beyond, [touched, second, alone]) == [touched, alone]
