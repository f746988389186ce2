"""The history of a table for people: one entry per instant, with its numbers.

It is read from the timeline alone, without Spark and without data files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pyhudi.clock import SystemClock
from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.instants import Action, Instant, InstantTime, State, moment_of
from pyhudi.listing import COLUMN, Listing
from pyhudi.storage.open import open_storage
from pyhudi.timeline.active import COMMITS, Timeline
from pyhudi.timeline.archived import archived_instants
from pyhudi.timeline.completion_order import completion_time
from pyhudi.timeline.states import COMMIT_ACTIONS
from pyhudi.timeline.table import Table, open_table


@dataclass(frozen=True, slots=True, repr=False)
class HistoryEntry:
    """One instant of a table's timeline.

    ``completed_at`` is its completion time (layout 1: the modification time of its file), None if
    it is pending. ``operation`` is Hudi's name in lower case, empty if the instant is not a commit.
    The numbers are rows and bytes of the files that the instant wrote: ``rows_written`` counts all
    their rows, copied ones included. ``replaced_groups`` is the number of file groups that it
    replaced. ``utc``: the table's times are in UTC, not in the zone of the machine that wrote.
    """

    instant: InstantTime
    action: Action
    state: State
    completed_at: InstantTime | None = None
    operation: str = ""
    files: int = 0
    replaced_groups: int = 0
    rows_written: int = 0
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    bytes_written: int = 0
    archived: bool = False
    utc: bool = field(default=True, metadata={COLUMN: False})

    @property
    def time(self) -> datetime:
        """The instant as a moment with its zone; of instants in local time that of this machine."""
        return moment_of(self.instant, self.utc)

    @property
    def completion_time(self) -> datetime | None:
        """``completed_at`` as such a moment."""
        return None if self.completed_at is None else moment_of(self.completed_at, self.utc)

    @property
    def is_commit(self) -> bool:
        """Whether the instant's action can have data files."""
        return self.action in COMMIT_ACTIONS

    def __repr__(self) -> str:
        facts = [f"{self.instant!r}", f"{self.action.value} {self.state.value}"]
        if self.operation:
            facts.append(self.operation)
        if self.is_commit and self.state is State.COMPLETED:
            facts.append(
                f"{self.files} files, +{self.rows_inserted} ~{self.rows_updated} "
                f"-{self.rows_deleted} rows, {self.bytes_written} bytes"
            )
        if self.archived:
            facts.append("archived")
        return f"HistoryEntry({', '.join(facts)})"


def history(
    path: str, *, archived: bool = False, hadoop_options: Mapping[str, str] | None = None
) -> Listing[HistoryEntry]:
    """The instants of the table at ``path``, oldest first, without Spark.

    ``archived`` adds those that have left the active timeline. ``hadoop_options`` are ``fs.s3a.*``
    settings for tables on S3. Errors: ``TableNotFound``, ``ConfigError`` for a path that is not
    absolute, ``TableCorrupt``.
    """
    clock = SystemClock()
    table = open_table(open_storage(path, hadoop_options or {}, clock))
    return Listing(HistoryEntry, table_history(table, archived))


def table_history(table: Table, archived: bool = False) -> list[HistoryEntry]:
    """The same for an opened table."""
    timeline = table.timeline()
    entries = [table_entry(table, timeline, instant) for instant in timeline.instants]
    if archived:
        known = {(entry.instant, entry.action) for entry in entries}
        entries += [
            entry_of(
                found.instant, found.instant.completion_time, found.commit(), table.config.utc, True
            )
            for found in archived_instants(table.storage, table.config)
            if (found.instant.time, found.instant.action) not in known
        ]
    return sorted(entries, key=lambda entry: (entry.instant, entry.action.value))


def table_entry(table: Table, timeline: Timeline, instant: Instant) -> HistoryEntry:
    """The entry of one instant of the active timeline; reads a commit's metadata."""
    completed_at = None
    if instant.state is State.COMPLETED:
        completed_at = completion_time(timeline, instant, table.config.utc)
    metadata = CommitMetadata(operation="")
    if instant.state is State.COMPLETED and instant.action in COMMIT_ACTIONS:
        metadata = COMMITS.get(table.storage, timeline, instant)
    return entry_of(instant, completed_at, metadata, table.config.utc)


def entry_of(
    instant: Instant,
    completed_at: InstantTime | None,
    metadata: CommitMetadata,
    utc: bool,
    archived: bool = False,
) -> HistoryEntry:
    """The entry of an instant; ``metadata`` is that of its commit, empty for other instants.

    ``utc`` says whether the table's times are in UTC.
    """
    stats = metadata.stats
    is_commit = instant.action in COMMIT_ACTIONS
    return HistoryEntry(
        instant=instant.time,
        action=instant.action,
        state=instant.state,
        completed_at=completed_at,
        operation=metadata.operation.lower() if is_commit else "",
        files=len(stats),
        replaced_groups=_total(len(ids) for ids in (metadata.replaced or {}).values()),
        rows_written=_total(stat.num_writes for stat in stats),
        rows_inserted=_total(stat.num_inserts for stat in stats),
        rows_updated=_total(stat.num_updates for stat in stats),
        rows_deleted=_total(stat.num_deletes for stat in stats),
        bytes_written=_total(stat.total_write_bytes for stat in stats),
        archived=archived,
        utc=utc,
    )


def _total(counts: Iterable[int]) -> int:
    # In Hudi negative numbers mean "not known".
    return sum(max(0, count) for count in counts)
