"""Moves data files that belong to no commit into the table's bin.

Invariants: which files go is decided under the table's lock, by the storage's clock, from a listing
of the files that is older than that of the timeline: a writer requests its instant before it
writes. No file is deleted: it can be put back (services/bin.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pyhudi.clock import HOUR_MS
from pyhudi.errors import ConfigError, HudiError
from pyhudi.format.archive import ArchivedInstant
from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.filenames import path_in
from pyhudi.format.instants import InstantTime
from pyhudi.listing import Listing
from pyhudi.locks.renewal import kept
from pyhudi.services.bin import Edit, carried_out
from pyhudi.services.budget import NO_BUDGET, Budget
from pyhudi.services.opened import open_writer
from pyhudi.services.orphans_plan import JudgedFile, OrphanFacts, cut, plan_orphans
from pyhudi.slices.file_listing import StorageListing
from pyhudi.timeline.active import COMMITS, Timeline
from pyhudi.timeline.archived import archived_instants
from pyhudi.timeline.saved_files import saved_files
from pyhudi.timeline.states import COMMIT_ACTIONS
from pyhudi.timeline.strays import rolled_back
from pyhudi.timeline.table import Table
from pyhudi.transactions.heartbeat import FOLDER as HEARTBEATS
from pyhudi.transactions.heartbeat import storage_now_ms
from pyhudi.transactions.leases import living_leases
from pyhudi.transactions.recovery.undoing import check_undoing
from pyhudi.transactions.writable import refuse_writes_to
from pyhudi.transactions.writer import Writer

#: hours; as long as a program that stood still may plausibly wake up and want its files
OLDER_THAN_HOURS: Final = 72.0
BY: Final = "orphans"


class OrphanFate(str, Enum):
    """What the removal does with a file."""

    MOVED = "moved"
    WOULD_GO = "would be moved"
    KEPT = "kept"
    LATER = "left for later"


@dataclass(frozen=True, slots=True)
class Orphan:
    """A data file that no commit names, and what became of it.

    ``seen`` says whether Apache Hudi reads it as data, since it is older than the timeline.
    ``bin`` is what to give to ``put_back``.
    """

    partition: str
    file: str
    instant: InstantTime
    size_bytes: int
    seen: bool
    fate: OrphanFate
    why: str
    bin: str = ""


def remove_orphans(
    path: str,
    *,
    older_than_hours: float = OLDER_THAN_HOURS,
    dry_run: bool = True,
    max_files: int | None = None,
    max_bytes: int | None = None,
    options: Mapping[str, str] | None = None,
    hadoop_options: Mapping[str, str] | None = None,
) -> Listing[Orphan]:
    """Move the data files of the table at ``path`` that belong to no commit into its bin.

    Without Spark. Returns an entry for each file that no commit names: moved, or kept, and why. By
    default nothing changes; ``dry_run=False`` moves. Files younger than ``older_than_hours`` stay.
    After ``max_files`` files, or ``max_bytes`` bytes, the rest is left to the next removal.
    ``put_back`` undoes it. Writers may go on meanwhile. ``options`` must name the lock of the
    table's writers; ``hadoop_options`` are ``fs.s3a.*`` settings. Errors: ``TableNotFound``,
    ``UnsupportedTable``, ``ConfigError``, ``LockTimeout``, ``CommitConflict`` while a restore is
    pending, ``TableCorrupt`` if a commit or a savepoint cannot be read.
    """
    writer, _ = open_writer(path, options, hadoop_options)
    return removed_orphans(writer, older_than_hours, dry_run, Budget(max_files, max_bytes))


def removed_orphans(
    writer: Writer, older_than_hours: float, dry_run: bool, budget: Budget = NO_BUDGET
) -> Listing[Orphan]:
    """``remove_orphans`` by the writer of an application."""
    table = writer.table
    refuse_writes_to(table)
    if older_than_hours < 0:
        raise ConfigError(
            f"older_than_hours is {older_than_hours:g}: it must be 0 or more.",
            key="older_than_hours",
        )
    older_than_ms = int(older_than_hours * HOUR_MS)
    if dry_run:
        # The storage's clock is not asked, since that puts a file.
        judged = cut(judged_files(writer, writer.clock.now_ms(), older_than_ms), budget)
        return Listing(Orphan, (_told(each, OrphanFate.WOULD_GO) for each in judged))
    with writer.locked():
        with kept(writer.lock):  # a listing of the whole table may take longer than a lease
            now_ms = storage_now_ms(table.storage, writer.clock)
            judged = cut(judged_files(writer, now_ms, older_than_ms), budget)
        doomed = [each for each in judged if each.goes]
        if not doomed:
            return Listing(Orphan, (_told(each, OrphanFate.KEPT) for each in judged))
        name = carried_out(writer, BY, [Edit(each.file.path, None, each.why) for each in doomed])
    return Listing(Orphan, (_told(each, OrphanFate.MOVED, name) for each in judged))


def judged_files(writer: Writer, now_ms: int, older_than_ms: int) -> list[JudgedFile]:
    """Every data file that no commit names, and whether it goes, at the storage's ``now_ms``."""
    table = writer.table
    files = list(StorageListing(table.storage).files())
    # Listed after the files: the instant of each file was requested before it.
    timeline = table.timeline()
    check_undoing(table, timeline, "The removal of orphans", None)
    return plan_orphans(files, _facts(writer, timeline, now_ms), older_than_ms)


