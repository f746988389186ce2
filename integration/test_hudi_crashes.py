"""Writes of Apache Hudi that die half-way, undone by pyhudi's next write.

Afterwards the rows are exact for pyhudi, Apache Hudi and hudi-rs, nothing of the dead write is
left, and Apache Hudi goes on with the table as if it had rolled back by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from integration.matrix.forms import DS, FORMS, INDEXES
from integration.matrix.model import Model
from integration.matrix.rows import rows, table
from integration.peers import HudiRs, SparkPeer, difference, table_facts
from integration.peers.crash import Moment, crash
from integration.strays import stray_files, unnamed_files
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.plans import (
    RollbackPlan,
    parse_rollback_metadata,
    parse_rollback_plan,
)
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import open_table
from tests.golden_tables import BY_NAME

FORM = FORMS["simple"]
HUDIS = {
    "hudi-1.2.0-v9": ("1.2.0", 9),
    "hudi-1.2.0-v6": ("1.2.0", 6),
    "hudi-0.15.0-v6": ("0.15.0", 6),
}
#: pyhudi's next write waits for a dead writer as long as two beats take
SHORT_BEATS = {
    "hoodie__client__heartbeat__interval_in_ms": "500",
    "hoodie__client__heartbeat__tolerable__misses": "1",
}

Peers = Callable[[str], SparkPeer]
Change = tuple[str, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Cell:
    """One way to crash."""

    hudi: str
    markers: str
    operation: str
    metadata_table: bool
    merge_on_read: bool = False

    @property
    def name(self) -> str:
        """As it is called in test ids."""
        metadata = "with-metadata" if self.metadata_table else "without-metadata"
        kind = "-logs" if self.merge_on_read else ""
        return f"{self.hudi}-{self.markers.lower()}-{self.operation}-{metadata}{kind}"

    @property
    def version(self) -> str:
        """Hudi's."""
        return HUDIS[self.hudi][0]

    @property
    def moment(self) -> Moment:
        """Alternating, so that every pair of the other facets meets both."""
        odd = (self.markers == "DIRECT") ^ (self.operation == "insert") ^ self.metadata_table
        return Moment.AMID_TASKS if odd else Moment.BEFORE_COMMIT

    def options(self) -> dict[str, str]:
        """Of every write that Hudi does in this cell."""
        return {
            **FORM.options(),
            **INDEXES["simple"],
            "hoodie.table.name": "crashes",
            DS + "table.type": "MERGE_ON_READ" if self.merge_on_read else "COPY_ON_WRITE",
            "hoodie.write.table.version": str(HUDIS[self.hudi][1]),
            "hoodie.write.auto.upgrade": "false",
            "hoodie.metadata.enable": str(self.metadata_table).lower(),
            "hoodie.write.markers.type": self.markers,
            # New rows make new files, whose markers say CREATE.
            "hoodie.parquet.small.file.limit": "0",
        }


#: an upsert of a merge-on-read table leaves logs, an insert base files
CELLS = [
    Cell(hudi, markers, operation, metadata, merge_on_read)
    for merge_on_read in (False, True)
    for hudi in HUDIS
    for markers in ("DIRECT", "TIMELINE_SERVER_BASED")
    for operation in ("upsert", "insert")
    for metadata in (True, False)
]
SAMPLE = {
    "hudi-0.15.0-v6-direct-insert-without-metadata",
    "hudi-1.2.0-v9-timeline_server_based-upsert-with-metadata-logs",
}


def cells() -> list[object]:
    """Cells as parameters; those outside the sample carry the mark ``matrix``."""
    return [
        pytest.param(cell, id=cell.name, marks=() if cell.name in SAMPLE else pytest.mark.matrix)
        for cell in CELLS
    ]


