"""Change data: what each commit of a range did to each row, with the images before and after it.

Invariant: only files that the commits of the range wrote are read, and the slices that these came
from. Their metadata names them; folders are listed only for a commit that replaced whole groups or
wrote logs, or whose writer did not name the older slice. A clustering or a compaction changes no
row, so its files are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyhudi.choices import ChangeForm
from pyhudi.errors import HistoryExpired, UnsupportedTable
from pyhudi.format.change_log import AFTER, BEFORE, OP, TIME
from pyhudi.format.column_ids import names_in_file
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat
from pyhudi.format.filenames import FileId, parse_base_file_name, parse_log_file_name
from pyhudi.format.instants import Instant, InstantTime
from pyhudi.format.spark_schema import Column, SparkSchema
from pyhudi.format.table_config import TableType
from pyhudi.reads.change_slices import Group, SlicesThen, written_to_groups
from pyhudi.reads.conditions import AllOf, AnyOf, Filter, Not, Unknown
from pyhudi.reads.filters import may_match
from pyhudi.reads.incremental import commits_of, range_of
from pyhudi.reads.log_slices import merge_spec
from pyhudi.reads.scan import Query
from pyhudi.rows.change_spec import ChangePiece, ChangeSpec, Slice
from pyhudi.rows.log_spec import SliceChange, SliceChanges
from pyhudi.rows.spec import FileNames
from pyhudi.services.slice_merging import unmergeable
from pyhudi.timeline.active import COMMITS, Timeline

#: what a task reads at least: to begin it costs as much as to compare such files
TASK_BYTES = 8 << 20
#: operations that move rows or nothing at all; their files hold no change
Piece = ChangePiece | SliceChange
STILL = frozenset({"CLUSTER", "COMPACT", "LOG_COMPACT", "INDEX", "ALTER_SCHEMA", "BUCKET_RESCALE"})


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """What the workers read, and with what: pieces, and about how many bytes each has."""

    spec: ChangeSpec
    pieces: tuple[ChangePiece | SliceChanges, ...]
    sizes: tuple[int, ...]

    def task_count(self, parallelism: int) -> int:
        """How many tasks read the pieces."""
        return task_count(self.sizes, parallelism)


def task_count(sizes: Sequence[int], parallelism: int) -> int:
    """Tasks for pieces of so many bytes: no more than pay for the start of a Python worker."""
    worth = 1 + sum(sizes) // TASK_BYTES
    return max(1, min(len(sizes), worth, parallelism * 3))


def change_schema(query: Query) -> SparkSchema:
    """The columns of change data: op, ts_ms, and the images as JSON texts or as structs."""
    as_structs = query.options.change_form is ChangeForm.CDC_COLUMNS
    image: Any = query.schema().json() if as_structs else "string"
    return SparkSchema(
        (Column(OP, "string"), Column(TIME, "string"), Column(BEFORE, image), Column(AFTER, image))
    )


def plan_changes(query: Query, wanted: SparkSchema, filters: Sequence[Filter]) -> ChangePlan:
    """What to read for the columns ``wanted``, of which images may be structs with fewer columns.

    ``HistoryExpired`` if commits of the range are archived or an older slice is gone;
    ``UnsupportedTable`` for tables without meta fields, and logs that pyhudi cannot merge.
    """
    asked = range_of(query.options, query.table.config)
    assert asked is not None, "the query reads change data"
    commits = commits_of(query.table, query.own_timeline, asked)
    return plan_pieces(query, wanted, pieces_of(query, commits, filters))


def pieces_of(
    query: Query, commits: Iterable[Instant], filters: Sequence[Filter]
) -> Iterator[tuple[Piece, int]]:
    """What each of ``commits`` did, in its metadata's order: its files, then what it replaced.

    All logs that a commit wrote to one file group are one piece.
    """
    finder = Finder(query, query.own_timeline)
    for commit in commits:
        if ops := _ops(commit.time, filters):
            yield from finder.pieces(commit, ops)


def plan_pieces(
    query: Query, wanted: SparkSchema, found: Iterable[tuple[Piece, int]]
) -> ChangePlan:
    """The plan that reads the pieces ``found``, each with about its bytes; ``UnsupportedTable``."""
    refuse(query)
    pieces, sizes = together(found)
    filesystem, root = query.runtime.filesystem(query.table.storage.root)
    images = {name: _image(query, wanted, name) for name in (BEFORE, AFTER)}
    logs = query.table.config.table_type is TableType.MERGE_ON_READ
    merge = merge_spec(query, query.schema()) if logs else None
    spec = ChangeSpec(root, filesystem, images[BEFORE], images[AFTER], merge)
    return ChangePlan(spec, tuple(pieces), tuple(sizes))


def together(
    found: Iterable[tuple[Piece, int]],
) -> tuple[list[ChangePiece | SliceChanges], list[int]]:
    """``found`` with the changes of one slice as one piece, which reads each of its logs once."""
    pieces: list[ChangePiece | SliceChanges] = []
    sizes: list[int] = []
    places: dict[str, int] = {}
    for piece, size in found:
        if isinstance(piece, SliceChange) and not piece.whole:
            at = places.setdefault(_place_of(piece), len(pieces))
            if at < len(pieces):
                known = pieces[at]
                assert isinstance(known, SliceChanges)
                pieces[at] = SliceChanges((*known.changes, piece))
                sizes[at] = max(sizes[at], size)
                continue
        pieces.append(SliceChanges((piece,)) if isinstance(piece, SliceChange) else piece)
        sizes.append(size)
    return pieces, sizes


def _place_of(piece: SliceChange) -> str:
    """What slices of one base file have in common; without one, those of a group."""
    of = piece.slice
    if of.base is not None:
        return of.base.path
    folder, slash, name = of.logs[0].rpartition("/")
    named = parse_log_file_name(name)
    return f"{folder}{slash}{named.file_id if named is not None else name}"


def refuse(query: Query) -> None:
    """``UnsupportedTable`` for a table whose change data cannot be read."""
    config = query.table.config
    feature = None
    if not config.populate_meta_fields:
        feature = "change data of tables without meta fields"
    elif config.table_type is TableType.MERGE_ON_READ:
        unknown = unmergeable(config)
        feature = f"change data of {unknown}" if unknown is not None else None
    if feature is not None:
        raise UnsupportedTable(
            f"The table {config.name} at {query.table.storage.root} cannot be read like this: "
            f"{feature} is not supported yet. Read its changes with Apache Hudi.",
            feature=feature,
        )


def _image(query: Query, wanted: SparkSchema, name: str) -> Any:
    """The Arrow type of an image; None if it is not wanted. A JSON text has all columns."""
    kind = wanted.types.get(name)
    if kind is None:
        return None
    columns = query.schema() if kind == "string" else SparkSchema.parse(kind)
    arrow = SparkSchema((Column(name, columns.json()),)).arrow()
    return arrow.field(name).type


def _ops(time: InstantTime, filters: Sequence[Filter]) -> str:
    """The operations of a commit whose rows may pass all filters."""
    named = {name for each in filters for name in _columns(each)}
    kept = ""
    for op, absent in (("i", BEFORE), ("u", None), ("d", AFTER)):
        # The image that a row lacks is null, and so is each of its columns.
        nulls = {name: None for name in named if name.split(".")[0].strip("`") == absent}
        known = {**nulls, OP: op, TIME: time}
        if all(may_match(each, known) is not False for each in filters):
            kept += op
    return kept


def _columns(condition: Filter) -> Iterator[str]:
    """The names of columns in a filter."""
    match condition:
        case AllOf(filters) | AnyOf(filters):
            for each in filters:
                yield from _columns(each)
        case Not(child):
            yield from _columns(child)
        case Unknown():
            return
        case _:
            yield condition.column


class Finder:
    """Finds the files of commits, and what their columns were called."""

    def __init__(self, query: Query, timeline: Timeline) -> None:
        self._query, self._timeline = query, timeline
        self._names: dict[str, FileNames | None] = {}
        self._has_ids = query.file_schemas().history.current() is not None
        logs = query.table.config.table_type is TableType.MERGE_ON_READ
        self._then = SlicesThen(query, timeline) if logs else None

    def pieces(self, commit: Instant, ops: str) -> Iterator[tuple[Piece, int]]:
        """What a commit did, by file group, and about how many bytes tell it."""
        metadata = COMMITS.get(self._query.table.storage, self._timeline, commit)
        if metadata.operation in STILL:
            return
        by_group: dict[Group, list[WriteStat]] = defaultdict(list)
        for stat in metadata.stats:
            if stat.path:
                by_group[stat.partition_path, stat.file_id].append(stat)
        for group, stats in by_group.items():
            if self._then is not None and any(stat.is_log for stat in stats):
                yield self._then.logged(commit, group, stats, ops)
                continue
            for stat in stats:
                if self._then is not None:
                    self._then.check_without_logs(commit, stat)
                yield self._of_stat(commit, stat, ops)
        if "d" in ops:
            yield from self._replaced(commit, metadata)

    def _of_stat(self, commit: Instant, stat: WriteStat, ops: str) -> tuple[ChangePiece, int]:
        logs = in_order(stat.cdc_stats or {})
        after = self.slice(stat.path) if stat.num_writes or logs else None
        size = sum((stat.cdc_stats or {}).values()) or stat.file_size_bytes
        before = self._older(commit, stat)
        aligned = stat.num_deletes == 0
        return ChangePiece(commit.time, logs, before, after, aligned, ops), size

    def _older(self, commit: Instant, stat: WriteStat) -> Slice | None:
        """The slice that a file was made from; None for a new file group."""
        folder = f"{stat.partition_path}/" if stat.partition_path else ""
        if stat.prev_base_file:
            return self.slice(folder + stat.prev_base_file.rpartition("/")[2])
        if stat.prev_commit is None:
            return None
        return self._slice_of(commit, stat.partition_path, stat.file_id, stat.prev_commit)

    def _replaced(self, commit: Instant, metadata: CommitMetadata) -> Iterator[tuple[Piece, int]]:
        for partition, groups in (metadata.replaced or {}).items():
            for group in groups:
                if self._then is not None:
                    logged = self._then.replaced(commit, (partition, group))
                    if logged is not None:
                        yield logged, 0
                        continue
                newest = self._newest_base(commit, (partition, group))
                before = self._slice_of(commit, partition, group, newest)
                yield ChangePiece(commit.time, (), before, None, ops="d"), 0

    def _slice_of(
        self, commit: Instant, partition: str, group: FileId, instant: str | None
    ) -> Slice:
        """A base file of the group, by a listing: that of ``instant``, None for its newest.

        None only if active commits do not say which that was: a savepoint may keep older ones.
        """
        held = self._query.table.view(self._timeline).groups.get(partition, {}).get(group, ())
        bases = [each.base for each in held if each.base is not None]
        found = [f for f in bases if f.instant == (instant or f.instant) != commit.time]
        if not found:
            raise HistoryExpired(
                f"The changes of the commit {commit.time} need an older version of the file group "
                f"{group} in partition '{partition}', which a clean has deleted since. Let the "
                "range begin at this commit or later.",
                asked=commit.time,
                earliest=None,
            )
        return self.slice(found[-1].path)

    def _newest_base(self, commit: Instant, group: Group) -> InstantTime | None:
        """The instant of the newest base file that active commits but ``commit`` wrote to a group;
        None if they wrote none."""
        paths = (stat.path for _, stat in self._written.get(group, ()))
        names = (parse_base_file_name(path.rpartition("/")[2]) for path in paths)
        instants = (name.instant for name in names if name is not None)
        return max((each for each in instants if each != commit.time), default=None)

    @cached_property
    def _written(self) -> dict[Group, list[tuple[InstantTime, WriteStat]]]:
        return written_to_groups(self._query.table, self._timeline)

    def slice(self, path: str) -> Slice:
        """The base file with its names of columns."""
        name = parse_base_file_name(path.rpartition("/")[2])
        if not self._has_ids or name is None:
            return Slice(path)
        if name.instant not in self._names:
            query = self._query
            held = query.file_schemas().of_file(name.instant, path, query.schema())
            self._names[name.instant] = names_in_file(held)
        return Slice(path, self._names[name.instant])


def in_order(logs: Mapping[str, int]) -> tuple[str, ...]:
    """The change logs of one file by the versions in their names."""

    def version(path: str) -> int:
        return int(path.rpartition(".log.")[2].partition("_")[0])

    return tuple(sorted(logs, key=version))
