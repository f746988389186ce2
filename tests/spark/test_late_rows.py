"""Rows that logs cannot take: the write compacts their file groups first, and goes on."""

from __future__ import annotations

import logging
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyspark.sql import SparkSession

import pyhudi
from pyhudi.errors import WriteFailed
from pyhudi.services.compaction import SlicesHere
from pyhudi.writes import retries
from pyhudi.writes import write as writing
from pyhudi.writes.placement.log_looks import forget_logs
from tests.spark.racing import in_background
from tests.spark.tables import DELETED, INDEX, VERSION, HudiTable, Lake, model_of, rows_of
from tests.spark.test_merge_on_read import MOR
from tests.spark.test_stream_sink import LONG_S, Stream, row

pytestmark = [pytest.mark.spark, pytest.mark.compiled]

RETRIES = "hoodie.write.num.retries.on.conflict.failures"
BUCKETS = {INDEX: "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
INDEXES = {"simple": {}, "bloom": {INDEX: "BLOOM"}, "global": {INDEX: "GLOBAL_SIMPLE"},
           "bucket": BUCKETS}  # fmt: skip


def operations(table: HudiTable) -> list[str]:
    return [entry.operation for entry in pyhudi.history(table.path) if entry.operation]


@pytest.mark.parametrize(
    ("version", "index", "way", "new_process"),
    [
        ("9", "simple", "collected", False),
        ("9", "bucket", "distributed", True),
        ("6", "global", "distributed", True),
        ("8", "bloom", "distributed", False),
        ("6", "bucket", "distributed", False),
    ],
    indirect=["way"],
)
def test_a_late_row_of_a_deleted_key_is_written(
    lake: Lake, way: str, version: str, index: str, new_process: bool
) -> None:
    """Beside the log of the delete, the deleted row would be back."""
    table = lake.table(options={**MOR, VERSION: version, **INDEXES[index]})
    table.write(rows_of(0, 9, "a", 10), "bulk_insert")
    table.write(rows_of(0, 4, "x", 1), "delete")
    if new_process:
        forget_logs()
    table.write([*rows_of(0, 2, "late", 5), *rows_of(2, 3, "new", 11), *rows_of(6, 8, "lost", 5)])
    model = model_of(
        [*rows_of(0, 2, "late", 5), *rows_of(2, 3, "new", 11), *rows_of(4, 9, "a", 10)]
    )
    assert table.rows() == model
    assert operations(table)[2:] == ["compact", "upsert"]
    pyhudi.compact(table.path)
    assert table.rows() == model


@pytest.mark.parametrize("version", ["6", "9"])
def test_a_late_row_meets_what_a_pending_compaction_merges(
    lake: Lake, way: str, version: str
) -> None:
    """Else the deleted row, which is newer, would be back when that compaction ends."""
    table = lake.table(options={**MOR, VERSION: version, **BUCKETS})
    table.write(rows_of(0, 9, "a", 10), "bulk_insert")
    table.write(rows_of(0, 4, "b", 20))
    pyhudi.compact(table.path, op="schedule")
    table.write(rows_of(0, 2, "x", 1), "delete")
    table.write(rows_of(0, 1, "late", 15))
    rows = [*rows_of(0, 1, "late", 15), *rows_of(2, 4, "b", 20), *rows_of(4, 9, "a", 10)]
    assert table.rows() == model_of(rows)
    for _ in range(2):
        pyhudi.compact(table.path)
        assert table.rows() == model_of(rows)


def test_rows_in_time_need_no_compaction(lake: Lake) -> None:
    table = lake.table(options=MOR)
    table.write(rows_of(0, 9, "a", 10), "bulk_insert")
    table.write(rows_of(0, 4, "x", 1), "delete")
    table.write([*rows_of(0, 4, "tie", 10), *rows_of(6, 9, "older", 5)])
    assert table.rows() == model_of([*rows_of(0, 4, "tie", 10), *rows_of(4, 9, "a", 10)])
    assert operations(table) == ["bulk_insert", "delete", "upsert"]


def test_a_delete_with_an_ordering_value_makes_no_row_late(lake: Lake) -> None:
    table = lake.table(
        options=MOR, ddl=f"id long, name string, ts long, dt string, {DELETED} boolean"
    )
    table.write([(1, "a", 10, "x", False), (2, "a", 10, "x", False)], "bulk_insert")
    table.write([(1, "", 12, "x", True)])
    table.write([(1, "older", 11, "x", False)])
    assert set(table.rows()) == {2}
    assert operations(table) == ["bulk_insert", "upsert", "upsert"]


@pytest.mark.parametrize("most_races", ["0", "4"])
def test_a_statement_brings_a_deleted_key_back(
    spark: SparkSession, lake: Lake, way: str, most_races: str
) -> None:
    table = lake.table(options=MOR)
    table.write(rows_of(0, 9, "a", 10), "bulk_insert")
    spark.sql(f"DELETE FROM pyhudi.`{table.path}` WHERE id < 3")
    table.frame(rows_of(0, 4, "merged", 4)).createOrReplaceTempView("late")
    spark.conf.set(RETRIES, most_races)
    try:
        spark.sql(
            f"MERGE INTO pyhudi.`{table.path}` t USING late s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET name = 'm', ts = 12 WHEN NOT MATCHED THEN INSERT *"
        )
    finally:
        spark.conf.unset(RETRIES)
    rows = [*rows_of(0, 3, "merged", 4), *rows_of(4, 9, "a", 10)]
    assert table.rows() == {**model_of(rows), 3: (3, "m", 12, "2024-01-01")}


def test_a_stream_goes_on_after_a_late_row(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, options={**MOR, "hoodie.table.name": "t"})
    stream.put([row(1, ts=10), row(2, ts=10)])
    stream.run()
    spark.sql(f"DELETE FROM pyhudi.`{stream.path}` WHERE id = 1")
    stream.put([row(1, "late", 5)])
    stream.run()
    assert sorted(stream.table()) == sorted([row(1, "late", 5), row(2, ts=10)])


def test_it_is_refused_by_name_where_no_compaction_can_run(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = lake.table(options=MOR)
    table.write(rows_of(0, 9, "a", 10), "bulk_insert")
    table.write(rows_of(0, 4, "x", 1), "delete")

    def busy(*given: Any) -> bool:
        return False

    monkeypatch.setattr(writing, "compacted_first", busy)
    with caplog.at_level(logging.WARNING), pytest.raises(WriteFailed, match="would come back"):
        table.write(rows_of(0, 2, "late", 5))
    assert table.rows() == model_of(rows_of(4, 9, "a", 10))
    assert operations(table) == ["bulk_insert", "delete"]


@pytest.fixture
def deleted(lake: Lake) -> HudiTable:
    """Of nine rows the first four are deleted by logs. Buckets have one group for a key."""
    table = lake.table(options={**MOR, **BUCKETS})
    table.write(rows_of(0, 9, "a", 10), "bulk_insert")
    table.write(rows_of(0, 4, "x", 1), "delete")
    return table


def write_late(table: HudiTable) -> None:
    table.write(rows_of(0, 2, "late", 5))
    assert table.rows() == model_of([*rows_of(0, 2, "late", 5), *rows_of(4, 9, "a", 10)])
    assert operations(table)[2:] == ["compact", "upsert"]


def test_another_program_has_compacted_the_logs_in_the_way(
    deleted: HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = writing.compacted_first

    def second(*given: Any) -> bool:
        pyhudi.compact(deleted.path)
        return ours(*given)

    monkeypatch.setattr(writing, "compacted_first", second)
    write_late(deleted)


def test_a_write_waits_for_the_program_that_compacts_the_logs_in_its_way(
    deleted: HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    compact, begun, go = SlicesHere.compact, Event(), Event()

    def held(tasks: SlicesHere, *given: Any) -> Any:
        begun.set()
        assert go.wait(LONG_S)
        return compact(tasks, *given)

    def pause(*given: Any) -> None:
        go.set()
        other.result()

    monkeypatch.setattr(SlicesHere, "compact", held)
    monkeypatch.setattr(retries, "pause", pause)
    with in_background(pyhudi.compact, deleted.path) as other:
        assert begun.wait(LONG_S)
        try:
            write_late(deleted)
        finally:
            go.set()


@pytest.mark.parametrize("version", ["6", "9"])
def test_rows_move_out_of_logs_by_event_time(lake: Lake, version: str) -> None:
    """Their ordering values are those of the logs, where these have newer rows."""
    table = lake.table(options={**MOR, INDEX: "GLOBAL_SIMPLE", VERSION: version})
    table.write([(n, "a", 3, "x") for n in range(6)], "bulk_insert")
    table.write([(n, "b", 7, "x") for n in range(3)])
    table.write([(5, "", 9, "x")], "delete")
    moved = [(0, "lost", 5, "y"), (1, "tie", 7, "y"), (2, "won", 8, "y"), (3, "won", 4, "y"),
             (4, "lost", 2, "y"), (5, "new", 1, "y")]  # fmt: skip
    table.write(moved)
    assert table.rows() == {
        0: (0, "b", 7, "x"), 1: (1, "tie", 7, "y"), 2: (2, "won", 8, "y"), 3: (3, "won", 4, "y"),
        4: (4, "a", 3, "x"), 5: (5, "new", 1, "y"),
    }  # fmt: skip
    table.write([(1, "back", 9, "x"), (2, "lost", 6, "x"), (3, "lost", 3, "x")])
    assert {key: (name, dt) for key, (_, name, _, dt) in table.rows().items()} == {
        0: ("b", "x"), 1: ("back", "x"), 2: ("won", "y"), 3: ("won", "y"), 4: ("a", "x"),
        5: ("new", "y"),
    }  # fmt: skip
