"""Slices with logs in a read: which of their logs count, and what these leave of the base files.

Invariants: the masked rows and the rows of logs come from one merge, and each is kept with the
query, so that every question of a scan gets the same. Rules: spec/file_slices.md F1 and F2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import UnsupportedTable
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import InstantTime
from pyhudi.format.spark_schema import Column, SparkSchema
from pyhudi.format.table_config import TableConfig
from pyhudi.reads.conditions import Filter
from pyhudi.reads.row_filters import columns_of, evaluated, parts_of
from pyhudi.rows.log_spec import BlockPlace, CountedInstants, LogSlice, Merged, MergeSpec, Positions
from pyhudi.rows.slice_reader import LogPiece, log_columns, log_rows, merged
from pyhudi.services.slice_memory import Key, SliceMemory, key_of
from pyhudi.services.slice_merging import counted_instants as instants_of
from pyhudi.services.slice_merging import merge_spec as spec_of_merge
from pyhudi.services.slice_merging import unmergeable
from pyhudi.slices.files import FileSlice, LogFile
from pyhudi.timeline.schema import table_schema

if TYPE_CHECKING:
    from pyhudi.reads.scan import Query

#: the hidden column that has the path of a row's file
FILE = "_file"
THREADS = 8
#: so many rows of logs are few
HERE_ROWS = 10_000
#: of logs of so many bytes the driver reads the columns that filters name
FILTERED_BYTES = 128 << 20
#: as many bytes that merges or few rows read are one task, or left to the driver: a Spark job
#: would take longer
HERE_BYTES = 32 << 20
#: about this part of a base file is read: its keys, or its ordering values
READ_SHARE = 16
Place = tuple[str, FileId]
#: merges slices somewhere else than here; the answers are in the same order
Elsewhere = Callable[[MergeSpec, Sequence[LogSlice], Sequence[int]], Sequence[Merged]]


@dataclass(frozen=True, slots=True)
class LogRowsPlan:
    """What is read for the rows of logs: slices, and about how many bytes each has.

    ``blocks`` are the places of each slice's blocks; the paths of files that a reader sees begin
    with ``start``.
    """

    spec: MergeSpec
    pieces: tuple[LogPiece, ...]
    sizes: tuple[int, ...]
    blocks: tuple[tuple[BlockPlace, ...], ...] = ()
    start: str = ""

    @property
    def few(self) -> bool:
        """Whether they are so few that more tasks would take longer to start than to read them."""
        return sum(len(kept) for piece in self.pieces for kept in piece.kept) <= HERE_ROWS

    @property
    def here(self) -> bool:
        """Whether the driver reads them, if no executor can decode them."""
        return self.few and sum(self.sizes) <= HERE_BYTES

    def table(self) -> pa.Table:
        """The rows, read here; errors as of ``rows/slice_reader.py``."""
        filesystem = self.spec.fs.open()

        def read(piece: LogPiece) -> list[pa.RecordBatch]:
            return list(log_rows(self.spec, filesystem, piece))

        with ThreadPoolExecutor(max(1, min(THREADS, len(self.pieces)))) as pool:
            found = list(pool.map(read, self.pieces))
        return pa.Table.from_batches([b for batches in found for b in batches], self.spec.schema())

    def of(self, wanted: SparkSchema) -> LogRowsPlan:
        """The same rows in other columns."""
        return replace(self, spec=replace(self.spec, rows=_struct(wanted.columns)))


def counted_slices(query: Query, slices: Iterable[FileSlice]) -> list[FileSlice]:
    """``slices`` with only the logs that may count at the query's instant; empty ones are gone."""
    counted = counted_instants(query)
    layout = query.table.config.layout

    def counts(log: LogFile) -> bool:
        # In layout 1 the name has the slice's instant; the blocks say their own.
        return not log.named.cdc and (layout == 1 or log.instant in counted)

    found = []
    for each in slices:
        if each.logs:
            logs = tuple(log for log in each.logs if counts(log))
            if each.base is None and not any(log.instant in counted for log in logs):
                continue
            each = replace(each, logs=logs)
        found.append(each)
    return found


def counted_instants(query: Query) -> CountedInstants:
    """The instants whose log blocks count in the query."""
    return instants_of(query.view(), query.until)


def merges(
    query: Query, slices: Sequence[FileSlice], elsewhere: Elsewhere | None = None
) -> Mapping[Place, Merged]:
    """The merge of each of ``slices``, which all have logs.

    ``UnsupportedTable`` if the table's merge is not one that pyhudi knows. Errors of the files as
    of ``rows/slice_reader.py``.
    """
    known = query.merged
    missing = [each for each in slices if _place(each) not in known]
    if missing:
        known.update(_merged_now(query, missing, elsewhere))
    return {_place(each): known[_place(each)] for each in slices}


