"""Answers from the footers of data files: least and greatest values, and rows that are not null.

An answer is exact, or there is none. Statistics of texts may be cut short and those of floats leave
NaN out. So only bounds of whole numbers, days and times are used; null counts are exact for every
type. The same bounds leave out files that cannot hold a value that a join looks for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.format.column_ids import file_name
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.reads.conditions import Among, Day, Filter, Literal, LocalMoment, Moment, Null, Whole
from pyhudi.reads.scan import Query, count_rows, partition_columns
from pyhudi.recent import Recent
from pyhudi.rows.calendars import FIRST_SAME_DAY, FIRST_SAME_MICROS, old_calendar
from pyhudi.slices.files import BaseFile, FileSlice, base_files

WHOLE = ("byte", "short", "integer", "long")
#: Spark's types whose bounds are whole numbers in Parquet and in Spark alike
BOUNDED = (*WHOLE, "date", "timestamp", "timestamp_ntz")
#: footers that one question reads: more of them take longer than a Spark job
MOST_FILES = 256
THREADS = 16
CACHED_FILES = 10_000


class AggregateFunction(Enum):
    """What is asked of a column, or of whole rows."""

    ROWS = "rows"
    COUNT = "count"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Wanted:
    """An aggregate; ``column`` is None for the number of rows alone."""

    function: AggregateFunction
    column: str | None


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """One column of one file: its Spark type, its rows and nulls, and its bounds.

    Times are microseconds since the epoch, dates are days. ``bounds`` is None if the footer has
    none although some row has a value.
    """

    kind: Any
    rows: int
    nulls: int | None
    bounds: tuple[int, int] | None


FileFacts = Mapping[str, ColumnFacts]


class Footers:
    """Known facts of files that never change, by path; the files used last are kept."""

    def __init__(self, limit: int = CACHED_FILES) -> None:
        self._by_path: Recent[str, FileFacts] = Recent(limit)

    def load(self, path: str, read: Callable[[], FileFacts]) -> FileFacts:
        """The facts of the file at ``path``, by ``read`` if they are not known yet."""
        known = self._by_path.get(path)
        if known is None:
            known = read()
            self._by_path.put(path, known)
        return known


FOOTERS = Footers()


def aggregate(
    query: Query, filters: Sequence[Filter], wanted: Sequence[Wanted]
) -> list[int | None] | None:
    """The value of each aggregate, None inside for SQL's null; None if only reading can tell.

    Partitions must decide the ``filters``, as for ``count_rows``.
    """
    rows = count_rows(query, filters)
    if rows is None:
        return None
    columns = {each.column for each in wanted if each.column is not None}
    types = query.types()
    slices = query.slices(filters)
    files = base_files(slices)
    if not columns <= set(types) or len(files) > MOST_FILES:
        return None
    if columns and any(each.logs for each in slices):
        return None
    if not all(isinstance(types[name], str) for name in columns):
        return None  # footers tell of the values in structs, arrays and maps, not of these
    try:
        facts = _by_table(query, files, _facts(query, [file.path for file in files]))
    except (OSError, pa.ArrowException):
        return None  # the scan itself will say what is wrong with the file
    answers: list[int | None] = []
    for each in wanted:
        name = each.column
        if name is None:
            answers.append(rows)
            continue
        held = [file[name] for file in facts if name in file]
        if any(column.kind != types[name] for column in held):
            return None
        answer = _answer(each.function, held)
        if answer is NotImplemented:
            return None
        answers.append(answer)
    return answers


def columns_apart(query: Query) -> list[str]:
    """The columns by whose values a join may leave files out.

    These are the partition columns, and key and ordering columns if footers have their bounds.
    """
    config, types = query.table.config, query.types()
    ordered = [*config.record_key_fields, *config.ordering_fields]
    bounded = [name for name in ordered if types.get(name) in BOUNDED]
    return list(dict.fromkeys((*partition_columns(query), *bounded)))


def slices_in_bounds(
    query: Query, filters: Sequence[Filter], slices: Sequence[FileSlice]
) -> Sequence[FileSlice]:
    """The ``slices`` that may hold a value of each filter ``column IN (values)``.

    All of them if a footer has no bounds, or if there are more than ``MOST_FILES``. A slice with
    logs is kept: they may hold values that its base file lacks.
    """
    files = base_files(each for each in slices if not each.logs)
    types = query.types()
    wanted = wanted_numbers(filters, types, query.table.config.partition_fields)
    if not wanted or len(files) > MOST_FILES:
        return slices
    try:
        facts = _by_table(query, files, _facts(query, [file.path for file in files]))
    except (OSError, pa.ArrowException):
        return slices
    out = {
        file.path
        for file, known in zip(files, facts, strict=True)
        if not may_hold(known, types, wanted)
    }
    return [each for each in slices if each.logs or each.base is None or each.base.path not in out]


def wanted_numbers(
    filters: Sequence[Filter], types: Mapping[str, Any], partition_fields: Sequence[str]
) -> dict[str, list[int]]:
    """Column -> the values of its ``IN``, sorted, in the unit of ``ColumnFacts``.

    Without partition columns, which have already chosen partitions.
    """
    wanted = {}
    for each in filters:
        if isinstance(each, Among) and each.column not in partition_fields:
            numbers = _numbers(types.get(each.column), each.values)
            if numbers is not None:
                wanted[each.column] = numbers
    return wanted


def _numbers(kind: Any, literals: Sequence[Literal]) -> list[int] | None:
    """The values of literals but null, sorted; None for other literals than those of ``kind``."""
    found = []
    for each in literals:
        match each:
            case Whole(number) if kind in WHOLE:
                found.append(number)
            case Day(number) if kind == "date":
                found.append(number)
            case Moment(number) if kind == "timestamp":
                found.append(number)
            case LocalMoment(number) if kind == "timestamp_ntz":
                found.append(number)
            case Null() if kind in BOUNDED:
                pass
            case _:
                return None
    return sorted(found) if kind in BOUNDED else None


def may_hold(
    known: FileFacts, types: Mapping[str, Any], wanted: Mapping[str, Sequence[int]]
) -> bool:
    """Whether the file may hold a wanted value of each column; true if that is not known."""
    held = {name: known[name] for name in wanted if name in known}
    return all(
        column.kind != types[name] or column.bounds is None or _any(wanted[name], column.bounds)
        for name, column in held.items()
    )


def _any(values: Sequence[int], bounds: tuple[int, int]) -> bool:
    at = bisect_left(values, bounds[0])
    return at < len(values) and values[at] <= bounds[1]


def _answer(function: AggregateFunction, held: Iterable[ColumnFacts]) -> Any:
    """One aggregate over the files that have the column; ``NotImplemented`` if unknown."""
    if function is AggregateFunction.COUNT:
        counts = [None if c.nulls is None else c.rows - c.nulls for c in held]
        return NotImplemented if None in counts else sum(c for c in counts if c is not None)
    some = [column for column in held if column.nulls is None or column.nulls < column.rows]
    if any(column.bounds is None or column.kind not in BOUNDED for column in some):
        return NotImplemented
    bounds = [column.bounds for column in some if column.bounds is not None]
    if not bounds:
        return None
    if function is AggregateFunction.MIN:
        return min(b[0] for b in bounds)
    return max(b[1] for b in bounds)


def _by_table(
    query: Query, files: Sequence[BaseFile], facts: Sequence[FileFacts]
) -> Sequence[FileFacts]:
    """The facts by the table's names; in older files these may be names of other columns."""
    schemas = query.file_schemas()
    if schemas.history.current() is None:
        return facts
    found = []
    for file, known in zip(files, facts, strict=True):
        held = schemas.of_file(file.instant, file.path, query.schema()).columns
        found.append({c.name: known[file_name(c)] for c in held if file_name(c) in known})
    return found


