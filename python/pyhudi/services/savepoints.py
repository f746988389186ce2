"""Savepoints: a commit whose files no clean deletes and no archiver passes (spec/timeline.md T9).

Invariant: a savepoint is put under the table's lock, for a snapshot that is whole and that no
pending clean is about to take apart.
"""

from __future__ import annotations

import getpass
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from pyhudi.errors import ConfigError, FileExists
from pyhudi.format.instants import Action, Instant, InstantTime, State, parse_as_of
from pyhudi.format.plans import (
    SavepointMetadata,
    SavepointPartition,
    parse_cleaner_plan,
    parse_savepoint,
    render_savepoint,
)
from pyhudi.listing import Listing
from pyhudi.services.clean import named_files, pending_cleans
from pyhudi.services.opened import open_writer
from pyhudi.services.restore_plan import RestoreFacts, instants_after
from pyhudi.slices.files import BaseFile, LogFile
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.pending import plan_of
from pyhudi.timeline.read_states import ReadState
from pyhudi.timeline.strays import Archive
from pyhudi.timeline.table import Table
from pyhudi.timeline.time_travel import check_history
from pyhudi.timeline.versions import files_as_of
from pyhudi.timeline.view import list_view
from pyhudi.transactions.instants import path_of, put_instant
from pyhudi.transactions.recovery.undoing import check_undoing
from pyhudi.transactions.writable import refuse_writes_to
from pyhudi.transactions.writer import Writer

