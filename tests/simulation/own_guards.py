"""The guards around pyhudi's own services, each with the anomaly that it is there for.

The same as ``guards.py``, for worlds in which cleans and savepoints of pyhudi run
beside writers and readers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final
from weakref import WeakKeyDictionary

from pyhudi.format.instants import InstantTime
from pyhudi.services import clean
from pyhudi.services.clean_plan import CleanPlan, Retention
from pyhudi.storage.base import Storage
from pyhudi.timeline.active import Timeline
from pyhudi.transactions.writer import Writer
from tests.simulation.explore import Bound
from tests.simulation.guards import LIVE, ONE_ROW, Case, Guards, nothing
from tests.simulation.own_services import RETENTION, OwnClean, OwnRestore, OwnSavepoint, ReadLong
from tests.simulation.programs import Upsert
from tests.simulation.scheduler import FaultKind, Task
from tests.simulation.service_guards import TWO_ROWS, UNDONE
from tests.simulation.world import Scenario

CLEAN: Final = "pyhudi.services.clean"
RESTORE: Final = "pyhudi.services.restore"
UNDOING: Final = "pyhudi.transactions.recovery.undoing"

_planned = clean.planned
_PLANS: WeakKeyDictionary[Storage, CleanPlan] = WeakKeyDictionary()


def _planned_beforehand(
    writer: Writer, retention: Retention, timeline: Timeline, incremental: bool = False
) -> CleanPlan:
    """The plan that was made before the lock was asked for."""
    storage = writer.table.storage
    if not writer.lock.held():
        _PLANS[storage] = _planned(writer, retention, timeline, incremental)
    return _PLANS[storage]


def _no_holds(*_: Any) -> dict[Any, Any]:
    return {}


def _no_instants(*_: Any) -> list[InstantTime]:
    return []


def _no_commits(*_: Any) -> frozenset[InstantTime]:
    return frozenset()


def _deletes(task: Task) -> bool:
    """Whether data files go next."""
    paths = task.op.paths
    return task.op.what == "delete" and any(path.endswith(".parquet") for path in paths)


OWN_GUARDS: Final[Guards] = {
    "a clean is planned under the lock": {f"{CLEAN}.planned": _planned_beforehand},
    "leases of readers": {f"{CLEAN}.leased_files": _no_holds},
    "a moment for readers without a lease": {f"{CLEAN}._recent": _no_commits},
    "savepoints hold their files": {f"{CLEAN}.held_files": _no_holds},
    "leases of readers stop a restore": {f"{RESTORE}._refuse_readers": nothing},
    "writers that live stop a restore": {
        f"{RESTORE}._refuse_living": nothing,
        # The writer notices at its end, too.
        f"{UNDOING}.check_undoing": nothing,
        "pyhudi.transactions.conflicts.judgement.check_undoing": nothing,
        "pyhudi.transactions.conflicts.meanwhile.Meanwhile.undone": _no_instants,
    },
    "a plan stays pending for a query": {f"{CLEAN}._stays_pending": nothing},
}

#: nothing is spared, so that a clean need not wait
AT_ONCE = OwnClean(retention=replace(RETENTION, spared_ms=0))
RESTORE_LATER = OwnRestore(nth=1, pause_s=1.0)
ONE_WRITE = {"w1": Upsert(("k1",))}

OWN_CASES: Final = (
    Case(
        "a clean is planned under the lock",
        Scenario({**ONE_WRITE, "clean": AT_ONCE, "save": OwnSavepoint(nth=1)}, ONE_ROW),
        Bound(preemptions=1),
        LIVE,
        stops="a clean deletes what a savepoint has come to keep since its plan",
        mutant="a plan that others may not know is carried out at once",
    ),
    Case(
        "leases of readers",
        Scenario({"reader": ReadLong(), **ONE_WRITE, "clean": OwnClean(pause_s=1.5)}, ONE_ROW),
        Bound(preemptions=0),
        LIVE,
        stops="a clean deletes what a query still reads",
        mutant="leases hold nothing",
    ),
    Case(
        "a moment for readers without a lease",
        Scenario({"reader": ReadLong(), **ONE_WRITE, "clean": OwnClean()}, ONE_ROW),
        Bound(preemptions=1),
        LIVE,
        stops="a clean deletes what a query has just listed, before it has a lease",
        mutant="what has just become old goes at once",
    ),
    Case(
        "savepoints hold their files",
        Scenario({**ONE_WRITE, "clean": AT_ONCE}, ONE_ROW, saved=True),
        Bound(preemptions=0),
        LIVE,
        stops="a clean deletes what a savepoint keeps",
        mutant="savepoints and plans hold nothing",
    ),
    Case(
        "a plan stays pending for a query",
        # The query gets its lease after the first clean has planned, and before the second looks.
        Scenario(
            {
                "reader": ReadLong(lasts_s=8.0, late_s=2.0),
                **ONE_WRITE,
                "clean": OwnClean(pause_s=1.5),
                "clean-2": OwnClean(pause_s=3.0),
                "save": OwnSavepoint(nth=1, pause_s=4.3),
            },
            ONE_ROW,
        ),
        Bound(-1, 1, (FaultKind.PAUSE,), struck=frozenset({"clean"}), amid=_deletes),
        LIVE,
        stops="a cleaner that stood still deletes what a savepoint has come to keep, since another "
        "clean spared it and ended the plan",
        mutant="a plan ends though a query holds one of its files",
    ),
    Case(
        "leases of readers stop a restore",
        Scenario({**ONE_WRITE, "reader": ReadLong(), "restore": RESTORE_LATER}, ONE_ROW),
        Bound(preemptions=0),
        LIVE,
        stops="a restore deletes what a query reads under a lease",
        mutant="queries with a lease do not stop a restore",
    ),
    Case(
        "writers that live stop a restore",
        Scenario({"w1": Upsert(("k2",)), "restore": OwnRestore(nth=1)}, TWO_ROWS),
        Bound(preemptions=2),
        UNDONE,
        stops="a write brings rows back that a restore has undone",
        mutant="writers that live do not stop a restore",
    ),
)
