"""The order of rows: by one column after the other, or along a curve through several columns.

A curve visits the cells of a grid. Along each axis lie the distinct values of a column, in equal
steps, so the curve is as fine where values are dense as where they are few. Rows that are near each
other on the curve are near each other in each column (Morton 1966; Skilling 2004 for Hilbert's).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

LINEAR, Z_ORDER, HILBERT = "LINEAR", "ZORDER", "HILBERT"
KEY_BITS = 63
MOST_BITS = 16

Numbers = npt.NDArray[np.uint64]


def sorted_positions(rows: pa.Table, layout: str) -> npt.NDArray[np.int64]:
    """The positions of ``rows`` in their order; rows that are alike keep theirs, nulls are last.

    All columns of ``rows`` count, the first one most; they are not nested. ``layout`` is one of the
    constants above; curves need at most ``KEY_BITS`` columns.
    """
    plain = pa.table([_plain(column) for column in rows.columns], names=rows.column_names)
    if layout == LINEAR or plain.num_columns == 1:
        by = [(name, "ascending") for name in plain.column_names]
        found: npt.NDArray[np.int64] = pc.sort_indices(plain, sort_keys=by).to_numpy()
        return found.astype(np.int64)
    bits = min(MOST_BITS, KEY_BITS // plain.num_columns)
    cells = [cells_of(column, bits) for column in plain.columns]
    keys = z_order(cells, bits) if layout == Z_ORDER else hilbert(cells, bits)
    return np.argsort(keys, kind="stable")


def cells_of(values: pa.ChunkedArray, bits: int) -> Numbers:
    """The cell of each value along its axis of ``2 ** bits`` cells; nulls come last."""
    if not len(values):
        return np.zeros(0, np.uint64)
    ranks = pc.rank(values, sort_keys="ascending", tiebreaker="dense")
    found: Numbers = ranks.to_numpy().astype(np.uint64) - np.uint64(1)
    steps = int(found.max()) + 1
    if steps <= 1 << bits:
        # Few values lie apart: then the first bits of the curve tell them apart as well.
        return found * np.uint64((1 << bits) // steps)
    return found * np.uint64(1 << bits) // np.uint64(steps)


def z_order(cells: Sequence[Numbers], bits: int) -> Numbers:
    """The place of each cell on the Z-order curve: the bits of its coordinates in turn."""
    place = np.zeros(len(cells[0]), np.uint64)
    for bit in range(bits - 1, -1, -1):
        for axis in cells:
            place = (place << np.uint64(1)) | ((axis >> np.uint64(bit)) & np.uint64(1))
    return place


def hilbert(cells: Sequence[Numbers], bits: int) -> Numbers:
    """The place of each cell on Hilbert's curve, on which neighbours differ by one step."""
    axes = [axis.copy() for axis in cells]
    one = np.uint64(1)
    for bit in range(bits - 1, 0, -1):
        mask = np.uint64(1 << bit)
        low = mask - one
        for axis in axes:
            is_set = (axis & mask) != 0
            # Where the bit is set, the first axis is mirrored; elsewhere the two are swapped.
            swap = np.where(is_set, np.uint64(0), (axes[0] ^ axis) & low)
            axes[0] ^= np.where(is_set, low, swap)
            if axis is not axes[0]:
                axis ^= swap
    for number in range(1, len(axes)):
        axes[number] ^= axes[number - 1]
    turned = np.zeros(len(axes[0]), np.uint64)
    for bit in range(bits - 1, 0, -1):
        mask = np.uint64(1 << bit)
        turned ^= np.where((axes[-1] & mask) != 0, mask - one, np.uint64(0))
    return z_order([axis ^ turned for axis in axes], bits)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    return column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column
