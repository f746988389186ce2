"""Slices with logs in a read: which of their logs count, and what these leave of the base files.

Invariants: the masked rows and the rows of logs come from one merge, and each is kept with the
query, so that every question of a scan gets the same. Rules: spec/file_slices.md F1 and F2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyhudi.errors import UnsupportedTable
from pyhudi.format.column_ids import names_in_file
from pyhudi.format.filenames import FileId
from pyhudi.format.spark_schema import Column, SparkSchema
from pyhudi.format.table_config import TableConfig
from pyhudi.rows.change_spec import Slice
from pyhudi.rows.log_spec import CountedInstants, LogSlice, Merged, MergeSpec
from pyhudi.rows.slice_reader import LogPiece, merged
from pyhudi.rows.spec import FileNames
from pyhudi.services.slice_merging import counted_instants as instants_of
from pyhudi.services.slice_merging import merge_spec as spec_of_merge
from pyhudi.services.slice_merging import unmergeable
from pyhudi.slices.files import FileSlice, LogFile

if TYPE_CHECKING:
    from pyhudi.reads.scan import Query

#: the hidden column that has the path of a row's file
FILE = "_file"
THREADS = 8
#: as many bytes that merges read are left to the driver: a Spark job would take longer
HERE_BYTES = 32 << 20
#: about this part of a base file is read: its keys, or its ordering values
READ_SHARE = 16
Place = tuple[str, FileId]
#: merges slices somewhere else than here; the answers are in the same order
Elsewhere = Callable[[MergeSpec, Sequence[LogSlice], Sequence[int]], Sequence[Merged]]


@dataclass(frozen=True, slots=True)
class LogRowsPlan:
    """What workers read for the rows of logs: slices, and about how many bytes each has."""

    spec: MergeSpec
    pieces: tuple[LogPiece, ...]
    sizes: tuple[int, ...]

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
        spec = merge_spec(query, SparkSchema())
        orders = [log_slice(query, each) for each in missing]
        sizes = [_bytes_read(each) for each in missing]
        if elsewhere is None or sum(sizes) <= HERE_BYTES:
            found: Sequence[Merged] = _here(spec, orders)
        else:
            found = elsewhere(spec, orders, sizes)
        known.update(zip(map(_place, missing), found, strict=True))
    return {_place(each): known[_place(each)] for each in slices}


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
) -> LogRowsPlan:
    """What to read for the rows of logs in ``slices``, in the columns ``wanted``.

    ``homes`` has the numbers for the column ``FILE_NUMBER``, by ``home_of`` as readers see it.
    """
    with_logs = [each for each in slices if each.logs]
    found = merges(query, with_logs, elsewhere)
    spec, start = merge_spec(query, wanted), shown_root(query)
    pieces, sizes = [], []
    for each in with_logs:
        state = found[_place(each)]
        if state.rows:
            home = homes[f"{start}/{home_of(each)}"] if homes else None
            pieces.append(LogPiece(log_slice(query, each), state.kept, home))
            sizes.append(sum(log.size_bytes for log in each.logs))
    return LogRowsPlan(spec, tuple(pieces), tuple(sizes))


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
    schema = query.schema()
    place = query.runtime.filesystem(query.table.storage.root)
    named = (FILE, shown_root(query)) if FILE in wanted.types and FILE not in schema.types else None
    return spec_of_merge(config, place, schema.columns, counted_instants(query), wanted, named)


def shown_root(query: Query) -> str:
    """What the paths of the table's files begin with where a reader sees them."""
    root = query.table.storage.root
    return f"file:{root}" if root.startswith("/") else root


def log_slice(query: Query, of: FileSlice) -> LogSlice:
    """A slice as its worker gets it."""
    base = of.base
    names: Mapping[str, FileNames] = {}
    own: FileNames | None = None
    if query.file_schemas().history.current() is not None:
        names = _names(query)
        if base is not None:
            schemas = query.file_schemas()
            own = names_in_file(schemas.of_file(base.instant, base.path, query.schema()))
    return LogSlice(
        Slice(base.path, own) if base is not None else None,
        base.instant if base is not None else "",
        tuple(log.path for log in of.logs),
        names,
    )


def _names(query: Query) -> dict[str, FileNames]:
    """The names of columns by commit, of the commits for which they differ from the table's."""
    schemas = query.file_schemas()
    found: dict[str, FileNames] = {}
    for commit in query.timeline.commits:
        held = names_in_file(schemas.of_file(commit.time, "", query.schema()))
        if held is not None:
            found[str(commit.time)] = held
    return found


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
