"""Ordering values that are ints: null and 0 count as in Apache Hudi, in every kind of table.

Which file a change goes to, a log or a new base file, decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from integration.peers import PeerError, SparkPeer
from integration.sample import versions

DS = "hoodie.datasource.write."
#: what a row has, what meets it and whether that is a delete, and what stays
CASES: Mapping[int, tuple[int | None, int | None, bool, str]] = {
    1: (-5, None, False, "new"),
    2: (None, -1, False, "old"),
    3: (5, 0, True, "gone"),
    4: (5, None, True, "gone"),
    5: (None, 0, False, "new"),
    6: (None, None, False, "new"),
    7: (3, None, False, "old"),
    8: (5, 3, True, "old"),
    9: (-3, -4, False, "old"),
}
NO_VALUE = [number for number, (_, incoming, _, _) in CASES.items() if incoming is None]
#: a new key: beside logs a small file is written anew that takes one
NEW = 50


def rows(turn: int, numbers: list[int], new: bool) -> pa.Table:
    """What a table has (turn 0), and what comes into it."""
    cases = [CASES[number] for number in numbers]
    more = [NEW] if turn and new else []
    said = ("old", "new")[turn]
    return pa.table(
        {
            "id": pa.array([*numbers, *more], pa.int64()),
            "ts": pa.array([case[turn] for case in cases] + [1 for _ in more], pa.int32()),
            "v": [said for _ in (*cases, *more)],
            "_hoodie_is_deleted": [bool(turn) and case[2] for case in cases]
            + [False for _ in more],
        }
    )


def options(kind: str, operation: str) -> dict[str, str]:
    return {
        "hoodie.table.name": "ordered",
        DS + "table.type": kind,
        "hoodie.table.type": kind,
        DS + "operation": operation,
        DS + "recordkey.field": "id",
        DS + "precombine.field": "ts",
        DS + "keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
        "hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING",
        "hoodie.write.table.version": "9",
        "hoodie.metadata.enable": "false",
    }


@pytest.mark.parametrize(
    ("kind", "new"), [("COPY_ON_WRITE", False), ("MERGE_ON_READ", True), ("MERGE_ON_READ", False)]
)
def test_both_keep_the_same_row(
    peers: Callable[[str], SparkPeer], tmp_path: Path, kind: str, new: bool
) -> None:
    hudi, ours = peers("hudi-1.2.0"), peers("pyhudi")
    logged = kind == "MERGE_ON_READ" and not new
    for writer, name in ((hudi, "hudi"), (ours, "pyhudi")):
        # Apache Hudi fails where a null ordering value meets a row of a base file.
        numbers = [n for n in CASES if logged or writer is ours or n not in NO_VALUE]
        wanted = {number: CASES[number][3] for number in numbers if CASES[number][3] != "gone"}
        wanted |= {NEW: "new"} if new else {}
        table = tmp_path / name
        writer.write(table, rows(0, numbers, new), options(kind, "insert"), "overwrite")
        writer.write(table, rows(1, numbers, new), options(kind, "upsert"), "append")
        for reader in (hudi, ours):
            found = {row["id"]: row["v"] for row in reader.read(table, {}).rows}
            assert found == wanted, f"{name}, by {reader}"
    assert bool(list((tmp_path / "pyhudi").glob(".*.log.*"))) == logged


@pytest.mark.parametrize("version", versions(9))
@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us")])
def test_apache_hudi_reads_deletes_that_days_or_times_order(
    peers: Callable[[str], SparkPeer], tmp_path: Path, kind: pa.DataType, version: int
) -> None:
    ours = peers("pyhudi")
    given = options("MERGE_ON_READ", "upsert") | {"hoodie.write.table.version": str(version)}
    for times, deleted in (([5, 5, -5], False), ([6, 4, -6], True)):
        numbers = pa.array(times, pa.int32() if pa.types.is_date(kind) else pa.int64())
        marks = [deleted] * len(times)
        turn = pa.table({"id": [1, 2, 3], "ts": numbers.cast(kind), "_hoodie_is_deleted": marks})
        ours.write(tmp_path / "t", turn, given, "append")
    assert list((tmp_path / "t").glob(".*.log.*"))
    for reader in (ours, peers("hudi-1.2.0")):
        found = sorted(row["id"] for row in reader.read(tmp_path / "t").rows)
        assert found == [2, 3], reader.name


@pytest.mark.parametrize("by", ["hudi-1.2.0", "pyhudi"])
def test_null_among_longs_of_a_base_file_stops_apache_hudi(
    peers: Callable[[str], SparkPeer], tmp_path: Path, by: str
) -> None:
    """A log beside such a file cannot be merged there, whoever wrote the table (R3)."""

    def turn(time: int | None, said: str) -> pa.Table:
        times = pa.array([time, 5], pa.int64())
        return pa.table({"id": [1, 2], "ts": times, "v": [said, said]})

    table, writer = tmp_path / "t", peers(by)
    more = {"hoodie.index.type": "SIMPLE", "hoodie.compact.inline": "false"}
    writer.write(table, turn(None, "old"), options("MERGE_ON_READ", "insert") | more, "overwrite")
    last = options("MERGE_ON_READ", "upsert") | more
    peers("pyhudi").write(table, turn(7, "new"), last, "append")
    assert list(table.glob(".*.log.*"))
    assert {row["v"] for row in peers("pyhudi").read(table, {}).rows} == {"new"}
    with pytest.raises(PeerError, match="ClassCastException"):
        peers("hudi-1.2.0").read(table, {})
