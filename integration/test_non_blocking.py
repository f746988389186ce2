"""pyhudi and Apache Hudi 1.2.0 add logs to the same buckets without coordination.

Both use their mode for it, with one lock. Every write commits, and all readers give the same rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import pyhudi
from integration.peers import HudiRs, SparkPeer
from integration.test_compaction import plans
from integration.test_mixed_fleet import ROUNDS, TAKEN, Writer, both_at_once, by_lock_file
from pyhudi.transactions import transaction
from pyhudi.transactions.transaction import Transaction
from tests.spark.racing import SlowInput, in_background

Peers = Callable[[str], SparkPeer]
DS = "hoodie.datasource.write."
MODE = "hoodie.write.concurrency.mode"
MADE = {
    "hoodie.table.name": "rides",
    DS + "table.type": "MERGE_ON_READ",
    DS + "recordkey.field": "id",
    DS + "partitionpath.field": "p",
    DS + "precombine.field": "ts",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
    MODE: "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.metadata.enable": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.logfile.data.block.format": "avro",
    "hoodie.write.auto.upgrade": "false",
}
KEPT = ("hoodie.write.num.retries.on.conflict.failures", "0")
MERGE = "hoodie.write.record.merge.mode"
ORDERS = ["EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"]
DDL = "id long, ts long, v string, p string"
IDS = {f"0000000{n}-0000-0000-0000-000000000000-0" for n in range(2)}
#: id -> ordering value
Values = Mapping[int, int]


@dataclass(frozen=True)
class Fleet:
    """The writers and readers of one table."""

    spark: SparkSession
    hudi: SparkPeer
    path: Path
    order: str
    version: int

    def options(self, **more: str) -> dict[str, str]:
        made = {**MADE, MERGE: self.order, "hoodie.write.table.version": str(self.version)}
        return {**made, **by_lock_file(self.path), **more}

    def by_hudi(self, name: str, values: Values, operation: str = "upsert") -> None:
        columns = zip(*rows_of(name, values), strict=True)
        table = pa.table(dict(zip(("id", "ts", "v", "p"), map(list, columns), strict=True)))
        mode = "append" if self.path.exists() else "overwrite"
        # Of a new table Apache Hudi looks for the type under this name.
        more = {DS + "operation": operation, "hoodie.table.type": "MERGE_ON_READ"}
        self.hudi.write(self.path, table, self.options(**more), mode)

    def by_pyhudi(self, frame: Any, operation: str = "upsert", **more: str) -> None:
        given = self.options(**{DS + "operation": operation, KEPT[0]: KEPT[1], **more})
        frame.write.format("pyhudi").options(**given).mode("append").save(str(self.path))

    def frame(self, name: str, values: Values) -> Any:
        return self.spark.createDataFrame(rows_of(name, values), DDL)

    def race(
        self, slow: Values, meanwhile: Callable[[], object], folder: Path, **more: str
    ) -> None:
        """pyhudi writes ``slow``; it begins before ``meanwhile`` and commits after it."""
        rows = SlowInput(self.frame("slow", slow), folder)
        with in_background(self.by_pyhudi, rows.df, **more) as done:
            rows.wait_until_read()
            meanwhile()
            rows.go()
            done.result()

    def compact(self, by: str, *steps: str) -> None:
        """Plan a compaction and run it, or one of these ``steps``."""
        if by == "pyhudi":
            for step in steps or ("schedule", "run"):
                assert pyhudi.compact(str(self.path), op=step)
            return
        given = {
            "hoodie.write.table.version": str(self.version),
            "hoodie.write.auto.upgrade": "false",
            "hoodie.metadata.enable": "false",
            "hoodie.compact.inline.max.delta.commits": "1",
        }
        listed = ",".join(f"{key}={text}" for key, text in given.items())
        for op in ("schedule", "run"):
            call = (
                f"call run_compaction(op => '{op}', path => '{self.path}', options => '{listed}')"
            )
            self.hudi.sql(call)

    def ours(self) -> dict[int, str]:
        found = self.spark.read.format("pyhudi").load(str(self.path)).collect()
        return by_id(row.asDict() for row in found)

    def theirs(self) -> dict[int, str]:
        return by_id(self.hudi.read(self.path, {"hoodie.metadata.enable": "false"}).rows)

    def agreed(self) -> dict[int, str]:
        """The rows; all readers must give the same."""
        found = self.ours()
        assert self.theirs() == found
        assert by_id(HudiRs().read(self.path).rows) == found
        return found

    def groups(self) -> set[str]:
        paths = (*self.path.glob("*/.*.log.*"), *self.path.glob("*/*.parquet"))
        kept = (path.name.lstrip(".") for path in paths if not path.name.endswith(".crc"))
        return {name.split("_")[0] for name in kept}


def rows_of(name: str, values: Values) -> list[tuple[int, int, str, str]]:
    return [(key, ts, f"{name} {ts}", "a") for key, ts in values.items()]


def by_id(rows: Iterable[Mapping[str, Any]]) -> dict[int, str]:
    held = list(rows)
    found = {row["id"]: row["v"] for row in held}
    assert len(found) == len(held)
    return found


@pytest.fixture
def fleet(spark: SparkSession, peers: Peers, tmp_path: Path) -> Fleet:
    return Fleet(spark, peers("hudi-1.2.0"), tmp_path / "rides", ORDERS[0], 9)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("version", "compactor"),
    [
        (9, "hudi"),
        pytest.param(9, None, marks=pytest.mark.matrix),
        pytest.param(9, "pyhudi", marks=pytest.mark.matrix),
        pytest.param(8, None, marks=pytest.mark.matrix),
        pytest.param(8, "pyhudi", marks=pytest.mark.matrix),
        pytest.param(8, "hudi", marks=pytest.mark.matrix),
    ],
)
def test_interleaved_writers_all_commit_and_all_readers_agree(
    fleet: Fleet, tmp_path: Path, order: str, version: int, compactor: str | None
) -> None:
    fleet = replace(fleet, order=order, version=version)
    fleet.by_hudi("hudi", {0: 1, 1: 1, 2: 1, 3: 1})
    assert fleet.groups() == IDS

    def meanwhile() -> None:
        fleet.by_hudi("hudi", {0: 5, 1: 5, 7: 5})
        if compactor is not None:
            fleet.compact(compactor)

    fleet.race({0: 4, 1: 6, 2: 6, 8: 6}, meanwhile, tmp_path / "slow")

    told = {0: "hudi 5", 1: "slow 6", 2: "slow 6", 3: "hudi 1", 7: "hudi 5", 8: "slow 6"}
    if order == ORDERS[1]:
        # The later instant, or what came after the compaction.
        told |= {0: "slow 4"} if compactor else {1: "hudi 5"}
    assert fleet.agreed() == told
    assert fleet.groups() == IDS

    fleet.by_hudi("again", {1: 7, 9: 7})
    fleet.by_pyhudi(fleet.frame("again", {2: 7, 10: 7}))
    fleet.by_pyhudi(fleet.frame("x", {3: 9}), "delete")
    fleet.by_hudi("x", {7: 9}, "delete")
    told |= {1: "again 7", 2: "again 7", 9: "again 7", 10: "again 7"}
    told = {key: text for key, text in told.items() if key not in (3, 7)}
    assert fleet.agreed() == told
    fleet.compact("pyhudi" if compactor == "hudi" else "hudi")
    assert fleet.agreed() == told
    assert not plans(fleet.path)


def test_pyhudi_begins_buckets_and_apache_hudi_adds_to_them(fleet: Fleet, tmp_path: Path) -> None:
    fleet.by_pyhudi(fleet.frame("ours", dict.fromkeys(range(4), 1)))
    assert fleet.groups() == IDS
    assert not list(fleet.path.glob("*/*.parquet"))
    fleet.race({0: 3, 5: 3}, lambda: fleet.by_hudi("hudi", {0: 2, 1: 2, 6: 2}), tmp_path / "slow")
    told = {0: "slow 3", 1: "hudi 2", 2: "ours 1", 3: "ours 1", 5: "slow 3", 6: "hudi 2"}
    assert fleet.agreed() == told
    assert fleet.groups() == IDS
    fleet.compact("hudi")
    assert fleet.agreed() == told


def test_both_write_at_once_while_compactions_run_and_none_fails(
    fleet: Fleet, peers: Peers
) -> None:
    path, options = fleet.path, fleet.options()
    fleet.by_hudi("hudi", {0: 0})
    writers = [
        KeyedWriter(fleet.hudi, path, options, "1", bears=(TAKEN,), says="v"),
        KeyedWriter(peers("pyhudi"), path, {**options, KEPT[0]: KEPT[1]}, "2", bears=(), says="v"),
    ]
    ended = threading.Event()

    def compact() -> None:
        while not ended.wait(1):
            pyhudi.compact(str(path))

    compactor = threading.Thread(target=compact)
    compactor.start()
    try:
        both_at_once(*(writer.work for writer in writers))
    finally:
        ended.set()
        compactor.join()

    found = fleet.agreed()
    assert {found[key] for key in (100, 200)} == {f"1 in turn {ROUNDS}", f"2 in turn {ROUNDS}"}
    assert found[1] in (f"1 in turn {ROUNDS}", f"2 in turn {ROUNDS}"), "a key of both"
    assert fleet.groups() == IDS


class KeyedWriter(Writer):
    """Upserts a key of its own and one that the other has, too."""

    def rows(self, turn: int) -> pa.Table:
        columns = {
            "id": pa.array([1, int(self.name) * 100], pa.int64()),
            "ts": pa.array([turn] * 2, pa.int64()),
            "v": [f"{self.name} in turn {turn}"] * 2,
            "p": ["a"] * 2,
        }
        return pa.table(columns)


def test_what_apache_hudi_hides_while_the_first_log_of_a_bucket_is_pending(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not so pyhudi, and not once that write has ended."""
    sealed, go = threading.Event(), threading.Event()
    seal = Transaction.seal

    def late(self: Transaction, *given: Any) -> None:
        seal(self, *given)
        sealed.set()
        assert go.wait(120)

    fleet.by_pyhudi(fleet.frame("ours", {1: 1}))
    monkeypatch.setattr(Transaction, "seal", late)
    with in_background(fleet.by_pyhudi, fleet.frame("slow", dict.fromkeys(range(4), 1))) as done:
        assert sealed.wait(120)
        fleet.by_hudi("hudi", dict.fromkeys(range(4), 2))
        seen = fleet.ours(), fleet.theirs()
        go.set()
        done.result()
    everything = dict.fromkeys(range(4), "hudi 2")
    assert fleet.agreed() == everything
    assert seen[0] == everything
    assert seen[1].keys() < everything.keys(), "it reads the group that had rows before"


