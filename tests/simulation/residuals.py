"""What no guard covers, by name: the explorer finds exactly this, where it is allowed to happen.

No lease closes the gap between the last look at the lock and the put that it guards, and nobody
can call a request back that was given up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyhudi.format.instants import Instant, State, parse_instant
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
RESIDUALS = (FINAL_STOP, LATE_FILE, SLOW_SERVICE)


def barred(kind: FaultKind, task: Task, allowed: Sequence[Residual]) -> bool:
    """Whether this would be a residual that is not allowed to happen."""
    return any(r.covers(kind, task) for r in RESIDUALS if r not in allowed)
