"""Restores a table to a commit: undoes all commits after it, the newest first.

Invariants: the plan is put under the table's lock, while no other write is pending and no query
with a lease reads what goes, unless that was asked for. From then on no
write begins or commits until the restore has completed (transactions/recovery/undoing.py). Each
step finds out what is left to do, so a restore has no owner: the next one finishes it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from pyhudi.errors import (
    CommitConflict,
    ConfigError,
    FileExists,
    HistoryExpired,
    StorageError,
    TableCorrupt,
)
from pyhudi.format.commit_metadata import parse_commit
from pyhudi.format.filenames import parse_log_file_name, path_in
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.plans import (
    RestoreMetadata,
    RestorePlan,
    RollbackMetadata,
    parse_restore_metadata,
    parse_restore_plan,
    parse_savepoint,
    render_restore_metadata,
    render_restore_plan,
)
from pyhudi.listing import Listing
from pyhudi.locks.renewal import kept
from pyhudi.services.opened import open_writer
from pyhudi.services.restore_files import FilesOf, check_shared, deleted_of, files_of
from pyhudi.services.restore_plan import (
    RestoreFacts,
    UndoneInstant,
    instants_after,
    pending_writes,
    plan_restore,
    rendered_plan,
)
from pyhudi.services.savepoints import check_cleans, commit_meant
from pyhudi.timeline.active import COMMITS, Timeline
from pyhudi.timeline.archived import archived_instants
from pyhudi.timeline.pending import pending_clusterings, plan_of
from pyhudi.timeline.states import COMMIT_ACTIONS
from pyhudi.timeline.strays import Archive, first_write
from pyhudi.timeline.table import Table
from pyhudi.timeline.time_travel import check_history
from pyhudi.timeline.view import list_view
from pyhudi.transactions.heartbeat import (
    has_passed,
    last_beat_ms,
    last_words,
)
from pyhudi.transactions.instants import path_of, put_instant, take_time
from pyhudi.transactions.leases import living_leases
from pyhudi.transactions.metadata_table import drop_metadata_table
from pyhudi.transactions.processes import parse_process
from pyhudi.transactions.recovery.settle import settle_failed_writes
from pyhudi.transactions.recovery.undo_commit import drop_rollbacks, undo_commit
from pyhudi.transactions.recovery.undoing import check_undoing, pending_restore
from pyhudi.transactions.writable import refuse_writes_to
from pyhudi.transactions.writer import Writer

log = logging.getLogger(__name__)

MERGES = frozenset({Action.COMPACTION, Action.LOGCOMPACTION})


class RestoreFate(str, Enum):
    """What a restore does with a file, or with a commit."""

    UNDONE = "undone"
    WOULD_GO = "would be undone"


@dataclass(frozen=True, slots=True)
class RestoredFile:
    """A data file that a restore deletes, and the ``commit`` that wrote it.

    Of a commit without files there is one entry, with an empty ``file``. ``restore`` is the instant
    that did it. ``size_bytes`` is None if the file was gone before.
    """

    commit: InstantTime
    action: str
    partition: str
    file: str
    size_bytes: int | None
    fate: RestoreFate
    why: str
    restore: InstantTime | None = None


def restore(
    path: str,
    instant: str,
    *,
    dry_run: bool = False,
    fence: bool = False,
    options: Mapping[str, str] | None = None,
    hadoop_options: Mapping[str, str] | None = None,
) -> Listing[RestoredFile]:
    """Bring the table at ``path`` back to its state right after the commit ``instant``.

    Without Spark. All commits after it are undone and their files deleted, for good. A log that
    also has blocks of earlier commits stays, and a log after it takes its other blocks back.
    Returns an entry for each file that goes. With ``dry_run`` nothing changes. A restore that died
    is finished, if it had the same goal. While others write it is refused, and while a query with a
    lease reads a commit that would go; with ``fence`` their writes are rolled back first, and they
    fail when they would commit, as do the queries. ``options`` must name the lock of the table's
    writers; ``hadoop_options`` are ``fs.s3a.*`` settings. Errors: ``TableNotFound``,
    ``UnsupportedTable``, ``LockTimeout``, ``CommitConflict`` while others work; ``ConfigError`` for
    an instant that is no commit, or if a later one has a savepoint; ``HistoryExpired`` for one of
    which a clean or the archive has taken a part.
    """
    writer, _ = open_writer(path, options, hadoop_options)
    return restored(writer, instant, dry_run, fence)


def restored(
    writer: Writer, instant: str, dry_run: bool = False, fence: bool = False
) -> Listing[RestoredFile]:
    """``restore`` by the writer of an application."""
    table = writer.table
    refuse_writes_to(table)
    timeline = table.timeline()
    pending = pending_restore(table, timeline)
    if pending is not None:
        plan = _found_plan(table, timeline, pending, instant)
        if dry_run:
            return Listing(
                RestoredFile, _planned_rows(_left(timeline, plan, deleted_of(files_of(table))))
            )
        return Listing(RestoredFile, _carried_out(writer, pending, plan, files_of(table)))
    if dry_run:
        _, undone, _ = _planned(table, timeline, instant)
        return Listing(RestoredFile, _planned_rows(undone))
    fenced = {i.time for i in pending_writes(_facts(table, timeline))} if fence else set()
    settle_failed_writes(writer, fenced)
    with writer.locked():
        with kept(writer.lock):  # a listing of the whole table may take longer than a lease
            timeline = table.timeline()
            check_undoing(table, timeline, f"A restore to {instant}", None)
            _refuse_living(writer, timeline, instant, fence)
            goal, undone, files = _planned(table, timeline, instant)
            if not fence:
                _refuse_readers(writer, timeline, instant, undone)
        _drop_rollbacks_of_restores(writer, timeline)
        if not undone:
            return Listing(RestoredFile)
        plan = rendered_plan(undone, goal)
        time, _ = take_time(
            writer,
            Action.RESTORE,
            render_restore_plan(plan),
            timeline,
            lambda time: writer.lock.check(table.storage.put_timeout_s),
        )
    begun = Instant(time, Action.RESTORE, State.REQUESTED)
    return Listing(RestoredFile, _carried_out(writer, begun, plan, files))


def _planned(
    table: Table, timeline: Timeline, instant: str
) -> tuple[InstantTime, list[UndoneInstant], FilesOf]:
    """The commit that ``instant`` means, what goes, and the table's data files by instant.

    Raises the errors of ``restore`` about the table's state.
    """
    time = commit_meant(table, timeline, instant)
    (goal,) = (i for i in timeline.commits if i.time == time)
    facts = _facts(table, timeline)
    replaced = {
        i.time: sum(map(len, (COMMITS.get(table.storage, timeline, i).replaced or {}).values()))
        for i in instants_after(facts, goal)
        if i.state is State.COMPLETED
    }
    files = files_of(table)
    facts = RestoreFacts(timeline, facts.utc, facts.plans, deleted_of(files), replaced)
    undone = plan_restore(facts, goal)
    _check_whole(table, timeline, goal, undone, files)
    return time, undone, files


def _facts(table: Table, timeline: Timeline) -> RestoreFacts:
    compactions = frozenset(i.time for i in timeline.pending if i.action in MERGES)
    plans = pending_clusterings(table, timeline) | compactions
    return RestoreFacts(timeline, table.config.utc, plans)


def _check_whole(
    table: Table, timeline: Timeline, goal: Instant, undone: list[UndoneInstant], files: FilesOf
) -> None:
    """``HistoryExpired`` or ``TableCorrupt`` if a part of the state after ``goal`` is gone."""
    archive = Archive(table.storage, table.config)
    first = first_write(timeline, archive, goal.time)
    if first is None or goal.time < first:
        entries = (entry.instant for entry in archived_instants(table.storage, table.config))
        later = [i.time for i in entries if i.action in COMMIT_ACTIONS and i.time > goal.time]
        if later:
            raise HistoryExpired(
                f"The table cannot be restored to {goal.time}: commit {max(later)} after it is "
                "archived and can no longer be undone. The earliest commit that the table can be "
                f"restored to is {first}.",
                asked=goal.time,
                earliest=first,
            )
    check_history(table, timeline, goal.time)
    gone = {each.instant for each in undone}
    kept_ones = timeline.only(i for i in timeline.instants if i not in gone)
    view = list_view(table.storage, kept_ones, archive)
    kept = {i.time for i in kept_ones.commits}
    if table.config.layout == 1:
        check_shared(goal.time, {each.instant.time for each in undone}, kept, files)
    left = [file for each in view.slices() for file in each.files]
    check_cleans(table, timeline, goal.time, left, "restored")
    saved = Instant(goal.time, Action.SAVEPOINT, State.COMPLETED)
    for savepoint in (i for i in timeline.at(saved.time) if i.action is saved.action):
        if savepoint.state is not State.COMPLETED:
            continue
        path = timeline.file_of(savepoint)
        # Buckets of several partitions may have files of one name.
        paths = {file.path for each in files.values() for file in each}
        for part in parse_savepoint(table.storage.read(path), path).partition_metadata.values():
            # In layout 1 the name of a log does not say whose rows it has.
            named = kept if table.config.layout == 2 else ()
            held = (n for n in part.savepoint_data_file if _is_promised(n, named))
            of = {n: path_in(part.partition_path, n) for n in held}
            lost = next((n for n, path in of.items() if path not in paths), None)
            if lost is not None:
                raise TableCorrupt(
                    f"The table cannot be restored to {goal.time}: {lost} in partition "
                    f"'{part.partition_path}', which its savepoint keeps, is gone. Nothing was "
                    "changed. Bring the file back from a backup, or choose another commit.",
                    path=of[lost],
                    rule="spec/timeline.md T9",
                )


def _is_promised(name: str, kept: Collection[InstantTime]) -> bool:
    """Whether the savepoint of a commit needs a file: Apache Hudi's also names logs after it."""
    log = parse_log_file_name(name)
    return log is None or log.instant in kept


