"""What is known of a table for advice on its shape, and what an advice is.

Facts are values: the commits of the active timeline, the live files, and the options of writers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Final

from pyhudi.config import WriteOptions
from pyhudi.diagnosis.files_health import is_bucketed
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat
from pyhudi.format.instants import InstantTime
from pyhudi.format.table_config import TableType
from pyhudi.slices.files import BaseFile

#: with fewer commits of a kind there is no habit to see
FEW_COMMITS: Final = 5
UPDATING: Final = frozenset({"upsert", "delete"})


class Aspect(str, Enum):
    """A part of a table's shape."""

    FILE_SIZE = "target file size"
    INDEX = "index"
    BUCKETS = "bucket count"
    CLUSTERING = "clustering columns"
    PARTITIONS = "partitioning"
    TABLE_TYPE = "table type"


@dataclass(frozen=True, slots=True)
class Advice:
    """A change of shape: what the table shows that speaks for it, and the option or the command."""

    aspect: Aspect
    advice: str
    evidence: str
    follow: str


@dataclass(frozen=True, slots=True)
class SortedBy:
    """The last clustering that sorted rows, and its columns."""

    instant: InstantTime
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """What a write did: rows that it changed, bytes of the base files of their groups, bytes that
    it wrote."""

    rows: int
    held_bytes: int
    written_bytes: int


@dataclass(frozen=True)
class ShapeFacts:
    """What is known of a table.

    ``commits`` are those of the active timeline, ascending; ``files`` the newest base file of each
    live group. ``overlap`` is the share of a partition's files that may have one key by their
    ranges, in the mean, None if unknown. ``options`` are those of the table's writes.
    ``cdc``: the table has change logs.
    """

    commits: tuple[tuple[InstantTime, CommitMetadata], ...]
    files: tuple[BaseFile, ...]
    options: WriteOptions
    overlap: float | None = None
    sorted_by: SortedBy | None = None
    table_type: TableType = TableType.COPY_ON_WRITE
    cdc: bool = False

    @cached_property
    def updates(self) -> list[list[WriteStat]]:
        """Of each commit that changed rows by their keys, the files that it wrote for them."""
        found = []
        for _, metadata in self.commits:
            if metadata.operation.lower() in UPDATING:
                rewritten = [s for s in metadata.stats if s.prev_commit and s.num_writes >= 0]
                if rewritten:
                    found.append(rewritten)
        return found

    @cached_property
    def services(self) -> frozenset[InstantTime]:
        """The clusterings and compactions: they write rows again that others wrote."""
        return frozenset(
            time
            for time, each in self.commits
            if each.compacted or each.log_compacted or each.operation.upper() == "CLUSTER"
        )

    @cached_property
    def bucketed(self) -> bool:
        return is_bucketed(self.files)

    @cached_property
    def rows(self) -> int:
        """About how many rows the table has, by its bytes and by what commits tell of base files;
        0 if they tell nothing."""
        written = [
            stat
            for _, metadata in self.commits
            for stat in metadata.stats
            if stat.path.endswith(".parquet") and stat.num_writes > 0 and stat.file_size_bytes > 0
        ]
        size = sum(stat.file_size_bytes for stat in written)
        held = sum(file.size_bytes for file in self.files)
        return sum(stat.num_writes for stat in written) * held // size if size else 0

    @cached_property
    def changes(self) -> list[Change]:
        """Of each commit of ``updates`` whose file groups are still there, what it changed."""
        sizes = {(file.partition_path, file.file_id): file.size_bytes for file in self.files}
        found = []
        for commit in self.updates:
            groups = {(stat.partition_path, stat.file_id) for stat in commit}
            rows = sum(map(changed_rows, commit))
            if rows and groups <= sizes.keys():
                written = sum(stat.total_write_bytes for stat in commit)
                found.append(Change(rows, sum(sizes[group] for group in groups), written))
        return found


def changed_rows(stat: WriteStat) -> int:
    """The rows of a file that a write changed."""
    return max(0, stat.num_updates) + max(0, stat.num_deletes)
