"""The guards around logs of merge-on-read tables, each with the anomaly that it is there for.

The same as ``guards.py``. Each log here is of the product's placement, and so are its slice, its
rollback and what a clean does with it. Guards of compactions are in ``compaction_guards.py``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from pyhudi.format.instants import State
from pyhudi.services.compaction import CompactionStep
from pyhudi.slices.files import FileSlice
from pyhudi.timeline.view import FileSystemView
from pyhudi.transactions.conflicts import compactions
from tests.simulation.appends import Append, Remove
from tests.simulation.explore import Bound
from tests.simulation.guards import (
    HOME,
    LIVE,
    LOST,
    ONE_ROW,
    SETTLES,
    TRANSACTION,
    Case,
    Guards,
    nothing,
)
from tests.simulation.hudi_compact import HudiCompact, HudiDelta
from tests.simulation.own_compaction import OwnCompact
from tests.simulation.own_services import OwnArchive, OwnSettle
from tests.simulation.programs import Program, Read
from tests.simulation.scheduler import FaultKind
from tests.simulation.service_guards import SERIAL
from tests.simulation.world import Scenario

SLICES: Final = "a log is in its slice"
FAILED: Final = "pyhudi.transactions.markers.failed_logs"
PLACEMENT: Final = "pyhudi.writes.placement"
VIEW: Final = "pyhudi.timeline.view"

_with_logs = FileSystemView._with_logs
_check_compactions = compactions.check_compactions


def _by_instant(self: FileSystemView, newest: list[FileSlice], *asked: Any) -> list[FileSlice]:
    """The slices, as if each commit had completed when it began."""
    instants = (replace(i, completion_time=i.time) for i in self.timeline.instants)
    view = replace(self, timeline=self.timeline.only(instants), ends={})
    return _with_logs(view, newest, *asked)


def _nothing_revived(*asked: Any) -> None:
    _check_compactions(*asked[:5])


def _as_they_are(logs: Any, *_: Any) -> Any:
    return logs


def _all_homes(write: Any, files: Any, dead: Any) -> Any:
    return dead


def _empty(*_: Any) -> dict[Any, Any]:
    return {}


def _none(*_: Any) -> list[Any]:
    return []


def _no_paths(*_: Any) -> set[str]:
    return set()


def _yes(*_: Any) -> bool:
    return True


def _no(*_: Any) -> bool:
    return False


LOG_GUARDS: Final[Guards] = {
    "logs of one group are a conflict": {f"{TRANSACTION}.check_conflicts": nothing},
    "a log of version 6 is in the newest slice": {f"{TRANSACTION}.check_compactions": nothing},
    "a log of version 6 bears the instant of a plan": {
        f"{PLACEMENT}.log_groups._planned": _empty,
        # The write would begin anew, again and again.
        f"{TRANSACTION}.check_compactions": nothing,
    },
    "a compaction takes no dead row that a log leans on": {
        f"{TRANSACTION}.check_compactions": _nothing_revived
    },
    "a key comes back to no group of a plan": {f"{PLACEMENT}.dead_keys.homes_of": _all_homes},
    "a group with logs gets no new base file": {f"{PLACEMENT}.log_groups.LogGroups.may_grow": _yes},
    "a log is of the slice before its completion": {
        f"{VIEW}.FileSystemView._with_logs": _by_instant
    },
    "the completion of an archived log": {f"{VIEW}.archived_ends": _empty},
    "a log of version 6 is found by its marker": {
        "pyhudi.transactions.markers.markers._is_appended": _no
    },
    "what a writer adds after its rollback": {
        "pyhudi.transactions.running.logs_with": _none,
        "pyhudi.transactions.running.listed_files": _none,
    },
    "a log of others stays in a rollback": {f"{FAILED}.shared_logs": _no_paths},
    "a log of a plan stays in a rollback": {f"{FAILED}._planned": _no_paths},
    "a log of no commit is not opened": {f"{VIEW}.without_failed_logs": _as_they_are},
}

ONE: Final[dict[str, Program]] = {"w1": Append(("k1",))}
BOTH: Final[dict[str, Program]] = {**ONE, "w2": Append(("k1",))}
COMPACT: Final[dict[str, Program]] = {"compact": OwnCompact()}
HUDI: Final[dict[str, Program]] = {"hudi-compact": HudiCompact()}
#: a key goes and comes back, a compaction, and one more write of it
RETURNS: Final[dict[str, Program]] = {
    "gone": Remove(("k1",)),
    **ONE,
    **COMPACT,
    "w2": Append(("k1",)),
}
CRASH: Final = Bound(0, 1, (FaultKind.CRASH,))


def world(
    programs: dict[str, Program], version: int = 9, rows: tuple[tuple[str, ...], ...] = ONE_ROW
) -> Scenario:
    """A table with a row in each file group, which has a log."""
    return Scenario(programs, rows, version, merge_on_read=True)


LOG_CASES: Final = (
    Case(
        "logs of one group are a conflict",
        world(BOTH),
        Bound(preemptions=1),
        LOST,
        stops="the second of two logs hides a change of the first, of which it did not know",
        mutant="no commit is compared",
    ),
    Case(
        "a log of version 6 is in the newest slice",
        world({**ONE, "hudi-compact": HudiCompact(dies_after=State.REQUESTED)}, 6),
        Bound(preemptions=1),
        SLICES,
        stops="a log is put into a slice that a compaction has ended, and its rows are lost",
        mutant="a log of version 6 may bear the name of a slice that has ended",
    ),
    Case(
        "a log of version 6 bears the instant of a plan",
        world({"compact": OwnCompact(step=CompactionStep.SCHEDULE), **ONE}, 6),
        Bound(preemptions=0),
        SLICES,
        stops="a log beside a planned compaction is put into the slice that it ends",
    ),
    Case(
        "a compaction takes no dead row that a log leans on",
        world(RETURNS),
        Bound(),
        HOME,
        seeds=3_000,
        stops="no lookup finds a key that came back, and the next write adds it a second time",
        mutant="a row comes back to a group that a compaction takes up",
    ),
    Case(
        "a key comes back to no group of a plan",
        world(RETURNS),
        Bound(),
        HOME,
        seeds=3_000,
        stops="the same, for a key that comes back when the compaction is planned already",
        mutant="a dead key has a home in a group that is to be compacted",
    ),
    Case(
        "a group with logs gets no new base file",
        world({"w1": Append(("k1", "new"))}),
        Bound(preemptions=0),
        SERIAL,
        stops="a new base file hides the rows of the logs before it",
        mutant="a group with logs gets a new base file",
    ),
    Case(
        "a log is of the slice before its completion",
        world({**ONE, **COMPACT}),
        Bound(preemptions=1),
        LOST,
        stops="the rows of a write that began before a compaction and ended after it are lost",
        mutant="a log belongs to the slice in which its write began",
    ),
    Case(
        "the completion of an archived log",
        world({**ONE, **COMPACT, "archive": OwnArchive(times=2)}),
        Bound(),
        LOST,
        seeds=3_000,
        stops="they are lost as soon as the commit is archived",
        mutant="an archived log completed when it began",
        known_seed=549,
    ),
    Case(
        "a log of version 6 is found by its marker",
        world(ONE, 6),
        CRASH,
        SETTLES,
        stops="a failed write leaves its logs, whose rows count once the archive has passed it",
        mutant="a log of version 6 is not found by its marker",
    ),
    Case(
        "what a writer adds after its rollback",
        world({**ONE, "settle": OwnSettle(pause_s=1.5)}, 6),
        Bound(0, 1, (FaultKind.PAUSE,), struck=frozenset({"w1"})),
        SETTLES,
        stops="a writer that stood still leaves what it wrote after another rolled it back",
    ),
    Case(
        "a log of others stays in a rollback",
        world(
            {
                **ONE,
                "hudi": HudiDelta(keys=("k1",), appends=True, dies_after=State.INFLIGHT),
            },
            6,
        ),
        Bound(preemptions=0),
        LIVE,
        stops="the rollback of a write that appended to the log of a commit deletes that log",
        mutant="a log of others goes with a failed write",
    ),
    Case(
        "a log of a plan stays in a rollback",
        world({**ONE, **HUDI}, 6),
        Bound(preemptions=2),
        SETTLES,
        stops="nobody can run a compaction that Apache Hudi planned beside a write that failed",
        mutant="a log that a plan names goes with a failed write",
    ),
    Case(
        "a log of no commit is not opened",
        world({**BOTH, "w3": Append(("k1", "new")), "reader": Read(3)}, 6),
        Bound(),
        LIVE,
        seeds=2_000,
        stops="a query fails since a rollback has deleted a log that did not count",
        mutant="logs of writes that have not committed are in their slices",
    ),
)
