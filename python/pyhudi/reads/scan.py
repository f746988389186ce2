"""Scan plans: which files a query reads, at which instant, and in which schema each was written.

One query is pinned to one state of the table: ``describe`` chooses it, and every later question
carries its pin and its instant (``reads/pins.py``).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from pyhudi.application.runtime import Runtime
from pyhudi.choices import ChangeForm
from pyhudi.config import QueryType, ReadOptions, ignored_warning, resolve_read
from pyhudi.errors import HistoryExpired, TableCorrupt
from pyhudi.format.instants import InstantTime, format_time, parse_as_of
from pyhudi.format.keys import DEFAULT_PARTITION
from pyhudi.format.spark_schema import SparkSchema, SparkType
from pyhudi.format.table_config import KeyGenerator, TableConfig, TableType
from pyhudi.reads.conditions import Filter
from pyhudi.reads.dropped_columns import refuse_dropped_columns
from pyhudi.reads.filters import decided_filters, kept_partitions, texts_of
from pyhudi.reads.incremental import Changes, RowsOfCommits, changes, last_of, range_of
from pyhudi.reads.log_slices import Elsewhere, Place, counted_slices, merges
from pyhudi.rows.log_spec import Merged, Positions
from pyhudi.services.file_schemas import FileSchemas, NamesInLogs
from pyhudi.services.slice_merging import refuse_other_deletes
from pyhudi.slices.files import FileSlice
from pyhudi.storage.base import Storage
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.schema import table_schema
from pyhudi.timeline.schema_history import SchemaHistory
from pyhudi.timeline.table import LOOKS, Table, open_with_timeline
from pyhudi.timeline.time_travel import check_readable
from pyhudi.timeline.view import FileSystemView

log = logging.getLogger(__name__)

NEWEST_VERSION = 9
#: positions of rows that take about as much memory as the listing of a file group
POSITIONS = 32
#: how many micros an ``as_of_micros`` has per milli of an instant time
MICROS = 1_000


@dataclass(frozen=True, slots=True)
class Description:
    """What a state of a table is to a reader; ``instant`` is what later questions are pinned to.

    ``partitioning`` are columns whose values name the partitions, ``partition_columns`` all that
    partitions are made of. ``rows`` are those of an incremental read, None for all rows of the
    files.
    """

    schema: SparkSchema
    partitioning: tuple[str, ...]
    partition_columns: tuple[str, ...]
    properties: Mapping[str, str]
    instant: InstantTime | None
    meta_fields: bool
    rows: RowsOfCommits | None


@dataclass(slots=True)
class _Found:
    """What a query knows so far; two threads may learn the same twice."""

    schema: SparkSchema | None = None
    view: FileSystemView | None = None
    changes: Changes | None = None
    history: SchemaHistory | None = None
    in_logs: NamesInLogs = field(default_factory=NamesInLogs)
    merged: dict[Place, Merged] = field(default_factory=dict)
    #: the filters asked for last, the slices and the partitions that they leave
    slices: tuple[frozenset[Filter], list[FileSlice], frozenset[str]] | None = None
    #: the filters asked for last, and the rows of logs that they leave
    passing: tuple[frozenset[Filter], dict[Place, tuple[Positions, ...]]] | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """A table as one query sees it: all answers come from one listing.

    ``known`` is the range of a stream's batch, which no option says.
    """

    runtime: Runtime
    table: Table
    timeline: Timeline
    as_of: InstantTime | None
    options: ReadOptions
    known: Changes | None = None
    _found: _Found = field(default_factory=_Found, init=False, repr=False, compare=False)

    @property
    def instant(self) -> InstantTime | None:
        """The instant that the query is pinned to; None for a table without commits."""
        latest = self.timeline.latest_commit
        return self.as_of or (latest.time if latest else None)

    def changes(self) -> Changes | None:
        """The range of an incremental read; ``HistoryExpired`` if its files are not kept.

        None for change data, which is not a state (``reads/change_data.py``), and for a stream.
        """
        if self.known is not None:
            return self.known
        none = self.of_changes or self.options.follows
        asked = None if none else range_of(self.options, self.table.config)
        if self._found.changes is None and asked is not None:
            self._found.changes = changes(
                self.table, self.own_timeline, asked, self.options.of_the_rest
            )
        return self._found.changes

    @property
    def of_changes(self) -> bool:
        """Whether the query reads change data."""
        incremental = self.options.query_type is QueryType.INCREMENTAL
        return incremental and self.options.change_form is not ChangeForm.LATEST_STATE

    @property
    def own_timeline(self) -> Timeline:
        """The timeline without commits after the state that the query is pinned to."""
        timeline, until = self.timeline, self.as_of
        if until is None:
            return timeline
        return timeline.only(
            i for i in timeline.instants if i not in timeline.commits or i.time <= until
        )

    @property
    def rows(self) -> RowsOfCommits | None:
        """The rows of an incremental read; None if all rows of its files count."""
        found = self.changes()
        return found.rows if found is not None else None

    @property
    def until(self) -> InstantTime | None:
        """The instant up to which files count."""
        found = self.changes()
        return found.as_of if found is not None else self.as_of

    @property
    def _schema_at(self) -> InstantTime | None:
        if self.options.end_schema and self.of_changes:
            asked = range_of(self.options, self.table.config)
            assert asked is not None, "the query reads change data"
            return last_of(self.table, self.own_timeline, asked) or self.as_of
        found = self.changes() if self.options.end_schema else None
        return found.last if found is not None else self.as_of

    def schema(self) -> SparkSchema:
        """The table's schema at the query's instant, without meta columns."""
        if self._found.schema is None:
            self._found.schema = table_schema(self.table, self.timeline, self._schema_at)
        if self._found.schema is None:
            files = self.view().latest(self.until)
            self._found.schema = self.file_schemas().of_footer(files)
        return self._found.schema

    def file_schemas(self) -> FileSchemas:
        """The schemas of the query's files."""
        found, place = self._found, self.runtime.filesystem
        if found.history is None:
            found.history = SchemaHistory(self.table, self.timeline, self._schema_at)
        return FileSchemas(place, self.table, self.timeline, found.history, found.in_logs)

    def types(self) -> dict[str, SparkType]:
        """Column -> type."""
        return self.schema().types

    def view(self) -> FileSystemView:
        view = self._found.view
        if view is None:
            found = self.changes()
            view = found.view(self.table) if found is not None else self.table.view(self.timeline)
            if view.whole:  # otherwise a lost file may be put back
                self._found.view = view
        return view

    @property
    def merges_logs(self) -> bool:
        """Whether rows of log files belong to the answer."""
        merge_on_read = self.table.config.table_type is TableType.MERGE_ON_READ
        return merge_on_read and self.options.query_type is not QueryType.READ_OPTIMIZED

    @property
    def merged(self) -> dict[Place, Merged]:
        """The merges of slices with logs that are known so far."""
        return self._found.merged

    def passing(self, filters: Sequence[Filter]) -> dict[Place, tuple[Positions, ...]]:
        """The rows of logs that ``filters`` leave, of the slices that are known so far."""
        wanted, found = frozenset(filters), self._found.passing
        if found is None or found[0] != wanted:
            found = self._found.passing = (wanted, {})
        return found[1]

    @property
    def listed_files(self) -> int:
        """File groups that the query holds a listing of; 0 before it has been asked for files.

        The positions of its merges count too, 32 of them for a file group.
        """
        view, merged = self._found.view, list(self.merged.values())
        listed = sum(map(len, view.groups.values())) if view is not None else 0
        positions = sum(len(each.masked) + each.rows for each in merged)
        return listed + -(-positions // POSITIONS)

    def slices(self, filters: Sequence[Filter]) -> list[FileSlice]:
        """Slices to read, pruned by partition, with the logs that count."""
        return self._kept(filters)[0]

    def pruned(self, filters: Sequence[Filter]) -> int:
        """How many base files ``slices`` leaves out by their partitions."""
        others = self.view().groups.keys() - self._kept(filters)[1]
        return len(self.view().slices(self.until, others, logs=False)) if others else 0

    def _kept(self, filters: Sequence[Filter]) -> tuple[list[FileSlice], frozenset[str]]:
        wanted = frozenset(filters)
        found = self._found.slices
        if found is not None and found[0] == wanted:
            return found[1], found[2]
        view = self.view()
        logs = self.merges_logs
        held = view.groups.keys() | view.logs.keys() if logs else view.groups.keys()
        partitions = kept_partitions(self.table.config, self.types(), list(held), filters)
        slices = view.slices(self.until, partitions, logs=logs)
        if logs:
            slices = counted_slices(self, slices)
        changed = self.changes()
        if changed is not None:
            changed.check_bases(self.table, slices)
            slices = changed.of(slices, self.table.config.layout)
        kept = frozenset(partitions)
        self._found.slices = (wanted, slices, kept)
        return slices, kept

    def decided(self, filters: Sequence[Filter]) -> list[bool]:
        """For each filter whether it is true of every row in the files that all of them leave."""
        partitions = sorted({f.partition_path for f in self.slices(filters)})
        return decided_filters(self.table.config, self.types(), partitions, filters)


def open_query(
    runtime: Runtime,
    root: str,
    options: Mapping[str, str],
    session: Mapping[str, str],
    as_of: str | None = None,
    as_of_micros: int | None = None,
    pinned: bool = False,
) -> Query:
    """Open a table for reading; ``HistoryExpired`` for an instant that is no longer kept.

    ``UnsupportedTable`` as of ``refuse_dropped_columns``.
    ``pinned``: ``as_of`` is the instant of a query that was opened before, not one of a user.
    """
    travels = not pinned and (as_of is not None or as_of_micros is not None)
    resolved = resolve_read(options, session, travels)
    storage: Storage = runtime.storage(root)
    table, timeline = open_with_timeline(storage)
    refuse_dropped_columns(table.config)
    if resolved.query_type is not QueryType.READ_OPTIMIZED:
        refuse_other_deletes(table.config, {**session, **options})
    utc = table.config.utc
    asked: InstantTime | None = None
    if as_of_micros is not None:
        asked = format_time(as_of_micros // MICROS, utc)
    elif as_of is not None or resolved.as_of is not None:
        asked = parse_as_of(as_of or resolved.as_of or "", utc)
    if asked is not None:
        check_readable(table, timeline, asked)
    return Query(runtime, table, timeline, asked, resolved)


def open_listed(
    runtime: Runtime,
    root: str,
    options: Mapping[str, str],
    session: Mapping[str, str],
    as_of: str | None = None,
    as_of_micros: int | None = None,
) -> Query:
    """``open_query`` with the files listed; opened again if the table has changed meanwhile.

    Nobody knows anything of the query yet, so it may still become one of a later state.
    """
    for _ in range(LOOKS):
        query = open_query(runtime, root, options, session, as_of, as_of_micros)
        if not _has_moved(query):
            break
    return query


def _has_moved(query: Query) -> bool:
    """Whether that explains missing files; a question may not need other files."""
    if query.of_changes:
        return False
    try:
        view = query.view()
        if not view.whole:
            view.latest(query.until)
    except HistoryExpired as expired:
        return expired.moved
    except TableCorrupt:
        pass
    return False


def describe(query: Query) -> Description:
    """What the query sees of its table; warns once of options that it ignores."""
    warning = ignored_warning(query.options.ignored)
    if warning is not None:
        _warn_once(warning)
    config = query.table.config
    return Description(
        schema=query.schema(),
        partitioning=tuple(partition_columns(query)),
        partition_columns=tuple(_path_columns(query)),
        properties=table_properties(config),
        instant=query.instant,
        meta_fields=config.populate_meta_fields,
        rows=query.rows,
    )


def partition_columns(query: Query) -> list[str]:
    """The columns whose values name the partitions; none if a key generator changes them."""
    if query.table.config.key_generator in (KeyGenerator.TIMESTAMP, KeyGenerator.CUSTOM):
        return []
    return _path_columns(query)


def _path_columns(query: Query) -> list[str]:
    """The columns that partitions are made of, by whatever key generator."""
    names = query.schema().names
    return [field for field in query.table.config.partition_fields if field in names]


@dataclass(frozen=True, slots=True)
class PartitionTexts:
    """A partition: its folder, and its columns' values as texts, None for null."""

    path: str
    values: tuple[str | None, ...]


def partition_texts(query: Query) -> list[PartitionTexts]:
    """The partitions of the table, but for those whose folders do not name the columns."""
    partitions = query.view().partitions(query.as_of)
    found = [(partition, texts_of(query.table.config, partition)) for partition in partitions]
    return [
        PartitionTexts(path, tuple(None if text == DEFAULT_PARTITION else text for text in texts))
        for path, texts in found
        if texts is not None
    ]


@lru_cache(maxsize=256)  # a session's settings come with each of its queries
def _warn_once(text: str) -> None:
    log.warning(text)


#: properties of a user that SHOW CREATE TABLE repeats, if they are not the default
SHOWN = (
    "hoodie.datasource.write.hive_style_partitioning",
    "hoodie.datasource.write.partitionpath.urlencode",
)


def table_properties(config: TableConfig) -> dict[str, str]:
    """TBLPROPERTIES that would make a table like this one."""
    merge_on_read = config.table_type is TableType.MERGE_ON_READ
    found = {"type": "mor" if merge_on_read else "cow"}
    if config.record_key_fields:
        found["primaryKey"] = ",".join(config.record_key_fields)
    if config.ordering_fields:
        found["preCombineField"] = ",".join(config.ordering_fields)
    if config.version != NEWEST_VERSION:
        found["hoodie.write.table.version"] = str(config.version)
    for key, value in config.raw.items():
        if (key in SHOWN and value == "true") or key.startswith("hoodie.keygen."):
            found[key] = value
    return found


def changed(query: Query) -> HistoryExpired:
    """The error of a query whose state is no longer known."""
    instant = query.instant
    return HistoryExpired(
        f"The table {query.table.config.name} has changed at {instant} since the query was "
        "planned, for example by a commit that began earlier and completed later, and its earlier "
        "state is no longer known. Open the table again.",
        asked=instant,
        earliest=instant,
    )


def count_rows(
    query: Query, filters: Sequence[Filter], elsewhere: Elsewhere | None = None
) -> int | None:
    """The exact number of rows, None if only reading can tell.

    Many logs are merged ``elsewhere`` for it.
    """
    if query.rows is not None or not all(query.decided(filters)):
        return None
    slices = query.slices(filters)
    found = query.view().rows_of(replace(each, logs=()) for each in slices if each.base is not None)
    with_logs = [each for each in slices if each.logs]
    if found is None or not with_logs:
        return found
    merged = merges(query, with_logs, elsewhere).values()
    return found + sum(each.rows - len(each.masked) for each in merged)
