"""What no guard covers, by name: the explorer finds exactly this, where it is allowed to happen.

No lease closes the gap between the last look at the lock and the put that it guards, and nobody
can call a request back that was given up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyhudi.format.instants import Action, Instant, State, parse_instant
from pyhudi.locks.filesystem import LOCK_PATH
from tests.simulation.logs import is_data
from tests.simulation.scheduler import FaultKind, Kind, Op, Task

LOCK = (LOCK_PATH,)


def timeline_entry(path: str) -> Instant | None:
    """The instant whose file this is, in a table of either layout."""
    folder, _, name = path.rpartition("/")
    layout = {".hoodie": 1, ".hoodie/timeline": 2}.get(folder)
    return parse_instant(name, layout) if layout else None


@dataclass(frozen=True, slots=True)
class Residual:
    """A misfortune at a place that no guard covers, by name; ``breaks`` is what it costs."""

    name: str
    breaks: str
    covers: Callable[[FaultKind, Task], bool]


def _publishes(op: Op) -> bool:
    """Whether this is a put that publishes, which the last look at the lock is to guard."""
    instant = timeline_entry(op.paths[0]) if op.paths else None
    puts = op.kind is Kind.WRITE and op.what != "delete"
    return instant is not None and puts and instant.state is State.COMPLETED


def _plans(op: Op | None) -> bool:
    """Whether this is about the plan of a compaction where the names of logs depend on plans."""
    path = op.paths[0] if op is not None and op.paths else ""
    instant = timeline_entry(path)
    planned = instant is not None and instant.action is Action.COMPACTION
    return planned and path.count("/") == 1


def _withdraws(task: Task) -> bool:
    """Whether a plan is being deleted, or has just been requested, which may be too late.

    No rule for a planner that has lost its lock by then is right. A plan that came late must go,
    since it lacks the logs that were committed meanwhile: a run of it would lose their rows. One
    after which a log is named must stay. If both is so, it can do neither, and no storage deletes a
    file on the condition that others have not read it.
    """
    asked = _plans(task.last) and task.last is not None and task.last.kind is Kind.WRITE
    return asked or (task.op.what == "delete" and _plans(task.op))


def _after_the_look(task: Task) -> bool:
    """Whether the remaining lease is being reckoned, by a clock that does not notice stops."""
    looked = task.last is not None and task.last.what == "read" and task.last.paths == LOCK
    return task.process.stops_in_pauses and looked and task.op.kind is Kind.CLOCK


FINAL_STOP = Residual(
    "a stop longer than the lease between the last look at the lock and the put that it guards",
    "nothing committed is lost",
    lambda kind, task: kind is FaultKind.PAUSE and (_publishes(task.op) or _after_the_look(task)),
)
LATE_FILE = Residual(
    "a data file whose writer was told of a failure, and that lands after it was cleaned up",
    "every instant settles",
    lambda kind, task: kind is FaultKind.LATE and any(map(is_data, task.op.paths)),
)
SLOW_SERVICE = Residual(
    "a service of Apache Hudi's that stops while it holds the lock, or whose request lands later: "
    "Hudi looks at no lease before it writes",
    "nothing committed is lost",
    lambda kind, task: task.process.service and kind in (FaultKind.PAUSE, FaultKind.LATE),
)
WITHDRAWAL = Residual(
    "in version 6 a stop longer than the lease between the request of a compaction and its "
    "withdrawal, which is due if a write has begun meanwhile: by then the log of another one may "
    "be named after it; or such a request that gets no answer and lands later",
    "a log is in its slice",
    lambda kind, task: (
        (kind is FaultKind.PAUSE and _withdraws(task))
        or (kind is FaultKind.LATE and _plans(task.op) and task.op.kind is Kind.WRITE)
    ),
)
RESIDUALS = (FINAL_STOP, LATE_FILE, SLOW_SERVICE, WITHDRAWAL)


def barred(kind: FaultKind, task: Task, allowed: Sequence[Residual]) -> bool:
    """Whether this would be a residual that is not allowed to happen."""
    return any(r.covers(kind, task) for r in RESIDUALS if r not in allowed)
