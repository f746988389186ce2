"""How ordering values compare, in merges of base files and of logs: spec/merging.md R1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask = npt.NDArray[np.bool_]
Values: TypeAlias = pa.Array | pa.ChunkedArray


def comparable(values: Values) -> Values:
    """``values`` as they compare: in a column of ints 0 for null, else null; of floating point
    numbers integers of the same order, where -0.0 is smaller than 0.0 and NaN is the largest.
    """
    if _is_int(values.type):
        return pc.fill_null(values, pa.scalar(0, values.type)) if values.null_count else values
    if not pa.types.is_floating(values.type):
        return values
    wide = np.asarray(pc.fill_null(values.cast(pa.float64()), 0.0))
    bits = np.where(np.isnan(wide), np.float64(np.nan), wide).view(np.int64)
    most = np.int64(np.iinfo(np.int64).max)
    return pa.array(np.where(bits < 0, bits ^ most, bits), mask=np.asarray(values.is_null()))


def valueless(columns: Sequence[Values]) -> Mask:
    """For each row whether it has no ordering value, so that a delete always wins: all its values
    are null, or its only one is the int 0.
    """
    if len(columns) == 1 and _is_int(columns[0].type):
        zero = pc.equal(columns[0].cast(pa.int32()), 0)
        return np.asarray(pc.fill_null(zero, True), dtype=np.bool_)
    absent: Mask = np.all([np.asarray(each.is_null()) for each in columns], axis=0)
    return absent


def _is_int(kind: pa.DataType) -> bool:
    """Whether it is an int to Apache Hudi, as a date is."""
    return bool(pa.types.is_int32(kind) or pa.types.is_date32(kind))
