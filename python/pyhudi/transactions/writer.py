"""A writer of a table: the table, its lock, the clock, and its policy towards other writers.

All code that begins, commits, undoes or settles instants takes a ``Writer``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from pyhudi.choices import ConflictRule, FailedWrites, SchemaConflicts
from pyhudi.clock import Clock
from pyhudi.format.instants import InstantTime, format_time
from pyhudi.locks.base import LockOwner, TableLock
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.table import Table
from pyhudi.transactions.conflicts.comparison import STRATEGIES, Strategy
from pyhudi.transactions.heartbeat import HeartbeatPolicy
from pyhudi.transactions.times.times import CLOCK_TIMES, TimeSource, next_time
from pyhudi.transactions.visible import VisibilityPolicy


@dataclass(frozen=True, slots=True)
class WriterPolicy:
    """How a writer behaves towards other writers; times in the units of their names.

    ``conflicts`` and ``schemas`` say what two writes must not do at the same time; with ``early`` a
    write also looks for running writes before it writes data. ``times`` is the source of instant
    times. With ``visibility`` a commit waits until listings show its changes.
    """

    heartbeat: HeartbeatPolicy = field(default_factory=HeartbeatPolicy)
    failed_writes: FailedWrites = FailedWrites.EAGER
    lock_timeout_s: float = 60.0
    seal_timeout_s: float = 600.0
    conflicts: Strategy = STRATEGIES[ConflictRule.SIMPLE]
    schemas: SchemaConflicts = SchemaConflicts.SIMPLE
    early: bool = False
    times: TimeSource = CLOCK_TIMES
    visibility: VisibilityPolicy | None = None


@dataclass(frozen=True, slots=True)
class Writer:
    """One writer of a table; ``lock`` is its own handle on the table's lock."""

    table: Table
    lock: TableLock
    clock: Clock
    policy: WriterPolicy

    def on(self, table: Table) -> Writer:
        """The same writer with ``table``, which was opened again."""
        return replace(self, table=table)

    def next_time(self, now: Timeline) -> InstantTime:
        """A time above all times of ``now``, from ``times.next_time``."""
        return next_time(self.clock, now, self.table.config.utc, self.policy.times)

    @contextmanager
    def locked(self, time: InstantTime | None = None) -> Iterator[None]:
        """Hold the table's lock; ``LockTimeout``.

        Others see that the instant ``time`` has it; without ``time`` they see the present time.
        """
        if time is None:
            time = format_time(self.clock.now_ms(), self.table.config.utc)
        self.lock.acquire(self.policy.lock_timeout_s, LockOwner.this_process(time))
        try:
            yield
        finally:
            self.lock.release()
