"""The schema in which each data file was written.

A file's commit declares it; for files of archived commits one footer per instant is read. So it is
where types changed while a write ran: such a commit declares the table's schema, with wider types
than its files have. In a table with a schema history the schema is put in the table's names and
order, by the columns' ids.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.errors import TableCorrupt
from pyhudi.format.column_ids import names_in_file
from pyhudi.format.instants import Instant, InstantTime
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.format.widening import same_type
from pyhudi.rows.change_spec import Slice
from pyhudi.rows.log_spec import LogSlice
from pyhudi.rows.spec import FileNames, FileSystemSpec
from pyhudi.slices.files import BaseFile, FileSlice, LogFile
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.archived import archived_instants
from pyhudi.timeline.promises import vanished
from pyhudi.timeline.schema import declared_schemas, schema_of
from pyhudi.timeline.schema_history import SchemaHistory
from pyhudi.timeline.strays import Archive
from pyhudi.timeline.table import Table


@dataclass(frozen=True, slots=True)
class LogNames:
    """The names of the columns ``current`` by the instant of a log's block, None where they are the
    same; ``differing`` are those that are not."""

    current: SparkSchema | None
    by_instant: Mapping[InstantTime, FileNames | None]
    differing: dict[str, FileNames]

    @classmethod
    def of(cls, current: SparkSchema, found: Mapping[InstantTime, FileNames | None]) -> LogNames:
        """What ``found`` says."""
        differing = {str(at): names for at, names in found.items() if names is not None}
        return cls(current, found, differing)


@dataclass(slots=True)
class NamesInLogs:
    """What a query knows of columns in logs, for all its plans; two threads may learn it twice.

    ``archived`` are the archived commits, None before they were needed.
    """

    known: LogNames = field(default_factory=lambda: LogNames(None, {}, {}))
    archived: set[InstantTime] | None = None


class FileSchemas:
    """Numbers the distinct schemas of a set of files; ``found`` lists them by number.

    ``filesystem`` says how a root is reached: the file system and the path on it. ``known`` is what
    others of the same table and timeline found out about logs.
    """

    def __init__(
        self,
        filesystem: Callable[[str], tuple[FileSystemSpec, str]],
        table: Table,
        timeline: Timeline,
        history: SchemaHistory,
        known: NamesInLogs | None = None,
    ) -> None:
        self._filesystem = filesystem
        self._table = table
        self._timeline = timeline
        self.history = history
        self._commits = {i.time: i for i in timeline.commits}
        self._completions = sorted(i.completion_time or i.time for i in timeline.commits)
        self._by_text: dict[str, int] = {}
        self._in_logs = known if known is not None else NamesInLogs()
        self.found: list[SparkSchema] = []

    def numbers(self, files: Sequence[BaseFile], current: SparkSchema) -> list[int]:
        """For each file the number of its schema; ``found`` has ``current`` even without files."""
        by_instant: dict[InstantTime, int] = {}
        numbers = []
        for file in files:
            if file.instant not in by_instant:
                held = self.of_file(file.instant, file.path, current)
                by_instant[file.instant] = self._number(held)
            numbers.append(by_instant[file.instant])
        if not self.found:
            self._number(current)
        return numbers

    def of_file(self, instant: InstantTime, path: str, current: SparkSchema) -> SparkSchema:
        """The columns of ``current`` that a file holds; without ids, the file's own columns."""
        declared = self._declared(instant)
        if declared is None or self._may_be_narrower(self._commits[instant], declared):
            declared = self._of_footer(path)
        return self.history.held(current, instant, declared)

    def names_of(self, instant: InstantTime, path: str, current: SparkSchema) -> FileNames | None:
        """The names of the columns of ``current`` in a file; None if they are its own names."""
        if self.history.current() is None:
            return None
        own = self._declared(instant) or self._of_footer(path)
        return names_in_file(self.history.held(current, instant, own))

    def names_in_logs(
        self, current: SparkSchema, slices: Iterable[tuple[InstantTime | None, Iterable[LogFile]]]
    ) -> dict[str, FileNames]:
        """The names of columns by the instant of a log's block, where they differ from now.

        ``slices`` are base instants and logs, whose commits may be archived: then the history says
        what their columns were called.
        """
        if self.history.current() is None:
            return {}
        known = self._in_logs.known
        if known.current != current:
            # One that declares no schema has written no rows, as a removal of partitions.
            active = (i for i in self._commits if self._has(i) and self._declared(i) is not None)
            known = LogNames.of(current, {i: self.names_of(i, "", current) for i in active})
        if new := self._archived(slices) - known.by_instant.keys():
            then = {i: names_in_file(self.history.held_then(current, i)) for i in new}
            known = LogNames.of(current, {**known.by_instant, **then})
        self._in_logs.known = known
        return known.differing

    def orders(self, current: SparkSchema, slices: Sequence[FileSlice]) -> list[LogSlice]:
        """``slices`` as workers get them, to be read in the columns ``current``."""
        instants = (each.base.instant if each.base is not None else None for each in slices)
        logs = [(at, each.logs) for at, each in zip(instants, slices, strict=True)]
        names = self.names_in_logs(current, logs)
        found = []
        for each in slices:
            base, paths = each.base, tuple(log.path for log in each.logs)
            if base is None:
                found.append(LogSlice(None, "", paths, names))
                continue
            own = self.names_of(base.instant, base.path, current)
            found.append(LogSlice(Slice(base.path, own), base.instant, paths, names))
        return found

    def _declared(self, instant: InstantTime) -> SparkSchema | None:
        """The schema that a commit declares; None if it is archived, or declares none."""
        commit = self._commits.get(instant)
        return schema_of(self._table, self._timeline, commit) if commit else None

    def _may_be_narrower(self, commit: Instant, declared: SparkSchema) -> bool:
        """Whether the files of a commit may have narrower types than it declares.

        That is so if another commit changed types while its write ran (RFC-82, cases 6 and 8), or
        while a compaction or a clustering ran.
        """
        done = commit.completion_time
        if done is None:  # layout 1 does not tell which writes ran at once
            return not all(_same_types(each, declared) for each in self._every_declared)
        began, ended = (bisect_right(self._completions, time) for time in (commit.time, done))
        if ended - began <= 1:
            return False
        before = (i for i in self._commits.values() if (i.completion_time or i.time) <= commit.time)
        at_begin = max(before, key=lambda i: i.time, default=None)
        # Without one, several writes made the table at once (case 3).
        start = self._declared(at_begin.time) if at_begin is not None else None
        return start is None or not _same_types(start, declared)

    @cached_property
    def _every_declared(self) -> list[SparkSchema]:
        """The schemas that commits declare, each once."""
        return declared_schemas(self._table, self._timeline)

    def _has(self, instant: InstantTime) -> bool:
        return self.history.as_of is None or instant <= self.history.as_of

    def _archived(
        self, slices: Iterable[tuple[InstantTime | None, Iterable[LogFile]]]
    ) -> set[InstantTime]:
        """The archived instants that blocks of the logs may name; ``TableCorrupt``."""
        first, config = self._timeline.first_time, self._table.config
        named = {log.instant for _, logs in slices for log in logs}
        # Not all of them are below the first write: its state may have come late.
        active = {instant.time for instant in self._timeline.instants}
        old = {i for i in named if first is None or i < first or i not in active}
        # Otherwise the name of a log has its slice's instant, and blocks may be of later commits.
        if config.logs_name_their_write or not old:
            return old
        known = self._in_logs
        if known.archived is None:
            known.archived = set(Archive(self._table.storage, config).commits())
        if not known.archived:  # there is none, or it cannot be read
            archived_instants(self._table.storage, config)
        return known.archived

    def _number(self, schema: SparkSchema) -> int:
        text = json.dumps(schema.json(), sort_keys=True)
        if text not in self._by_text:
            self._by_text[text] = len(self.found)
            self.found.append(schema)
        return self._by_text[text]

    def of_footer(self, files: Sequence[BaseFile]) -> SparkSchema:
        """The schema in the newest file's footer; ``TableCorrupt`` if there is no file."""
        if not files:
            return SparkSchema()
        return self._of_footer(max(files, key=lambda f: f.instant).path)

    def _of_footer(self, path: str) -> SparkSchema:
        filesystem, root = self._filesystem(self._table.storage.root)
        try:
            with filesystem.open().open_input_file(f"{root}/{path}") as source:
                schema = pq.read_schema(source)
        except FileNotFoundError as e:
            raise vanished(self._table.storage, path) from e
        except (OSError, pa.ArrowInvalid) as e:
            raise TableCorrupt(
                f"The footer of {path} cannot be read: {e}.",
                path=path,
                rule="spec/data_files.md D2",
            ) from e
        return SparkSchema.of_arrow(schema)


def _same_types(one: SparkSchema, other: SparkSchema) -> bool:
    """Whether the columns that both have are of the same types."""
    known = one.by_lower_name()
    both = ((c.type, known[c.lower_name].type) for c in other.columns if c.lower_name in known)
    return all(same_type(mine, theirs) for mine, theirs in both)
