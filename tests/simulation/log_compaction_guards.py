"""The guards around log compactions, each with the anomaly that it is there for.

The same as ``guards.py``. A write takes its instant before a log compaction takes a later one, and
requests or commits it afterwards: then readers that go by the names of logs take the result for
newer than that write. What log compactions share with others is in ``compaction_guards.py``.
"""

from __future__ import annotations

from typing import Any, Final

from pyhudi.services.compaction import CompactionStep
from tests.simulation.appends import Append
from tests.simulation.explore import Bound
from tests.simulation.guards import Case, Guards
from tests.simulation.log_guards import world
from tests.simulation.own_compaction import OwnCompact
from tests.simulation.programs import Program

NAMES: Final = "the order of names gives the same rows"
RUN: Final = "pyhudi.services.log_compaction_run"


def _none(*_: Any) -> list[Any]:
    return []


def _empty(*_: Any) -> dict[Any, Any]:
    return {}


def _no_groups(*_: Any) -> frozenset[Any]:
    return frozenset()


def _at_once(*_: Any) -> None:
    """Nothing to wait for."""


_BESIDE_WRITES: Final[dict[str, Any]] = {
    "pyhudi.services.compaction_schedule.running_writes": _none
}

LOG_COMPACTION_GUARDS: Final[Guards] = {
    # Each finds what the other misses.
    "a log compaction is planned when no write runs": {
        **_BESIDE_WRITES,
        "pyhudi.services.compaction_tasks.unfit": _empty,
    },
    "a log compaction waits for older writes": {
        **_BESIDE_WRITES,
        f"{RUN}.RunningLogCompaction.waits": _at_once,
    },
    "a log compaction leaves out what changed": {
        f"{RUN}.RunningLogCompaction._changed": _no_groups
    },
    "a log compaction leaves out what others have taken up": {
        f"{RUN}.RunningLogCompaction._taken_up": _empty
    },
}

#: it looks for logs again and again
AGAIN: Final = OwnCompact(step=CompactionStep.SCHEDULE_AND_RUN_LOGS, times=8, pause_s=0.05)
THREE: Final[dict[str, Program]] = {
    **{who: Append(("k1",)) for who in ("w1", "w2", "w3")},
    "compact": AGAIN,
}

LOG_COMPACTION_CASES: Final = (
    Case(
        "a log compaction is planned when no write runs",
        world(THREE),
        Bound(),
        NAMES,
        seeds=1_000,
        stops="the log of a write that was pending at the plan is below the result by its name",
        mutant="a plan of a log compaction is run though it misses a log",
    ),
    Case(
        "a log compaction waits for older writes",
        world(THREE),
        Bound(),
        NAMES,
        seeds=1_000,
        stops="the same, of a write that ends after the log compaction",
        mutant="a log compaction runs beside a write that began before it",
    ),
    Case(
        "a log compaction leaves out what changed",
        world(THREE),
        Bound(faults=3),
        NAMES,
        seeds=1_000,
        stops="the same, of a write that requests its instant when the run has begun, and ends "
        "before it",
        mutant="a log compaction passes a log of an older write over",
        known_seed=567,
    ),
    Case(
        "a log compaction leaves out what others have taken up",
        world(THREE),
        Bound(faults=3),
        NAMES,
        seeds=1_000,
        stops="the same, of a write that requests its instant when the run has begun, and ends "
        "after it",
        mutant="a log compaction runs beside a write that began before it",
        known_seed=768,
    ),
)