def _facts(writer: Writer, timeline: Timeline, now_ms: int) -> OrphanFacts:
    table, lapse_ms = writer.table, writer.policy.heartbeat.lapse_ms
    archived = _archived(table)
    named = {
        i.time: frozenset(_paths(COMMITS.get(table.storage, timeline, i))) for i in timeline.commits
    }
    named |= {each.instant.time: frozenset(_paths(each.commit())) for each in archived or ()}
    beats = table.storage.list(HEARTBEATS)
    return OrphanFacts(
        timeline,
        named,
        None if archived is None else tuple(each.instant.time for each in archived),
        rolled_back(table.storage, timeline),
        _savepointed(table, timeline),
        frozenset(InstantTime(b.name) for b in beats if now_ms - b.modified_ms <= lapse_ms),
        bool(living_leases(table.storage, writer.clock)),
        now_ms,
    )


def _paths(commit: CommitMetadata) -> Iterator[str]:
    """The data files that a commit names, its change logs included.

    Writers before 1.0 may have archived a path with another root: partition and name count. Buckets
    of several partitions may have files of one name.
    """
    for stat in commit.stats:
        for path in filter(None, (*(stat.log_files or ()), *(stat.cdc_stats or {}), stat.path)):
            yield path_in(stat.partition_path, path.rsplit("/", 1)[-1])


def _archived(table: Table) -> list[ArchivedInstant] | None:
    """The archived commits, ascending; None if one cannot be read."""
    try:
        found = archived_instants(table.storage, table.config)
        found = [each for each in found if each.instant.action in COMMIT_ACTIONS]
        for each in found:
            each.commit()
    except HudiError:
        return None
    return found


def _savepointed(table: Table, timeline: Timeline) -> dict[str, str]:
    """The paths that savepoints keep, and why."""
    return {
        path_in(partition, name): f"the savepoint of {time} keeps it"
        for time, partition, name in saved_files(table, timeline)
    }


def _told(judged: JudgedFile, if_goes: OrphanFate, name: str = "") -> Orphan:
    partition, _, file = judged.file.path.rpartition("/")
    size = judged.file.size_bytes
    stays = OrphanFate.LATER if judged.later else OrphanFate.KEPT
    fate, held = (if_goes, name) if judged.goes else (stays, "")
    return Orphan(partition, file, judged.instant, size, judged.seen, fate, judged.why, held)
