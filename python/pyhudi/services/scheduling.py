"""Plans table services after a commit, on a view of the table that does not change (RFC-22).

Invariant: the table lock is held from the listing that a planner sees until its plan is put, so no
writer completes in between. Without a registered planner no lock is taken.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from threading import Lock
from typing import Protocol

from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.locks.renewal import kept
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.table import Table
from pyhudi.timeline.view import FileSystemView
from pyhudi.transactions.instants import take_time
from pyhudi.transactions.writer import Writer

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StaticView:
    """A table that nobody changes while a planner looks at it."""

    table: Table
    timeline: Timeline

    def files(self) -> FileSystemView:
        """The file groups under the timeline."""
        return self.table.view(self.timeline)


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """The work of a service: its action, and the rendered plan (``format/plans.py``)."""

    action: Action
    content: bytes


class ServicePlanner(Protocol):
    """Decides whether a table service is due, and plans its work."""

    def plan(self, view: StaticView) -> ServicePlan | None:
        """The plan; None if nothing is due, or an earlier plan is still pending.

        It runs under the table lock, and all other writers wait: it must only read, and be quick.
        """


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

    def schedule(self, writer: Writer, after: InstantTime) -> tuple[Instant, ...]:
        """Ask every planner under the lock, and publish what it plans as a requested instant.

        ``after`` is the instant whose writer asks. Errors: ``LockTimeout``, ``WriterFenced`` if
        planning outlasted the lock, and the planners' own errors. Plans published before stay.
        """
        if not self._planners:
            return ()
        planned, table, lock = [], writer.table, writer.lock
        with writer.locked(after):
            timeline = table.timeline()
            for planner in self._planners:
                with kept(lock):
                    plan = planner.plan(StaticView(table, timeline))
                if plan is None:
                    continue
                lock.renew()
                time, timeline = take_time(
                    writer,
                    plan.action,
                    plan.content,
                    timeline,
                    lambda time: lock.check(table.storage.put_timeout_s),
                )
                log.info("scheduled %s %s", plan.action.value, time)
                planned.append(Instant(time, plan.action, State.REQUESTED))
        return tuple(planned)