class Story:
    """A table that Hudi made and crashed on, with the rows that it must have."""

    def __init__(self, path: Path, peers: Peers, hudi_rs: HudiRs, hudi: str) -> None:
        self.path, self.peers, self.hudi_rs, self.hudi = path, peers, hudi_rs, hudi
        self.model = Model(FORM)

    def begin(self, options: dict[str, str]) -> None:
        """Two commits of Hudi's."""
        for mode, first in (("overwrite", 0), ("append", 15)):
            change = ("insert", rows(range(first, first + 15), 10))
            given = {**options, DS + "operation": "insert"}
            self.peers(self.hudi).write(self.path, table(change[1]), given, mode)
            self.model.apply(*change)

    def write(self, writer: str, change: Change, **more: str) -> None:
        """A write that must go through, after which everybody reads the model's rows."""
        self.peers(writer).write_into(self.path, table(change[1]), change[0], **more)
        self.model.apply(*change)
        self.check()

    def check(self) -> None:
        """Every reader returns the model's rows."""
        for name in ("pyhudi", self.hudi, "hudi-rs"):
            reader = self.hudi_rs if name == "hudi-rs" else self.peers(name)
            wrong = difference(self.by_name(reader.read(self.path)), self.by_name(None))
            assert not wrong, f"{name}: {wrong}"

    def by_name(self, answer: Any) -> Any:
        """Columns in one order: Hudi 0.15.0 moves the partition column."""
        bare = self.model.answer() if answer is None else answer.without_meta()
        return type(bare)(tuple(sorted(bare.schema)), bare.rows)

    def failed(self) -> InstantTime:
        """The one write that is pending."""
        pending = open_table(LocalStorage(str(self.path))).timeline().pending
        writes = [i for i in pending if i.action is not Action.ROLLBACK]
        assert [i.state for i in writes] == [State.INFLIGHT]
        return writes[0].time

    def rollbacks(self) -> dict[InstantTime, RollbackPlan]:
        """Plan of each completed rollback by the instant that it undid."""
        found = open_table(LocalStorage(str(self.path)))
        timeline = found.timeline()
        plans: dict[InstantTime, RollbackPlan] = {}
        for done in timeline.completed:
            if done.action is Action.ROLLBACK:
                path = timeline.file_of(done)
                metadata = parse_rollback_metadata(found.storage.read(path), path)
                requested = Instant(done.time, Action.ROLLBACK, State.REQUESTED)
                path = timeline.file_of(requested)
                plan = parse_rollback_plan(found.storage.read(path), path)
                (undone,) = metadata.commits_rollback
                assert undone not in plans, "one write was rolled back twice"
                plans[undone] = plan
        return plans

    def traces(self, time: InstantTime) -> list[str]:
        """Files outside Hudi's metadata table that bear the instant's time."""
        found = [str(f.relative_to(self.path)) for f in self.path.rglob(f"*{time}*")]
        return [f for f in found if not f.startswith(".hoodie/metadata/")]


@pytest.fixture
def story(tmp_path: Path, peers: Peers, hudi_rs: HudiRs) -> Callable[[str], Story]:
    return lambda hudi: Story(tmp_path / "crashes", peers, hudi_rs, hudi)


def change_by_the_dead(operation: str) -> list[dict[str, Any]]:
    """Rows in each of the three partitions."""
    return rows(range(3, 12), 20, 1) if operation == "upsert" else rows(range(100, 109), 20, 1)


NEXT: Change = ("upsert", rows([5, 16, 100, 200], 30, 2))
LAST: Change = ("upsert", rows([5, 17, 101, 201], 40, 3))


@pytest.mark.parametrize("cell", cells())
def test_a_crashed_write_of_hudi_is_undone_by_the_next_write_of_ours(
    cell: Cell, story: Callable[[str], Story]
) -> None:
    told = story(f"hudi-{cell.version}")
    told.begin(cell.options())
    rows_of_dead = table(change_by_the_dead(cell.operation))
    crash(cell.version, told.path, rows_of_dead, cell.moment, cell.operation, cell.options())
    dead = told.failed()
    left = unnamed_files(told.path)
    assert len(left) >= (3 if cell.moment is Moment.BEFORE_COMMIT else 1)
    if cell.merge_on_read and cell.operation == "upsert":
        assert all(".log." in path for path in left)
    lists = list((told.path / ".hoodie" / ".temp" / dead).glob("MARKERS*"))
    assert bool(lists) == (cell.markers != "DIRECT")
    beats = told.path / ".hoodie" / ".heartbeat" / dead
    assert beats.exists() == (cell.moment is Moment.BEFORE_COMMIT)

    told.write("pyhudi", NEXT, **SHORT_BEATS)

    assert set(told.rollbacks()) == {dead}
    assert told.traces(dead) == []
    assert stray_files(told.path) == set()

    more = {key.replace(".", "__"): value for key, value in cell.options().items()}
    told.write(told.hudi, LAST, **more)
    assert set(told.rollbacks()) == {dead}, "Hudi accepts our rollback"
    assert stray_files(told.path) == set()
    assert table_facts(told.path).version == HUDIS[cell.hudi][1]


def tear(folder: Path) -> None:
    """Leave a list of markers as a crash during its write does: Hudi rewrites it each time."""
    (list_,) = folder.glob("MARKERS0")
    list_.write_bytes(list_.read_bytes()[:-30])


