"""Reading the base file that a merge replaces, in units of bounded size.

A unit is a run of small row groups, or a part of a large one, so memory does not grow with the
file. The units are the same in each pass over the file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.errors import StorageError, TableCorrupt
from pyhudi.rows.base_file import TableFiles, rows_per_unit
from pyhudi.rows.calendars import int96_columns, old_calendar
from pyhudi.rows.damage import damaged
from pyhudi.rows.encoding import coded_in_file
from pyhudi.rows.meta_columns import TEXT
from pyhudi.rows.spec import (
    COMMIT_TIME_COLUMN,
    KEY_COLUMN,
    META_COLUMNS,
    SEQNO_COLUMN,
    FileNames,
)
from pyhudi.rows.stored_types import converted

_COPIED_META = (COMMIT_TIME_COLUMN, SEQNO_COLUMN, KEY_COLUMN)
_READ_AHEAD_BYTES = 1 << 20
#: types whose values are whole numbers in a file, and how a file stores them then
_WHOLE = (pa.types.is_int32, pa.types.is_int64, pa.types.is_date32, pa.types.is_timestamp)
_RAW = ("INT32", "INT64")


@dataclass(frozen=True, slots=True)
class _Run:
    """Row groups that are read together, in ``units`` of at most ``unit_rows`` rows."""

    row_groups: tuple[int, ...]
    rows: int
    unit_rows: int

    @property
    def units(self) -> int:
        return -(-self.rows // self.unit_rows)


class OldFile:
    """The base file at ``path`` (relative to the table) as rows of the table's schema.

    ``names`` are the file's names of columns, if they differ from the table's.
    """

    def __init__(
        self,
        files: TableFiles,
        path: str,
        schema: pa.Schema,
        names: FileNames | None = None,
    ) -> None:
        """``StorageError`` if it cannot be opened, ``TableCorrupt`` if it is gone or damaged."""
        self._names = names or {}
        self._files, self._path, self._schema = files, path, schema
        try:
            self._source = files.fs.open_input_file(files.absolute(path))
            footer = pq.ParquetFile(self._source)
        except FileNotFoundError as error:
            raise damaged(path, "is not there") from error
        except OSError as error:
            raise StorageError(
                f"Base file '{path}' cannot be read: {error}. The write was given up; try again "
                "when the storage answers.",
                path=path,
            ) from error
        except pa.ArrowInvalid as error:
            raise _corrupt(path, str(error)) from error
        self.metadata = footer.metadata
        self._types = footer.schema_arrow
        self._calendar = old_calendar(self.metadata.metadata)
        self._int96 = int96_columns(footer.schema) if self._calendar else frozenset()
        held = set(self._types.names)
        if missing := [name for name in META_COLUMNS if name not in held]:
            raise _corrupt(path, f"it lacks {', '.join(missing)}")
        self._present = [column.name for column in schema if self._in_file(column.name) in held]
        # The column from which the keys were made is not read a second time.
        source = files.spec.key_from
        is_key = source in self._present and schema.field(source).type == TEXT
        self._key_copy = source if is_key else None
        texts = [name for name in self._present if schema.field(name).type == TEXT]
        coded = coded_in_file(self.metadata, map(self._in_file, self._present))
        self.coded = frozenset(name for name in self._present if self._in_file(name) in coded)
        self._read_coded = [self._in_file(name) for name in texts if name in self.coded]
        self._parquet = self._reader([COMMIT_TIME_COLUMN, *self._read_coded])
        self._runs = self._plan_runs()

    def _in_file(self, name: str) -> str:
        return self._names[name][0] if name in self._names else name

    def _reader(self, read_dictionary: Sequence[str]) -> pq.ParquetFile:
        # Ranges are fetched in advance if a request costs a round trip; local disks need no copy.
        remote = self._files.spec.fs.kind != "local"
        return pq.ParquetFile(
            self._source,
            metadata=self.metadata,
            read_dictionary=list(read_dictionary),
            coerce_int96_timestamp_unit="us",
            pre_buffer=remote,
            buffer_size=0 if remote else _READ_AHEAD_BYTES,
        )

    @property
    def rows(self) -> int:
        """Rows in the file."""
        return int(self.metadata.num_rows)

    @property
    def unit_count(self) -> int:
        """The number of units that ``units`` and ``unit_keys`` yield."""
        return sum(run.units for run in self._runs)

    def units(self) -> Iterator[pa.Table]:
        """Commit time, sequence number, key and the table's data columns, unit by unit."""
        wanted = [self._in_file(name) for name in self._present if name != self._key_copy]
        for unit in self._read(self._parquet, [*_COPIED_META, *wanted]):
            yield self._in_table_types(unit, _COPIED_META, self._schema)

    def unit_keys(self) -> Iterator[pa.Array]:
        """The record keys alone, unit by unit."""
        for unit in self._read(self._parquet, [KEY_COLUMN]):
            yield _single(unit.column(KEY_COLUMN))

    def keyed_units(self, beside: Collection[str]) -> Iterator[pa.Table]:
        """The record keys and the table's columns ``beside``, unit by unit."""
        fields = [self._schema.field(name) for name in beside]
        held = [name for name in beside if name in self._present and name != self._key_copy]
        for unit in self._read(self._parquet, [KEY_COLUMN, *map(self._in_file, held)]):
            yield self._in_table_types(unit, (KEY_COLUMN,), fields)

    def largest(self, name: str) -> int | None:
        """No value of the column ``name`` compares larger (spec/merging.md R1); None if the footer
        does not tell, as it does of integers, dates and times."""
        kind = self._schema.field(name).type
        if name not in self._present or name in self._names or self._calendar is not None:
            return None
        if self._types.field(name).type != kind or not any(is_whole(kind) for is_whole in _WHOLE):
            return None
        # Of an int or a date null counts as 0.
        found = [0] if kind.bit_width == 32 else []
        for at in range(self.metadata.num_row_groups):
            known = _statistics(self.metadata.row_group(at), name)
            if known is None or not known.has_min_max or known.physical_type not in _RAW:
                return None
            found.append(known.max_raw)
        return max(found, default=None)

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def _plan_runs(self) -> list[_Run]:
        groups = [self.metadata.row_group(at) for at in range(self.metadata.num_row_groups)]
        total = sum(group.total_byte_size for group in groups)
        limit = rows_per_unit(self._files.spec, total // max(1, self.rows))
        runs: list[_Run] = []
        gathered: list[int] = []
        rows = 0
        for at, group in enumerate(groups):
            if gathered and rows + group.num_rows > limit * 5 // 4:
                runs.append(_Run(tuple(gathered), rows, rows))
                gathered, rows = [], 0
            if group.num_rows > limit * 5 // 4:
                runs.append(_Run((at,), group.num_rows, limit))
            elif group.num_rows:
                gathered.append(at)
                rows += group.num_rows
        if gathered:
            runs.append(_Run(tuple(gathered), rows, rows))
        return runs

    def _read(self, parquet: pq.ParquetFile, columns: list[str]) -> Iterator[pa.Table]:
        for run in self._runs:
            if run.units == 1:
                yield parquet.read_row_groups(run.row_groups, columns=columns, use_threads=False)
                continue
            batches = parquet.iter_batches(
                run.unit_rows, row_groups=run.row_groups, columns=columns, use_threads=False
            )
            yield from _regrouped(batches, run.unit_rows)

    def _in_table_types(
        self, unit: pa.Table, meta: Sequence[str], fields: Iterable[pa.Field]
    ) -> pa.Table:
        """The ``meta`` columns of a unit, and its columns for ``fields``, as the table has them."""
        names, columns = list(meta), [unit.column(name) for name in meta]
        for wanted in fields:
            names.append(wanted.name)
            if wanted.name not in self._present:
                columns.append(pa.chunked_array([pa.nulls(unit.num_rows, wanted.type)]))
                continue
            own, inner = self._names.get(wanted.name, (wanted.name, None))
            column = unit.column(KEY_COLUMN if wanted.name == self._key_copy else own)
            if self._calendar is not None:
                column = self._calendar.turned(column, own in self._int96, self._path)
            if inner or (column.type != wanted.type and not pa.types.is_dictionary(column.type)):
                column = self._converted(column, wanted, inner)
            columns.append(column)
        return pa.table(columns, names=names)

    def _converted(
        self, column: pa.ChunkedArray, wanted: pa.Field, names: FileNames | None
    ) -> pa.ChunkedArray:
        try:
            parts = [converted(chunk, wanted.type, False, names) for chunk in column.chunks]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            reason = " ".join(str(error).split())
            raise _corrupt(
                self._path,
                f"column '{wanted.name}' is {column.type}, which cannot be converted to the "
                f"table's {wanted.type} ({reason})",
            ) from error
        return pa.chunked_array(parts, wanted.type)


def _statistics(group: pq.RowGroupMetaData, name: str) -> pq.Statistics | None:
    columns = (group.column(at) for at in range(group.num_columns))
    return next((each.statistics for each in columns if each.path_in_schema == name), None)


def _regrouped(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """The rows of ``batches`` in tables of exactly ``rows`` rows, the last one shorter."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        while count >= rows:
            table = pa.Table.from_batches(held)
            yield table.slice(0, rows)
            held, count = table.slice(rows).to_batches(), count - rows
    if count:
        yield pa.Table.from_batches(held)


def _single(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _corrupt(path: str, fault: str) -> TableCorrupt:
    fault = " ".join(fault.split()).rstrip(".")
    return TableCorrupt(
        f"Base file '{path}' cannot be merged: {fault}. Nothing was committed. Restore the file or "
        "repair the table with Apache Hudi.",
        path=path,
        rule="a base file is Parquet with the five meta columns and the table's types",
    )
