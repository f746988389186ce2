"""Values that stand for none, and where a row takes them from (spec/merging.md R6).

Of two rows with one key the winner takes such values from the loser. A delete gives and takes none.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.rows.ordering import Mask, Values
from pyhudi.rows.spec import Filled


def stands_for_none(values: Values, filled: Filled) -> Mask:
    """Which values of a column give way to those of the row below."""
    if filled.marker is None:
        return np.asarray(values.is_null(), np.bool_)
    kind, marker = _plain(values.type), pa.scalar(filled.marker)
    if filled.in_bytes and pa.types.is_binary(kind):
        marker = marker.cast(kind)
    elif not pa.types.is_string(kind):
        return np.zeros(len(values), np.bool_)
    marked = pc.equal(values.cast(kind), marker)
    return np.asarray(pc.fill_null(marked, False), np.bool_)


def lacks_values(rows: pa.Table, filled: Filled) -> Mask:
    """Which rows have a value that stands for none."""
    found = np.zeros(rows.num_rows, np.bool_)
    for column in rows.columns:
        found |= stands_for_none(column, filled)
    return found


def laid_over(high: pa.Table, low: pa.Table, filled: Filled) -> tuple[pa.Table, Mask]:
    """(the rows of ``high`` with the values that they lack from ``low``, which rows got some).

    The tables have the same columns, and their rows belong together one by one.
    """
    changed = np.zeros(high.num_rows, np.bool_)
    columns = []
    for name in high.column_names:
        own, below = high.column(name), low.column(name)
        gets = stands_for_none(own, filled)
        if gets.any():
            gets &= ~stands_for_none(below, filled)
            changed |= gets
            own = _picked(own, below, gets)
        columns.append(own)
    return pa.table(columns, names=high.column_names), changed


def _picked(own: pa.ChunkedArray, below: pa.ChunkedArray, gets: Mask) -> pa.Array:
    """``own``, but the values of ``below`` where ``gets`` says so."""
    own, below = (each.cast(_plain(each.type)) for each in (own, below))
    at = np.arange(len(own), dtype=np.int64)
    at[gets] += len(own)
    return pa.concat_arrays([*own.chunks, *below.chunks]).take(pa.array(at))


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def stacked(rivals: pa.Table, weakest: Mask, deletes: Mask, filled: Filled) -> pa.Table:
    """Each row of ``rivals`` with the values that it lacks from the nearest row below with them.

    The rows of a key follow each other, from the ``weakest`` to the winner. Nothing comes from a
    delete, or from a row below one.
    """
    places = np.arange(rivals.num_rows, dtype=np.int64)
    begins = weakest | deletes | np.append(False, deletes[:-1])
    lowest = np.maximum.accumulate(np.where(begins, places, 0))
    columns = []
    for column in rivals.columns:
        lacks = stands_for_none(column, filled)
        if lacks.any():
            nearest = np.maximum.accumulate(np.where(lacks, 0, places))
            found = (nearest >= lowest) & ~lacks[nearest]
            column = column.take(pa.array(np.where(found, nearest, places)))
        columns.append(column)
    return pa.table(columns, names=rivals.column_names)
