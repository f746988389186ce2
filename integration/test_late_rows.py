"""Rows that come after their delete, and rows that leave file groups with logs, by event time.

All readers see what a copy-on-write table would have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from integration.peers import SparkPeer
from integration.peers.hudi_rs import HudiRs

DS = "hoodie.datasource.write."
#: key, text, ordering value, partition
Row = tuple[int, str, int, str]


def table_of(rows: Sequence[Row]) -> pa.Table:
    ids, texts, times, parts = zip(*rows, strict=True)
    return pa.table({"id": list(ids), "v": list(texts), "ts": list(times), "p": list(parts)})


def options(version: str, operation: str, index: str = "SIMPLE") -> dict[str, str]:
    return {
        "hoodie.table.name": "late",
        DS + "table.type": "MERGE_ON_READ",
        DS + "operation": operation,
        DS + "recordkey.field": "id",
        DS + "partitionpath.field": "p",
        DS + "precombine.field": "ts",
        "hoodie.index.type": index,
        "hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING",
        "hoodie.write.table.version": version,
        "hoodie.metadata.enable": "false",
        "hoodie.compact.inline": "false",
    }


def seen(reader: SparkPeer | HudiRs, table: Path) -> set[Row]:
    rows = reader.read(table, {}).rows
    assert len({row["id"] for row in rows}) == len(rows)
    return {(row["id"], row["v"], row["ts"], row["p"]) for row in rows}


FIRST: list[Row] = [(n, "first", 10, "x") for n in range(6)]


@pytest.mark.parametrize(
    ("version", "deleting"),
    [
        ("9", "pyhudi"),
        ("6", "hudi-1.2.0"),
        ("8", "MERGE"),
        pytest.param("9", "hudi-1.2.0", marks=pytest.mark.matrix),
        pytest.param("6", "MERGE", marks=pytest.mark.matrix),
    ],
)
def test_a_late_row_is_there_and_the_deleted_one_is_not(
    peers: Callable[[str], SparkPeer],
    hudi_rs: HudiRs,
    tmp_path: Path,
    version: str,
    deleting: str,
) -> None:
    hudi, ours, table = peers("hudi-1.2.0"), peers("pyhudi"), tmp_path / "t"
    ours.write(table, table_of(FIRST), options(version, "bulk_insert"), "overwrite")
    if deleting == "MERGE":
        ours.sql(
            f"merge into pyhudi.`{table}` t using (select explode(sequence(0, 2)) id) s "
            "on t.id = s.id when matched then delete"
        )
    else:
        gone = table_of([(n, "", 1, "x") for n in range(3)])
        peers(deleting).write(table, gone, options(version, "delete"), "append")
    for reader in (ours, hudi, hudi_rs):
        assert seen(reader, table) == set(FIRST[3:]), f"by {reader}"
    late: list[Row] = [(0, "late", 5, "x"), (1, "late", 10, "x"), (4, "older", 5, "x")]
    ours.write(table, table_of(late), options(version, "upsert"), "append")
    told = {*late[:2], *FIRST[3:]}
    for reader in (ours, hudi, hudi_rs):
        assert seen(reader, table) == told, f"by {reader}"
    last: list[Row] = [(n, "last", 20, "x") for n in range(6)]
    hudi.write(table, table_of(last), options(version, "upsert"), "append")
    for reader in (ours, hudi):
        assert seen(reader, table) == set(last), f"by {reader}"


def test_apache_hudi_itself_shows_the_deleted_row_again(
    peers: Callable[[str], SparkPeer], tmp_path: Path
) -> None:
    """What pyhudi avoids: a row of a log that comes late (spec/merging.md R4)."""
    hudi, table = peers("hudi-1.2.0"), tmp_path / "t"
    hudi.write(table, table_of(FIRST), options("9", "bulk_insert"), "overwrite")
    hudi.write(table, table_of([(0, "", 1, "x")]), options("9", "delete"), "append")
    assert seen(hudi, table) == set(FIRST[1:])
    hudi.write(table, table_of([(0, "late", 5, "x")]), options("9", "upsert"), "append")
    for reader in (hudi, peers("pyhudi")):
        assert seen(reader, table) == set(FIRST), f"by {reader}"


@pytest.mark.parametrize(
    ("version", "index"),
    [
        ("6", "BUCKET"),
        ("9", "SIMPLE"),
        pytest.param("8", "BUCKET", marks=pytest.mark.matrix),
        pytest.param("6", "SIMPLE", marks=pytest.mark.matrix),
    ],
)
def test_rows_that_lost_are_in_no_log_and_all_readers_see_the_others(
    peers: Callable[[str], SparkPeer], hudi_rs: HudiRs, tmp_path: Path, version: str, index: str
) -> None:
    """Of the last write no row is left, so its commit names no file."""
    hudi, ours, table = peers("hudi-1.2.0"), peers("pyhudi"), tmp_path / "t"

    def write(by: SparkPeer, rows: list[Row], operation: str = "upsert") -> None:
        more = {"hoodie.bucket.index.num.buckets": "2"} if index == "BUCKET" else {}
        named = {**options(version, operation, index), **more}
        by.write(table, table_of(rows), named, "append")

    write(hudi, FIRST)
    second: list[Row] = [(0, "older", 9, "x"), (1, "tie", 10, "x"), (2, "newer", 11, "x")]
    write(ours, second)
    told = {FIRST[0], *second[1:], *FIRST[3:]}
    for reader in (ours, hudi, hudi_rs):
        assert seen(reader, table) == told, f"by {reader}"
    write(ours, [(n, "older", 1, "x") for n in range(6)])
    for reader in (ours, hudi, hudi_rs):
        assert seen(reader, table) == told, f"by {reader}"
    third: list[Row] = [(0, "older", 5, "x"), (3, "third", 12, "x")]
    write(hudi, third)
    told = {*(told - {FIRST[3]}), third[1]}
    for reader in (ours, hudi, hudi_rs):
        assert seen(reader, table) == told, f"by {reader}"
    kept = {
        "hoodie.write.table.version": version,
        "hoodie.write.auto.upgrade": "false",
        "hoodie.metadata.enable": "false",
        "hoodie.compact.inline.max.delta.commits": "1",
    }
    listed = ",".join(f"{key}={text}" for key, text in kept.items())
    for op in ("schedule", "run"):
        hudi.sql(f"call run_compaction(op => '{op}', path => '{table}', options => '{listed}')")
    for reader in (ours, hudi, hudi_rs):
        assert seen(reader, table) == told, f"by {reader}"


@pytest.mark.parametrize("version", [pytest.param("6", marks=pytest.mark.matrix), "9"])
def test_rows_move_out_of_groups_with_logs(
    peers: Callable[[str], SparkPeer], hudi_rs: HudiRs, tmp_path: Path, version: str
) -> None:
    hudi, ours, table = peers("hudi-1.2.0"), peers("pyhudi"), tmp_path / "t"

    def write(by: SparkPeer, rows: list[Row], operation: str = "upsert") -> None:
        by.write(table, table_of(rows), options(version, operation, "GLOBAL_SIMPLE"), "append")

    write(ours, FIRST, "bulk_insert")
    write(hudi, [(n, "second", 15, "x") for n in range(3)])
    moved: list[Row] = [(0, "lost", 12, "y"), (1, "won", 15, "y"), (3, "won", 11, "y"),
                        (4, "lost", 9, "y")]  # fmt: skip
    write(ours, moved)
    told = {(0, "second", 15, "x"), moved[1], (2, "second", 15, "x"), moved[2], *FIRST[4:]}
    for reader in (ours, hudi, hudi_rs):
        assert seen(reader, table) == told, f"by {reader}"
    back: list[Row] = [(1, "lost", 12, "x"), (3, "back", 11, "x")]
    write(ours, back)
    for reader in (ours, hudi, hudi_rs):
        assert seen(reader, table) == {*(told - {moved[2]}), back[1]}, f"by {reader}"
    last: list[Row] = [(n, "last", 20, "xy"[n % 2]) for n in range(6)]
    write(hudi, last)
    for reader in (ours, hudi, hudi_rs):
        assert seen(reader, table) == set(last), f"by {reader}"
