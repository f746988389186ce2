"""Cleans a table: deletes old versions of files, by a plan that is on the timeline first.

Invariant: a file is deleted only for a plan that was put under the table's lock. If the plan was
found, and not just made, each of its files is looked at again (docs/decisions/table_services.md).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum

from pyhudi.choices import CleanPolicy
from pyhudi.clock import Clock
from pyhudi.config import WriteOptions
from pyhudi.errors import FileExists, TableCorrupt
from pyhudi.format.filenames import FileId, parse_data_file_name, path_in
from pyhudi.format.instants import Action, Instant, InstantTime, State, format_time
from pyhudi.format.plans import (
    ActionInstant,
    CleanedPartition,
    CleanerPlan,
    CleanFile,
    CleanMetadata,
    parse_clean_metadata,
    parse_cleaner_plan,
    render_clean_metadata,
    render_cleaner_plan,
)
from pyhudi.format.table_config import TableType
from pyhudi.listing import Listing
from pyhudi.locks.renewal import kept
from pyhudi.services.budget import NO_BUDGET, Budget
from pyhudi.services.clean_plan import (
    CleanFacts,
    CleanPlan,
    Group,
    Held,
    Retention,
    earliest_kept,
    first_from,
    plan_clean,
)
from pyhudi.services.held_files import held_files
from pyhudi.services.leased_files import leased_files
from pyhudi.services.opened import open_writer
from pyhudi.services.partition_choice import stated_partitions
from pyhudi.timeline.active import COMMITS, Timeline, instant_key
from pyhudi.timeline.pending import plan_of
from pyhudi.timeline.read_states import completed
from pyhudi.timeline.table import Table
from pyhudi.timeline.versions import versions_of
from pyhudi.transactions.instants import put_instant, take_time
from pyhudi.transactions.markers.markers import delete_files
from pyhudi.transactions.metadata_table import drop_metadata_table
from pyhudi.transactions.recovery.undoing import check_undoing
from pyhudi.transactions.writable import refuse_writes_to
from pyhudi.transactions.writer import Writer

log = logging.getLogger(__name__)

#: Hudi's key in a plan's extra metadata: the savepoints that the plan looked at
SAVEPOINTS = "savepointed_timestamps"
#: ours: ``CleanPlan.whole``
WHOLE = "pyhudi.clean.whole"
#: so many files are deleted while the lock is held
FEW = 1_000
#: a clean is put without files to delete when it sets so many commits free for the archive
EMPTY_AFTER = 10
#: a file stays until so long after the commit that made it old: a query that has just begun may
#: read it, and has no lease yet
SPARED_MS = 60_000


class Fate(str, Enum):
    """What a clean does with a file."""

    DELETED = "deleted"
    WOULD_GO = "would be deleted"
    KEPT = "kept"
    LATER = "left for later"


@dataclass(frozen=True, slots=True)
class CleanedFile:
    """An old file of a table, and what became of it; ``clean`` is the instant that deleted it."""

    partition: str
    file: str
    size_bytes: int | None
    fate: Fate
    why: str
    clean: InstantTime | None = None


def clean(
    path: str,
    *,
    dry_run: bool = False,
    max_files: int | None = None,
    max_bytes: int | None = None,
    options: Mapping[str, str] | None = None,
    hadoop_options: Mapping[str, str] | None = None,
) -> Listing[CleanedFile]:
    """Delete old versions of files of the table at ``path``, without Spark.

    Returns an entry for each file that the newest snapshot does not read: deleted, or kept, and
    why. With ``dry_run`` nothing changes. Pending cleans are finished first; then files are deleted
    until these are ``max_files``, or have ``max_bytes``, and the next clean goes on. ``options``
    are those of a write: ``hoodie.clean.*`` say what is kept, and the lock must be that of the
    table's writers; ``hadoop_options`` are ``fs.s3a.*`` settings. Errors: ``TableNotFound``,
    ``UnsupportedTable``, ``ConfigError``, ``LockTimeout``, ``TableCorrupt`` for a savepoint.
    """
    writer, resolved = open_writer(path, options, hadoop_options)
    return cleaned(writer, resolved, dry_run, Budget(max_files, max_bytes))


def cleaned(
    writer: Writer, options: WriteOptions, dry_run: bool, budget: Budget = NO_BUDGET
) -> Listing[CleanedFile]:
    """``clean`` with the writer and the options of an application."""
    refuse_writes_to(writer.table)
    retention = retention_of(options)
    if dry_run:
        plan = planned(writer, retention, writer.table.timeline()).cut(budget)
        return Listing(CleanedFile, _rows(plan))
    return Listing(CleanedFile, clean_table(writer, retention, budget=budget))


def retention_of(options: WriteOptions) -> Retention:
    """What the options keep; ``ConfigError`` for a pattern that is none."""
    selected, pattern = options.clean_partitions, options.clean_partition_regex
    key = "hoodie.clean.partition.filter.regex"
    partitions, regex = stated_partitions(selected, pattern, key)
    return Retention(
        policy=options.clean_policy,
        commits=options.commits_retained,
        hours=options.hours_retained,
        versions=options.versions_retained,
        partitions=partitions,
        regex=regex,
        spared_ms=SPARED_MS,
    )


def clean_table(
    writer: Writer,
    retention: Retention,
    shown: Timeline | None = None,
    incremental: bool = False,
    budget: Budget = NO_BUDGET,
) -> list[CleanedFile]:
    """Finish pending cleans, then clean by ``retention``; the entries of ``clean``.

    ``shown`` is a timeline that the caller has just listed. Of what the plan names, the files of
    ``budget`` are deleted. If ``incremental``, only groups are looked at that may have changed
    since the last clean; and if many commits came since then, a clean is put though nothing goes,
    or else the archive would stop at the last one.
    """
    timeline = shown or writer.table.timeline()
    found: list[CleanedFile] = []
    for instant in pending_cleans(timeline):
        found += finish_clean(writer, instant)
    if found:
        timeline = writer.table.timeline()
    # Most often nothing is due. Then the lock is not taken.
    plan = planned(writer, retention, timeline, incremental).cut(budget)
    if plan.doomed or _frees_many(plan):
        plan, clean = _clean(writer, retention, incremental, budget)
        return [*found, *_rows(plan, clean)]
    return [*found, *_rows(plan)]


def _frees_many(plan: CleanPlan) -> bool:
    """Whether the last clean says that many commits are readable that need not be."""
    return plan.whole and plan.frees >= EMPTY_AFTER


def _clean(
    writer: Writer, retention: Retention, incremental: bool, budget: Budget
) -> tuple[CleanPlan, InstantTime | None]:
    """Put a plan under the lock and carry it out.

    Without files to delete no instant is put, unless it frees many commits for the archive. Others
    wait for a few files; for many the lock is given back meanwhile.
    """
    table, lock = writer.table, writer.lock
    with writer.locked():
        with kept(lock):  # a listing of the whole table may take longer than a lease
            timeline = table.timeline()
            check_undoing(table, timeline, "A clean", None)
            plan = planned(writer, retention, timeline, incremental).cut(budget)
            if plan.names_too_late:
                named = first_from(timeline, _left(table, timeline, plan))
                plan = replace(plan, earliest=named or plan.earliest)
        doomed = plan.doomed
        if not doomed and not _frees_many(plan):
            return plan, None
        # Our clean updates no metadata table, which would go on naming what is deleted here.
        drop_metadata_table(table, lock)
        rendered = _rendered(table, plan)
        time, timeline = take_time(
            writer,
            Action.CLEAN,
            render_cleaner_plan(rendered),
            timeline,
            lambda time: lock.check(table.storage.put_timeout_s),
        )
        # Who had the lock while this process stood still may not know the plan. It stays, and the
        # next clean looks at its files again.
        lock.check()
        instant = Instant(time, Action.CLEAN, State.REQUESTED)
        few = sum(map(len, doomed.values())) <= FEW
        if few:
            _end(writer, instant, _deleted(writer, instant, rendered, doomed), timeline)
    if not few:
        _carry_out(writer, instant, rendered, doomed)
    return plan, time


def planned(
    writer: Writer, retention: Retention, timeline: Timeline, incremental: bool = False
) -> CleanPlan:
    """The plan of a clean on the table as ``timeline`` shows it; nothing is put."""
    return planned_on(writer.table, writer.clock, retention, timeline, incremental)


def planned_on(
    table: Table, clock: Clock, retention: Retention, timeline: Timeline, incremental: bool = False
) -> CleanPlan:
    """The same for code that has no lock, and never carries the plan out."""
    now_ms = clock.now_ms()
    recent = _recent(table, timeline, now_ms - retention.spared_ms) if retention.spared_ms else ()
    since = retention.since(now_ms, table.config.utc)
    touched: set[Group] | None = None
    frees = 0
    if incremental:
        earliest = earliest_kept(timeline, retention, since, recent)
        nothing = earliest is None and retention.policy is not CleanPolicy.VERSIONS
        last = None if nothing else last_clean(table, timeline)
        touched = set() if nothing else _touched(table, timeline, last, earliest)
        if last is not None and earliest is not None:
            begin, end = last.earliest_commit_to_retain, earliest.time
            frees = sum(begin <= commit.time < end for commit in timeline.commits)
    if touched is not None and not touched:  # most often; then no file is looked at
        plan = plan_clean(CleanFacts(timeline, {}, {}, {}, recent), retention, since)
        return replace(plan, frees=frees)
    view = table.view(timeline)
    view.check()
    held = held_files(table, timeline)
    facts = CleanFacts(timeline, versions_of(view), view.replaced, held, recent)
    plan = replace(plan_clean(facts, retention, since, touched), frees=frees)
    # Leases are looked at only if there is something to delete, which is seldom so.
    leased = leased_files(table, clock, timeline) if plan.doomed else {}
    if leased:
        facts = replace(facts, held={**leased, **facts.held})
        plan = plan_clean(facts, retention, since, touched)
    if plan.names_too_late:
        facts = replace(facts, left=_left(table, timeline, plan))
        plan = plan_clean(facts, retention, since, touched)
    return replace(plan, frees=frees)


def _left(table: Table, timeline: Timeline, plan: CleanPlan) -> InstantTime | None:
    """What the plan has ``left``, but nothing that the last clean has made unreadable."""
    last = last_clean(table, timeline)
    if last is None or plan.left is None:
        return plan.left
    named = last.earliest_commit_to_retain or last.last_completed_commit_timestamp
    return max(plan.left, InstantTime(named))


def _recent(table: Table, timeline: Timeline, since_ms: int) -> frozenset[InstantTime]:
    """The commits that completed after ``since_ms``."""
    if timeline.layout == 1:
        return frozenset(
            i.time for i in timeline.commits if timeline.modified_ms[instant_key(i)] > since_ms
        )
    since = format_time(since_ms, table.config.utc)
    return frozenset(i.time for i in timeline.commits if completed(timeline, i) > since)


def _touched(
    table: Table, timeline: Timeline, last: CleanMetadata | None, earliest: Instant | None
) -> set[Group] | None:
    """The groups that may have a version that is old only since the last clean; None for all.

    A version becomes old when the earliest retained commit passes the one that replaced it. So
    these are the groups of which the commits from the ``last`` clean's earliest one on, and before
    the ``earliest`` of now, wrote a newer version, or which they replaced. None also if no clean is
    known and there are such groups.
    """
    begin = InstantTime("")
    commits = timeline.commits
    on_logs = table.config.table_type is TableType.MERGE_ON_READ
    if last is not None:
        known = set(filter(None, last.extra_metadata.get(SAVEPOINTS, "").split(",")))
        deleted = known - {i.time for i in timeline.completed if i.action is Action.SAVEPOINT}
        begin = InstantTime(last.earliest_commit_to_retain)
        if last.extra_metadata.get(WHOLE) != "true" or deleted or not begin:
            return None
        if not commits or begin < commits[0].time:
            return None
    found: set[Group] = set()
    for commit in commits:
        if commit.time < begin or (earliest is not None and commit.time >= earliest.time):
            continue
        metadata = COMMITS.get(table.storage, timeline, commit)
        # A compaction of logs alone does not say that it has replaced them.
        compacts = commit.action is Action.COMMIT and on_logs
        updated = (s for s in metadata.stats if compacts or s.prev_commit is not None)
        found |= {(stat.partition_path, FileId(stat.file_id)) for stat in updated}
        for partition, file_ids in (metadata.replaced or {}).items():
            found |= {(partition, file_id) for file_id in file_ids}
    return found if last is not None or not found else None


def last_clean(table: Table, timeline: Timeline) -> CleanMetadata | None:
    """What the last clean says of itself; None if there is none, or it is torn or gone since."""
    cleans = [i for i in timeline.completed if i.action is Action.CLEAN]
    if not cleans:
        return None
    path = timeline.file_of(cleans[-1])
    try:
        return parse_clean_metadata(table.storage.read(path), path)
    except (FileNotFoundError, TableCorrupt):
        return None


def _rendered(table: Table, plan: CleanPlan) -> CleanerPlan:
    """The plan as its file has it: absolute paths (spec/cleaning.md CL5)."""
    root, earliest = table.storage.root, plan.earliest
    saved = {SAVEPOINTS: ",".join(plan.savepoints)} if plan.savepoints else {}
    return CleanerPlan(
        earliest_instant_to_retain=(
            ActionInstant(earliest.time, earliest.action.value) if earliest is not None else None
        ),
        last_completed_commit_timestamp=plan.last,
        policy=plan.policy.value,
        file_paths_to_be_deleted_per_partition={
            partition: tuple(CleanFile(f"{root}/{path_in(partition, name)}") for name in names)
            for partition, names in plan.doomed.items()
        },
        extra_metadata={**saved, **({WHOLE: "true"} if plan.whole else {})},
    )


def pending_cleans(timeline: Timeline) -> list[Instant]:
    """The cleans that are requested or inflight."""
    return [i for i in timeline.pending if i.action is Action.CLEAN]


def finish_clean(writer: Writer, instant: Instant) -> list[CleanedFile]:
    """Carry out the plan of a pending clean, whoever made it (spec/cleaning.md CL6).

    Files that count now, or that a savepoint or a pending plan keeps, are spared. So are those that
    a query reads, and the plan stays pending for them: another program, which began to carry it out
    before the query had a lease, may still delete them, so no savepoint may come to hold them. A
    plan that cannot be read is left alone, with a warning. Returns an entry for each file of the
    plan.
    """
    table = writer.table
    # Under the lock, since a savepoint or a restore that was begun before the plan was put does
    # not know it. One that begins from here on finds it.
    with writer.locked(instant.time):
        with kept(writer.lock):
            timeline = table.timeline()
            check_undoing(table, timeline, "A clean", None)
            plan = plan_of(table, timeline, instant, parse_cleaner_plan)
            if plan is None or all(i.time != instant.time for i in pending_cleans(timeline)):
                return []
            leased = leased_files(table, writer.clock, timeline)
            found = _looked_at(table, timeline, instant, plan, leased)
        writer = writer.on(drop_metadata_table(table, writer.lock))
    doomed: dict[str, list[str]] = {}
    for file in found:
        if file.fate is Fate.DELETED:
            doomed.setdefault(file.partition, []).append(file.file)
    if _stays_pending(found, leased):
        _deleted(writer, instant, plan, doomed)
    else:
        _carry_out(writer, instant, plan, doomed)
    return found


def _looked_at(
    table: Table, timeline: Timeline, instant: Instant, plan: CleanerPlan, leased: Held
) -> list[CleanedFile]:
    """Each file of the plan that was found, and whether it goes on the table as it is now."""
    view = table.view(timeline)
    held = {**leased, **held_files(table, timeline)}
    counts = {file.path for each in view.live() for file in each.files}
    found: list[CleanedFile] = []
    for partition, names in named_files(plan).items():
        for name in names:
            hold = held.get((partition, name))
            why = hold.why if hold is not None else ""
            if path_in(partition, name) in counts:
                why = "the newest snapshot reads it"
            fate = Fate.KEPT if why else Fate.DELETED
            reason = why or f"the plan of the pending clean {instant.time} names it"
            found.append(CleanedFile(partition, name, None, fate, reason, instant.time))
    return found


def _stays_pending(found: Iterable[CleanedFile], leased: Held) -> bool:
    """Whether a query keeps a file of a plan that was found."""
    return any(f.fate is Fate.KEPT and (f.partition, f.file) in leased for f in found)


def named_files(plan: CleanerPlan) -> dict[str, list[str]]:
    """Partition path -> the names of data files in a plan; its folders are not followed."""
    found: dict[str, list[str]] = {}
    for partition, files in plan.file_paths_to_be_deleted_per_partition.items():
        if ".." in partition.split("/"):
            continue
        names = (file.file_path.rpartition("/")[2] for file in files)
        found[partition.strip("/")] = [n for n in names if parse_data_file_name(n) is not None]
    return found


def _carry_out(
    writer: Writer, instant: Instant, plan: CleanerPlan, doomed: Mapping[str, list[str]]
) -> None:
    """Delete ``doomed`` without the lock, and end the clean under it, if nobody has."""
    metadata = _deleted(writer, instant, plan, doomed)
    with writer.locked(instant.time):
        timeline = writer.table.timeline()
        if any(i.time == instant.time for i in pending_cleans(timeline)):
            _end(writer, instant, metadata, timeline)
        else:
            log.info("another program has ended the clean %s", instant.time)


def _deleted(
    writer: Writer, instant: Instant, plan: CleanerPlan, doomed: Mapping[str, list[str]]
) -> CleanMetadata:
    """Put the inflight file and delete ``doomed``; what the completed file says of it."""
    table, clock = writer.table, writer.clock
    started = clock.monotonic()
    if instant.state is State.REQUESTED:
        with suppress(FileExists):  # another program carries the same plan out
            put_instant(table, instant, replace(instant, state=State.INFLIGHT), b"")
    delete_files(table.storage, [path_in(p, n) for p, names in doomed.items() for n in names])
    earliest = plan.earliest_instant_to_retain
    return CleanMetadata(
        start_clean_time=instant.time,
        time_taken_in_millis=int((clock.monotonic() - started) * 1000),
        total_files_deleted=sum(map(len, doomed.values())),
        earliest_commit_to_retain=earliest.timestamp if earliest is not None else "",
        last_completed_commit_timestamp=plan.last_completed_commit_timestamp,
        partition_metadata={
            partition: CleanedPartition(partition, plan.policy, tuple(names), tuple(names))
            for partition, names in doomed.items()
        },
        extra_metadata=plan.extra_metadata,
    )


def _end(writer: Writer, instant: Instant, metadata: CleanMetadata, timeline: Timeline) -> None:
    """Put the completed file; the lock is held since ``timeline`` was listed."""
    table = writer.table
    inflight = replace(instant, state=State.INFLIGHT)
    done = Instant(instant.time, Action.CLEAN, State.COMPLETED, writer.next_time(timeline))
    writer.lock.check(table.storage.put_timeout_s)
    put_instant(table, inflight, done, render_clean_metadata(metadata))


def _rows(plan: CleanPlan, clean: InstantTime | None = None) -> list[CleanedFile]:
    goes = Fate.DELETED if clean is not None else Fate.WOULD_GO
    return [
        CleanedFile(
            f.partition_path,
            f.name,
            f.size_bytes,
            goes if f.goes else Fate.LATER if f.later else Fate.KEPT,
            f.why,
            clean if f.goes else None,
        )
        for f in plan.old
    ]
