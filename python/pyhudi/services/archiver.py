"""Archives a table: moves old completed instants from the active timeline into the archive.

Invariant: an instant is deleted from the active timeline only after the archive, as read back, has
it; of one instant the pending files go first, the completed one last, and instants go one by one,
the oldest first. So whoever dies, each instant is in one place or in both. Before that the files go
that count for nothing as long as their commit is on the timeline.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from pyhudi.config import WriteOptions
from pyhudi.errors import ConfigError
from pyhudi.format.archive_records import ArchivedFile
from pyhudi.format.history_files import PLANNED, REPLACING, HistoryRow
from pyhudi.format.instants import Action, Instant, InstantTime, State, format_time, parse_instant
from pyhudi.format.table_config import TableType
from pyhudi.listing import Listing
from pyhudi.locks.renewal import kept
from pyhudi.services.archive_history import add_to_history, adopt_later_manifests, merge_levels
from pyhudi.services.archive_logs import add_to_logs
from pyhudi.services.archive_plan import (
    DELTA_COMMITS,
    ArchiveFacts,
    ArchivePlan,
    ArchivePolicy,
    counted_from,
    plan_archive,
)
from pyhudi.services.budget import check_most
from pyhudi.services.clean import last_clean, retention_of
from pyhudi.services.clean_plan import Retention, earliest_retained
from pyhudi.services.disowned_files import disowned_files
from pyhudi.services.held_files import held_files
from pyhudi.services.opened import open_writer
from pyhudi.storage.base import Files, Storage, StoredFile
from pyhudi.timeline.active import InstantKey, Timeline, instant_key, list_timeline, timeline_of
from pyhudi.timeline.archived import just_archived
from pyhudi.timeline.states import COMMIT_ACTIONS
from pyhudi.timeline.table import Table
from pyhudi.timeline.versions import versions_of
from pyhudi.transactions.leases import living_leases
from pyhudi.transactions.markers.markers import delete_files
from pyhudi.transactions.metadata_table import drop_metadata_table
from pyhudi.transactions.recovery.settle import sweep
from pyhudi.transactions.writable import refuse_writes_to
from pyhudi.transactions.writer import Writer

#: a file of the timeline, and the instant and state that its name tells
TimelineFile: TypeAlias = tuple[Instant, StoredFile]
ORDER = (State.REQUESTED, State.INFLIGHT, State.COMPLETED)


class ArchiveFate(str, Enum):
    """What an archive does with an instant."""

    ARCHIVED = "archived"
    WOULD_GO = "would be archived"
    KEPT = "kept"
    LATER = "left for later"


@dataclass(frozen=True, slots=True)
class MovedInstant:
    """A completed instant of the active timeline, and what became of it."""

    instant: InstantTime
    action: str
    fate: ArchiveFate
    why: str


@dataclass(frozen=True, slots=True)
class ArchiveRules:
    """How many commits stay on the timeline, and what cleans keep."""

    policy: ArchivePolicy
    retention: Retention
    delta_commits: int = DELTA_COMMITS
    """So many of a merge-on-read table lead to a compaction."""


def archive(
    path: str,
    *,
    dry_run: bool = False,
    max_instants: int | None = None,
    options: Mapping[str, str] | None = None,
    hadoop_options: Mapping[str, str] | None = None,
) -> Listing[MovedInstant]:
    """Move old instants of the table at ``path`` into its archive, without Spark.

    Returns an entry for each completed instant of the active timeline: archived, or kept, and why.
    With ``dry_run`` nothing changes. At most ``max_instants`` are moved; the next archive goes on.
    ``options`` are those of a write: ``hoodie.keep.min.commits`` and ``hoodie.keep.max.commits``
    say how many commits stay, and the lock must be that of the table's writers;
    ``hadoop_options`` are ``fs.s3a.*`` settings. Errors: ``TableNotFound``, ``UnsupportedTable``,
    ``ConfigError``, ``LockTimeout``; ``TableCorrupt`` if the archive cannot be read.
    """
    writer, resolved = open_writer(path, options, hadoop_options)
    return archived(writer, resolved, dry_run, max_instants)


def archived(
    writer: Writer, options: WriteOptions, dry_run: bool, max_instants: int | None = None
) -> Listing[MovedInstant]:
    """``archive`` with the writer and the options of an application."""
    check_most("max_instants", max_instants)
    rules = rules_of(options)
    refuse_writes_to(writer.table)
    if dry_run:
        plan = _cut(planned(writer, rules, writer.table.timeline()), max_instants)
        return Listing(MovedInstant, _rows(plan, ArchiveFate.WOULD_GO))
    return Listing(MovedInstant, archive_table(writer, rules, most=max_instants))


def rules_of(options: WriteOptions) -> ArchiveRules:
    """What the options keep; ``ConfigError`` if the least number of commits is above the most."""
    least, most = options.keep_min_commits, options.keep_max_commits
    if least > most:
        key = "hoodie.keep.min.commits"
        raise ConfigError(
            f"'{key}' is {least}, more than 'hoodie.keep.max.commits', which is {most}. Set it to "
            f"{most} or less.",
            key=key,
        )
    return ArchiveRules(ArchivePolicy(least, most), retention_of(options), options.compact_trigger)


def archive_table(
    writer: Writer, rules: ArchiveRules, shown: Timeline | None = None, most: int | None = None
) -> list[MovedInstant]:
    """Archive by ``rules``, at most ``most`` instants; the entries of ``archive``.

    ``shown`` was listed by the caller.
    """
    plan = planned(writer, rules, shown or writer.table.timeline())
    if not plan.doomed:  # most often; then the lock is not taken
        return _rows(plan, ArchiveFate.KEPT)
    # A late file of a write that was undone must go before its rollback is archived.
    sweep(writer)
    with writer.locked(), kept(writer.lock):
        table = drop_metadata_table(writer.table, writer.lock)
        writer = writer.on(table)
        files = list_timeline(table.storage, table.config)
        timeline = timeline_of(files, table.config.layout, table.config.timeline_folder)
        plan = _cut(planned(writer, rules, timeline), most)
        if plan.doomed:
            _delete_disowned(table, timeline, plan.doomed)
            try:
                _move(writer, plan.doomed, files)
            except FileNotFoundError:
                # Who stood still for long may have lost the lock, and others have archived on.
                writer.lock.check(table.storage.put_timeout_s)
                raise
    return _rows(plan, ArchiveFate.ARCHIVED)


def _cut(plan: ArchivePlan, most: int | None) -> ArchivePlan:
    return plan if most is None else plan.cut(most)


def planned(writer: Writer, rules: ArchiveRules, timeline: Timeline) -> ArchivePlan:
    """The plan of an archive of the table as ``timeline`` shows it; nothing is put."""
    table, policy = writer.table, rules.policy
    if len(timeline.commits) <= policy.most:
        return plan_archive(ArchiveFacts(timeline), policy)
    since = rules.retention.since(writer.clock.now_ms(), table.config.utc)
    earliest = earliest_retained(timeline, rules.retention, since)
    on_logs = table.config.table_type is TableType.MERGE_ON_READ
    facts = ArchiveFacts(
        timeline,
        earliest.time if earliest is not None else None,
        _cleaned_to(table, timeline),
        _uncleaned(table, timeline, policy),
        _floor_of_leases(writer, timeline),
        counted_from(timeline, table.config.utc, rules.delta_commits) if on_logs else None,
        table.config.utc,
        _held_disowned(table, timeline, policy) if on_logs else None,
    )
    return plan_archive(facts, policy)


def _cleaned_to(table: Table, timeline: Timeline) -> InstantTime | None:
    """The earliest commit that the last clean keeps readable; None if it names none."""
    last = last_clean(table, timeline)
    return InstantTime(last.earliest_commit_to_retain) or None if last is not None else None


def _uncleaned(table: Table, timeline: Timeline, policy: ArchivePolicy) -> InstantTime | None:
    """The first of the old replace commits of which replaced files are left.

    Without this commit on the timeline their rows would be there again.
    """
    old = timeline.commits[: len(timeline.commits) - policy.least]
    if all(commit.action is not Action.REPLACECOMMIT for commit in old):
        return None
    view = table.view(timeline)
    groups = versions_of(view)
    left = {
        instant
        for (partition, file_id), instant in view.replaced.items()
        if groups.get(partition, {}).get(file_id)
    }
    return min(left, default=None)


def _held_disowned(table: Table, timeline: Timeline, policy: ArchivePolicy) -> InstantTime | None:
    """The first of the old compactions of which a disowned file cannot be deleted yet.

    A plan of Apache Hudi may name it, and needs all its files; so does a savepoint.
    """
    old = timeline.commits[: len(timeline.commits) - policy.least]
    found = disowned_files(table, timeline, old)
    held = held_files(table, timeline) if found else {}
    kept_ones = (f.instant for f in found if (f.partition_path, f.file.name) in held)
    return min(kept_ones, default=None)


def _delete_disowned(table: Table, timeline: Timeline, doomed: Iterable[Instant]) -> None:
    """Delete the files that would count as soon as the instants ``doomed`` are archived."""
    if table.config.table_type is TableType.MERGE_ON_READ:
        commits = (each for each in doomed if each.action in COMMIT_ACTIONS)
        found = disowned_files(table, timeline, commits)
        delete_files(table.storage, [each.file.path for each in found])


def _floor_of_leases(writer: Writer, timeline: Timeline) -> InstantTime | None:
    """The first commit that a query is pinned to, or that its state leaves out."""
    floors = set[InstantTime]()
    for lease in living_leases(writer.table.storage, writer.clock):
        shown = {i.time for i in lease.state.on(timeline).commits}
        pin = lease.state.instant
        floors |= {c.time for c in timeline.commits if c.time >= pin or c.time not in shown}
    return min(floors, default=None)


def _move(writer: Writer, doomed: Sequence[Instant], files: Files) -> None:
    """Put the instants into the archive, then delete their files; the lock is held."""
    storage, config = writer.table.storage, writer.table.config
    found: dict[InstantKey, list[TimelineFile]] = {}
    for file in files:
        instant = parse_instant(file.name, config.layout)
        if instant is not None:
            found.setdefault(instant_key(instant), []).append((instant, file))
    if config.layout != 1:
        adopt_later_manifests(writer)
    # An archiver that died may have put some already.
    span = doomed[0].time, doomed[-1].time
    known = {e.instant.time for e in just_archived(storage, config, *span)}
    new = {i: _in_order(found[instant_key(i)]) for i in doomed if i.time not in known}
    if new and config.layout == 1:
        add_to_logs(writer, [_file(storage, each, config.utc) for i in new for each in new[i]])
    elif new:
        add_to_history(writer, [_row(storage, new[i], i) for i in new])
    pending, done = list[str](), list[str]()
    for each in doomed:
        for instant, file in found[instant_key(each)]:
            (done if instant.state is State.COMPLETED else pending).append(file.path)
    storage.delete(pending)
    for path in done:
        storage.delete([path])
    if config.layout != 1:
        merge_levels(writer)


def _in_order(files: Iterable[TimelineFile]) -> list[TimelineFile]:
    return sorted(files, key=lambda each: ORDER.index(each[0].state))


def _file(storage: Storage, file: TimelineFile, utc: bool) -> ArchivedFile:
    instant, stored = file
    put = format_time(stored.modified_ms, utc)
    return ArchivedFile(instant, storage.read(stored.path), put, stored.path)


def _row(storage: Storage, files: Iterable[TimelineFile], done: Instant) -> HistoryRow:
    """The row of a completed instant with these files."""
    metadata, plan = b"", b""
    for instant, file in files:
        if instant == done:
            metadata = storage.read(file.path)
        elif instant.state is State.REQUESTED and instant.action in PLANNED:
            plan = storage.read(file.path)
        elif instant.state is State.INFLIGHT and instant.action in REPLACING:
            plan = storage.read(file.path) or plan
    return HistoryRow(done, metadata, plan)


def _rows(plan: ArchivePlan, goes: ArchiveFate) -> list[MovedInstant]:
    return [
        MovedInstant(
            each.instant.time,
            each.instant.action.value,
            goes if each.goes else ArchiveFate.LATER if each.later else ArchiveFate.KEPT,
            each.why,
        )
        for each in plan.old
    ]