def test_what_apache_hudi_loses_in_a_bucket_whose_group_was_replaced(fleet: Fleet) -> None:
    fleet.by_pyhudi(fleet.frame("ours", dict.fromkeys(range(4), 1)))
    fleet.by_pyhudi(fleet.frame("x", {0: 1}), "delete_partition", **{MODE: "SINGLE_WRITER"})
    assert fleet.agreed() == {}
    fleet.by_hudi("hudi", dict.fromkeys(range(4), 2))
    assert fleet.theirs() == {}, "its rows are in groups that were replaced"
    assert fleet.ours() == {}
    fleet.by_pyhudi(fleet.frame("ours", dict.fromkeys(range(4), 3)))
    fleet.by_hudi("hudi", {0: 4})
    assert fleet.agreed() == {0: "hudi 4", **dict.fromkeys(range(1, 4), "ours 3")}


@pytest.mark.parametrize("checked", [True, False], ids=["checked", "unchecked"])
def test_a_pending_compaction_of_a_later_log_changes_rows_unless_it_is_a_conflict(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checked: bool
) -> None:
    fleet = replace(fleet, order=ORDERS[1])
    if not checked:
        monkeypatch.setattr(transaction, "check_order", lambda *given: None)
    fleet.by_hudi("hudi", {0: 1})

    def meanwhile() -> None:
        fleet.by_hudi("hudi", {0: 5})
        fleet.compact("pyhudi", "schedule")

    fleet.race({0: 4}, meanwhile, tmp_path / "slow", **{KEPT[0]: "1"})
    assert plans(fleet.path)
    assert fleet.agreed() == {0: "slow 4" if checked else "hudi 5"}
    fleet.compact("hudi", "run")
    assert not plans(fleet.path)
    assert fleet.agreed() == {0: "slow 4"}