@pytest.mark.matrix
@pytest.mark.parametrize("hudi", ["hudi-1.2.0-v9", "hudi-0.15.0-v6"])
def test_a_torn_list_of_markers_hides_no_file_of_the_dead(
    hudi: str, story: Callable[[str], Story]
) -> None:
    cell = Cell(hudi, "TIMELINE_SERVER_BASED", "insert", True)
    told = story(f"hudi-{cell.version}")
    told.begin(cell.options())
    rows_of_dead = table(change_by_the_dead("insert"))
    crash(cell.version, told.path, rows_of_dead, Moment.BEFORE_COMMIT, "insert", cell.options())
    dead = told.failed()
    tear(told.path / ".hoodie" / ".temp" / dead)

    told.write("pyhudi", NEXT, **SHORT_BEATS)

    assert told.traces(dead) == []
    assert stray_files(told.path) == set()


@pytest.mark.parametrize(
    "hudi",
    [
        pytest.param("hudi-1.2.0-v9", marks=pytest.mark.matrix),
        pytest.param("hudi-1.2.0-v6", marks=pytest.mark.matrix),
        pytest.param("hudi-0.15.0-v6", marks=pytest.mark.matrix),
    ],
)
@pytest.mark.parametrize("markers", ["DIRECT", "TIMELINE_SERVER_BASED"])
@pytest.mark.parametrize("logs", [False, True], ids=["files", "logs"])
def test_a_rollback_of_hudi_that_died_half_way_is_finished(
    logs: bool, hudi: str, markers: str, story: Callable[[str], Story]
) -> None:
    cell = Cell(hudi, markers, "upsert", True, logs)
    told = story(f"hudi-{cell.version}")
    told.begin(cell.options())
    for moment in (Moment.AMID_TASKS, Moment.AMID_ROLLBACK):
        rows_of_dead = table(change_by_the_dead("upsert"))
        crash(cell.version, told.path, rows_of_dead, moment, "upsert", cell.options())
    timeline = open_table(LocalStorage(str(told.path))).timeline()
    (begun,) = [i for i in timeline.pending if i.action is Action.ROLLBACK]
    dead = told.failed()
    # It dies before, amid or after its deletes, as it happens; some of them are done in any case.
    for gone in sorted(unnamed_files(told.path))[:1]:
        (told.path / gone).unlink()

    told.write("pyhudi", NEXT)

    completed = open_table(LocalStorage(str(told.path))).timeline().completed
    assert [i.time for i in completed if i.action is Action.ROLLBACK] == [begun.time]
    assert set(told.rollbacks()) == {dead}
    assert told.traces(dead) == []
    assert stray_files(told.path) == set()

    more = {key.replace(".", "__"): value for key, value in cell.options().items()}
    told.write(told.hudi, LAST, **more)
    assert set(told.rollbacks()) == {dead}
    assert stray_files(told.path) == set()


MIDFAIL = [
    "h120_v9-cow_crash_direct",
    "h120_v9-cow_crash_timeli",
    "h120_v9-cow_failed",
    "h120_v9-mor_failed",
    "h0150_v6-mor_failed",
]


@pytest.mark.parametrize("name", MIDFAIL)
def test_a_table_copied_amid_a_failing_write_is_written_and_read_on(
    name: str, peers: Peers, hudi_rs: HudiRs, tmp_path: Path
) -> None:
    path = BY_NAME[f"{name}.midfail"].unzip(tmp_path)
    (failed,) = open_table(LocalStorage(str(path))).timeline().pending
    before = {row["id"]: row["name"] for row in hudi_rs.read(path).rows}
    assert len(before) == 4
    dt = hudi_rs.read(path).rows[0]["dt"]
    one = next(iter(before))

    def batch(ids: list[int], name: str, ts: int) -> Any:
        import pyarrow as pa

        count = len(ids)
        columns = {
            "id": pa.array(ids, pa.int64()),
            "name": [name] * count,
            "price": [1.5] * count,
            "ts": pa.array([ts] * count, pa.int64()),
            "dt": [next(r["dt"] for r in hudi_rs.read(path).rows if r["id"] == i)
                   if i in before else dt for i in ids],
        }  # fmt: skip
        return pa.table(columns)

    def check(expected: dict[int, str]) -> None:
        for reader in (peers("pyhudi"), peers("hudi-1.2.0"), hudi_rs):
            seen = reader.read(path).rows
            assert sorted((r["id"], r["name"]) for r in seen) == sorted(expected.items())

    peers("pyhudi").write_into(path, batch([one, 900], "ours", 10_000))
    expected = before | {one: "ours", 900: "ours"}
    check(expected)
    assert not list(path.rglob(f"*{failed.time}*"))
    assert stray_files(path) == set()

    peers("hudi-1.2.0").write_into(path, batch([one, 901], "theirs", 20_000))
    check(expected | {one: "theirs", 901: "theirs"})
    assert stray_files(path) == set()
