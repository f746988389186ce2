"""Rows that lose by event time: logs leave them out, and the commit says how many they were."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import pyhudi
from tests.spark.racing import SlowInput, in_background
from tests.spark.tables import DELETED, TYPE, VERSION, HudiTable, Lake, model_of, rows_of
from tests.spark.test_late_rows import INDEXES
from tests.spark.test_merge_on_read import MOR, logs_of
from tests.spark.test_pessimistic import MODE, commits
from tests.spark.test_stream_sink import Stream, row

pytestmark = [pytest.mark.spark, pytest.mark.compiled]


def outdated(table: HudiTable) -> list[str | None]:
    """What each commit says of its rows that lost."""
    return [each.extra.get("pyhudi.rows.outdated") for each in commits(table)]


@pytest.mark.parametrize(
    ("kind", "version", "index", "way"),
    [
        ("MERGE_ON_READ", "9", "simple", "collected"),
        ("MERGE_ON_READ", "6", "bloom", "distributed"),
        ("MERGE_ON_READ", "8", "bucket", "distributed"),
        ("MERGE_ON_READ", "6", "bucket", "collected"),
        ("COPY_ON_WRITE", "9", "simple", "collected"),
    ],
    indirect=["way"],
)
def test_a_commit_says_how_many_rows_lost(
    lake: Lake, way: str, kind: str, version: str, index: str
) -> None:
    """The second write meets logs of the first one, the third one loses as a whole."""
    table = lake.table(options={**MOR, TYPE: kind, VERSION: version, **INDEXES[index]})
    table.write(rows_of(0, 9, "a", 10), "upsert")
    table.write([*rows_of(0, 2, "older", 9), *rows_of(2, 4, "tie", 10), *rows_of(4, 6, "b", 11)])
    told = [*rows_of(0, 2, "a", 10), *rows_of(2, 4, "tie", 10), *rows_of(4, 6, "b", 11)]
    table.write([*rows_of(4, 8, "older", 5), *rows_of(8, 10, "c", 12)])
    model = model_of([*told, *rows_of(6, 8, "a", 10), *rows_of(8, 10, "c", 12)])
    assert table.rows() == model
    table.write(rows_of(0, 9, "older", 1))
    assert table.rows() == model
    assert outdated(table) == [None, "2", "4", "9"]
    if kind == "MERGE_ON_READ":
        pyhudi.compact(table.path)
        assert table.rows() == model


def test_a_write_of_older_rows_alone_is_a_commit_without_files(lake: Lake) -> None:
    ddl = f"id long, name string, ts long, dt string, {DELETED} boolean"
    table = lake.table(options=MOR, ddl=ddl)
    table.write([(n, "a", 10, "x", False) for n in range(4)], "bulk_insert")
    table.write([(0, "older", 9, "x", False), (1, "", 9, "x", True)])
    assert logs_of(table.path) == []
    assert {r[0]: r[1] for r in table.df().select("id", "name").collect()} == dict.fromkeys(
        range(4), "a"
    )
    assert outdated(table) == [None, "2"]
    table.write([(0, "b", 11, "x", False), (1, "", 11, "x", True)])
    assert {r[0]: r[1] for r in table.df().select("id", "name").collect()} == {
        0: "b", 2: "a", 3: "a"
    }  # fmt: skip


def test_a_stream_goes_on_after_an_epoch_of_older_rows(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, options={**MOR, "hoodie.table.name": "t"})
    for rows in ([row(1, ts=10), row(2, ts=10)], [row(1, "older", 5)], [row(2, "newer", 11)]):
        stream.put(rows)
        stream.run()
    assert sorted(stream.table()) == sorted([row(1, ts=10), row(2, "newer", 11)])


@pytest.mark.parametrize("index", ["simple", "bucket"])
def test_a_row_that_lost_counts_beside_a_delete_that_came_meanwhile(
    lake: Lake, tmp_path: Path, index: str
) -> None:
    """As in a copy-on-write table: the write begins again, and finds no row to lose against."""
    table = lake.table(options={**MOR, **INDEXES[index], MODE: "optimistic_concurrency_control"})
    table.write(rows_of(0, 3, "a", 10), "upsert")
    late = SlowInput(table.frame(rows_of(0, 1, "late", 5)), tmp_path / "late")
    with in_background(table.write, late.df, "upsert") as write:
        late.wait_until_read()
        table.write(rows_of(0, 1, "", 1), "delete")
        late.go()
        write.result()
    assert table.rows() == model_of([*rows_of(0, 1, "late", 5), *rows_of(1, 3, "a", 10)])
