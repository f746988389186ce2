"""One write from its first file on the timeline to its last.

The steps are those of ARCHITECTURE.md, "One commit, end to end".

Invariants: the instant time exceeds all that was loaded and is this write's alone; nothing is
published without the lock, a live heartbeat, an instant that nobody rolled back and a timeline
without conflicts; data files are deleted only when the write is known to have failed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace

from pyhudi.errors import (
    CommitConflict,
    HudiError,
    WriteFailed,
)
from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata, render_commit
from pyhudi.format.instants import (
    Action,
    Instant,
    InstantTime,
    State,
)
from pyhudi.format.plans import RequestedReplace, render_requested_replace
from pyhudi.locks.base import LockOwner
from pyhudi.locks.groups import GroupLocks
from pyhudi.locks.renewal import kept
from pyhudi.slices.files import BaseFile
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.schema_history import SchemaHistory
from pyhudi.timeline.table import Table
from pyhudi.transactions.conflicts import Footprint, Group, buckets_of
from pyhudi.transactions.early import check_running
from pyhudi.transactions.heartbeat import Heartbeat
from pyhudi.transactions.instants import put_instant, take_time
from pyhudi.transactions.judgement import (
    TheirCheck,
    check_clustering,
    check_conflicts,
    declared_schema,
)
from pyhudi.transactions.markers import (
    MarkerGate,
    delete_files,
    delete_markers,
    listed_files,
    marked_files,
)
from pyhudi.transactions.metadata_table import drop_metadata_table
from pyhudi.transactions.pessimistic import (
    MARK,
    check_unlocked,
    claim,
    lock_names,
    refuse_without_locks,
)
from pyhudi.transactions.phases import TRANSITIONS, Phase
from pyhudi.transactions.presence import is_gone, while_there
from pyhudi.transactions.publish import FinalPut, check_alive
from pyhudi.transactions.rollback import Undone, roll_back
from pyhudi.transactions.schema_saving import with_history
from pyhudi.transactions.settle import settled_timeline
from pyhudi.transactions.undoing import grounds
from pyhudi.transactions.visible import await_visible
from pyhudi.transactions.writer import Writer

log = logging.getLogger(__name__)

#: looks at the timeline under the lock, where each finds what came without asking for it
LOOKS = 5


@dataclass(frozen=True, slots=True)
class Committed:
    """An acknowledged commit; its planner knows how long it waited and how often it tried."""

    instant: InstantTime
    completion_time: InstantTime
    metadata: CommitMetadata
    lock_wait_ms: int = 0
    conflicts_retried: int = 0


class Transaction:
    """A write in progress; use ``begin`` to start one."""

    def __init__(
        self, writer: Writer, action: Action, operation: str, groups: GroupLocks | None = None
    ) -> None:
        self.writer = writer
        self.operation = operation
        self._action = action
        self._groups = groups
        self._claimed: frozenset[str] = frozenset()
        self.phase = Phase.NEW
        self.instant = InstantTime("")
        self.timeline: Timeline
        self._history: SchemaHistory | None = None
        self._heartbeat: Heartbeat
        self._may_still_write = False
        self._markers: MarkerGate | None = None
        #: asked once the lock is there: whether nobody wants this write any more
        self.cancelled: Callable[[], bool] = lambda: False

    @property
    def table(self) -> Table:
        """The table as it was when the write began, from the commit on as it was then."""
        return self.writer.table

    # -- begin ---------------------------------------------------------------------------------

    @classmethod
    def begin(
        cls,
        writer: Writer,
        action: Action,
        operation: str,
        groups: GroupLocks | None = None,
        since: Timeline | None = None,
    ) -> Transaction:
        """Settle failed writers, send the first heartbeat, and request an instant.

        In this order: Apache Hudi's services take a requested write without a heartbeat for dead.
        With ``groups``, which belong to the caller, the write is a pessimistic one. Rows that were
        computed from an earlier load of the timeline, ``since``, are judged from that load on.
        """
        self = cls(writer, action, operation, groups)
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
        self._move(Phase.REQUESTED)
        try:
            # The file may have been swept up since, if we stood still for so long.
            self._heartbeat.check(f"{operation} {self.instant}")
            self._heartbeat.go_on()
        except BaseException:
            self.abort()
            raise
        return self

    # -- write ---------------------------------------------------------------------------------

    def inflight(self, profile: CommitMetadata | None) -> None:
        """Publish the workload profile; None (a single pass) leaves the file empty."""
        data = b""
        if profile is not None:
            data = render_commit(profile, self.table.config.layout)
        put_instant(self.table, self._in(State.REQUESTED), self._in(State.INFLIGHT), data)
        self._move(Phase.INFLIGHT)

    def keep_markers(self, gate: MarkerGate) -> None:
        """Have the place that takes this write's markers sealed and dropped in its time."""
        self._markers = gate

    def keep_history(self) -> SchemaHistory:
        """Have the table's schema history go on with this commit; as it is at the begin."""
        if self._history is None:
            self._history = SchemaHistory(self.table, self.timeline)
        return self._history

    def check_targets(self, targets: Iterable[BaseFile]) -> None:
        """``CommitConflict`` where a merge target is newer than this instant.

        A slice is read by its instant, so a merge into a newer one would be hidden by it.
        """
        newer = sorted({f.instant for f in targets if f.instant > self.instant})
        if newer:
            raise CommitConflict(
                f"{self.operation} {self.instant} would change file groups that commit "
                f"{newer[0]} has changed meanwhile with a later instant time. Nothing of this "
                "write is visible. Run it again: it then starts after that commit.",
                ours=self.instant,
                theirs=newer[0],
                overlap=tuple(newer),
            )

    def check_updates(
        self,
        updated: Iterable[Group],
        buckets: Iterable[Group] = (),
        swept: Iterable[str] = (),
    ) -> None:
        """Fail before data is written, where it is known already that the commit would.

        ``updated`` are the file groups that will change, ``buckets`` those of a bucket table that
        are new, ``swept`` the partitions that are replaced. A pessimistic write takes its locks
        here (``pessimistic.claim``). ``CommitConflict`` where a pending clustering is about to
        rewrite a group; with early detection, of which locks have no need, also where a commit
        has changed one meanwhile, or a running write is about to.
        """
        changed, new = frozenset(updated), frozenset(buckets)
        ours = Footprint(
            f"{self.operation} {self.instant}",
            changed,
            replaced_partitions=frozenset(swept),
            buckets=buckets_of({*changed, *new}) if new else frozenset(),
        )
        table, policy = self.table, self.writer.policy
        if self._groups is not None:
            self._claimed |= lock_names(changed | new)
            held, names, rule = self._groups, self._claimed, policy.conflicts
            claim(held, names, table, self.timeline, self.instant, ours, rule)
        if not changed:
            return
        if policy.early and self._groups is None:
            now = table.timeline()
            check_conflicts(table, self.timeline, now, self.instant, ours, policy.conflicts)
            check_running(table, self.writer.clock, policy.heartbeat, now, self.instant, ours)
        elif policy.conflicts.gives_way:
            check_clustering(table, self.timeline, self.instant, ours)

    def seal(self, attempts_ended: Callable[[float], bool], named: Iterable[str]) -> None:
        """Take no more markers, wait until no attempt writes, delete marked files not named.

        ``attempts_ended(timeout_s)`` tells whether every started attempt of the write stage has
        ended; ``named`` are the files of the write statistics, relative to the table.
        """
        policy = self.writer.policy
        if not self._falls_quiet(attempts_ended):
            self._may_still_write = True
            raise WriteFailed(
                f"Some task attempts of {self.operation} {self.instant} had not ended after "
                f"{policy.seal_timeout_s:.0f} s and could still write. The write was given "
                "up; the next writer rolls it back. Run it again; see the executors' logs for "
                "what holds them.",
                instant=self.instant,
            )
        marked = marked_files(self.table.storage, self.instant) or []
        kept = set(named)
        stray = sorted(set(marked) - kept)
        if stray:
            log.info("%s: deleting %d files of other attempts", self.instant, len(stray))
            delete_files(self.table.storage, stray)
        if lag := policy.visibility:
            await_visible(self.table.storage, self.writer.clock, lag, self.instant, kept, stray)
        self._move(Phase.SEALED)

    def _falls_quiet(self, attempts_ended: Callable[[float], bool]) -> bool:
        """Whether neither the marker service nor an attempt can still write, after a while."""
        timeout_s = self.writer.policy.seal_timeout_s
        if self._markers is not None and not self._markers.seal(timeout_s):
            return False
        return attempts_ended(timeout_s)

    # -- end -----------------------------------------------------------------------------------

    def commit(
        self,
        metadata: CommitMetadata,
        footprint: Footprint,
        check_theirs: TheirCheck | None = None,
    ) -> Committed:
        """Resolve conflicts and publish; the outcome is committed, an error, or unknown.

        ``check_theirs`` may object to a commit that has come between and does not overlap.
        """
        if self.phase is not Phase.SEALED:
            raise RuntimeError(f"a transaction in phase {self.phase.value} cannot commit")
        if self._groups is not None:
            self._groups.check()
        owner = LockOwner.this_process(self.instant)
        self.writer.lock.acquire(self.writer.policy.lock_timeout_s, owner)
        try:
            with while_there(self.table):
                now, metadata = self._judged(metadata, footprint, check_theirs)
            completion = self.writer.next_time(now)
            self.writer = self.writer.on(drop_metadata_table(self.table, self.writer.lock))
            if self._groups is None:
                refuse_without_locks(self.table, footprint.who)
            metadata = with_history(self._history, now, self.instant, completion, metadata)

            def compare(later: Timeline) -> None:
                if grounds(later) != grounds(now):
                    self._check_conflicts(later, footprint, check_theirs)

            self._publish(completion, metadata, compare)
            self._move(Phase.COMMITTED)
        finally:
            self._release()
        self._clean_up()
        return Committed(self.instant, completion, metadata)

    def _judged(
        self, given: CommitMetadata, footprint: Footprint, check_theirs: TheirCheck | None
    ) -> tuple[Timeline, CommitMetadata]:
        """The timeline under the lock, and the commit as it goes with what has come between.

        To compare may take longer than a lease, which is renewed meanwhile. Then we look again,
        since Apache Hudi's writers may have undone this write without asking for the lock.
        """
        judged, metadata = self.timeline, given
        for number in range(LOOKS):
            now = self.table.timeline()
            self._check_fences(now)
            news = grounds(now) != grounds(judged)
            if number and not news:
                break
            with kept(self.writer.lock) if news else nullcontext():
                metadata = self._resolved(now, given, footprint, check_theirs)
            judged = now
            if not news:
                break
        return judged, metadata

    def _resolved(
        self,
        now: Timeline,
        metadata: CommitMetadata,
        footprint: Footprint,
        check_theirs: TheirCheck | None,
    ) -> CommitMetadata:
        """The commit as it goes with those that have come between; an error where it does not."""
        table, loaded, policy = self.table, self.timeline, self.writer.policy
        if self._groups is not None:
            check_unlocked(table, loaded, now, footprint)
            metadata = replace(metadata, extra={**metadata.extra, **MARK})
        self._check_conflicts(now, footprint, check_theirs)
        given = metadata.extra.get(SCHEMA_KEY)
        schema = declared_schema(table, loaded, now, self.instant, given, policy.schemas)
        if schema is None or schema == given:
            return metadata
        return replace(metadata, extra={**metadata.extra, SCHEMA_KEY: schema})

    def _check_conflicts(
        self, now: Timeline, footprint: Footprint, check_theirs: TheirCheck | None
    ) -> None:
        rule = self.writer.policy.conflicts
        check_conflicts(self.table, self.timeline, now, self.instant, footprint, rule, check_theirs)

    def _publish(
        self,
        completion: InstantTime,
        metadata: CommitMetadata,
        compare: Callable[[Timeline], None],
    ) -> None:
        done = Instant(self.instant, self._action, State.COMPLETED, completion)
        who = f"{self.operation} {self.instant}"
        final = FinalPut(
            self.writer,
            self._in(State.INFLIGHT),
            done,
            metadata,
            who,
            self._check_fences,
            compare,
        )
        try:
            final.send()
        except BaseException:
            if final.in_doubt:
                self._leave_unknown()
            raise

    def _check_fences(self, now: Timeline) -> None:
        who = f"{self.operation} {self.instant}"
        if self.cancelled():
            raise WriteFailed(
                f"{who} was cancelled by its client before it was committed. Nothing of it is "
                "visible, and what it wrote is rolled back.",
                instant=self.instant,
            )
        check_alive(self.table, now, self.instant, self._action, who)
        if self._groups is not None and not self._groups.intact():
            # By the clock alone, as asking for many locks takes long: a new owner who has not
            # committed yet will find our commit, and one who has is found below.
            self._groups.check()
        self._heartbeat.check(who)

    def _leave_unknown(self) -> None:
        """Delete nothing and fall silent: others may judge the instant once the beat is stale."""
        self._move(Phase.UNKNOWN)
        self._drop_markers()
        self._heartbeat.stop(settled=False)

    def _release(self) -> None:
        try:
            self.writer.lock.release()
        except HudiError as e:
            # The commit has been decided by the put; a lock that cannot be released expires.
            log.warning("%s: the lock could not be released: %s", self.instant, e)

    def _drop_markers(self) -> None:
        if self._markers is not None:
            self._markers.drop()

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

    def abort(self, attempts_ended: Callable[[float], bool] | None = None) -> None:
        """Undo a write that is known to have failed; nothing on an unknown outcome, or twice.

        ``attempts_ended`` as for ``seal``, where a write stage has begun. While attempts may
        still write nothing is undone: the instant and its last beat stay, and the next writer
        rolls it back after a lapse of silence. Raises nothing that would hide the cause.
        """
        if self.phase in (Phase.NEW, Phase.COMMITTED, Phase.UNKNOWN, Phase.FAILED):
            return
        self._move(Phase.FAILED)
        try:
            if not self._may_still_write:
                ended = attempts_ended or (lambda timeout_s: True)
                self._may_still_write = not self._falls_quiet(ended)
            if self._may_still_write:
                self._heartbeat.stop(settled=False)
                return
            self._undo()
        except Exception as e:
            log.warning(
                "%s could not be rolled back now; the next writer will do it: %s", self.instant, e
            )
        finally:
            self._drop_markers()
        try:
            self._heartbeat.stop()
        except Exception as e:
            log.warning("%s: its heartbeat file remains: %s", self.instant, e)

    def _undo(self) -> None:
        """Roll back; delete nothing where the timeline does not say that the write is undone."""
        storage = self.table.storage
        undone = roll_back(self.writer, self.instant)
        if undone is Undone.NO and not is_gone(self.table):
            log.warning(
                "%s is not undone, as it is not pending: either its commit has landed all the "
                "same, or it has been archived. Nothing of it was deleted.",
                self.instant,
            )
            return
        if undone is not Undone.NOW:
            # Another has deleted what there was, most markers too; this writer has gone on since.
            delete_files(storage, listed_files(storage, self.instant))
        delete_markers(storage, self.instant)

    # -- helpers -------------------------------------------------------------------------------

    def _move(self, to: Phase) -> None:
        if to not in TRANSITIONS[self.phase]:
            raise RuntimeError(f"a transaction cannot go from {self.phase} to {to}")
        self.phase = to

    def _in(self, state: State) -> Instant:
        return Instant(self.instant, self._action, state)