def _refuse_living(writer: Writer, timeline: Timeline, instant: str, fence: bool) -> None:
    """``CommitConflict`` that names each writer that may live.

    A compaction that has begun may be Apache Hudi's, which has no heartbeat.
    """
    table, lapse_ms = writer.table, writer.policy.heartbeat.lapse_ms
    facts = _facts(table, timeline)
    living = pending_writes(facts)
    for i in timeline.pending:
        beat = last_beat_ms(table.storage, i.time) if i.time in facts.plans else None
        begun = i.state is State.INFLIGHT and i.action in MERGES
        if begun and beat is None and not fence:
            living.append(i)
        if beat is not None and not has_passed(table.storage, writer.clock, beat, lapse_ms):
            living.append(i)
    if not living:
        return
    named = ", ".join(_named(table, timeline, i) for i in living)
    raise CommitConflict(
        f"The table {table.storage.root} cannot be restored to {instant} while others write to "
        f"it: {named}. Nothing was changed. End these writers or wait for them, and restore again; "
        "with fence=True (--fence) their writes are rolled back first, and they fail when they "
        "would commit.",
        theirs=living[0].time,
        overlap=tuple(i.time for i in living),
    )


def _refuse_readers(
    writer: Writer, timeline: Timeline, instant: str, undone: list[UndoneInstant]
) -> None:
    """``CommitConflict`` that names a query with a lease which reads a commit that would go."""
    table = writer.table
    gone = {each.instant.time for each in undone}
    for lease in living_leases(table.storage, writer.clock):
        then = lease.state.on(timeline).commits
        read = sorted(gone & {i.time for i in then if i.time <= lease.state.instant})
        if read:
            raise CommitConflict(
                f"The table {table.storage.root} cannot be restored to {instant} while a query of "
                f"{lease.who} reads commit {read[-1]}, whose files would go. Nothing was changed. "
                "End the query or wait for it, and restore again; with fence=True (--fence) the "
                "table is restored all the same, and the query fails.",
                theirs=read[-1],
                overlap=tuple(read),
            )


