"""A schedule is a handful of decisions: all else follows the code.

Without decisions each process runs as far as it can. A decision is tied to a task and the number
of steps that this task has made, so that it keeps its meaning when others are taken away.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tests.simulation.residuals import Residual, barred
from tests.simulation.scheduler import Fault, Task


@dataclass(frozen=True, slots=True)
class Decision:
    """When ``task`` has made ``steps`` steps: run ``other`` instead, or let ``fault`` strike it."""

    task: str
    steps: int
    other: str = ""
    fault: Fault | None = None

    def __str__(self) -> str:
        what = f"run {self.other}" if self.fault is None else self.fault.kind.name
        more = f" {self.fault.seconds:g} s" if self.fault and self.fault.seconds else ""
        return f"{self.task}@{self.steps}: {what}{more}"


@dataclass(frozen=True, slots=True)
class Schedule:
    """Decisions in the order in which they are due; ``pace`` seeds how time ticks, 0 for not.

    A fault that would be a residual strikes only where ``residuals`` has it.
    """

    decisions: tuple[Decision, ...] = ()
    residuals: tuple[Residual, ...] = ()
    pace: int = 0
    longest_tick_ms: int = 4

    def but(self, decision: Decision) -> Schedule:
        """The same with one more decision."""
        return replace(self, decisions=(*self.decisions, decision))

    def without(self, dropped: Iterable[int]) -> Schedule:
        """The same without the decisions at these positions."""
        gone = set(dropped)
        kept = tuple(d for i, d in enumerate(self.decisions) if i not in gone)
        return replace(self, decisions=kept)


class Scripted:
    """The pilot that follows a schedule; a decision that does not fit any more is passed over."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self._left = list(schedule.decisions)

    @property
    def finished(self) -> bool:
        """Whether every decision has been carried out."""
        return not self._left

    def choose(self, number: int, task: Task, ready: Sequence[Task]) -> Task:
        for decision in self._left:
            if (decision.task, decision.steps) == (task.name, task.steps):
                if decision.fault is None:
                    self._left.remove(decision)
                    return next((t for t in ready if t.name == decision.other), task)
                break
        return task

    def fault(self, number: int, task: Task) -> Fault | None:
        for decision in self._left:
            if (decision.task, decision.steps) == (task.name, task.steps):
                if decision.fault is not None:
                    self._left.remove(decision)
                    allowed = self.schedule.residuals
                    unfit = barred(decision.fault.kind, task, allowed)
                    return None if unfit else decision.fault
                break
        return None

    def tick(self, number: int) -> float:
        return tick(self.schedule, number)


def tick(schedule: Schedule, number: int) -> float:
    """Seconds that pass after a step: often none, so that instant times collide."""
    if not schedule.pace:
        return 0.0
    drawn = hashlib.blake2b(f"{schedule.pace}/{number}".encode(), digest_size=4).digest()
    return max(0, drawn[0] % (2 * schedule.longest_tick_ms) - schedule.longest_tick_ms) / 1_000
