"""Keys that a log has deleted, and what a writer reads to know them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import pyhudi
from pyhudi.reads.scan import Query
from pyhudi.rows.log_spec import Merged
from pyhudi.slices.files import FileSlice
from pyhudi.transactions.conflicts.comparison import Group
from pyhudi.writes.placement import dead_keys
from pyhudi.writes.placement.log_looks import forget_logs
from tests.spark.tables import VERSION, Lake, model_of, rows_of
from tests.spark.test_merge_on_read import MOR

pytestmark = [pytest.mark.spark, pytest.mark.compiled]


@pytest.mark.parametrize("version", ["6", "9"])
@pytest.mark.parametrize("gone", ["nothing", "deleted", "marked"])
def test_logs_of_archived_commits_are_merged_for_dead_keys_only_if_they_delete(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, version: str, gone: str
) -> None:
    """A writer merges no logs to look for keys that none of them has deleted."""
    quiet = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
    mark = "id bigint, name string, ts bigint, dt string, _hoodie_is_deleted boolean"
    table = lake.table(options={**MOR, VERSION: version, **quiet}, ddl=mark)
    table.write([(*row, False) for row in rows_of(0, 6, "a")], "bulk_insert")
    away = gone == "marked"
    for ts in range(2, 8):
        some = rows_of(0, 3, f"b{ts}", ts)
        first = gone == "deleted" and ts == 2
        table.write([(*row, away and ts == 7) for row in some], "delete" if first else "upsert")
    few = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
    pyhudi.archive(table.path, options={**few, "hoodie.cleaner.commits.retained": "1"})
    homes = {path.name.split("_")[0] for path in Path(table.path).rglob("*.parquet")}
    forget_logs()
    read: list[int] = []
    merged = dead_keys.merges

    def told(query: Query, slices: Sequence[FileSlice]) -> Mapping[Group, Merged]:
        read.append(len(slices))
        return merged(query, slices)

    monkeypatch.setattr(dead_keys, "merges", told)
    for ts in (8, 9):
        back = [(*row, False) for row in rows_of(0, 4, f"c{ts}", ts)]
        table.write(back, "upsert")
        assert table.rows() == model_of([*back, *((*r, False) for r in rows_of(4, 6, "a"))])
    assert bool(read) is (gone != "nothing")
    assert {path.name.split("_")[0] for path in Path(table.path).rglob("*.parquet")} == homes