def _named(table: Table, timeline: Timeline, instant: Instant) -> str:
    """The operation of a pending write, its instant, and the process and host that run it."""
    operation = ""
    if instant.state is State.INFLIGHT:
        path = timeline.file_of(instant)
        with suppress(FileNotFoundError, TableCorrupt, StorageError):
            operation = parse_commit(table.storage.read(path), path).operation.lower()
    if operation in ("", "unknown"):
        operation = instant.action.value
    process = parse_process(last_words(table.storage, instant.time))
    where = f" (process {process.pid} on {process.host})" if process else ""
    return f"{operation} {instant.time}{where}"


def _found_plan(table: Table, timeline: Timeline, pending: Instant, instant: str) -> RestorePlan:
    """The plan of a pending restore; ``ConfigError`` if it has another goal."""
    plan = plan_of(table, timeline, pending, parse_restore_plan)
    if plan is None:
        raise TableCorrupt(
            f"Restore {pending.time} is pending, but its plan cannot be read, so nobody can tell "
            "what it was undoing. Nothing was changed. Bring its requested file back from a "
            "backup, then restore again.",
            path=timeline.file_of(Instant(pending.time, Action.RESTORE, State.REQUESTED)),
            rule="spec/timeline.md T9",
        )
    goal = plan.savepoint_to_restore_timestamp
    if goal is not None and goal != instant:
        meant = commit_meant(table, timeline, instant)
        if goal != meant:
            raise ConfigError(
                f"Restore {pending.time} to {goal} is pending. Finish it first: restore to {goal}. "
                f"Then {instant} can be restored, if it is earlier.",
                key="instant",
            )
    return plan


