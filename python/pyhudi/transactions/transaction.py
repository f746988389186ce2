"""One write: what it may change, when its files are complete, and whether it may be committed.

The steps are those of ARCHITECTURE.md, "One commit, end to end". ``running.py`` has what all
running instants share.

Invariant: nothing is published without the lock, a live heartbeat, an instant that nobody has
rolled back, and a timeline without conflicts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

from pyhudi.errors import (
    CommitConflict,
    HudiError,
    WriteFailed,
)
from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata, render_commit
from pyhudi.format.instants import (
    Action,
    InstantTime,
    State,
)
from pyhudi.format.stream_marks import Epoch
from pyhudi.locks.base import LockOwner
from pyhudi.locks.group_locks import GroupLocks
from pyhudi.locks.renewal import kept
from pyhudi.slices.files import BaseFile, FileSlice
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.schema_history import SchemaHistory
from pyhudi.transactions.conflicts.clustering_plans import leave_plans
from pyhudi.transactions.conflicts.compactions import check_compactions, check_order
from pyhudi.transactions.conflicts.comparison import Footprint, Group, buckets_of
from pyhudi.transactions.conflicts.deletes import check_deletes, may_force
from pyhudi.transactions.conflicts.early import check_running
from pyhudi.transactions.conflicts.judgement import (
    TheirCheck,
    check_clustering,
    check_conflicts,
    declared_schema,
)
from pyhudi.transactions.conflicts.ordering_types import check_ordering_types
from pyhudi.transactions.epochs import (
    check_epoch,
    check_marks,
    fence_epoch,
    remember,
    with_marks,
)
from pyhudi.transactions.markers.markers import (
    delete_files,
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
from pyhudi.transactions.phases import Phase, check_move
from pyhudi.transactions.presence import while_there
from pyhudi.transactions.recovery.undoing import grounds
from pyhudi.transactions.running import RunningInstant
from pyhudi.transactions.schema_saving import with_history
from pyhudi.transactions.visible import await_visible
from pyhudi.transactions.writer import Writer

log = logging.getLogger(__name__)

#: how often the timeline is listed under the lock, if each listing shows new commits
LOOKS = 5


@dataclass(frozen=True, slots=True)
class Committed:
    """An acknowledged commit, with its wait for the lock and its retries.

    ``rows_moved`` counts the updated rows that went to another partition; the metadata has each as
    an insert and a delete. ``rows_logged`` counts those whose key only a log had; the metadata has
    each as an insert. ``rows_replaced`` are those of the replaced slices, None if unknown.
    ``rows_in`` counts the rows that were given, None where nobody counted them. ``looked_up`` are
    figures of the lookup of their keys, by name. The write ended at ``ended_s`` seconds of the
    driver's monotonic clock, before the services that follow it.
    """

    instant: InstantTime
    completion_time: InstantTime
    metadata: CommitMetadata
    rows_moved: int = 0
    rows_logged: int = 0
    rows_replaced: int | None = 0
    lock_wait_ms: int = 0
    conflicts_retried: int = 0
    rows_in: int | None = None
    looked_up: Mapping[str, int] = field(default_factory=dict)
    ended_s: float | None = None


class Transaction(RunningInstant):
    """A write in progress: a running instant that ends with a commit."""

    def __init__(
        self, writer: Writer, action: Action, operation: str, groups: GroupLocks | None = None
    ) -> None:
        super().__init__(writer, action, operation, groups)
        #: the micro-batch whose rows these are
        self.epoch: Epoch | None = None
        #: the groups in which a log has deleted rows of our keys, or whose base file has some of
        #: our keys more than once: our logs need these base files
        self.revived: frozenset[Group] = frozenset()
        #: whether the place of a log among others decides which rows win, not the rows themselves
        self.ordered = True
        self._claimed: frozenset[str] = frozenset()
        self._history: SchemaHistory | None = None

    # -- write ---------------------------------------------------------------------------------

    def write_epoch(self, epoch: Epoch, judged: Timeline) -> None:
        """The rows are those of ``epoch``, which ``check_epoch`` let pass on ``judged``.

        It is judged again if a commit came in between. Raises as ``check_epoch``.
        """
        self.epoch = epoch
        if self.timeline.keys() != judged.keys():
            check_epoch(self.table, self.timeline, epoch)

    def inflight(self, profile: CommitMetadata | None) -> None:
        """Publish the workload profile; None (a single pass) leaves the file empty."""
        data = b""
        if profile is not None:
            data = render_commit(profile, self.table.config.layout)
        self.put_inflight(data)

    def keep_history(self) -> SchemaHistory:
        """Continue the table's schema history with this commit; returns it as of the begin."""
        if self._history is None:
            self._history = SchemaHistory(self.table, self.timeline)
        return self._history

    def check_targets(self, targets: Iterable[BaseFile | FileSlice]) -> None:
        """``CommitConflict`` if a merge target is newer than this instant.

        Readers take the slice with the largest instant, so a newer one would hide the merge. A
        write that only adds logs merges into nothing: its logs belong to that newer slice.
        """
        if self.writer.policy.conflicts.logs_pass:
            return
        newer = sorted({f.instant for f in targets if f.instant > self.instant})
        if newer:
            raise CommitConflict(
                f"{self.who} would change file groups that commit "
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
        """Fail before data is written, if it is already known that the commit would fail.

        ``updated`` are the file groups that will change, ``buckets`` the new groups of a bucket
        table, ``swept`` the partitions that are replaced. A pessimistic write takes its locks here
        (``pessimistic.claim``). ``CommitConflict`` if a pending clustering will rewrite a group.
        With early detection, which locks make unnecessary, also if a commit has changed a group
        meanwhile, or a running write will change it.
        """
        changed, new, policy = frozenset(updated), frozenset(buckets), self.writer.policy
        ours = Footprint(
            self.who,
            changed,
            replaced_partitions=frozenset(swept),
            buckets=buckets_of({*changed, *new}) if new else frozenset(),
            logged=changed | new if policy.conflicts.logs_pass else frozenset(),
        )
        table = self.table
        if self._groups is not None:
            self._claimed |= lock_names(changed | new)
            held, names, rule = self._groups, self._claimed, policy.conflicts
            claim(held, names, table, self.timeline, self.instant, ours, rule)
        if not changed:
            return
        if policy.early and self._groups is None:
            now = table.timeline()
            check_conflicts(table, self.timeline, now, self.instant, ours, policy.conflicts)
            clock, passes = self.writer.clock, policy.conflicts.logs_pass
            check_running(table, clock, policy.heartbeat, now, self.instant, ours, passes)
        elif policy.conflicts.gives_way:
            check_clustering(table, self.timeline, self.instant, ours)

    def seal(self, attempts_ended: Callable[[float], bool], named: Iterable[str]) -> None:
        """Take no more markers, wait until no attempt writes, delete marked files not in ``named``.

        ``attempts_ended(timeout_s)`` says whether all started attempts of the write stage have
        ended; ``named`` are the files of the write statistics, relative to the table.
        """
        self._sealed(attempts_ended, named)
        self._move(Phase.SEALED)

    def seal_again(self, attempts_ended: Callable[[float], bool], named: Iterable[str]) -> None:
        """``seal`` for a sealed write, some of whose files were written again since."""
        check_move(self.phase, Phase.COMMITTED, State.COMPLETED)
        self._sealed(attempts_ended, named)

    def _sealed(self, attempts_ended: Callable[[float], bool], named: Iterable[str]) -> None:
        policy = self.writer.policy
        if not self._falls_quiet(attempts_ended):
            self._may_still_write = True
            raise WriteFailed(
                f"Some task attempts of {self.who} had not ended after "
                f"{policy.seal_timeout_s:.0f} s and could still write. The write was given "
                "up; the next writer rolls it back. Run it again; see the executors' logs for "
                "what holds them.",
                instant=self.instant,
            )
        kept = set(named)
        stray = sorted(set(self._marked()) - kept)
        if stray:
            log.info("%s: deleting %d files of other attempts", self.instant, len(stray))
            delete_files(self.table.storage, stray)
        if lag := policy.visibility:
            await_visible(self.table.storage, self.writer.clock, lag, self.instant, kept, stray)

    def _marked(self) -> list[str]:
        """The data files that this write may have written, by their markers."""
        return marked_files(self.table.storage, self.instant) or []

    # -- end -----------------------------------------------------------------------------------

    def commit(
        self,
        metadata: CommitMetadata,
        footprint: Footprint,
        check_theirs: TheirCheck | None = None,
    ) -> Committed:
        """Resolve conflicts and publish; the outcome is committed, an error, or unknown.

        ``check_theirs`` is called for commits that came in between and do not overlap; it may
        raise.
        """
        check_move(self.phase, Phase.COMMITTED, State.COMPLETED)
        if self._groups is not None:
            self._groups.check()
        owner = LockOwner.this_process(self.instant)
        self.writer.lock.acquire(self.writer.policy.lock_timeout_s, owner)
        try:
            with while_there(self.table):
                now, metadata = self._judged(metadata, footprint, check_theirs)
            if self.epoch is not None:
                fence_epoch(self.table, now, self.epoch)
            completion = self.writer.next_time(now)
            self.writer = self.writer.on(drop_metadata_table(self.table, self.writer.lock))
            if self._groups is None:
                refuse_without_locks(self.table, footprint.who)
            metadata = with_history(self._history, now, self.instant, completion, metadata)
            metadata = with_marks(self.table, now, metadata, self.epoch, self.instant)
            lock, changed = self.writer.lock, footprint.updated
            leave_plans(self.table, lock, now, self.instant, changed)

            def compare(later: Timeline) -> None:
                if grounds(later) != grounds(now):
                    self._check_conflicts(later, footprint, check_theirs)
                    check_marks(self.table, now, later, self.instant)

            self._publish(completion, metadata, compare)
        finally:
            self._release()
        if self.epoch is not None:
            remember(self.table, self.epoch)
        self._clean_up()
        return Committed(self.instant, completion, metadata)

    def _judged(
        self, given: CommitMetadata, footprint: Footprint, check_theirs: TheirCheck | None
    ) -> tuple[Timeline, CommitMetadata]:
        """The timeline under the lock, and the commit adapted to commits that came in between.

        The comparison may take longer than a lease, so the lease is renewed meanwhile. Then the
        timeline is listed again, since Apache Hudi's writers may have undone this write without
        the lock.
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
        """The commit, adapted to commits that came in between; an error if they conflict."""
        table, loaded, policy = self.table, self.timeline, self.writer.policy
        if self._groups is not None:
            check_unlocked(table, loaded, now, footprint)
            metadata = replace(metadata, extra={**metadata.extra, **MARK})
        self._check_conflicts(now, footprint, check_theirs)
        check_compactions(table, loaded, now, self.instant, metadata, self.revived)
        if policy.conflicts.logs_pass and (self.ordered or may_force(metadata)):
            check_order(table, now, self.instant, metadata)
        if policy.conflicts.logs_pass:
            check_deletes(table, loaded, now, self.instant, metadata)
        given = metadata.extra.get(SCHEMA_KEY)
        schema = declared_schema(table, loaded, now, self.instant, given, policy.schemas)
        check_ordering_types(table, now, self.instant, metadata, schema)
        if schema is None or schema == given:
            return metadata
        return replace(metadata, extra={**metadata.extra, SCHEMA_KEY: schema})

    def _check_conflicts(
        self, now: Timeline, footprint: Footprint, check_theirs: TheirCheck | None
    ) -> None:
        rule = self.writer.policy.conflicts
        check_conflicts(self.table, self.timeline, now, self.instant, footprint, rule, check_theirs)

    def _release(self) -> None:
        try:
            self.writer.lock.release()
        except HudiError as e:
            # The commit has been decided by the put; a lock that cannot be released expires.
            log.warning("%s: the lock could not be released: %s", self.instant, e)
