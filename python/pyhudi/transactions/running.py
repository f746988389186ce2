"""One running instant of pyhudi: begin, heartbeat, cancel, publish and abort.

After its begin it is a context manager: an error of the block undoes the instant, if ``phases.py``
has a step to ``FAILED``.

Invariants: the instant time is above all loaded times, and no other write has it; data files are
deleted only if the write is known to have failed.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from pyhudi.errors import HudiError, WriteFailed
from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.plans import RequestedReplace, render_requested_replace
from pyhudi.locks.cancelling import to_its_end
from pyhudi.locks.group_locks import GroupLocks
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.table import Table
from pyhudi.transactions.heartbeat import Heartbeat
from pyhudi.transactions.instants import put_instant, take_time
from pyhudi.transactions.markers.failed_logs import logs_with, staying_logs
from pyhudi.transactions.markers.markers import (
    MarkerGate,
    delete_files,
    delete_markers,
    listed_files,
)
from pyhudi.transactions.phases import Phase, check_move, leads
from pyhudi.transactions.presence import is_gone
from pyhudi.transactions.publish import FinalPut, check_alive
from pyhudi.transactions.recovery.rollback import Undone, roll_back
from pyhudi.transactions.recovery.settle import settled_timeline
from pyhudi.transactions.writer import Writer

log = logging.getLogger(__name__)

Begun = TypeVar("Begun", bound="RunningInstant")


class RunningInstant:
    """A running instant; use ``begin`` to start one."""

    def __init__(
        self, writer: Writer, action: Action, operation: str, groups: GroupLocks | None = None
    ) -> None:
        self.writer = writer
        self.operation = operation
        self.phase = Phase.NEW
        self.instant = InstantTime("")
        self.timeline: Timeline
        self.cancelled: Callable[[], bool] = lambda: False
        #: called before anything is undone, with a time in seconds: whether no attempt writes
        self.quiet: Callable[[float], bool] = lambda timeout_s: True
        self._action = action
        self._groups = groups
        self._heartbeat: Heartbeat
        self._markers: MarkerGate | None = None
        self._may_still_write = False

    @property
    def table(self) -> Table:
        """The table at the begin of the write; after the commit, the table at the commit."""
        return self.writer.table

    @property
    def who(self) -> str:
        """The write's name in messages."""
        return f"{self.operation} {self.instant}"

    # -- begin ---------------------------------------------------------------------------------

    @classmethod
    def begin(
        cls: type[Begun],
        writer: Writer,
        action: Action,
        operation: str,
        groups: GroupLocks | None = None,
        since: Timeline | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Begun:
        """Settle failed writers, send the first heartbeat, and request an instant.

        The order matters: Apache Hudi's services take a requested write without a heartbeat for
        dead. With ``groups``, which belong to the caller, the write is pessimistic. If the rows
        were computed from an earlier load of the timeline, ``since``, conflicts count from that
        load on. ``cancelled`` says whether the client has cancelled the write; it is asked under
        the lock.
        """
        self = cls(writer, action, operation, groups)
        self.cancelled = cancelled
        check_move(self.phase, Phase.REQUESTED, State.REQUESTED)
        loaded = settled_timeline(writer, operation)
        replaces = action is Action.REPLACECOMMIT
        content = render_requested_replace(RequestedReplace()) if replaces else b""

        def alive(time: InstantTime) -> None:
            self._heartbeat = Heartbeat(
                writer.table.storage, writer.clock, time, writer.policy.heartbeat
            )
            self._heartbeat.beat()

        self.instant, loaded = take_time(writer, action, content, loaded, alive)
        self.timeline = since or loaded
        self._move(Phase.REQUESTED, State.REQUESTED)
        try:
            # If this process stood still for long, the file may have been deleted meanwhile.
            self._heartbeat.check(self.who)
            self._heartbeat.go_on()
        except BaseException:
            self.abort()
            raise
        return self

    def __enter__(self: Begun) -> Begun:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self.abort()

    # -- run -----------------------------------------------------------------------------------

    def put_inflight(self, data: bytes) -> None:
        """Announce that data files follow, with the facts that are known of them."""
        check_move(self.phase, Phase.INFLIGHT, State.INFLIGHT)
        put_instant(self.table, self._in(State.REQUESTED), self._in(State.INFLIGHT), data)
        self._move(Phase.INFLIGHT, State.INFLIGHT)

    def keep_markers(self, gate: MarkerGate) -> None:
        """Register the place of this write's markers, to be sealed and dropped later."""
        self._markers = gate

    def _falls_quiet(self, attempts_ended: Callable[[float], bool]) -> bool:
        """Whether, after a wait, neither the marker service nor an attempt can still write."""
        timeout_s = self.writer.policy.seal_timeout_s
        if self._markers is not None and not self._markers.seal(timeout_s):
            return False
        return attempts_ended(timeout_s)

    # -- end -----------------------------------------------------------------------------------

    def _check_fences(self, now: Timeline) -> None:
        """``WriterFenced`` or ``WriteFailed`` if the write must not be committed any more."""
        if self.cancelled():
            raise WriteFailed(
                f"{self.who} was cancelled by its client before it was committed. Nothing of it is "
                "visible, and what it wrote is rolled back.",
                instant=self.instant,
            )
        check_alive(self.table, now, self.instant, self._action, self.who)
        if self._groups is not None and not self._groups.intact():
            # Only by the clock, since it takes long to ask for many locks. A new owner that has not
            # committed yet will find our commit; one that has committed is found below.
            self._groups.check()
        self._heartbeat.check(self.who)

    def _publish(
        self,
        completion: InstantTime,
        metadata: CommitMetadata,
        compare: Callable[[Timeline], None],
    ) -> None:
        """Put the completed file, under the lock; errors of ``FinalPut.send``."""
        check_move(self.phase, Phase.COMMITTED, State.COMPLETED)
        done = Instant(self.instant, self._action, State.COMPLETED, completion)
        final = FinalPut(
            self.writer,
            self._in(State.INFLIGHT),
            done,
            metadata,
            self.who,
            self._check_fences,
            compare,
        )
        try:
            final.send()
        except BaseException:
            if final.in_doubt:
                self._leave_unknown()
            raise
        self._move(Phase.COMMITTED, State.COMPLETED)

    def _leave_unknown(self) -> None:
        """Delete nothing and stop the heartbeat: when it is stale, others settle the instant."""
        self._move(Phase.UNKNOWN)
        self._drop_markers()
        self._heartbeat.stop(settled=False)

    def _clean_up(self) -> None:
        self._drop_markers()
        steps: tuple[Callable[[], None], ...] = (
            lambda: delete_markers(self.table.storage, self.instant),
            self._heartbeat.stop,
        )
        for step in steps:
            try:
                step()
            except HudiError as e:
                log.warning("%s: committed, but the next writer sweeps up: %s", self.instant, e)

    def _drop_markers(self) -> None:
        if self._markers is not None:
            self._markers.drop()

    def abort(self) -> None:
        """Undo a write that is known to have failed; not after an unknown outcome, and only once.

        As long as attempts may still write, nothing is undone: the instant and its last heartbeat
        stay, and the next writer rolls it back when the heartbeat is stale, or at once if this
        process has ended. So it is too if nobody can say, since Spark has ended. If nothing writes
        any more, but the rollback fails, the heartbeat says so, and the next writer need not wait.
        Raises no error, which would hide the cause.
        """
        if not leads(self.phase, Phase.FAILED):
            return
        self._move(Phase.FAILED)
        stop: Callable[[], None] = functools.partial(self._heartbeat.stop, settled=False)
        try:
            if not self._may_still_write and self._falls_quiet(self.quiet):
                stop = self._heartbeat.give_up
                with to_its_end():
                    self._undo()
                stop = self._heartbeat.stop
        except Exception as e:
            log.warning(
                "%s could not be rolled back now; the next writer will do it: %s", self.instant, e
            )
        finally:
            self._drop_markers()
            try:
                stop()
            except Exception as e:
                log.warning("%s: its heartbeat file stays as it is: %s", self.instant, e)

    def _undo(self) -> None:
        """Roll back; delete nothing unless the timeline says that the write is undone."""
        storage = self.table.storage
        undone = roll_back(self.writer, self.instant)
        if undone is Undone.NO and not is_gone(self.table):
            log.warning(
                "%s is not undone, since it is not pending: its commit has landed after all, or it "
                "has been archived. Nothing of it was deleted.",
                self.instant,
            )
            return
        if undone is not Undone.NOW:
            # Another writer has deleted the files so far and most markers; we have written more.
            later = listed_files(storage, self.instant)
            if self._logs_by_slice:
                logs = logs_with(storage, self.instant)
                later += sorted({*logs} - staying_logs(self.table, logs, self.instant))
            delete_files(storage, later)
        delete_markers(storage, self.instant)

    # -- helpers -------------------------------------------------------------------------------

    @property
    def _logs_by_slice(self) -> bool:
        """Whether the names of its logs do not tell that they are of this instant."""
        return self._action is Action.DELTACOMMIT and self.table.config.layout == 1

    def _move(self, to: Phase, puts: State | None = None) -> None:
        check_move(self.phase, to, puts)
        self.phase = to

    def _in(self, state: State) -> Instant:
        return Instant(self.instant, self._action, state)
