"""The guards around pyhudi's compactions, each with the anomaly that it is there for.

The same as ``guards.py``, for worlds of merge-on-read tables in which compactions run beside
writers, and beside other compactions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet

from pyhudi.format.instants import Instant
from pyhudi.services import compaction_run, compaction_schedule
from pyhudi.services.compaction import CompactionStep
from pyhudi.services.compaction_plan import CompactionRules, PlannedSlice
from pyhudi.services.compaction_run import Runner, RunningCompaction
from pyhudi.storage.base import Storage
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.table import Table
from pyhudi.transactions.markers.markers import delete_files
from pyhudi.transactions.writer import Writer
from tests.simulation.explore import Bound
from tests.simulation.guards import LIVE, LOST, SETTLES, Case, Guards, nothing
from tests.simulation.hudi_compact import HudiCompact, HudiDelta
from tests.simulation.log_guards import COMPACT, ONE, SLICES, world
from tests.simulation.own_compaction import OwnCompact
from tests.simulation.programs import Program
from tests.simulation.scheduler import FaultKind
from tests.simulation.service_guards import SERIAL, TWO_ROWS

SCHEDULE: Final = "pyhudi.services.compaction_schedule"
RUN: Final = "pyhudi.services.compaction_run"
PUBLISH: Final = "pyhudi.transactions.publish.FinalPut"

_slices_to_compact = compaction_schedule.slices_to_compact
_take_time = compaction_schedule.take_time
_runner_of = compaction_run.runner_of
_complete = RunningCompaction.complete
_PLANS: WeakKeyDictionary[Storage, tuple[PlannedSlice, ...]] = WeakKeyDictionary()
_COMPLETING: WeakSet[Storage] = WeakSet()


def _planned_beforehand(
    table: Table, now: Timeline, rules: CompactionRules
) -> tuple[PlannedSlice, ...]:
    """The slices that were chosen before the lock was asked for."""
    found = _slices_to_compact(table, now, rules)
    return _PLANS.setdefault(table.storage, found)


def _seen_before(writer: Writer, action: Any, content: bytes, loaded: Timeline, before: Any) -> Any:
    """The time that was taken, and the timeline of before."""
    time, _ = _take_time(writer, action, content, loaded, before)
    return time, loaded


def _dead(writer: Writer, now: Timeline, pending: Instant) -> Runner:
    return Runner.DEAD


def _never_dead(writer: Writer, now: Timeline, pending: Instant) -> Runner:
    found = _runner_of(writer, now, pending)
    return Runner.ALIVE if found is Runner.DEAD else found


def _unknown_is_dead(writer: Writer, now: Timeline, pending: Instant) -> Runner:
    found = _runner_of(writer, now, pending)
    return Runner.DEAD if found is Runner.UNKNOWN else found


def _complete_with_strays(self: RunningCompaction, *given: Any) -> Any:
    _COMPLETING.add(self.table.storage)
    try:
        return _complete(self, *given)
    finally:
        _COMPLETING.discard(self.table.storage)


def _deleted_if_undone(storage: Storage, paths: Iterable[str]) -> None:
    if storage not in _COMPLETING:
        delete_files(storage, paths)


def _yes(*_: Any) -> bool:
    return True


def _no(*_: Any) -> bool:
    return False


def _none(*_: Any) -> list[Any]:
    return []


def _empty(*_: Any) -> dict[Any, Any]:
    return {}


_UNFENCED: Final[dict[str, Any]] = {
    f"{RUN}.RunningCompaction._was_taken": _no,
    f"{RUN}.RunningCompaction._check_fences": nothing,
    f"{PUBLISH}._look_again": nothing,
    f"{PUBLISH}._look_back": nothing,
}

COMPACTION_GUARDS: Final[Guards] = {
    "a compaction is planned under the lock": {
        f"{SCHEDULE}.slices_to_compact": _planned_beforehand,
        "pyhudi.services.compaction.slices_to_compact": _planned_beforehand,
    },
    "a plan beside which a commit came is taken back": {f"{SCHEDULE}.take_time": _seen_before},
    "version 6 plans no compaction beside a write": {f"{SCHEDULE}.older_writes": _none},
    "a slice is in one plan": {f"{SCHEDULE}._busy": _empty},
    "only a dead compaction is taken over": {f"{RUN}.runner_of": _dead, **_UNFENCED},
    "a dead compaction is taken over": {f"{RUN}.runner_of": _never_dead},
    "a compaction without a heartbeat is left alone": {f"{RUN}.runner_of": _unknown_is_dead},
    "fences of a compaction": _UNFENCED,
    "a slow compaction deletes its own files alone": {f"{RUN}.RunningCompaction._is_own": _yes},
    "files of a slow compaction go": {
        f"{RUN}.RunningCompaction.complete": _complete_with_strays,
        f"{RUN}.delete_files": _deleted_if_undone,
    },
    "version 6 withdraws no plan beside a write": {f"{RUN}.older_writes": _none},
    "version 6 withdraws no plan that a log names": {f"{RUN}._names_a_log": _no},
}

TWICE: Final[dict[str, Program]] = {
    "compact": OwnCompact(),
    "compact-2": OwnCompact(step=CompactionStep.RUN),
}
FOLLOWS: Final = OwnCompact(step=CompactionStep.RUN, pause_s=1.5, lasts_s=3.0)
#: the second comes when the first has stood still for longer than its heartbeat lasts
SLOW: Final[dict[str, Program]] = {
    "compact": OwnCompact(),
    "compact-2": FOLLOWS,
}
ALONE: Final[dict[str, Program]] = {"hudi": HudiDelta(keys=("k1",), locked=False)}
SCHEDULED: Final[dict[str, Program]] = {"compact": OwnCompact(step=CompactionStep.SCHEDULE)}
WITHDRAWN: Final[dict[str, Program]] = {
    **SCHEDULED,
    "withdraw": OwnCompact(step=CompactionStep.UNSCHEDULE),
}
STOP: Final = Bound(0, 1, (FaultKind.PAUSE,), struck=frozenset({"compact"}))
CRASH: Final = Bound(0, 1, (FaultKind.CRASH,), struck=frozenset({"compact"}))

COMPACTION_CASES: Final = (
    Case(
        "a compaction is planned under the lock",
        world({**ONE, **COMPACT}),
        Bound(preemptions=1),
        LOST,
        stops="a log that completed between the plan and its request is in no slice",
    ),
    Case(
        "a plan beside which a commit came is taken back",
        world({**ALONE, **COMPACT}),
        Bound(preemptions=1),
        SERIAL,
        stops="the same, beside a writer of Apache Hudi that takes no lock",
        mutant="a plan of a compaction stays though a commit came meanwhile",
    ),
    Case(
        "version 6 plans no compaction beside a write",
        world({**ALONE, **COMPACT}, 6),
        Bound(preemptions=2),
        SLICES,
        stops="a writer that looks at no plan puts a log into a slice that has ended",
        mutant="version 6 plans a compaction beside a write",
    ),
    Case(
        "a slice is in one plan",
        world({**SCHEDULED, "compact-2": OwnCompact(step=CompactionStep.SCHEDULE)}, 6),
        Bound(preemptions=0),
        SETTLES,
        stops="the second of two plans of a slice can never be run",
        mutant="a slice is planned twice",
    ),
    Case(
        "only a dead compaction is taken over",
        world(TWICE),
        Bound(preemptions=2),
        LIVE,
        stops="a compaction deletes the files of another that is about to commit",
        mutant="a compaction that lives is run again",
    ),
    Case(
        "a dead compaction is taken over",
        world(TWICE),
        CRASH,
        SETTLES,
        stops="the plan of a compaction that died is never run, and its files stay",
        mutant="a compaction whose runner is dead stays",
    ),
    Case(
        "a compaction without a heartbeat is left alone",
        world(
            {
                "hudi-compact": HudiCompact(beats=False, lasts_s=2.0),
                "compact": OwnCompact(step=CompactionStep.RUN, pause_s=1.0),
            }
        ),
        Bound(preemptions=1),
        LOST,
        stops="a compaction runs beside that of Apache Hudi for a single writer, and both complete",
        mutant="a compaction that was begun without a heartbeat is run again",
    ),
    Case(
        "fences of a compaction",
        world(SLOW),
        STOP,
        LIVE,
        stops="a compaction that stood still completes with files that another has deleted",
        mutant="a compaction that was taken back goes on",
    ),
    Case(
        "a slow compaction deletes its own files alone",
        world({**SLOW, "compact-2": replace(FOLLOWS, lasts_s=1.0)}, rows=TWO_ROWS),
        STOP,
        LIVE,
        stops="a compaction that stood still deletes the files of the run that followed it",
        mutant="a slow compaction deletes the files of the run that followed",
    ),
    Case(
        "files of a slow compaction go",
        world(SLOW),
        Bound(0, 2, (FaultKind.PAUSE, FaultKind.CRASH), struck=frozenset({"compact"})),
        SETTLES,
        stops="what a compaction wrote after it was taken over stays when it dies",
        mutant="files of a slow compaction stay beside those of the next run",
    ),
    Case(
        "version 6 withdraws no plan beside a write",
        world({**WITHDRAWN, "hudi": HudiDelta(keys=("k1",))}, 6),
        Bound(preemptions=2),
        SLICES,
        stops="the log of a writer of Apache Hudi is in a slice without a base file",
    ),
    Case(
        "version 6 withdraws no plan that a log names",
        world({**SCHEDULED, **ONE, "withdraw": OwnCompact(step=CompactionStep.UNSCHEDULE)}, 6),
        Bound(preemptions=0),
        SLICES,
        stops="the log of a commit is in a slice without a base file",
        mutant="a plan goes though a log names it",
    ),
)
