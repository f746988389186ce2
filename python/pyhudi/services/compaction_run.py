"""One running compaction: claimed under the lock, and committed by the plan that it found.

Invariants: a plan has at most one runner that lives, by its heartbeat. What a dead one left is
deleted before the plan is run again, and for a compaction only base files are: in layout 1 its
instant is also in the names of logs that others write. A plan stays if its run fails.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from enum import Enum
from typing import ClassVar

from pyhudi.errors import CommitConflict, FileExists, WriterFenced
from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata, WriteStat
from pyhudi.format.filenames import (
    parse_base_file_name,
    parse_log_file_name,
)
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.plans import (
    InstantInfo,
    RollbackMetadata,
    RolledBackPartition,
    render_rollback_metadata,
    render_rollback_plan,
)
from pyhudi.format.schema_history import LATEST_SCHEMA_KEY, SchemaVersion, render_version
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.locks.base import LockOwner
from pyhudi.locks.cancelling import pause
from pyhudi.locks.renewal import kept
from pyhudi.services.clustering_run import is_alive
from pyhudi.services.compaction_plan import Group
from pyhudi.services.written_columns import have_ids, have_moved
from pyhudi.services.written_files import files_in
from pyhudi.timeline.active import COMMITS, Timeline
from pyhudi.timeline.schema import table_schema
from pyhudi.timeline.states import COMMIT_ACTIONS
from pyhudi.timeline.table import Table
from pyhudi.transactions.conflicts.comparison import footprint_of
from pyhudi.transactions.conflicts.meanwhile import Meanwhile
from pyhudi.transactions.heartbeat import FOLDER as HEARTBEATS
from pyhudi.transactions.heartbeat import (
    GIVEN_UP,
    Heartbeat,
    ended_process,
    has_passed,
    last_beat_ms,
    last_words,
)
from pyhudi.transactions.instants import path_of, put_instant, take_time
from pyhudi.transactions.markers.markers import delete_files, delete_markers, files_of
from pyhudi.transactions.metadata_table import drop_metadata_table
from pyhudi.transactions.pessimistic import MARK, is_pessimistic
from pyhudi.transactions.phases import Phase, check_move
from pyhudi.transactions.presence import while_there
from pyhudi.transactions.recovery.rollback import WRITES, plan_for, read_metadata, rollback_of
from pyhudi.transactions.recovery.settle import DYING_S
from pyhudi.transactions.recovery.undoing import check_undoing, grounds
from pyhudi.transactions.transaction import Transaction
from pyhudi.transactions.writer import Writer

log = logging.getLogger(__name__)

NONCE_BOUND = 1_000_000_000


class Runner(Enum):
    """Who runs a pending compaction."""

    #: nobody has begun it
    NONE = "nobody has begun it"
    #: its heartbeat says so
    ALIVE = "another program runs it"
    DEAD = "the program that ran it is dead"
    #: it was begun by a program without a heartbeat, as Apache Hudi for a single writer
    UNKNOWN = "another program has begun it, without a heartbeat"


#: what messages call a service
NAMES = {Action.COMPACTION: "compaction", Action.LOGCOMPACTION: "log compaction"}


def pending_compaction(now: Timeline, time: InstantTime, action: Action) -> Instant | None:
    """The compaction ``time`` if it is pending: a completed one has the action of a commit."""
    return next((i for i in now.at(time) if i.action is action), None)


def older_writes(now: Timeline) -> list[Instant]:
    """The pending instants beside which layout 1 knows no compaction (spec/log_files.md L9)."""
    compactions = (Action.COMPACTION, Action.LOGCOMPACTION)
    return [i for i in now.pending if i.action in COMMIT_ACTIONS and i.action not in compactions]


def running_writes(now: Timeline) -> list[Instant]:
    """The pending writes: what may still add a log of an instant that is known already."""
    return [i for i in now.pending if i.action in WRITES]


def runner_of(writer: Writer, now: Timeline, pending: Instant) -> Runner:
    """Who runs the pending compaction, or takes its run back, by the heartbeats of both."""
    table, policy = writer.table, writer.policy.heartbeat
    undoing = rollback_of(table, now, pending.time)
    if undoing is not None and is_alive(table, writer, undoing[0].time):
        return Runner.ALIVE
    storage, begun = table.storage, pending.state is State.INFLIGHT
    beat, words = last_beat_ms(storage, pending.time), last_words(storage, pending.time)
    if beat is None:
        return Runner.UNKNOWN if begun else Runner.NONE
    lapsed = has_passed(storage, writer.clock, beat, policy.lapse_ms)
    ended = words == GIVEN_UP or ended_process(words, policy) is not None
    if not lapsed and not ended:
        return Runner.ALIVE
    if not begun:
        return Runner.NONE
    path = path_of(table, pending)
    files = storage.list(table.config.timeline_folder)
    since = next((file.modified_ms for file in files if file.path == path), 0)
    if since > beat + policy.lapse_ms:
        # The one with this heartbeat is not the one that has begun.
        return Runner.UNKNOWN
    if not lapsed:
        pause(writer.clock, DYING_S)
    return Runner.DEAD


def files_of_runs(table: Table, time: InstantTime, action: Action) -> list[str]:
    """The files that runs of the compaction ``time`` may have left: logs of a log compaction, which
    are named by it, and base files of another one, with their change logs."""
    return [path for path in files_of(table.storage, time) if _token(path, action) is not None]


def _token(path: str, action: Action) -> str | None:
    """The write token in the name of a file of such a run; None for a file of another kind."""
    name = path.rpartition("/")[2]
    log = parse_log_file_name(name)
    if log is not None and (log.cdc or action is Action.LOGCOMPACTION):
        return log.write_token or ""
    base = None if action is Action.LOGCOMPACTION else parse_base_file_name(name)
    return None if base is None else base.write_token or ""


def take_back(writer: Writer, now: Timeline, pending: Instant) -> None:
    """Undo the run of a dead program; its plan stays. Under the lock.

    A rollback says so on the timeline, as Apache Hudi's does: a program that was only slow sees it
    before it commits, or before it deletes what the next run writes. One that was left pending is
    completed.
    """
    table, lock, time = writer.table, writer.lock, pending.time
    target = InstantInfo(time, pending.action.value)
    found = rollback_of(table, now, time)
    if found is None and pending.state is State.REQUESTED:
        return
    name = NAMES[pending.action]
    log.warning("the run of the %s %s is taken back, to run its plan again", name, time)
    started = writer.clock.monotonic()
    if found is None:
        with kept(lock):
            plan = plan_for(table, target, files_of_runs(table, time, pending.action))
        content = render_rollback_plan(plan)
        at, _ = take_time(writer, Action.ROLLBACK, content, now, lambda time: lock.renew())
        found = Instant(at, Action.ROLLBACK, State.REQUESTED), plan
    rollback = found[0]
    inflight = Instant(rollback.time, Action.ROLLBACK, State.INFLIGHT)
    if rollback.state is State.REQUESTED:
        with suppress(FileExists):
            put_instant(table, rollback, inflight, b"")
    gone = undo_run(writer, time, pending.action)
    by_partition: dict[str, list[str]] = {}
    for path in gone:
        uri = f"{table.storage.root}/{path}"
        by_partition.setdefault(path.rpartition("/")[0], []).append(uri)
    metadata = RollbackMetadata(
        start_rollback_time=rollback.time,
        time_taken_in_millis=int((writer.clock.monotonic() - started) * 1000),
        total_files_deleted=len(gone),
        commits_rollback=(time,),
        partition_metadata={p: RolledBackPartition(p, tuple(u)) for p, u in by_partition.items()},
        instants_rollback=(target,),
    )
    done = Instant(
        rollback.time, Action.ROLLBACK, State.COMPLETED, writer.next_time(table.timeline())
    )
    lock.check(table.storage.put_timeout_s)
    put_instant(table, inflight, done, render_rollback_metadata(metadata))


def undo_run(writer: Writer, time: InstantTime, action: Action) -> list[str]:
    """Delete what a run left that is known to have failed; its files. Under the lock."""
    table, lock = writer.table, writer.lock
    with kept(lock):
        gone = files_of_runs(table, time, action)
        delete_files(table.storage, gone)
    lock.check(table.storage.put_timeout_s)
    delete_markers(table.storage, time)
    inflight = Instant(time, action, State.INFLIGHT)
    table.storage.delete([path_of(table, inflight)])
    return gone


class RunningCompaction(Transaction):
    """A compaction in progress; use ``claimed`` to begin it.

    ``nonce`` is in the names of the files that this run writes.
    """

    ACTION: ClassVar[Action] = Action.COMPACTION
    #: what the commit calls it; its lower case is its name in messages
    OPERATION: ClassVar[str] = "COMPACT"
    nonce: int

    @classmethod
    def claimed(
        cls, writer: Writer, time: InstantTime, takes_over: bool
    ) -> tuple[RunningCompaction | None, str]:
        """Begin the planned compaction ``time``; or None, and why somebody else may.

        With ``takes_over`` the caller says that none runs it whose heartbeat does not show it.
        ``CommitConflict`` if commits are about to be undone; ``LockTimeout``.
        """
        table, name = writer.table, NAMES[cls.ACTION]
        self = cls(writer, cls.ACTION, cls.OPERATION.lower())
        with writer.locked(time):
            now = table.timeline()
            check_undoing(table, now, f"A {name}", None)
            pending = pending_compaction(now, time, cls.ACTION)
            if pending is None:
                return None, f"the {name} {time} has ended"
            runner = runner_of(writer, now, pending)
            if runner is Runner.ALIVE or (runner is Runner.UNKNOWN and not takes_over):
                return None, f"of the {name} {time}: {runner.value}"
            if (why := cls.waits(now, time)) is not None:
                return None, why
            take_back(writer, now, pending)
            self.instant, self.timeline = time, table.timeline()
            self.nonce = writer.clock.random_int(NONCE_BOUND)
            self._heartbeat = Heartbeat(table.storage, writer.clock, time, writer.policy.heartbeat)
            self._heartbeat.beat()
            requested = Instant(time, self._action, State.REQUESTED)
            self._move(Phase.REQUESTED, State.REQUESTED)
            check_move(self.phase, Phase.INFLIGHT, State.INFLIGHT)
            put_instant(table, requested, self._in(State.INFLIGHT), b"")
            self._move(Phase.INFLIGHT, State.INFLIGHT)
        self._heartbeat.go_on()
        return self, ""

    @classmethod
    def waits(cls, now: Timeline, time: InstantTime) -> str | None:
        """Why the plan ``time`` cannot run under ``now``; None if it can."""
        return None

    def _files(self) -> list[str]:
        return files_of_runs(self.table, self.instant, self.ACTION)

    def _marked(self) -> list[str]:
        # Those of another run are not touched before it is known, under the lock, to be dead.
        return [path for path in self._files() if self._is_own(path)]

    def _is_own(self, path: str) -> bool:
        token = _token(path, self.ACTION)
        return token is not None and token.split("-")[1:2] == [str(self.nonce)]

    def complete(
        self, stats: Sequence[WriteStat], schema: SparkSchema, version: SchemaVersion | None = None
    ) -> tuple[CommitMetadata, dict[Group, str]]:
        """Commit the new files; why some were left out, by file group.

        Left out is a group that others changed meanwhile so that the new file would be wrong
        (``_changed``). The commit declares ``schema`` and its ``version``, if columns had ids when
        the run began, otherwise the table's newest columns. Errors of
        ``FinalPut.send``; ``CommitConflict`` if a commit was undone meanwhile, if a commit with an
        earlier instant time changed columns with ids, and in layout 1 instead of leaving anything
        out, since logs there name the compaction's file.
        """
        check_move(self.phase, Phase.COMMITTED, State.COMPLETED)
        owner = LockOwner.this_process(self.instant)
        self.writer.lock.acquire(self.writer.policy.lock_timeout_s, owner)
        try:
            with while_there(self.table), kept(self.writer.lock):
                now = self.table.timeline()
                self._check_fences(now)
                self._check_not_taken(now)
                left = self._left_out(now, stats)
                self._check_columns(now, version)
                if not have_ids(self.table, self.timeline):
                    schema = table_schema(self.table, now, None) or schema
            completion = self.writer.next_time(now)
            self.writer = self.writer.on(drop_metadata_table(self.table, self.writer.lock))
            kept_ones = tuple(s for s in stats if (s.partition_path, s.file_id) not in left)
            # What is left out, and what runs wrote that were taken back and did not know it.
            gone = set(self._files()) - set(files_in(kept_ones))
            if gone:
                delete_files(self.table.storage, sorted(gone))
            declared = {SCHEMA_KEY: schema.declaration(self.table.config.name)}
            if version is not None:
                declared[LATEST_SCHEMA_KEY] = render_version(version)
            if is_pessimistic(self.table.config):
                declared |= MARK  # so that its writers do not take it for a commit of others
            merged = self.ACTION is Action.COMPACTION
            metadata = CommitMetadata(self.OPERATION, kept_ones, declared, None, compacted=merged)

            def compare(later: Timeline) -> None:
                # Of log compactions plans that are only requested count, too.
                planned = not merged and later.pending != now.pending
                if planned or grounds(later) != grounds(now):
                    self._left_out(later, kept_ones, refuse=True)

            self._publish(completion, metadata, compare)
        finally:
            self._release()
        self._clean_up()
        return metadata, left

    def _check_columns(self, now: Timeline, version: SchemaVersion | None) -> None:
        """``CommitConflict`` if columns with ids changed so that the files are wrong.

        Without ids the commit declares the table's newest columns, whatever its files hold.
        """
        if have_moved(self.table, self.timeline, now, self.instant, version):
            raise self._conflict("the columns of the table changed while it ran", ["schema"])

    def _check_not_taken(self, now: Timeline) -> None:
        """``WriterFenced`` if another program has taken this run back, and may run the plan."""
        if self._was_taken(now):
            raise WriterFenced(
                f"{self.who} was rolled back by another program, which may run its plan. "
                "Nothing of this run is visible. Run the compaction again when that has ended.",
                instant=self.instant,
            )

    def _was_taken(self, now: Timeline) -> bool:
        for rollback in (i for i in now.since(self.timeline) if i.action is Action.ROLLBACK):
            undone = read_metadata(self.table, now, rollback)
            if undone is not None and self.instant in undone.commits_rollback:
                return True
        return False

    def _left_out(
        self, now: Timeline, stats: Sequence[WriteStat], refuse: bool = False
    ) -> dict[Group, str]:
        """The groups that must not be committed, and why; a conflict instead if ``refuse``."""
        check_undoing(self.table, now, self.who, self.instant)
        meanwhile = Meanwhile(self.table, self.timeline, now)
        if undone := meanwhile.undone():
            raise self._conflict(f"commit {undone[0]}, whose rows it merged, was undone", undone)
        ours = frozenset((s.partition_path, s.file_id) for s in stats)
        found = self._taken_up(now, ours)
        for theirs, metadata in meanwhile.commits():
            changed = self._changed(now, theirs, metadata)
            why = f"{metadata.operation.lower()} {theirs.time} wrote to it meanwhile"
            found |= dict.fromkeys(changed & ours, why)
        if found and (refuse or now.layout == 1):
            names = [f"{partition}/{file_id}" for partition, file_id in sorted(found)]
            raise self._conflict(next(iter(found.values())), names)
        return found

    def _taken_up(self, now: Timeline, ours: frozenset[Group]) -> dict[Group, str]:
        """Those of ``ours`` in which what is pending makes the new file wrong, and why."""
        return {}

    def _changed(
        self, now: Timeline, theirs: Instant, metadata: CommitMetadata
    ) -> frozenset[Group]:
        """The groups in which a commit since the plan makes the new file wrong.

        Of a commit with an earlier instant those of which it has written a base file, which the
        compaction's would hide; in layout 1 its logs, too, are of the slice that was merged.
        """
        if theirs.time < self.instant:
            footprint = footprint_of(theirs, metadata)
            return footprint.updated if now.layout == 1 else footprint.rebased
        return frozenset()

    def _conflict(self, why: str, overlap: Sequence[str]) -> CommitConflict:
        return CommitConflict(
            f"{self.who} cannot be committed: {why}. Nothing of it is visible. Run it again.",
            ours=self.instant,
            overlap=tuple(overlap),
        )

    def _undo(self) -> None:
        """Delete what this run has written; its plan stays, for the next run."""
        table, time = self.table, self.instant
        with self.writer.locked(time):
            now = table.timeline()
            pending = pending_compaction(now, time, self.ACTION)
            taken = self._was_taken(now) or rollback_of(table, now, time) is not None
            if pending is not None and pending.state is State.INFLIGHT and not taken:
                undo_run(self.writer, time, self.ACTION)
                return
            # The plan belongs to another run by now, or has ended: only our own files go.
            self._heartbeat.leave()
            done = [i for i in now.commits if i.time == time]
            named = {p for i in done for p in files_in(COMMITS.get(table.storage, now, i).stats)}
            delete_files(table.storage, [path for path in self._marked() if path not in named])


def _names_a_log(table: Table, now: Timeline, time: InstantTime) -> bool:
    """Whether a log of layout 1 has the instant ``time`` in its name."""
    groups = table.view(now).logs.values()
    return any(log.instant == time for ids in groups for logs in ids.values() for log in logs)


def unschedule(
    writer: Writer, time: InstantTime, takes_over: bool, action: Action = Action.COMPACTION
) -> str | None:
    """Delete the plan of a compaction that nobody runs; None, or why it stays.

    ``takes_over`` as of ``claimed``. In layout 1 a plan stays if a log is named after it, or may be
    soon: without the compaction's base file readers would miss the rows before that log.
    """
    table, name = writer.table, NAMES[action]
    with writer.locked(time):
        now = table.timeline()
        check_undoing(table, now, f"Unscheduling a {name}", None)
        pending = pending_compaction(now, time, action)
        if pending is None:
            return f"the {name} {time} has ended"
        runner = runner_of(writer, now, pending)
        if runner is Runner.ALIVE or (runner is Runner.UNKNOWN and not takes_over):
            return f"of the {name} {time}: {runner.value}"
        if now.layout == 1:
            if running := older_writes(now):
                return f"the write {running[0].time} may write a log that names {time}"
            with kept(writer.lock):
                named = _names_a_log(table, now, time)
            if named:
                return f"a log names {time}, and belongs to the base file that it is to write"
        take_back(writer, now, pending)
        requested = Instant(time, action, State.REQUESTED)
        table.storage.delete([path_of(table, requested), f"{HEARTBEATS}/{time}"])
    return None
