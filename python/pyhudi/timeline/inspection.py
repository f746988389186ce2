"""The facts of a table for Python users, without Spark and without reading rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.clock import SystemClock
from pyhudi.errors import ConfigError
from pyhudi.format.commit_metadata import WriteStat
from pyhudi.format.instants import InstantTime, State, parse_as_of
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.format.table_config import TableConfig
from pyhudi.listing import Listing, html_table
from pyhudi.slices.files import BaseFile
from pyhudi.storage.base import Storage
from pyhudi.storage.open import open_storage
from pyhudi.text_table import NOTHING, Cell, cell_text, size_text, table_text
from pyhudi.timeline.active import COMMITS
from pyhudi.timeline.changes import PartitionChange, partition_changes, rows_of
from pyhudi.timeline.checkup import Finding, findings
from pyhudi.timeline.history import HistoryEntry, table_entry, table_history
from pyhudi.timeline.schema import table_schema
from pyhudi.timeline.states import COMMIT_ACTIONS
from pyhudi.timeline.table import Table, open_table
from pyhudi.timeline.time_travel import check_readable


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One base file of a snapshot; ``rows`` is None if only the file itself has the number."""

    partition: str
    path: str
    file_id: str
    instant: str
    size_bytes: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class PartitionEntry:
    """One partition of a snapshot: its path below the table, and its contents."""

    partition: str
    files: int
    size_bytes: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that a commit wrote; ``previous`` is the instant of the slice before it."""

    partition: str
    path: str
    file_id: str
    previous: str | None
    rows_written: int
    rows_inserted: int
    rows_updated: int
    rows_deleted: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Commit:
    """A completed commit: its numbers, its files, and its writer's metadata."""

    entry: HistoryEntry
    files: Listing[FileChange]
    metadata: Mapping[str, str]