def _facts(query: Query, paths: Sequence[str]) -> list[FileFacts]:
    storage_root = query.table.storage.root
    spec, root = query.runtime.filesystem(storage_root)
    filesystem = spec.open()

    def one(path: str) -> FileFacts:
        def read() -> FileFacts:
            with filesystem.open_input_file(f"{root}/{path}") as source:
                return facts_of(pq.ParquetFile(source))

        return FOOTERS.load(f"{storage_root}/{path}", read)

    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(one, paths))


def facts_of(file: pq.ParquetFile) -> FileFacts:
    """The facts of a footer about top-level columns."""
    kinds = SparkSchema.of_arrow(file.schema_arrow).types
    metadata = file.metadata
    old = old_calendar(metadata.metadata)
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    found: dict[str, ColumnFacts] = {}
    for at in range(metadata.num_columns):
        name = file.schema.column(at).path
        if name in kinds:
            chunks = [group.column(at) for group in groups]
            facts = _column(kinds[name], metadata.num_rows, chunks)
            found[name] = facts if old is None else _of_today(facts)
    return found


def _of_today(facts: ColumnFacts) -> ColumnFacts:
    """The facts without bounds of days and times in the old calendar."""
    first = {"date": FIRST_SAME_DAY, "timestamp": FIRST_SAME_MICROS}.get(facts.kind)
    if first is None or facts.bounds is None or facts.bounds[0] >= first:
        return facts
    return replace(facts, bounds=None)


def _column(kind: Any, rows: int, chunks: Sequence[Any]) -> ColumnFacts:
    statistics = [chunk.statistics for chunk in chunks if chunk.is_stats_set]
    if len(statistics) < len(chunks) or not all(s.has_null_count for s in statistics):
        return ColumnFacts(kind, rows, None, None)
    nulls = sum(each.null_count for each in statistics)
    some = [s for s, c in zip(statistics, chunks, strict=True) if s.null_count < c.num_values]
    whole = all(s.has_min_max and s.physical_type in ("INT32", "INT64") for s in some)
    if kind not in BOUNDED or not some or not whole or not _in_micros(some):
        return ColumnFacts(kind, rows, nulls, None)
    bounds = min(s.min_raw for s in some), max(s.max_raw for s in some)
    return ColumnFacts(kind, rows, nulls, bounds)


def _in_micros(statistics: Sequence[Any]) -> bool:
    """Whether times among them are in Spark's unit; true for all other types."""
    kinds = [s.logical_type for s in statistics]
    return all(k.type != "TIMESTAMP" or "microseconds" in str(k) for k in kinds)