def _left(timeline: Timeline, plan: RestorePlan, files: FilesOf) -> list[UndoneInstant]:
    """What a pending restore has still to undo."""
    goal = plan.savepoint_to_restore_timestamp or "its savepoint"
    return [
        UndoneInstant(
            instant, f"a pending restore to {goal} undoes it", files.get(instant.time, ())
        )
        for info in plan.instants_to_rollback
        for instant in timeline.at(info.commit_time)
        if instant.action in COMMIT_ACTIONS
    ]


def _carried_out(
    writer: Writer, begun: Instant, plan: RestorePlan, files: FilesOf
) -> list[RestoredFile]:
    """Carry out the plan of the restore ``begun``, and complete it."""
    table, clock = writer.table, writer.clock
    started = clock.monotonic()
    inflight = Instant(begun.time, Action.RESTORE, State.INFLIGHT)
    with writer.locked(begun.time):
        if begun.state is State.REQUESTED:
            _refuse_overtaken(writer, begun, plan)
        writer = writer.on(drop_metadata_table(table, writer.lock))
        if begun.state is State.REQUESTED:
            with suppress(FileExists):  # another program carries the same plan out
                put_instant(table, begun, inflight, b"")
    done: dict[InstantTime, RollbackMetadata | None] = {}
    for info in plan.instants_to_rollback:
        paths = [file.path for file in files.get(info.commit_time, ())]
        done[info.commit_time] = undo_commit(writer, info, paths)
    metadata = RestoreMetadata(
        start_restore_time=begun.time,
        time_taken_in_millis=int((clock.monotonic() - started) * 1000),
        instants_to_rollback=tuple(done),
        rollbacks={time: (told,) for time, told in done.items() if told is not None},
        restore_instant_info=plan.instants_to_rollback,
    )
    with writer.locked(begun.time):
        timeline = table.timeline()
        if any(i.action is Action.RESTORE and i.time == begun.time for i in timeline.pending):
            completion = writer.next_time(timeline)
            writer.lock.check(table.storage.put_timeout_s)
            completed = Instant(begun.time, Action.RESTORE, State.COMPLETED, completion)
            put_instant(table, inflight, completed, render_restore_metadata(metadata))
        else:
            log.info("another program has ended the restore %s", begun.time)
        drop_rollbacks(writer, frozenset(done))
    return _rows(table, plan, metadata, files)


