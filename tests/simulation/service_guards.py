"""The guards against what Apache Hudi's services do to a table, each with its anomaly.

The same as ``guards.py``, for worlds in which such services run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.timeline.active import COMMITS, Timeline
from pyhudi.timeline.states import COMMIT_ACTIONS
from pyhudi.transactions.conflicts.meanwhile import Meanwhile
from pyhudi.transactions.recovery.rollback import WRITES
from tests.simulation.explore import Bound
from tests.simulation.guards import Case, Guards, nothing
from tests.simulation.hudi_archive import HudiArchive
from tests.simulation.hudi_compact import HudiCompact
from tests.simulation.hudi_services import HudiClean, HudiRestore, HudiRollback, HudiSavepoint, Keep
from tests.simulation.hudi_upgrade import HudiUpgrade
from tests.simulation.programs import Read, ReadAsOf, Upsert
from tests.simulation.residuals import LATE_FILE
from tests.simulation.scheduler import FaultKind
from tests.simulation.world import Scenario

VIEW = "pyhudi.timeline.view"


def _not_archived(self: Meanwhile) -> Iterator[tuple[Instant, CommitMetadata]]:
    """Only what is still on the active timeline."""
    for instant in self.now.since(self.loaded):
        if instant.action in COMMIT_ACTIONS:
            yield instant, COMMITS.get(self.table.storage, self.now, instant)


def _none_saved(timeline: Timeline) -> InstantTime | None:
    """The first commit without a savepoint, none where all have one."""
    saved = {i.time for i in timeline.instants if i.action is Action.SAVEPOINT}
    times = (i.time for i in timeline.instants if i.action in COMMIT_ACTIONS)
    return next((time for time in times if time not in saved), None)


def _none(*_: Any) -> list[InstantTime]:
    return []


def _no_strays(*_: Any) -> frozenset[str]:
    return frozenset()


_WITH_COMPACTIONS: Final = WRITES | {Action.COMPACTION}

SERVICE_GUARDS: Final[Guards] = {
    "archived commits are judged": {
        "pyhudi.transactions.conflicts.meanwhile.Meanwhile.commits": _not_archived
    },
    "files that commits name": {f"{VIEW}.FileSystemView._check": nothing},
    "history of a cleaned table": {f"{VIEW}.FileSystemView._check": nothing},
    "first instant of saved commits": {
        "pyhudi.timeline.active.Timeline.first_time": property(_none_saved)
    },
    "undone commits are missed": {
        "pyhudi.transactions.conflicts.meanwhile.Meanwhile.undone": _none
    },
    "pending undoings": {
        "pyhudi.transactions.conflicts.judgement.check_undoing": nothing,
        "pyhudi.transactions.recovery.settle.check_undoing": nothing,
    },
    "layout that moved": {"pyhudi.timeline.table._check_layout": nothing},
    "compactions are left alone": {
        "pyhudi.transactions.recovery.settle.WRITES": _WITH_COMPACTIONS,
        "pyhudi.transactions.recovery.rollback.UNDONE_HERE": _WITH_COMPACTIONS,
    },
    "strays below the timeline": {f"{VIEW}.strays": _no_strays},
}
UNDONE = "what was undone stays undone"
SERIAL = "every read is serial"
SETTLES = "every instant settles"
LOST = "nothing committed is lost"
TWO_ROWS = (("k1",), ("k2",))
VERSIONS = HudiClean(keep=Keep.FILE_VERSIONS)

SERVICE_CASES: Final = (
    Case(
        "undone commits are missed",
        Scenario({"w1": Upsert(("k1",)), "hudi-undo": HudiRollback()}, (("k1",),)),
        Bound(preemptions=1),
        UNDONE,
    ),
    Case(
        "pending undoings",
        Scenario({"w1": Upsert(("k1",)), "hudi-restore": HudiRestore()}, (("k1",),), saved=True),
        Bound(preemptions=2),
        LOST,
    ),
    Case(
        "archived commits are judged",
        Scenario(
            {
                "w1": Upsert(("k1",)),
                "w2": Upsert(("k2",)),
                "w3": Upsert(("k1",)),
                "hudi-archive": HudiArchive(times=3),
            },
            TWO_ROWS,
        ),
        Bound(),
        LOST,
        seeds=2_000,
    ),
    Case(
        "files that commits name",
        Scenario(
            {"reader": Read(cleaned=True), "w1": Upsert(("k1",)), "hudi-clean": VERSIONS},
            (("k1",),),
        ),
        Bound(preemptions=1),
        SERIAL,
    ),
    Case(
        "history of a cleaned table",
        Scenario(
            {"w1": Upsert(("k1",)), "hudi-clean": VERSIONS, "reader": ReadAsOf(2)},
            TWO_ROWS,
        ),
        Bound(preemptions=0),
        SERIAL,
    ),
    Case(
        "first instant of saved commits",
        Scenario(
            {
                "hudi-archive": HudiArchive(),
                "hudi-save": HudiSavepoint(),
                "w1": Upsert(("k1",)),
                "hudi-restore": HudiRestore(),
                "reader": Read(),
            },
            TWO_ROWS,
        ),
        Bound(preemptions=0),
        SERIAL,
    ),
    Case(
        "layout that moved",
        Scenario({"w1": Upsert(("k1",)), "hudi-upgrade": HudiUpgrade()}, (("k1",),), 6),
        Bound(preemptions=1),
        SERIAL,
    ),
    Case(
        "compactions are left alone",
        Scenario(
            {"hudi-compact": HudiCompact(dies_after=State.INFLIGHT), "w1": Upsert(("k1",))},
            (("k1",),),
        ),
        Bound(preemptions=1),
        SETTLES,
    ),
    Case(
        "strays below the timeline",
        Scenario(
            {"w1": Upsert(("new",)), "w2": Upsert(("k1",)), "hudi-archive": HudiArchive()},
            (("k1",),),
        ),
        Bound(0, 1, (FaultKind.LATE,), (LATE_FILE,), struck=frozenset({"w1"})),
        SERIAL,
    ),
)
