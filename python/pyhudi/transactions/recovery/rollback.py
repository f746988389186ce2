"""Rolling back one write that failed: an instant of its own, under the lock, restartable by anyone.

Invariants: a completed instant is never rolled back here; data files go first, then the failed
instant's own files, and the rollback completes last, so that a crash in between leaves a pending
rollback which the next writer finishes. A failed file must be gone before its instant is, or
readers would take it for archived data (spec/file_slices.md F3).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from enum import Enum
from typing import TypeVar

from pyhudi.errors import FileExists, TableCorrupt
from pyhudi.format.filenames import FileId, parse_data_file_name, path_in
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.plans import (
    InstantInfo,
    RollbackMetadata,
    RollbackPlan,
    RollbackRequest,
    RolledBackPartition,
    Strings,
    parse_restore_metadata,
    parse_rollback_metadata,
    parse_rollback_plan,
    render_rollback_metadata,
    render_rollback_plan,
)
from pyhudi.format.schema_history import SCHEMA_FOLDER, history_time
from pyhudi.locks.renewal import kept
from pyhudi.storage.base import Storage
from pyhudi.timeline.active import Timeline, instant_key
from pyhudi.timeline.pending import plan_of
from pyhudi.timeline.table import Table
from pyhudi.transactions.heartbeat import FOLDER as HEARTBEATS
from pyhudi.transactions.heartbeat import has_passed, last_beat_ms
from pyhudi.transactions.instants import path_of, put_instant, take_time
from pyhudi.transactions.markers.failed_logs import logs_with, staying_logs, take_back
from pyhudi.transactions.markers.markers import (
    delete_files,
    delete_markers,
    listed_files,
    marked_files,
)
from pyhudi.transactions.writer import Writer

log = logging.getLogger(__name__)

Done = TypeVar("Done")

#: actions whose pending instants a writer may roll back, if they are writes
WRITES = frozenset({Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT})
#: a clustering is rolled back by its own service alone, which knows whether its owner lives
UNDONE_HERE = WRITES | {Action.CLUSTERING}


class Undone(Enum):
    """What a rollback found."""

    #: undone now, by the plan that was made now
    NOW = "now"
    #: undone by another, or by another's plan, which did not see later files
    BEFORE = "before"
    #: completed, or gone without a trace: its files may be data
    NO = "no"


def roll_back(writer: Writer, time: InstantTime) -> Undone:
    """Roll back the pending write or clustering ``time``; do nothing if it has settled."""
    table = writer.table
    with writer.locked(time):
        timeline = table.timeline()
        target = next((i for i in timeline.at(time) if i.action in UNDONE_HERE), None)
        found = rollback_of(table, timeline, time)
        if found is not None and _is_at_work(writer, found[0]):
            return Undone.BEFORE
        if late := _late_requests(timeline, time):
            # Its files and markers would be those of the commit that has this time.
            table.storage.delete([path_of(table, each) for each in late])
            return Undone.NO
        if target is None:
            if found is not None:  # its files are off the timeline, the rest is still to be done
                execute(writer, *found)
                return Undone.BEFORE
            if not was_rolled_back(table, timeline, time):
                return Undone.NO
            delete_history(table.storage, time)
            return Undone.BEFORE
        if target.state is State.COMPLETED:
            return Undone.NO
        log.warning("rolling back %s %s, which has not committed", target.action.value, time)
        undone = Undone.NOW if found is None else Undone.BEFORE
        if found is None:
            with kept(writer.lock):  # a listing of the whole table may take longer than a lease
                plan = _plan(table, timeline, target)
            content = render_rollback_plan(plan)
            # Between the lock and each request nothing is asked: a stop in between might leave a
            # rollback of a write that has committed meanwhile, which nobody finishes.
            rollback, _ = take_time(
                writer, Action.ROLLBACK, content, timeline, lambda time: writer.lock.renew()
            )
            found = Instant(rollback, Action.ROLLBACK, State.REQUESTED), plan
        execute(writer, *found)
        return undone


def _late_requests(timeline: Timeline, time: InstantTime) -> list[Instant]:
    """The requests at the time of a completed commit: they landed after they had been given up.

    Nobody goes on with such an instant, since a time that another has is given up.
    """
    here = [i for i in timeline.at(time) if i.action in UNDONE_HERE]
    if all(i.state is not State.COMPLETED for i in here):
        return []
    return [i for i in here if i.state is State.REQUESTED]


def finish_rollback(writer: Writer, time: InstantTime) -> None:
    """Complete the rollback ``time`` that its writer left pending.

    Does nothing if it is settled, or if its writer still works.
    """
    table = writer.table
    with writer.locked(time):
        timeline = table.timeline()
        rollback = next((i for i in pending_rollbacks(timeline) if i.time == time), None)
        if rollback is None:
            return
        plan = read_plan(table, timeline, rollback)
        target = plan.instant_to_rollback if plan else None
        if plan is None or target is None or target.action not in {a.value for a in UNDONE_HERE}:
            return
        if any(i.state is State.COMPLETED for i in timeline.at(target.commit_time)):
            # Undoing a completed commit is a restore: that is left to the tool that began it.
            log.warning("rollback %s of the commit %s is pending", time, target.commit_time)
            return
        if _is_at_work(writer, rollback):
            return
        log.warning("finishing rollback %s of %s", time, target.commit_time)
        execute(writer, rollback, plan)


def _is_at_work(writer: Writer, rollback: Instant) -> bool:
    """Whether a heartbeat shows that a rollback's writer lives.

    Apache Hudi holds no lock while it rolls back; with several writers it keeps a heartbeat
    instead.
    """
    storage, lapse_ms = writer.table.storage, writer.policy.heartbeat.lapse_ms
    beat = last_beat_ms(storage, rollback.time)
    if beat is None or has_passed(storage, writer.clock, beat, lapse_ms):
        return False
    log.info("another program runs the rollback %s, and it is left to it", rollback.time)
    return True


def rollback_of(
    table: Table, timeline: Timeline, time: InstantTime
) -> tuple[Instant, RollbackPlan] | None:
    """The pending rollback whose target is the instant ``time``, with its plan."""
    for rollback in pending_rollbacks(timeline):
        plan = read_plan(table, timeline, rollback)
        target = plan.instant_to_rollback if plan else None
        if plan is not None and target is not None and target.commit_time == time:
            return rollback, plan
    return None


def was_rolled_back(table: Table, timeline: Timeline, time: InstantTime) -> bool:
    """Whether a completed rollback or restore of the active timeline says that it undid ``time``.

    A restore deletes the rollbacks that it was made of.
    """
    later = (i for i in timeline.completed if i.time > time)
    return any(time in _undone_by(table, timeline, undoing) for undoing in later)


def _undone_by(table: Table, timeline: Timeline, undoing: Instant) -> Strings:
    """What a completed rollback or restore says it has undone; empty for other actions."""
    if undoing.action is Action.ROLLBACK:
        metadata = read_metadata(table, timeline, undoing)
        return metadata.commits_rollback if metadata is not None else ()
    if undoing.action is Action.RESTORE:
        restored = _read_done(table, timeline, undoing, parse_restore_metadata)
        return restored.instants_to_rollback if restored is not None else ()
    return ()


def read_metadata(table: Table, timeline: Timeline, rollback: Instant) -> RollbackMetadata | None:
    """The metadata of a completed rollback; None, with a warning, if it is torn.

    Also None if it was archived since the listing.
    """
    return _read_done(table, timeline, rollback, parse_rollback_metadata)


def _read_done(
    table: Table, timeline: Timeline, done: Instant, parse: Callable[[bytes, str], Done]
) -> Done | None:
    path = timeline.file_of(done)
    try:
        return parse(table.storage.read(path), path)
    except FileNotFoundError:
        return None
    except TableCorrupt as e:
        log.warning("%s %s does not tell what it undid: %s", done.action.value, done.time, e)
        return None


def pending_rollbacks(timeline: Timeline) -> list[Instant]:
    """Rollbacks that are requested or inflight."""
    return [i for i in timeline.pending if i.action is Action.ROLLBACK]


def delete_history(storage: Storage, time: InstantTime) -> None:
    """Delete the schema history that a failed change of columns saved before its commit."""
    saved = [file.path for file in storage.list(SCHEMA_FOLDER) if history_time(file.name) == time]
    if saved:
        storage.delete(saved)


def read_plan(table: Table, timeline: Timeline, rollback: Instant) -> RollbackPlan | None:
    """The plan of a pending rollback; None, with a warning, if it is gone or torn."""
    return plan_of(table, timeline, rollback, parse_rollback_plan)


def _plan(table: Table, timeline: Timeline, target: Instant) -> RollbackPlan:
    if target.state is State.REQUESTED:
        # A writer that has only requested its instant has not begun to write: no listing is needed.
        paths = []
    elif instant_key(target) in timeline.requested:
        marked = marked_files(table.storage, target.time)
        paths = _listed(table, target) if marked is None else marked
    else:
        # A rollback of it came between its two files, and deleted the markers of that time.
        paths = _listed(table, target)
    staying = set[str]()
    if target.action is Action.DELTACOMMIT:
        staying = staying_logs(table, paths, target.time)
    return plan_for(table, InstantInfo(target.time, target.action.value), paths, staying)


def _listed(table: Table, target: Instant) -> list[str]:
    """The data files of an instant without markers."""
    found = listed_files(table.storage, target.time)
    if target.action is Action.DELTACOMMIT and table.config.layout == 1:
        found += logs_with(table.storage, target.time)
    return found


def plan_for(
    table: Table, target: InstantInfo, paths: Iterable[str], staying: Collection[str] = ()
) -> RollbackPlan:
    """A rollback of ``target`` that deletes its data files ``paths``, relative to the table.

    Of the logs among them that are ``staying`` it takes the blocks back.
    """
    requests = []
    for path in paths:
        partition, _, name = path.rpartition("/")
        parsed = parse_data_file_name(name)
        whole = f"{table.storage.root}/{path}"
        requests.append(
            RollbackRequest(
                partition_path=partition,
                file_id=parsed.file_id if parsed else FileId(""),
                latest_base_instant=parsed.instant if parsed else target.commit_time,
                files_to_be_deleted=() if path in staying else (whole,),
                log_blocks_to_be_deleted={whole: 0} if path in staying else {},
            )
        )
    return RollbackPlan(instant_to_rollback=target, requests=tuple(requests))


def execute(
    writer: Writer, rollback: Instant, plan: RollbackPlan, actions: Collection[Action] = ()
) -> RollbackMetadata:
    """Delete, in this order: data files, markers, history, the failed instant; then complete.

    ``actions`` are those of the pending files of the instant, by default the one that the plan has.
    The lock is renewed meanwhile and looked at before the end: a writer that lost it stops, and the
    rollback stays pending for another.
    """
    target = plan.instant_to_rollback
    assert target is not None
    table, lock, clock = writer.table, writer.lock, writer.clock
    started = clock.monotonic()
    storage = table.storage
    inflight = Instant(rollback.time, Action.ROLLBACK, State.INFLIGHT)
    if rollback.state is State.REQUESTED:
        # The same put, given up by an earlier attempt, may have landed since we looked.
        with suppress(FileExists):
            put_instant(table, rollback, inflight, b"")
    doomed = _doomed(table, plan, target.commit_time)
    taken_back = _take_back(table, doomed, target.commit_time, rollback.time)
    lock.renew()
    delete_files(storage, (p for paths in doomed.values() for p in paths), lock.renew)
    delete_markers(storage, target.commit_time)
    delete_history(storage, target.commit_time)
    for action in sorted(actions) or [Action(target.action)]:
        for state in (State.INFLIGHT, State.REQUESTED):
            storage.delete([path_of(table, Instant(target.commit_time, action, state))])
    storage.delete([f"{HEARTBEATS}/{target.commit_time}"])
    metadata = RollbackMetadata(
        start_rollback_time=rollback.time,
        time_taken_in_millis=int((clock.monotonic() - started) * 1000),
        total_files_deleted=sum(len(paths) for paths in doomed.values()),
        commits_rollback=(target.commit_time,),
        partition_metadata={
            partition: RolledBackPartition(
                partition,
                tuple(f"{storage.root}/{p}" for p in paths),
                rollback_log_files=taken_back.get(partition, {}),
            )
            for partition, paths in doomed.items()
        },
        instants_rollback=(target,),
    )
    completion = writer.next_time(table.timeline())
    lock.check(storage.put_timeout_s)
    done = Instant(rollback.time, Action.ROLLBACK, State.COMPLETED, completion)
    put_instant(table, inflight, done, render_rollback_metadata(metadata))
    return metadata


def _doomed(table: Table, plan: RollbackPlan, target: InstantTime) -> dict[str, list[str]]:
    """Partition path -> files to delete, relative to the table.

    Files that the markers name now count as well: the failed writer may have continued after the
    plan was made.
    """
    found: dict[str, set[str]] = {}
    for request in plan.requests:
        partition = request.partition_path
        uris = (*request.files_to_be_deleted, *request.log_blocks_to_be_deleted)
        names = (uri.rsplit("/", 1)[-1] for uri in uris)
        paths = {path_in(partition, name) for name in names}
        found.setdefault(partition, set()).update(paths)
    for path in marked_files(table.storage, target) or ():
        found.setdefault(path.rpartition("/")[0], set()).add(path)
    return {partition: sorted(paths) for partition, paths in sorted(found.items())}


def _take_back(
    table: Table, doomed: dict[str, list[str]], target: InstantTime, rollback: InstantTime
) -> dict[str, dict[str, int]]:
    """Take the logs that must stay out of ``doomed``, and their failed blocks back.

    Partition path -> the logs with the commands, by absolute path, and their sizes.
    """
    found: dict[str, dict[str, int]] = {}
    storage = table.storage
    staying = staying_logs(table, [p for paths in doomed.values() for p in paths], target)
    for partition, paths in doomed.items():
        for path in sorted(staying & set(paths)):
            paths.remove(path)
            command, size = take_back(storage, path, target, rollback)
            found.setdefault(partition, {})[f"{storage.root}/{command}"] = size
    return found