def _merged_now(
    query: Query, slices: Sequence[FileSlice], elsewhere: Elsewhere | None
) -> Mapping[Place, Merged]:
    """The merges of ``slices``: those that the application remembers, and new ones."""
    memory = query.runtime.log_memory
    spec = merge_spec(query, SparkSchema())
    orders = log_orders(query, slices)
    keys = [memory_key(query, spec, each) for each in orders]
    remembered = [memory.get(key) if key is not None else None for key in keys]
    found = [None if each is None else each.merged for each in remembered]
    new = [at for at, each in enumerate(found) if each is None]
    if new:
        asked = [orders[at] for at in new]
        sizes = [_bytes_read(slices[at]) for at in new]
        if elsewhere is None or sum(sizes) <= HERE_BYTES:
            answers: Sequence[Merged] = _here(spec, asked)
        else:
            answers = elsewhere(spec, asked, sizes)
        for at, merged_slice in zip(new, answers, strict=True):
            found[at], key = merged_slice, keys[at]
            if key is not None:
                memory.put(key, SliceMemory(merged_slice))
    return {
        _place(each): state for each, state in zip(slices, found, strict=True) if state is not None
    }


def memory_key(query: Query, spec: MergeSpec, of: LogSlice) -> Key | None:
    """The key of a slice in the memory; None where the blocks of its logs may be of any write."""
    return key_of(spec, of) if query.table.config.logs_name_their_write else None