class InspectedTable:
    """``pyhudi.Table``: the one at ``path``, read again for each question; no Spark is needed.

    ``hadoop_options`` are ``fs.s3a.*`` settings for tables on S3. Errors: ``TableNotFound``,
    ``ConfigError`` for a path that is not absolute, ``TableCorrupt``.
    """

    def __init__(self, path: str, *, hadoop_options: Mapping[str, str] | None = None) -> None:
        self._storage = open_storage(path, hadoop_options or {}, SystemClock())
        self._opened()

    @classmethod
    def on(cls, storage: Storage) -> InspectedTable:
        """The table of an open storage."""
        table = cls.__new__(cls)
        table._storage = storage
        table._opened()
        return table

    def _opened(self) -> Table:
        return open_table(self._storage)

    @property
    def path(self) -> str:
        """The path of the table."""
        return self._storage.root

    @property
    def config(self) -> TableConfig:
        """The facts in hoodie.properties: name, version, keys, partitions, ordering."""
        return self._opened().config

    def schema(self, as_of: str | None = None) -> pa.Schema:
        """The columns without Hudi's own, now or at a time in any form that queries accept."""
        table = self._opened()
        at = self._at(table, as_of)
        found = table_schema(table, table.timeline(), at)
        if found is None:
            files = table.now(lambda view: view.latest(at))
            if not files:
                return pa.schema([])
            smallest = min(files, key=lambda file: file.size_bytes)
            footer = pq.read_schema(pa.BufferReader(self._storage.read(smallest.path)))
            found = SparkSchema.of_arrow(footer)
        return found.arrow()

    def history(self, archived: bool = False) -> Listing[HistoryEntry]:
        """The instants of the timeline, oldest first; ``archived`` adds archived instants."""
        return Listing(HistoryEntry, table_history(self._opened(), archived))

    def files(self, as_of: str | None = None) -> Listing[FileEntry]:
        """The base files that a query reads, now or at a time."""
        return Listing(FileEntry, map(_file_entry, self._latest(as_of)))

    def partitions(self, as_of: str | None = None) -> Listing[PartitionEntry]:
        """The partitions that a query reads, with their contents."""
        by_path: dict[str, list[BaseFile]] = {}
        for file in self._latest(as_of):
            by_path.setdefault(file.partition_path, []).append(file)
        found = [
            PartitionEntry(path, len(files), sum(f.size_bytes for f in files), rows_of(files))
            for path, files in sorted(by_path.items())
        ]
        return Listing(PartitionEntry, found)

    def commits(self) -> Listing[HistoryEntry]:
        """The completed commits of the active timeline, oldest first."""
        done = State.COMPLETED
        entries = [each for each in self.history() if each.is_commit and each.state is done]
        return Listing(HistoryEntry, entries)

    def check(self, read_files: bool = False) -> Listing[Finding]:
        """What is wrong with the table, and which writes are pending; nothing is changed.

        ``read_files`` also reads each base file of the newest snapshot.
        """
        return Listing(Finding, findings(self._opened(), read_files))

    def diff(self, before: str, after: str | None = None) -> Listing[PartitionChange]:
        """The partitions whose files differ between two states; ``after`` is now by default."""
        changes = partition_changes(self._latest(before), self._latest(after))
        return Listing(PartitionChange, changes)

    def commit(self, instant: str | None = None) -> Commit:
        """A completed commit of the active timeline, by default the last one.

        ``ConfigError`` if there is none.
        """
        table = self._opened()
        timeline = table.timeline()
        commits = [each for each in timeline.commits if each.action in COMMIT_ACTIONS]
        for found in commits[-1:] if instant is None else commits:
            if instant is None or found.time == instant:
                metadata = COMMITS.get(table.storage, timeline, found)
                files = Listing(FileChange, map(file_change, metadata.stats))
                return Commit(table_entry(table, timeline, found), files, metadata.extra)
        raise ConfigError(
            f"The active timeline of {self.path} has no completed commit {instant or 'yet'}. "
            "commits() lists those that it has.",
            key="instant",
        )

    def _latest(self, as_of: str | None) -> list[BaseFile]:
        table = self._opened()
        at = self._at(table, as_of)
        return table.now(lambda view: view.with_rows(view.latest(at)))

    @staticmethod
    def _at(table: Table, as_of: str | None) -> InstantTime | None:
        if as_of is None:
            return None
        at = parse_as_of(as_of, table.config.utc)
        check_readable(table, table.timeline(), at)
        return at

    def _facts(self) -> list[tuple[str, Cell]]:
        config, files = self.config, self._latest(None)
        rows, commits = rows_of(files), self.commits()
        return [
            ("path", self.path),
            ("type", config.table_type.value.lower().replace("_", "-")),
            ("version", config.version),
            ("key", ", ".join(config.record_key_fields) or "generated"),
            ("partitioned by", ", ".join(config.partition_fields) or NOTHING),
            ("ordered by", ", ".join(config.ordering_fields) or NOTHING),
            ("last commit", commits[-1].instant if commits else NOTHING),
            ("files", len(files)),
            ("size", size_text(sum(file.size_bytes for file in files))),
            ("rows", NOTHING if rows is None else rows),
        ]

    def __repr__(self) -> str:
        return table_text(
            ["table", self.config.name], [[name, cell_text(fact)] for name, fact in self._facts()]
        )

    def _repr_html_(self) -> str:
        return html_table(["table", self.config.name], self._facts())


def _file_entry(file: BaseFile) -> FileEntry:
    rows = file.rows if file.rows >= 0 else None
    return FileEntry(
        file.partition_path, file.path, file.file_id, file.instant, file.size_bytes, rows
    )


def file_change(stat: WriteStat) -> FileChange:
    """What a commit records of one file that it wrote."""
    return FileChange(
        stat.partition_path,
        stat.path,
        stat.file_id,
        stat.prev_commit,
        stat.num_writes,
        stat.num_inserts,
        stat.num_updates,
        stat.num_deletes,
        stat.file_size_bytes,
    )
