"""A stream of a table that two threads change meanwhile: its batches add up to the table's rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from tests.spark.tables import OPTIONS, HudiTable, Lake
from tests.spark.test_non_blocking import MERGE, NON_BLOCKING, ORDERS
from tests.spark.test_stream_source import CDC, Following

pytestmark = pytest.mark.spark

RETRIES = "hoodie.write.num.retries.on.conflict.failures"
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
