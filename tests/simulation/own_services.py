"""pyhudi's own table services as programs beside writers and readers: the product's code.

Each has an application's writer. Tables here have a handful of files and seconds of life, so cleans
and archives keep little.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, Final

from pyhudi.choices import CleanPolicy
from pyhudi.errors import CommitConflict, StorageError
from pyhudi.format.instants import Action, InstantTime
from pyhudi.format.plans import parse_restore_plan
from pyhudi.services.archive_plan import ArchivePolicy
from pyhudi.services.archiver import ArchiveRules, archive_table
from pyhudi.services.clean import clean_table
from pyhudi.services.clean_plan import Retention
from pyhudi.services.failed_writes import settle_and_tell
from pyhudi.services.restore import restored
from pyhudi.services.savepoints import drop_savepoint, make_savepoint
from pyhudi.slices.files import BaseFile
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.pending import plan_of
from pyhudi.timeline.read_states import ReadState, completed
from pyhudi.timeline.table import Table, open_table
from pyhudi.transactions.leases import lease
from pyhudi.transactions.recovery.undoing import pending_restore
from pyhudi.transactions.writer import Writer, WriterPolicy
from tests.simulation.programs import Machine, ReadOnce, rows_of

#: a file stays so long after it became old
SPARED_MS: Final = 1_000
RETENTION: Final = Retention(CleanPolicy.VERSIONS, versions=1, spared_ms=SPARED_MS)


@dataclass(frozen=True, slots=True)
class OwnService(ABC):
    """A service that is run ``times`` times, with ``pause_s`` before each run."""

    times: int = 1
    pause_s: float = 0.0
    #: whether what it deletes of the timeline is kept elsewhere
    moves: ClassVar[bool] = False

    def run(self, machine: Machine, who: str, policy: WriterPolicy) -> None:
        for _ in range(self.times):
            if self.pause_s:
                machine.clock.sleep(self.pause_s)
            self.once(machine.writer(open_table(machine.storage), policy))

    @abstractmethod
    def once(self, writer: Writer) -> None:
        """One run of it."""


@dataclass(frozen=True, slots=True)
class OwnSettle(OwnService):
    """``pyhudi clean --failed-writes``: rolls back what dead writers and clusterings left."""

    def once(self, writer: Writer) -> None:
        settle_and_tell(writer)


@dataclass(frozen=True, slots=True)
class OwnClean(OwnService):
    """``pyhudi clean``: finishes each clean that it finds, then makes one."""

    retention: Retention = RETENTION

    def once(self, writer: Writer) -> None:
        clean_table(writer, self.retention)


@dataclass(frozen=True, slots=True)
class OwnArchive(OwnService):
    """``pyhudi archive``: once there are more than ``most`` commits, the oldest go."""

    least: int = 1
    most: int = 1
    moves: ClassVar[bool] = True

    def once(self, writer: Writer) -> None:
        archive_table(writer, ArchiveRules(ArchivePolicy(self.least, self.most), RETENTION))


@dataclass(frozen=True, slots=True)
class OwnSavepoint(OwnService):
    """``pyhudi savepoint`` of the ``nth`` commit, the newest for 0; ``deleted``: and away again."""

    nth: int = 0
    deleted: bool = False

    def once(self, writer: Writer) -> None:
        commits = writer.table.timeline().commits
        chosen = commits[self.nth - 1].time if self.nth else None
        made = make_savepoint(writer, chosen, "")
        if self.deleted:
            drop_savepoint(writer, made.instant)


@dataclass(frozen=True, slots=True)
class OwnRestore(OwnService):
    """``pyhudi restore`` to the ``nth`` commit, to the oldest savepoint for 0.

    While others write it is refused, and asked for again.
    """

    nth: int = 0
    tries: int = 3
    fence: bool = False

    def once(self, writer: Writer) -> None:
        goal = self._goal(writer.table)
        for _ in range(self.tries - 1):
            with suppress(CommitConflict):
                restored(writer, goal, fence=self.fence)
                return
            writer.clock.sleep(1.0)
        restored(writer, goal, fence=self.fence)

    def _goal(self, table: Table) -> InstantTime:
        timeline = table.timeline()
        saved = [i.time for i in timeline.completed if i.action is Action.SAVEPOINT]
        return timeline.commits[self.nth - 1].time if self.nth else saved[0]


@dataclass(frozen=True, slots=True)
class OwnUndo(OwnRestore):
    """``pyhudi restore`` that undoes the last ``nth`` commits, or goes on with one that died."""

    def _goal(self, table: Table) -> InstantTime:
        timeline = table.timeline()
        pending = pending_restore(table, timeline)
        plan = pending and plan_of(table, timeline, pending, parse_restore_plan)
        if plan and plan.savepoint_to_restore_timestamp:
            return plan.savepoint_to_restore_timestamp
        return timeline.commits[-1 - self.nth].time


@dataclass(frozen=True, slots=True)
class ReadLong:
    """A query that lasts: it lists its files, gets a lease, and reads ``lasts_s`` later.

    It also plans once more at its end, as the planner does for a pin whose listing it has dropped.
    A query must get its lease while what it reads is spared: one that stood still for longer may
    fail, by name. ``undone``: so may each, since a restore takes files away whoever reads them.
    ``late_s``: it gets its lease so long after the listing.
    """

    lasts_s: float = 3.0
    late_s: float = 0.0
    times: int = 1
    undone: bool = False

    def run(self, machine: Machine, who: str, policy: WriterPolicy) -> list[ReadOnce]:
        return [self._once(machine, policy) for _ in range(self.times)]

    def _once(self, machine: Machine, policy: WriterPolicy) -> ReadOnce:
        began, listed = machine.step(), machine.clock.monotonic()
        table = open_table(machine.storage)
        timeline = table.timeline()
        files = table.view(timeline).latest()
        state = state_of(timeline)
        if self.late_s:
            machine.clock.sleep(self.late_s)
        held = lease(machine.storage, machine.clock, state, policy.heartbeat)
        try:
            held.start()
        except StorageError:
            return ReadOnce(began, machine.step(), {}, refused="no lease")
        in_time = (machine.clock.monotonic() - listed) * 1_000 < SPARED_MS and not self.undone
        machine.clock.sleep(self.lasts_s)
        try:
            seen = rows_of(machine.storage, files)
            again = rows_of(machine.storage, _planned_again(table, state))
        except FileNotFoundError as gone:
            what = f"{gone} is not there, though a lease keeps it"
            told = {"error": what} if in_time else {"refused": what}
            return ReadOnce(began, machine.step(), {}, **told)
        finally:
            with suppress(StorageError):
                held.stop()
        if in_time and seen != again:
            return ReadOnce(began, machine.step(), {}, f"a query read {seen}, then {again}")
        return ReadOnce(began, machine.step(), seen)


def state_of(timeline: Timeline) -> ReadState:
    """What a query of the newest snapshot is pinned to (``reads/pins.py``)."""
    commits = timeline.commits
    last = max((completed(timeline, commit) for commit in commits), default="")
    newest = commits[-1].time if commits else InstantTime("")
    return ReadState(newest, timeline.layout, last)


def _planned_again(table: Table, state: ReadState) -> list[BaseFile]:
    timeline = table.timeline()
    return table.view(state.on(timeline)).latest(as_of=state.instant)
