"""The worlds that are explored, by name: what a user can have, and how rough it gets there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from pyhudi.config import FailedWrites
from tests.simulation.appends import Append
from tests.simulation.explore import LOST, Bound, Weather
from tests.simulation.own_compaction import OwnCompact
from tests.simulation.programs import Clean, Cluster, Program, Read, Upsert
from tests.simulation.residuals import FINAL_STOP, LATE_FILE, WITHDRAWAL, Residual
from tests.simulation.rows import Row
from tests.simulation.scheduler import FaultKind
from tests.simulation.statements import Update
from tests.simulation.world import Scenario

PAUSE, CRASH = FaultKind.PAUSE, FaultKind.CRASH

#: two writers that change two keys of one file group: the world that is explored exhaustively
TWO_BY_TWO: Final = Scenario({"w1": Upsert(("k1",)), "w2": Upsert(("k2",))}, (("k1", "k2"),))
TWO_PESSIMISTS: Final = replace(TWO_BY_TWO, pessimistic=True)

THREE: Final[Mapping[str, Program]] = {
    "w1": Upsert(("k1",)),
    "w2": Upsert(("k1", "k3")),
    "w3": Upsert(("k2", "k3", "new")),
}
BESIDE: Final[Mapping[str, Program]] = {"cleaner": Clean(2), "reader": Read(3)}
GROUPS: Final = (("k1", "k2"), ("k3",))
APART: Final[Mapping[str, float]] = {"w1": 3.0, "w3": -2.0, "cleaner": -4.0}


def _row(name: str, **facts: object) -> Row:
    return Row(name, Scenario({**THREE, **BESIDE}, GROUPS, **facts))  # type: ignore[arg-type]


UPDATES: Final[Mapping[str, Program]] = {
    "w1": Update(("k1",)),
    "w2": Update(("k1", "k2"), restarted=False),
    "w3": Upsert(("k1", "new")),
}


def _updates(name: str, version: int = 9) -> Row:
    return Row(name, Scenario({**UPDATES, **BESIDE}, GROUPS, version))


LOSES: Final = frozenset({"nothing committed is lost", "every read is serial"})
ROWS: Final = (
    _row("put-if-absent, the table's lock file (the default)"),
    _row("the same, failed writes policy EAGER", failed_writes=FailedWrites.EAGER),
    _row("the same, table version 6", version=6),
    _row("the same, table version 8", version=8),
    _row("the same, wall clocks seconds apart", skews=APART),
    _row(
        "the same, wall clocks seconds apart, EAGER",
        skews=APART,
        failed_writes=FailedWrites.EAGER,
    ),
    _row(
        "the same, monotonic clocks that stand still while a machine is suspended",
        standing=frozenset({*THREE, *BESIDE}),
    ),
    _row("put-if-absent, a lock service", lock="service"),
    Row(
        "bucket index, a new table",
        Scenario(
            {
                "w1": Upsert(("a",), buckets=2),
                "w2": Upsert(("a", "b"), buckets=2),
                "w3": Upsert(("c", "b"), buckets=2),
                **BESIDE,
            },
            (),
            buckets=2,
        ),
    ),
    _row("pessimistic writers, locks of file groups in files", pessimistic=True),
    _row(
        "pessimistic writers, locks of file groups in a lock service",
        pessimistic=True,
        lock="service",
    ),
    Row(
        "pessimistic writers, bucket index, a new table",
        Scenario(
            {
                "w1": Upsert(("a",), buckets=2),
                "w2": Upsert(("a", "b"), buckets=2),
                "w3": Upsert(("c", "b"), buckets=2),
                **BESIDE,
            },
            (),
            buckets=2,
            pessimistic=True,
        ),
    ),
    _updates("UPDATEs whose pins are gone"),
    _updates("UPDATEs whose pins are gone, table version 6", version=6),
    Row(
        "two tables in each application, with the same instants",
        Scenario({**THREE, **BESIDE}, GROUPS, twin=True),
    ),
    Row(
        "a store whose answers come later than the lease, writers that crash",
        Scenario({**THREE, **BESIDE}, GROUPS),
        Weather((FaultKind.SLOW, FaultKind.SLOW, CRASH), faults=4),
    ),
    Row(
        "a clustering beside writers, planned under the lock",
        Scenario({**THREE, "clustering": Cluster()}, GROUPS),
        Weather(kinds=()),
    ),
    Row(
        "`hoodie.write.concurrency.key.conflict.check.enable` off",
        Scenario({w: Upsert(("new",), checks_keys=False) for w in ("w1", "w2")}, GROUPS),
        Weather(faults=0),
        frozenset({"a key has one home", "every read is serial"}),
        "two writers that add one key put it into two file groups",
    ),
    _row(
        "no put-if-absent, a lock service, instant times from a counter",
        lock="service",
        put_if_absent=False,
        counter=True,
    ),
    Row(
        "no put-if-absent, a lock service",
        Scenario({**THREE, **BESIDE}, GROUPS, lock="service", put_if_absent=False),
        Weather(faults=0),
        frozenset(
            {"nothing committed is lost", "nothing live is deleted", "every instant settles"}
        ),
        "two writers that take one instant time share its files and markers",
    ),
    Row(
        "no put-if-absent, the table's lock file",
        Scenario({**THREE, **BESIDE}, GROUPS, put_if_absent=False),
        Weather(faults=0),
        LOSES | {"nothing live is deleted", "every instant settles"},
        "the lock file itself is no lock there",
    ),
)


@dataclass(frozen=True, slots=True)
class Gap:
    """A residual, where it shows and how far to look."""

    residual: Residual
    scenario: Scenario
    bound: Bound


ONE_KEY: Final = Scenario({"w1": Upsert(("k1",)), "w2": Upsert(("k1",))}, (("k1",),))
#: of version 6, where a log may be named after a plan
PLANNED: Final = Scenario(
    {"w1": Append(("k1",)), "compact": OwnCompact()}, (("k1",),), 6, merge_on_read=True
)
GAPS: Final = (
    Gap(FINAL_STOP, ONE_KEY, Bound(1, 1, (PAUSE,), (FINAL_STOP,))),
    Gap(LATE_FILE, ONE_KEY, Bound(0, 1, LOST, (LATE_FILE,))),
    Gap(WITHDRAWAL, PLANNED, Bound(0, 1, (PAUSE,), (WITHDRAWAL,))),
)

#: what `make simulate` explores exhaustively, in the order of the published page
FAR: Final = (
    ("one preemption, one crash", TWO_BY_TWO, Bound(1, 1, (CRASH,))),
    ("one stop", TWO_BY_TWO, Bound(0, 1, (PAUSE,))),
    ("one lost request or reply", TWO_BY_TWO, Bound(0, 1, LOST)),
    ("pessimistic, one preemption", TWO_PESSIMISTS, Bound(1)),
    ("pessimistic, one stop", TWO_PESSIMISTS, Bound(0, 1, (PAUSE,))),
    ("two preemptions", TWO_BY_TWO, Bound(2)),
    ("one preemption, one stop", TWO_BY_TWO, Bound(1, 1, (PAUSE,))),
    ("one preemption, one lost request or reply", TWO_BY_TWO, Bound(1, 1, LOST)),
    ("two preemptions, one crash", TWO_BY_TWO, Bound(2, 1, (CRASH,))),
    ("pessimistic, one preemption, one crash", TWO_PESSIMISTS, Bound(1, 1, (CRASH,))),
    ("pessimistic, one preemption, one stop", TWO_PESSIMISTS, Bound(1, 1, (PAUSE,))),
    ("pessimistic, one lost request or reply", TWO_PESSIMISTS, Bound(0, 1, LOST)),
    ("pessimistic, two preemptions", TWO_PESSIMISTS, Bound(2)),
)
#: those of them that `make test` explores: one kind of writer and of trouble each, hundreds of runs
NEAR: Final = tuple(
    one
    for one in FAR
    if one[0] in ("one stop", "one lost request or reply", "pessimistic, one preemption")
)
