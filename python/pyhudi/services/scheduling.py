"""Planning table services after a commit, on a view of the table that stands still (RFC-22).

Invariant: from the listing that a planner is shown to the put of its plan the table lock is held,
so that no writer completes in between. While no planner is registered nothing is asked or taken.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from threading import Lock
from typing import Protocol

from pyhudi.clock import Clock
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.locks.base import LockOwner, TableLock
from pyhudi.locks.renewal import kept
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.table import Table
from pyhudi.timeline.view import FileSystemView
from pyhudi.transactions.times import TimeSource, take_time

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StaticView:
    """A table that nobody changes while it is looked at."""

    table: Table
    timeline: Timeline

    def files(self) -> FileSystemView:
        """The file groups under the timeline."""
        return self.table.view(self.timeline)


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """What a service is to do: its action, and the rendered plan (``format/plans.py``)."""

    action: Action
    content: bytes


class ServicePlanner(Protocol):
    """Decides whether a table service is due, and what it will do."""

    def plan(self, view: StaticView) -> ServicePlan | None:
        """The plan; None where nothing is due, or an earlier plan is still pending.

        It is asked under the table lock, with all other writers waiting: it only reads, and soon.
        """


class Policy(Protocol):
    """The part of a writer's policy that scheduling needs."""

    @property
    def lock_timeout_s(self) -> float: ...
    @property
    def times(self) -> TimeSource: ...


class ServicePlanners:
    """The planners that are asked after each commit, in the order of their registration."""

    def __init__(self) -> None:
        self._planners: tuple[ServicePlanner, ...] = ()
        self._guard = Lock()

    def register(self, planner: ServicePlanner) -> None:
        """Ask ``planner`` from now on."""
        with self._guard:
            self._planners = (*self._planners, planner)

    def __bool__(self) -> bool:
        return bool(self._planners)

    def schedule(
        self, table: Table, lock: TableLock, clock: Clock, policy: Policy, after: InstantTime
    ) -> tuple[Instant, ...]:
        """Ask every planner under the lock, and publish what it plans as a requested instant.

        ``after`` is the instant whose writer asks. Errors: ``LockTimeout``, ``WriterFenced`` where
        planning outlasted the lock, what planners raise. What was published before stays.
        """
        if not self._planners:
            return ()
        planned = []
        lock.acquire(policy.lock_timeout_s, LockOwner.this_process(after))
        try:
            timeline = table.timeline()
            for planner in self._planners:
                with kept(lock):
                    plan = planner.plan(StaticView(table, timeline))
                if plan is None:
                    continue
                lock.renew()
                time, timeline = take_time(
                    table,
                    clock,
                    plan.action,
                    plan.content,
                    timeline,
                    policy.times,
                    lambda time: lock.check(table.storage.put_timeout_s),
                )
                log.info("scheduled %s %s", plan.action.value, time)
                planned.append(Instant(time, plan.action, State.REQUESTED))
        finally:
            lock.release()
        return tuple(planned)
