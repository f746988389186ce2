"""The life of one write as a table: from which phase it goes where, and what that puts.

A running instant (``transactions/running.py``) takes these steps and no others, and looks here
before it puts a file. Only ``FAILED`` may delete data files: an ``UNKNOWN`` outcome may have
landed, so no step leads from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from pyhudi.format.instants import State


class Phase(str, Enum):
    """Where a write stands."""

    NEW = "new"
    REQUESTED = "requested"
    INFLIGHT = "inflight"
    SEALED = "sealed"
    COMMITTED = "committed"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Step:
    """A step to the phase ``to``: what happens, and the file of the instant that is put, if any."""

    to: Phase
    what: str
    puts: State | None = None


_FAILS: Final = Step(Phase.FAILED, "what it wrote is deleted, then its instant")

#: phase -> the steps that may follow
STEPS: Final[dict[Phase, tuple[Step, ...]]] = {
    Phase.NEW: (Step(Phase.REQUESTED, "the first heartbeat, then the request", State.REQUESTED),),
    Phase.REQUESTED: (
        Step(Phase.INFLIGHT, "the workload profile, before any data", State.INFLIGHT),
        _FAILS,
    ),
    Phase.INFLIGHT: (
        Step(Phase.SEALED, "the data is written, strays are deleted"),
        _FAILS,
    ),
    Phase.SEALED: (
        Step(Phase.COMMITTED, "under the lock, where nothing conflicts", State.COMPLETED),
        _FAILS,
        Step(Phase.UNKNOWN, "nobody knows whether the last put landed"),
    ),
    Phase.COMMITTED: (),
    Phase.FAILED: (),
    Phase.UNKNOWN: (),
}


def leads(phase: Phase, to: Phase) -> bool:
    """Whether a step leads from ``phase`` to ``to``."""
    return any(step.to is to for step in STEPS[phase])


def check_move(phase: Phase, to: Phase, puts: State | None = None) -> None:
    """``RuntimeError`` unless a step leads from ``phase`` to ``to`` that puts just ``puts``."""
    if not any((step.to, step.puts) == (to, puts) for step in STEPS[phase]):
        put = f" by putting its {puts.value} file" if puts is not None else ""
        raise RuntimeError(
            f"a write that is {phase.value} cannot become {to.value}{put}: "
            "transactions/phases.py has no such step"
        )
