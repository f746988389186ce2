"""Streams beside writers: what a stream of a table gives, and a sink does after a lost race."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import pyhudi
from pyhudi.format.stream_marks import STREAMS_KEY
from tests.spark.racing import overtaken
from tests.spark.tables import OPTIONS, TYPE, HudiTable, Lake
from tests.spark.test_non_blocking import MERGE, NON_BLOCKING, ORDERS
from tests.spark.test_stream_sink import Stream, appended, row
from tests.spark.test_stream_source import CDC, Following

pytestmark = pytest.mark.spark

RETRIES = "hoodie.write.num.retries.on.conflict.failures"
OPTIMISTIC = {
    "hoodie.table.name": "t",
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
}
COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"
ROUNDS = 3
#: order of the changes of one key in one commit: an overwrite deletes a row before it inserts it
STEPS = {"d": 0, "i": 1, "u": 2}


def change(table: HudiTable, who: str) -> None:
    """Upserts and deletes rows of both partitions, and overwrites one; each row only once."""
    ts, overwritten = 10, "xy"["ab".index(who)]
    for turn in range(ROUNDS):
        ts += 10
        name = f"{who}{turn}"
        table.write([(key, f"{name}-u", ts, "xy"[key % 2]) for key in range(turn, turn + 4)])
        table.write([(turn + 1, "", ts + 1, "xy"[(turn + 1) % 2])], "delete")
        kept = [key for key in range(6) if "xy"[key % 2] == overwritten][turn % 2 :]
        rows = [(key, f"{name}-o", ts + 2, overwritten) for key in kept]
        table.write(rows, "insert_overwrite")


def add_logs(table: HudiTable, who: str) -> None:
    """Upserts rows that the other writes too, each of which may be the later one."""
    for turn in range(2 * ROUNDS):
        ts = 10 * (turn + 1) + (turn % 3) * "ab".index(who)
        rows = [
            (key, f"{who}{turn}", ts + "ab".index(who), "xy"[key % 2]) for key in range(turn, 9)
        ]
        table.write(rows)


@contextmanager
def writers(
    table: HudiTable, change: Callable[[HudiTable, str], None] = change
) -> Iterator[list[Future[None]]]:
    """Two threads that change the table; their errors come at the end."""
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(change, table, who) for who in "ab"]
        yield running
        for each in running:
            each.result()


def newest(stream: Following) -> dict[int, tuple[Any, ...]]:
    """The newest row of each key; no version of a row has come twice."""
    given = [row for batch in stream.batches for row in batch]
    assert len(set(given)) == len(given), "a version of a row came twice"
    found: dict[int, tuple[Any, ...]] = {}
    for batch in stream.batches:
        assert len({row[0] for row in batch}) == len(batch), "a key came twice in a batch"
        found.update({row[0]: row for row in batch})
    return found


def added_up(stream: Following) -> dict[int, tuple[Any, ...]]:
    """The rows by their changes; each change finds just what the one before it left."""
    rows: dict[int, tuple[Any, ...]] = {}
    for batch in stream.batches:
        for op, _, *images in sorted(batch, key=lambda row: (row[1], STEPS[row[0]])):
            before, after = (tuple(json.loads(text).values()) if text else None for text in images)
            key = (before or after or ())[0]
            assert rows.pop(key, None) == before, f"{op} of {key} comes twice, or one is missing"
            if after is not None:
                rows[key] = after
    return rows


@pytest.mark.parametrize(
    "limit",
    [
        {"maxFilesPerTrigger": "1"},
        {"hoodie.datasource.streaming.maxRowsPerTrigger": "7"},
        pytest.param({"maxBytesPerTrigger": "9000"}, marks=pytest.mark.matrix),
    ],
    ids=["files", "rows", "bytes"],
)
def test_streams_beside_two_writers_add_up_to_the_rows_of_the_table(
    lake: Lake, tmp_path: Path, limit: dict[str, str]
) -> None:
    table = lake.table(options={**OPTIONS, RETRIES: "40"})
    check(table, tmp_path, limit, change)


@pytest.mark.parametrize("order", ORDERS)
def test_streams_beside_writers_without_coordination_add_up_to_the_rows_of_the_table(
    lake: Lake, tmp_path: Path, order: str
) -> None:
    table = lake.table(options={**OPTIONS, **NON_BLOCKING, MERGE: order})
    check(table, tmp_path, {"maxBytesPerTrigger": "2000"}, add_logs)


def check(
    table: HudiTable,
    tmp_path: Path,
    limit: dict[str, str],
    change: Callable[[HudiTable, str], None],
) -> None:
    """Two streams beside two writers: the latest images all the while, and the changes in turns."""
    table.write([(key, "first", 1, "xy"[key % 2]) for key in range(8)])
    latest = Following(table, tmp_path / "latest", limit)
    changed = Following(table, tmp_path / "changed", {**CDC, **limit})

    def keep(batch: DataFrame, number: int) -> None:
        latest.batches.append([tuple(row) for row in batch.collect()])

    writing = (
        latest.frame().writeStream.foreachBatch(keep).trigger(processingTime="200 milliseconds")
    )
    query = writing.option("checkpointLocation", str(latest.checkpoint)).start()
    try:
        with writers(table, change) as running:
            turns = 0
            while not all(each.done() for each in running):
                changed.run()
                turns += 1
        changed.run()
        query.processAllAvailable()
    finally:
        query.stop()
    assert turns > 1, "the streams and the writers met"
    rows = table.rows()
    assert added_up(changed) == rows
    found = newest(latest)
    assert {key: found.get(key) for key in rows} == rows


@pytest.mark.parametrize("kind", [COW, MOR])
def test_an_epoch_that_loses_its_race_against_a_batch_writer_is_written_again_and_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    stream = Stream(spark, tmp_path, options={**OPTIONS, **OPTIMISTIC, TYPE: kind})
    stream.put([row(1), row(2)])
    stream.run()
    stream.put([row(1, "stream", 3)])

    def batch() -> None:
        rows = spark.createDataFrame([row(1, "batch", 2), row(2, "batch", 2)], stream.ddl)
        rows.write.format("pyhudi").options(**stream.options).mode("append").save(stream.path)

    instants = overtaken(monkeypatch, batch)
    stream.run()
    wanted = [row(1, "stream", 3), row(2, "batch", 2)]
    assert stream.table() == wanted
    last = pyhudi.last_commit(spark)
    assert last is not None
    assert last.metadata["pyhudi.conflict.retries"] == "1 of 60", "the race was met, and lost"
    (mark,) = json.loads(last.metadata[STREAMS_KEY]).values()
    assert (mark["batch"], mark["writes"], stream.commits()) == (1, 1, 3)
    assert (len(instants), instants[-1]) == (2, mark["instant"])
    stream.forget(1)
    stream.run()
    assert (stream.table(), stream.commits()) == (wanted, 3)
    orphans = pyhudi.remove_orphans(stream.path, older_than_hours=0)
    assert orphans == [], "what the lost attempt wrote is gone"


def test_a_driver_goes_on_after_a_restore_of_commits_of_others_and_empty_batches(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path)
    stream.put([row(1)])
    stream.run()
    kept = pyhudi.last_commit(spark)
    assert kept is not None
    appended(spark.createDataFrame([row(9)], stream.ddl), stream.path)
    pyhudi.restore(stream.path, kept.entry.instant)
    for batch in ([], [], [row(2)]):
        stream.put(batch)
        stream.run()
    assert stream.table() == [row(1), row(2)]
