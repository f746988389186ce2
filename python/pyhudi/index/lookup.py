"""Index lookup on executors: the record keys of base files, read with pyarrow.

It is sent by value and imports nothing that an executor without pyhudi lacks. Ranges and bloom
filters in the footers prune files before keys are read (spec/data_files.md D6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pyhudi.format.bloom import BloomFilter
from pyhudi.rows.calendars import OldCalendar, int96_columns, old_calendar
from pyhudi.rows.damage import readable
from pyhudi.rows.spec import FileSystemSpec
from pyhudi.rows.stored_types import converted
from pyhudi.rows.task import telling

KEY = "_hoodie_record_key"
ORDINAL = "_pyhudi_ordinal"
PARTITION = "_pyhudi_base_partition"
OLD = "_pyhudi_old_"
HITS_DDL = f"{KEY} string, {ORDINAL} int, {PARTITION} string"
HITS_SCHEMA = pa.schema([(KEY, pa.string()), (ORDINAL, pa.int32()), (PARTITION, pa.string())])
BATCH_ROWS = 64 * 1024

MIN_KEY = b"hoodie_min_record_key"
MAX_KEY = b"hoodie_max_record_key"
BLOOM = b"org.apache.hudi.bloomfilter"
BLOOM_TYPE = b"hoodie_bloom_filter_type_code"


class NewestValues(Protocol):
    """What the logs of a file say of the columns beside its keys."""

    def over(self, start: int, keys: pa.Array, values: Sequence[pa.Array]) -> list[pa.Array]:
        """The ``values`` of the file's rows from ``start`` on; null for a row that is deleted."""


class InLogs(Protocol):
    """The columns beside keys as logs leave them. It is sent to workers only where it is needed."""

    def newest(self, filesystem: pa.fs.FileSystem, ordinal: int) -> NewestValues | None:
        """Those of a file; None if it has no logs."""


@dataclass(frozen=True, slots=True)
class LookupSpec:
    """What to look up: files by ordinal (relative path, partition path) below ``root``.

    ``wanted`` maps partition paths to the sorted incoming keys, or is None to read every key.
    With ``use_bloom`` the filters in footers are asked before a file's keys are read. ``beside``
    names columns to return with each key as ``OLD`` 0, 1, ..., in the table's present types: of the
    ``logged`` files the newest values, which may be in their logs.
    """

    root: str
    fs: FileSystemSpec
    files: Mapping[int, tuple[str, str]]
    wanted: Mapping[str, pa.Array] | None = None
    use_bloom: bool = False
    beside: pa.Schema | None = None
    logged: InLogs | None = None


def lookup(spec: LookupSpec) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A ``mapInArrow`` function over a column ``_pyhudi_ordinal``: (key, ordinal) of the hits."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        filesystem = spec.fs.open()
        for batch in batches:
            for ordinal in batch.column(ORDINAL).to_pylist():
                yield from file_hits(spec, filesystem, ordinal)

    return telling(run)


def file_hits(
    spec: LookupSpec, filesystem: pa.fs.FileSystem, ordinal: int
) -> Iterator[pa.RecordBatch]:
    """The keys of one base file; only the wanted keys, if the spec has them."""
    path, partition = spec.files[ordinal]
    wanted = None
    if spec.wanted is not None:
        wanted = spec.wanted.get(partition)
        if wanted is None or len(wanted) == 0:
            return
    with readable(path), filesystem.open_input_file(f"{spec.root}/{path}") as source:
        file = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
        if wanted is not None:
            wanted = possible(file.metadata.metadata or {}, wanted, spec.use_bloom)
            if len(wanted) == 0:
                return
        beside = list(spec.beside or ())
        names = [KEY, *(column.name for column in beside)]
        old = [pa.field(f"{OLD}{at}", column.type) for at, column in enumerate(beside)]
        schema = pa.schema([*HITS_SCHEMA, *old])
        newest = None if spec.logged is None else spec.logged.newest(filesystem, ordinal)
        calendar = old_calendar(file.metadata.metadata)
        int96 = int96_columns(file.schema) if calendar is not None else frozenset()
        start = 0
        for batch in file.iter_batches(BATCH_ROWS, columns=names, use_threads=False):
            if calendar is not None:
                batch = _turned(calendar, int96, path, batch)
            values = [_beside(batch, column) for column in beside]
            if newest is not None:
                values = newest.over(start, batch.column(KEY).cast(pa.string()), values)
            start += batch.num_rows
            batch = pa.RecordBatch.from_arrays([batch.column(KEY), *values], names=names)
            if wanted is not None:
                batch = batch.filter(pc.is_in(batch.column(KEY), value_set=wanted))
            rows = batch.num_rows
            if rows:
                ordinals = pa.repeat(pa.scalar(ordinal, pa.int32()), rows)
                partitions = pa.repeat(pa.scalar(partition, pa.string()), rows)
                columns = [batch.column(KEY).cast(pa.string()), ordinals, partitions]
                columns += batch.columns[1:]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _turned(
    calendar: OldCalendar, int96: frozenset[str], path: str, batch: pa.RecordBatch
) -> pa.RecordBatch:
    """The batch of a file of the old calendar in today's."""
    columns = [
        calendar.turned(pa.chunked_array([column]), name in int96, path).chunk(0)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _beside(batch: pa.RecordBatch, wanted: pa.Field) -> pa.Array:
    """A column in the table's present type; null if the file is older than the column."""
    at = batch.schema.get_field_index(wanted.name)
    if at < 0:
        return pa.nulls(batch.num_rows, wanted.type)
    return converted(batch.column(at), wanted.type, False)


def possible(footer: Mapping[bytes, bytes], wanted: pa.Array, use_bloom: bool) -> pa.Array:
    """The wanted keys that a file with this footer may hold."""
    low, high = (footer.get(name, b"").decode() for name in (MIN_KEY, MAX_KEY))
    # The bounds are in Java's order of UTF-16 units; Arrow compares UTF-8. Both orders agree for
    # texts below the surrogates.
    if low and high and max(low + high) < "\ud800":
        inside = pc.and_(pc.greater_equal(wanted, low), pc.less_equal(wanted, high))
        wanted = wanted.filter(inside)
    text = footer.get(BLOOM)
    if use_bloom and text is not None and len(wanted):
        code = footer.get(BLOOM_TYPE)
        bloom = BloomFilter.from_footer(text.decode(), code.decode() if code else None)
        wanted = wanted.filter(pa.array(bloom.might_contain(wanted)))
    return wanted
