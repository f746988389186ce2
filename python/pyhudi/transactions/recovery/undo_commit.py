"""Undoes one instant of a restore, completed or pending: a rollback of its own, under the lock.

Invariants: the completed file goes before any data file, and the pending files last. So a reader
sees the table before the commit or after it, and whoever finds the rest finds a pending rollback
or a pending instant: never a data file whose instant is unknown (spec/file_slices.md F3).
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace

from pyhudi.errors import FileExists
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.plans import InstantInfo, RollbackMetadata, RollbackPlan
from pyhudi.format.plans import render_rollback_plan as render
from pyhudi.format.table_config import TableType
from pyhudi.timeline.active import Timeline, instant_key
from pyhudi.timeline.states import COMMIT_ACTIONS, COMPLETES_AS
from pyhudi.timeline.table import Table
from pyhudi.transactions.instants import path_of, put_instant, take_time
from pyhudi.transactions.markers.failed_logs import shared_logs
from pyhudi.transactions.recovery.rollback import execute, plan_for, read_metadata, rollback_of
from pyhudi.transactions.writer import Writer

log = logging.getLogger(__name__)


def undo_commit(
    writer: Writer, target: InstantInfo, files: Collection[str]
) -> RollbackMetadata | None:
    """Roll back ``target`` with its data ``files``; finish its rollback if there is one.

    Returns what became of it: None if it was undone before and nothing tells how.
    """
    table, lock, time = writer.table, writer.lock, target.commit_time
    with writer.locked(time):
        timeline = table.timeline()
        found = rollback_of(table, timeline, time)
        there = [i for i in timeline.at(time) if i.action in COMMIT_ACTIONS]
        if found is None:
            if not there:
                return _told(table, timeline, time)
            log.warning("undoing %s %s", target.action, time)
            plan = plan_for(table, target, files, _shared(table, files, time))
            taken, _ = take_time(
                writer, Action.ROLLBACK, render(plan), timeline, lambda time: lock.renew()
            )
            found = Instant(taken, Action.ROLLBACK, State.REQUESTED), plan
        rollback, plan = found[0], _with_files(table, found[1], target, files)
        if rollback.state is State.REQUESTED:
            inflight = Instant(rollback.time, Action.ROLLBACK, State.INFLIGHT)
            with suppress(FileExists):
                put_instant(table, rollback, inflight, b"")
            rollback = inflight
        for instant in there:
            _unpublish(table, timeline, instant)
        actions = {Action(target.action), *(i.action for i in there)}
        # A completed clustering has the name of a replacecommit, and in a merge-on-read table a
        # compaction that of a commit.
        merges = table.config.table_type is TableType.MERGE_ON_READ
        services = {was for was, done in COMPLETES_AS.items() if done in actions}
        actions |= services if merges else services & {Action.CLUSTERING}
        return execute(writer, rollback, plan, actions)


def drop_rollbacks(writer: Writer, undone: frozenset[InstantTime]) -> None:
    """Delete the completed rollbacks of a completed restore, which tells the same.

    The completed file of each goes last: without it the rollback would look unfinished.
    """
    table = writer.table
    timeline = table.timeline()
    for rollback in timeline.completed:
        if rollback.action is not Action.ROLLBACK:
            continue
        metadata = read_metadata(table, timeline, rollback)
        if metadata is not None and undone.issuperset(metadata.commits_rollback):
            for state in (State.INFLIGHT, State.REQUESTED):
                path = path_of(table, Instant(rollback.time, Action.ROLLBACK, state))
                table.storage.delete([path])
            table.storage.delete([timeline.file_of(rollback)])


def _unpublish(table: Table, timeline: Timeline, instant: Instant) -> None:
    """Take the completed file away, so that the instant is pending again."""
    if instant.state is not State.COMPLETED:
        return
    if instant_key(instant) not in timeline.requested:
        # Its earlier files are gone. Without one of them its data files would count as archived.
        requested = Instant(instant.time, instant.action, State.REQUESTED)
        with suppress(FileExists):
            put_instant(table, None, requested, b"")
    table.storage.delete([timeline.file_of(instant)])


def _with_files(
    table: Table, plan: RollbackPlan, target: InstantInfo, files: Collection[str]
) -> RollbackPlan:
    """``plan``, which another program may have made, with all data files that are there now."""
    shared = _shared(table, files, target.commit_time)
    more = plan_for(table, target, files, shared)
    return replace(plan, requests=(*plan.requests, *more.requests))


def _shared(table: Table, files: Collection[str], time: InstantTime) -> set[str]:
    """The logs among ``files`` that other delta commits wrote to as well."""
    return shared_logs(table.storage, files, time) if table.config.layout == 1 else set()


def _told(table: Table, timeline: Timeline, time: InstantTime) -> RollbackMetadata | None:
    """What the completed rollback of ``time`` says."""
    for rollback in timeline.completed:
        if rollback.action is Action.ROLLBACK and rollback.time > time:
            metadata = read_metadata(table, timeline, rollback)
            if metadata is not None and time in metadata.commits_rollback:
                return metadata
    return None
