"""The newest values of columns beside the keys of base files with logs, for a lookup on workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.rows.by_value import ByValue
from pyhudi.rows.log_spec import LoggedSlices, Positions
from pyhudi.rows.slice_reader import LogPiece, log_columns, merged


@dataclass(frozen=True, slots=True)
class LoggedValues(ByValue):
    """What logs leave of the files of a lookup; the rows of ``of.order`` are key and columns."""

    of: LoggedSlices

    def newest(self, filesystem: pa.fs.FileSystem, ordinal: int) -> FileValues | None:
        """Those of a file; None if it has no logs. Errors as of ``rows/slice_reader.py``."""
        order, each = self.of.order, self.of.slices.get(ordinal)
        if each is None:
            return None
        found = merged(order, filesystem, each)
        columns, _ = log_columns(order, filesystem, LogPiece(each, found.kept))
        keys, *values = columns.values()
        return FileValues(found.masked, keys, values)


@dataclass(frozen=True, slots=True)
class FileValues:
    """The rows of a file that do not count any more, and the keys and values of those of its logs
    that do."""

    masked: Positions
    keys: pa.Array
    values: Sequence[pa.Array]

    def over(self, start: int, keys: pa.Array, values: Sequence[pa.Array]) -> list[pa.Array]:
        """The ``values`` of the file's rows from ``start`` on; null for a row that is deleted."""
        rows = len(keys)
        low, high = np.searchsorted(self.masked, [start, start + rows])
        if low == high:
            return list(values)
        places = self.masked[low:high] - start
        at = pc.index_in(keys.take(pa.array(places)), value_set=self.keys)
        picks, gone = np.arange(rows), np.zeros(rows, np.bool_)
        picks[places] = rows + np.asarray(pc.fill_null(at, 0))
        gone[places] = np.asarray(at.is_null())
        order = pa.array(picks, mask=gone)
        return [
            pa.concat_arrays([old, new]).take(order)
            for old, new in zip(values, self.values, strict=True)
        ]