def _bytes_read(of: FileSlice) -> int:
    logs = sum(log.size_bytes for log in of.logs)
    return logs + (of.base.size_bytes // READ_SHARE if of.base is not None else 0)


def _here(spec: MergeSpec, slices: Sequence[LogSlice]) -> list[Merged]:
    filesystem = spec.fs.open()
    with ThreadPoolExecutor(min(THREADS, len(slices))) as pool:
        return list(pool.map(lambda each: merged(spec, filesystem, each), slices))


def plan_log_rows(
    query: Query,
    slices: Sequence[FileSlice],
    wanted: SparkSchema,
    elsewhere: Elsewhere | None = None,
    homes: Mapping[str, int] | None = None,
    filters: Sequence[Filter] = (),
) -> LogRowsPlan:
    """What to read for the rows of logs in ``slices``, in the columns ``wanted``.

    ``homes`` has the numbers for the column ``FILE_NUMBER``, by ``home_of`` as readers see it.
    Rows for which one of ``filters`` is not true may be left out: Spark evaluates them again.
    """
    with_logs = [each for each in slices if each.logs]
    left = passing(query, with_logs, filters, elsewhere)
    found, orders = merges(query, with_logs), log_orders(query, with_logs)
    spec, start = merge_spec(query, wanted), shown_root(query)
    pieces, sizes, blocks = [], [], []
    for each, order in zip(with_logs, orders, strict=True):
        kept = left[_place(each)]
        if any(map(len, kept)):
            home = homes[f"{start}/{home_of(each)}"] if homes else None
            pieces.append(LogPiece(order, kept, home))
            sizes.append(sum(log.size_bytes for log in each.logs))
            blocks.append(found[_place(each)].blocks)
    return LogRowsPlan(spec, tuple(pieces), tuple(sizes), tuple(blocks), start)


def passing(
    query: Query,
    slices: Sequence[FileSlice],
    filters: Sequence[Filter],
    elsewhere: Elsewhere | None = None,
) -> Mapping[Place, tuple[Positions, ...]]:
    """Of each of ``slices``, which all have logs, the rows of its logs that count, less those that
    ``filters`` leave out. Errors as of ``merges``."""
    found, known = merges(query, slices, elsewhere), query.passing(filters)
    missing = [each for each in slices if _place(each) not in known]
    if missing:
        known.update(_passing_now(query, missing, found, filters))
    return {_place(each): known[_place(each)] for each in slices}


def _passing_now(
    query: Query,
    slices: Sequence[FileSlice],
    found: Mapping[Place, Merged],
    filters: Sequence[Filter],
) -> Mapping[Place, tuple[Positions, ...]]:
    """The columns that filters name are read here, unless that are too many bytes, and remembered.
    All slices are asked at once."""
    every = {_place(each): found[_place(each)].kept for each in slices}
    schema = query.schema().with_meta_columns()
    asked = [each for each in parts_of(filters) if columns_of(each)]
    nothing = {field.name: pa.array([], field.type) for field in schema.arrow()}
    asked = [each for each in asked if evaluated(each, nothing) is not None]
    some = [each for each in slices if found[_place(each)].rows]
    if not asked or not some or _log_bytes(some) > FILTERED_BYTES:
        return every
    names = set().union(*map(columns_of, asked))
    wanted = SparkSchema(tuple(c for c in schema.columns if c.name in names))
    columns = _columns(query, merge_spec(query, wanted), some, found)
    stays = np.ones(sum(found[_place(each)].rows for each in some), np.bool_)
    for condition in asked:
        value = evaluated(condition, columns)
        if value is not None:
            stays &= pc.fill_null(value, False).to_numpy(zero_copy_only=False)
    at = 0
    for each in some:
        left = []
        for kept in every[_place(each)]:
            left.append(kept[stays[at : at + len(kept)]])
            at += len(kept)
        every[_place(each)] = tuple(left)
    return every


def _log_bytes(slices: Sequence[FileSlice]) -> int:
    return sum(log.size_bytes for each in slices for log in each.logs)


def _columns(
    query: Query, spec: MergeSpec, slices: Sequence[FileSlice], found: Mapping[Place, Merged]
) -> Mapping[str, pa.Array]:
    """The columns ``spec.rows`` of the rows of logs that count, of one slice after the other.

    The query keeps the places of the records that were found on the way.
    """
    orders, memory = log_orders(query, slices), query.runtime.log_memory
    keys = [memory_key(query, spec, each) for each in orders]
    known = [None if key is None else memory.get(key) for key in keys]
    held = [{} if each is None else dict(each.columns) for each in known]
    asked = {(each.name, str(each.type)): each for each in spec.rows}
    filesystem = spec.fs.open()

    def read(at: int) -> None:
        merged, key = found[_place(slices[at])], keys[at]
        missing = {name: each for name, each in asked.items() if name not in held[at]}
        missed = replace(spec, rows=pa.struct(list(missing.values())))
        columns, blocks = log_columns(missed, filesystem, LogPiece(orders[at], merged.kept))
        query.merged[_place(slices[at])] = merged = replace(merged, blocks=blocks)
        held[at] |= {name: columns[each.name] for name, each in missing.items()}
        if key is not None:
            memory.put(key, SliceMemory(merged, held[at]))

    new = [at for at, columns in enumerate(held) if asked.keys() - columns.keys()]
    if new:
        with ThreadPoolExecutor(min(THREADS, len(new))) as pool:
            list(pool.map(read, new))
    return {
        each.name: pa.concat_arrays([columns[name] for columns in held])
        for name, each in asked.items()
    }


def home_of(of: FileSlice) -> str:
    """The file that stands for a slice: its base file, or else its first log."""
    return of.base.path if of.base is not None else of.logs[0].path


def masks(found: Mapping[Place, Merged], slices: Iterable[FileSlice]) -> dict[str, Merged]:
    """The merges by the path of the base file; files that lose no row are left out."""
    by_path = {}
    for each in slices:
        state = found.get(_place(each))
        if each.base is not None and state is not None and len(state.masked):
            by_path[each.base.path] = state
    return by_path


def merge_spec(query: Query, wanted: SparkSchema) -> MergeSpec:
    """How the query's slices are merged; ``UnsupportedTable`` if pyhudi does not know how."""
    config = query.table.config
    _refuse(config)
    schema, columns = query.schema(), columns_at(query, query.until)
    place = query.runtime.filesystem(query.table.storage.root)
    named = (FILE, shown_root(query)) if FILE in wanted.types and FILE not in schema.types else None
    return spec_of_merge(config, place, columns, counted_instants(query), wanted, named)


def columns_at(query: Query, at: InstantTime | None) -> tuple[Column, ...]:
    """The query's columns in the types that the table had ``at`` an instant, None for now.

    A state of the past is merged by the order of its time: in a wider type of an ordering column
    other rows may win.
    """
    columns = query.schema().columns
    if at is None or at == query.as_of:
        return columns
    then = table_schema(query.table, query.own_timeline, at)
    if then is None:
        return columns
    held = then.by_lower_name()
    known = (held.get(each.lower_name, each) for each in columns)
    return tuple(replace(now, type=old.type) for now, old in zip(columns, known, strict=True))


def shown_root(query: Query) -> str:
    """What the paths of the table's files begin with where a reader sees them."""
    root = query.table.storage.root
    return f"file:{root}" if root.startswith("/") else root


def log_orders(query: Query, slices: Sequence[FileSlice]) -> list[LogSlice]:
    """The slices as their workers get them."""
    return query.file_schemas().orders(query.schema(), slices)


def log_slice(query: Query, of: FileSlice) -> LogSlice:
    """One slice, as of ``log_orders``."""
    return log_orders(query, [of])[0]


def _refuse(config: TableConfig) -> None:
    feature = unmergeable(config)
    if feature is not None:
        raise UnsupportedTable(
            f"The table {config.name} has {feature}, which pyhudi cannot merge. Set "
            "hoodie.datasource.query.type=read_optimized to read the base files alone, or let "
            "Apache Hudi compact the table.",
            feature=feature,
        )


def _place(of: FileSlice) -> Place:
    return of.partition_path, of.file_id


def _struct(columns: Sequence[Column]) -> Any:
    return pa.struct(list(SparkSchema(tuple(columns)).arrow()))