#: the comment of a running query's savepoint (``services/query_savepoints.py``)
OF_QUERY = "pyhudi: a query is running"


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A savepointed commit: how many files it keeps, who made it, when (epoch ms), and why."""

    instant: InstantTime
    files: int
    made_by: str
    made_at_ms: int
    comment: str


def savepoint(
    path: str,
    instant: str | None = None,
    *,
    comment: str = "",
    options: Mapping[str, str] | None = None,
    hadoop_options: Mapping[str, str] | None = None,
) -> Savepoint:
    """Keep the commit ``instant``, the newest by default, readable until ``delete_savepoint``.

    Without Spark. ``options`` must name the lock of the table's writers; ``hadoop_options`` are
    ``fs.s3a.*`` settings. A savepoint that exists is returned as it is. Errors: ``TableNotFound``,
    ``UnsupportedTable``, ``LockTimeout``; ``ConfigError`` for an instant that is no commit;
    ``HistoryExpired`` for one that was cleaned, or that a pending clean takes apart.
    """
    writer, _ = open_writer(path, options, hadoop_options)
    return make_savepoint(writer, instant, comment)


def delete_savepoint(
    path: str,
    instant: str,
    *,
    options: Mapping[str, str] | None = None,
    hadoop_options: Mapping[str, str] | None = None,
) -> Listing[Savepoint]:
    """Delete the savepoint of the commit ``instant``; returns those that are left.

    The next clean may delete its files. Arguments and errors as of ``savepoint``.
    """
    writer, _ = open_writer(path, options, hadoop_options)
    return drop_savepoint(writer, instant)


def make_savepoint(writer: Writer, instant: str | None, comment: str) -> Savepoint:
    """``savepoint`` by the writer of an application."""
    table = writer.table
    refuse_writes_to(table)
    with writer.locked():
        timeline = table.timeline()
        return put_savepoint(writer, timeline, commit_meant(table, timeline, instant), comment)


def put_savepoint(
    writer: Writer,
    timeline: Timeline,
    time: InstantTime,
    comment: str,
    state: ReadState | None = None,
) -> Savepoint:
    """Put a savepoint of the commit ``time``, with the lock held; one that is there is returned.

    It keeps the files of ``state``, by default those that the commit shows now. One of a running
    query goes with the query, so another one takes its place.
    """
    table = writer.table
    check_undoing(table, timeline, "A savepoint", None)
    there = next((s for s in savepoints_of(table, timeline) if s.instant == time), None)
    if there is not None and (there.comment != OF_QUERY or comment == OF_QUERY):
        return there
    if there is not None:
        remove_savepoint(writer, timeline, time)
        timeline = table.timeline()
    check_history(table, _without_begun(timeline), time)
    seen = timeline if state is None else state.on(timeline)
    files = files_as_of(table.view(seen), time)
    if comment != OF_QUERY:
        files = list(dict.fromkeys([*files, *_files_to_restore(table, timeline, time)]))
    check_cleans(table, timeline, time, files, "kept")
    made = Savepoint(time, len(files), getpass.getuser(), writer.clock.now_ms(), comment)
    begun = Instant(time, Action.SAVEPOINT, State.INFLIGHT)
    completion = writer.next_time(timeline)
    writer.lock.check(table.storage.put_timeout_s)
    with suppress(FileExists):  # left by a program that died here
        put_instant(table, None, begun, b"")
    done = Instant(time, Action.SAVEPOINT, State.COMPLETED, completion)
    put_instant(table, begun, done, render_savepoint(_metadata(made, files)))
    return made


def _files_to_restore(
    table: Table, timeline: Timeline, time: InstantTime
) -> list[BaseFile | LogFile]:
    """The files that a restore to the commit ``time`` leaves, as far as they are there.

    They are those of a query as of the commit, unless commits ended in another order than they
    began: a query goes by requested times, a restore in layout 2 by completion times (spec T10).
    """
    goal = next(i for i in timeline.commits if i.time == time)
    later = set(instants_after(RestoreFacts(timeline, table.config.utc), goal))
    left = timeline.only(i for i in timeline.instants if i not in later)
    if {i.time for i in left.commits} == {i.time for i in timeline.commits if i.time <= time}:
        return []
    view = list_view(table.storage, left, Archive(table.storage, table.config))
    committed = view.committed()
    found = (file for each in view.existing_slices(None) for file in each.files)
    return [file for file in found if isinstance(file, BaseFile) or committed(file.instant)]


def drop_savepoint(writer: Writer, instant: str) -> Listing[Savepoint]:
    """``delete_savepoint`` by the writer of an application."""
    table = writer.table
    refuse_writes_to(table)
    with writer.locked():
        timeline = table.timeline()
        saved = savepoints_of(table, timeline)
        if all(i.action is not Action.SAVEPOINT for i in timeline.at(InstantTime(instant))):
            there = ", ".join(each.instant for each in saved) or "none"
            raise ConfigError(
                f"The commit {instant} has no savepoint. The savepoints of the table at "
                f"{table.storage.root} are: {there}.",
                key="instant",
            )
        remove_savepoint(writer, timeline, InstantTime(instant))
    return Listing(Savepoint, (each for each in saved if each.instant != instant))


def remove_savepoint(writer: Writer, timeline: Timeline, time: InstantTime) -> None:
    """Delete the savepoint of the commit ``time``, with the lock held."""
    table = writer.table
    files = [i for i in timeline.at(time) if i.action is Action.SAVEPOINT]
    writer.lock.check(table.storage.put_timeout_s)
    # The completed file first: an inflight file alone keeps nothing.
    table.storage.delete([timeline.file_of(each) for each in files])
    begun = Instant(time, Action.SAVEPOINT, State.INFLIGHT)
    table.storage.delete([path_of(table, begun)])


def savepoints_of(table: Table, timeline: Timeline) -> list[Savepoint]:
    """The savepoints of a timeline, by the instants of their commits."""
    found = []
    for instant in timeline.completed:
        if instant.action is Action.SAVEPOINT:
            path = timeline.file_of(instant)
            saved = parse_savepoint(table.storage.read(path), path)
            files = sum(len(p.savepoint_data_file) for p in saved.partition_metadata.values())
            at = saved.savepointed_at
            found.append(Savepoint(instant.time, files, saved.savepointed_by, at, saved.comments))
    return found


def commit_meant(table: Table, timeline: Timeline, instant: str | None) -> InstantTime:
    """The commit that ``instant`` means: itself, or the newest at that time."""
    commits = [i.time for i in timeline.commits]
    if instant is None:
        if commits:
            return commits[-1]
        raise ConfigError(
            f"The table at {table.storage.root} has no commit yet, so no commit can be chosen.",
            key="instant",
        )
    asked = parse_as_of(instant, table.config.utc)
    if asked not in commits:
        near = max((time for time in commits if time <= asked), default=None)
        hint = f" The newest commit at that time is {near}." if near is not None else ""
        raise ConfigError(f"{instant} is no completed commit of the timeline.{hint}", key="instant")
    return asked


def _without_begun(timeline: Timeline) -> Timeline:
    """``timeline`` without savepoints whose program has died, or has not ended yet."""
    begun = {i for i in timeline.pending if i.action is Action.SAVEPOINT}
    return timeline.only(i for i in timeline.instants if i not in begun)


def check_cleans(
    table: Table,
    timeline: Timeline,
    time: InstantTime,
    files: Iterable[BaseFile | LogFile],
    what: str,
) -> None:
    """``ConfigError`` if a pending clean is going to delete one of ``files``.

    ``what`` is what cannot be done with the commit ``time`` then: it is kept, or restored.
    """
    ours = {(file.partition_path, file.name) for file in files}
    for clean in pending_cleans(timeline):
        plan = plan_of(table, timeline, clean, parse_cleaner_plan)
        named = named_files(plan).items() if plan is not None else ()
        if any((partition, name) in ours for partition, names in named for name in names):
            raise ConfigError(
                f"The commit {time} cannot be {what}: the pending clean {clean.time} deletes some "
                "of its files. Choose a later commit.",
                key="instant",
            )


def _metadata(made: Savepoint, files: Iterable[BaseFile | LogFile]) -> SavepointMetadata:
    names: dict[str, list[str]] = {}
    for file in files:
        names.setdefault(file.partition_path, []).append(file.name)
    partitions = {p: SavepointPartition(p, tuple(found)) for p, found in names.items()}
    return SavepointMetadata(made.made_by, made.made_at_ms, made.comment, partitions)