def _refuse_overtaken(writer: Writer, begun: Instant, plan: RestorePlan) -> None:
    """``CommitConflict`` if commits completed between the plan and its put; nothing is undone yet.

    So it is if the program stood still for longer than the lease on the lock. After the put no
    write commits, and the lock is held: who had it before has ended.
    """
    table = writer.table
    timeline = table.timeline()
    meant = plan.savepoint_to_restore_timestamp
    goal = next((i for i in timeline.commits if i.time == meant), None)
    if goal is None or not any(i == begun for i in timeline.pending):
        return
    named = {info.commit_time for info in plan.instants_to_rollback}
    after = instants_after(_facts(table, timeline), goal)
    later = [i for i in after if i.state is State.COMPLETED and i.time not in named]
    if not later:
        return
    writer.lock.check(table.storage.put_timeout_s)
    table.storage.delete([path_of(table, begun)])
    raise CommitConflict(
        f"The table {table.storage.root} was not restored to {goal.time}: commit {later[0].time} "
        f"completed before restore {begun.time} was on the timeline, perhaps since this program "
        "stood still for long. Nothing was undone, and the restore was taken back. Restore again.",
        ours=begun.time,
        theirs=later[0].time,
        overlap=("table",),
    )


def _drop_rollbacks_of_restores(writer: Writer, timeline: Timeline) -> None:
    """Delete the rollbacks that a restore left which died after it had completed."""
    table = writer.table
    if not any(i.action is Action.ROLLBACK for i in timeline.completed):
        return
    for done in (i for i in timeline.completed if i.action is Action.RESTORE):
        path = timeline.file_of(done)
        with suppress(FileNotFoundError, TableCorrupt):
            metadata = parse_restore_metadata(table.storage.read(path), path)
            drop_rollbacks(writer, frozenset(map(InstantTime, metadata.instants_to_rollback)))


def _planned_rows(undone: list[UndoneInstant]) -> list[RestoredFile]:
    found = []
    for each in undone:
        instant, why = each.instant, each.why
        if each.replaced:
            why += f"; {each.replaced} file groups that it replaced return"
        places: list[tuple[str, int | None]] = [(f.path, f.size_bytes) for f in each.files]
        for path, size in places or [("", None)]:
            partition, name = _split(path)
            kind = instant.action.value
            found.append(
                RestoredFile(instant.time, kind, partition, name, size, RestoreFate.WOULD_GO, why)
            )
    return found


def _rows(
    table: Table, plan: RestorePlan, metadata: RestoreMetadata, files: FilesOf
) -> list[RestoredFile]:
    sizes = {file.path: file.size_bytes for each in files.values() for file in each}
    start = f"{table.storage.root}/"
    why = f"restored to {plan.savepoint_to_restore_timestamp or 'a savepoint'}, an earlier commit"
    found = []
    for info in plan.instants_to_rollback:
        told = metadata.rollbacks.get(info.commit_time, ())
        parts = [part for each in told if each for part in each.partition_metadata.values()]
        paths = [p.removeprefix(start) for part in parts for p in part.success_delete_files]
        for path in sorted(paths) or [""]:
            partition, name = _split(path)
            found.append(
                RestoredFile(
                    info.commit_time,
                    info.action,
                    partition,
                    name,
                    sizes.get(path),
                    RestoreFate.UNDONE,
                    why,
                    InstantTime(metadata.start_restore_time),
                )
            )
    return found


def _split(path: str) -> tuple[str, str]:
    partition, _, name = path.rpartition("/")
    return partition, name
