"""Rows of a base file by their positions, for readers that need few of them.

Only the row groups that hold the wanted rows are read, and of these only the wanted columns.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.rows.calendars import int96_columns, old_calendar
from pyhudi.rows.change_spec import Slice
from pyhudi.rows.rows import single
from pyhudi.rows.spec import COMMIT_TIME_COLUMN, KEY_COLUMN
from pyhudi.rows.stored_types import converted

Positions = npt.NDArray[np.int64]
#: row groups of each kind that are kept in memory
KEPT = 2
#: a file of at most so many rows keeps its keys in memory
KEPT_KEYS = 2_000_000


class SliceFile:
    """An open base file; positions count its rows from 0."""

    def __init__(self, opened: pa.NativeFile, of: Slice) -> None:
        """``ArrowInvalid`` if it is no whole Parquet file."""
        self._source, self.path, self._names = opened, of.path, of.names or {}
        self._parquet = pq.ParquetFile(opened, coerce_int96_timestamp_unit="us")
        metadata = self._parquet.metadata
        sizes = [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]
        self._starts = np.cumsum([0, *sizes]).astype(np.int64)
        self._calendar = old_calendar(metadata.metadata)
        self._held = set(self._parquet.schema_arrow.names)
        self._int96 = int96_columns(self._parquet.schema)
        self._keys: dict[int, pa.Array] = {}
        self._kept: OrderedDict[tuple[int, pa.DataType], pa.StructArray] = OrderedDict()

    @property
    def rows(self) -> int:
        """Rows in the file."""
        return int(self._starts[-1])

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def written_by(self, instants: Sequence[str]) -> Positions:
        """The positions of the rows that one of the commits ``instants`` wrote, ascending."""
        found = [np.zeros(0, np.int64)]
        wanted = pa.array(instants, pa.string())
        for group in range(len(self._starts) - 1):
            if self._may_hold(group, instants):
                times = self._texts(group, COMMIT_TIME_COLUMN)
                mask = np.asarray(pa.compute.is_in(times, value_set=wanted))
                found.append(np.flatnonzero(mask) + self._starts[group])
        return np.concatenate(found)

    def keys(self) -> pa.Array:
        """The record keys of all rows."""
        found = [keys for _, keys in self.keys_by_group()]
        return pa.concat_arrays([pa.array([], pa.string()), *found])

    def keys_by_group(self) -> Iterator[tuple[int, pa.Array]]:
        """(position of the first, the record keys) of each row group; of few rows read once."""
        for group, start in enumerate(self._starts[:-1].tolist()):
            keys = self._keys.get(group)
            if keys is None:
                keys = self._texts(group, KEY_COLUMN)
                if self.rows <= KEPT_KEYS:
                    self._keys[group] = keys
            yield start, keys

    def keys_at(self, at: Positions) -> pa.Array:
        """The record keys at ``at``, in this order."""
        return self._at(at, lambda group: self._texts(group, KEY_COLUMN), pa.string())

    def whole(self) -> pa.StructArray:
        """All rows in the file's own columns."""
        table = self._parquet.read(use_threads=False)
        columns = [single(self._turned(table, name)) for name in table.column_names]
        return pa.StructArray.from_arrays(columns, fields=list(table.schema))

    def images(self, at: Positions, kind: pa.StructType) -> pa.StructArray:
        """The rows at ``at`` as structs of the type ``kind``; null for a position below 0."""
        held = at >= 0
        rows = self._at(at[held], lambda group: self._image(group, kind), kind)
        if held.all():
            return rows
        picks = np.where(held, np.cumsum(held) - 1, 0)
        return rows.take(pa.array(picks, mask=~held))

    def _at(self, at: Positions, part: Callable[[int], pa.Array], kind: pa.DataType) -> pa.Array:
        if not len(at):
            return pa.array([], kind)
        order = np.argsort(at, kind="stable")
        ascending = at[order]
        groups = np.searchsorted(self._starts, ascending, side="right") - 1
        found = []
        for group in np.unique(groups):
            inside = ascending[groups == group] - self._starts[group]
            found.append(part(int(group)).take(pa.array(inside)))
        back = np.empty(len(at), np.int64)
        back[order] = np.arange(len(at))
        rows = found[0] if len(found) == 1 else pa.concat_arrays(found)
        in_order = bool((back[1:] > back[:-1]).all())
        return rows if in_order else rows.take(pa.array(back))

    def _may_hold(self, group: int, instants: Sequence[str]) -> bool:
        metadata = self._parquet.metadata.row_group(group)
        for at in range(metadata.num_columns):
            column = metadata.column(at)
            if column.path_in_schema == COMMIT_TIME_COLUMN:
                known = column.statistics
                if known is None or not known.has_min_max:
                    return True
                least, most = _text(known.min), _text(known.max)
                return any(least <= each <= most for each in instants)
        return True

    def _texts(self, group: int, name: str) -> pa.Array:
        table = self._parquet.read_row_group(group, columns=[name], use_threads=False)
        return single(table.column(name))

    def _image(self, group: int, kind: pa.StructType) -> pa.StructArray:
        known = self._kept.pop((group, kind), None)
        found = self._read_image(group, kind) if known is None else known
        self._kept[group, kind] = found
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return found

    def _read_image(self, group: int, kind: pa.StructType) -> pa.StructArray:
        rows = int(self._starts[group + 1] - self._starts[group])
        wanted = [self._names.get(field.name, (field.name, None)) for field in kind]
        present = list(dict.fromkeys(own for own, _ in wanted if own in self._held))
        table = self._parquet.read_row_group(group, columns=present, use_threads=False)
        parts = []
        for field, (own, inner) in zip(kind, wanted, strict=True):
            if own not in self._held:
                parts.append(pa.nulls(rows, field.type))
                continue
            column = self._turned(table, own)
            parts.append(converted(single(column), field.type, False, inner))
        # A struct without fields would forget its length.
        mask = pa.array(np.zeros(rows, np.bool_))
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)

    def _turned(self, table: pa.Table, name: str) -> pa.ChunkedArray:
        column = table.column(name)
        if self._calendar is None:
            return column
        return self._calendar.turned(column, name in self._int96, self.path)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
