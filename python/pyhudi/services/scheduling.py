"""Planning table services after a commit, on a view of the table that stands still (RFC-22).

Invariant: from the listing that a planner is shown to the put of its plan the table lock is held,
so that no writer completes in between. While no planner is registered nothing is asked or taken.
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

        ``after`` is the instant whose writer asks. Errors: ``LockTimeout``, ``WriterFenced`` where
        planning outlasted the lock, what planners raise. What was published before stays.
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
