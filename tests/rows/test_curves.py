"""The order of rows along curves, cell by cell."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyhudi.rows.curves import (
    HILBERT,
    LINEAR,
    Z_ORDER,
    cells_of,
    hilbert,
    sorted_positions,
    z_order,
)

BITS = 4


def grid(axes: int, bits: int = BITS) -> list[Any]:
    """All cells of a grid, a list of coordinates for each axis."""
    places = np.arange(1 << bits * axes, dtype=np.uint64)
    mask = np.uint64((1 << bits) - 1)
    return [(places >> np.uint64(bits * axis)) & mask for axis in range(axes)]


def order(cells: list[Any], keys: Any) -> list[tuple[int, ...]]:
    ordered = np.argsort(keys, kind="stable")
    return list(zip(*(axis[ordered].tolist() for axis in cells), strict=True))


@pytest.mark.parametrize(("axes", "bits"), [(2, 4), (3, 3), (4, 2), (2, 1)])
def test_hilberts_curve_visits_each_cell_and_goes_one_step_at_a_time(axes: int, bits: int) -> None:
    cells = grid(axes, bits)
    before = [axis.copy() for axis in cells]
    keys = hilbert(cells, bits)
    assert sorted(keys.tolist()) == list(range(1 << bits * axes))
    visited = np.array(order(cells, keys))
    assert set(np.abs(np.diff(visited, axis=0)).sum(axis=1).tolist()) == {1}
    assert all((axis == old).all() for axis, old in zip(cells, before, strict=True))


def test_the_z_curve_takes_the_bits_of_the_columns_in_turn() -> None:
    first, second = np.array([0b101], np.uint64), np.array([0b011], np.uint64)
    assert z_order([first, second], 3).tolist() == [0b100111]
    assert order(grid(2, 1), z_order(grid(2, 1), 1)) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_values_are_spread_evenly_over_the_cells_of_their_axis() -> None:
    assert cells_of(pa.chunked_array([["b", None, "a", "b"]]), 2).tolist() == [1, 2, 0, 1]
    assert cells_of(pa.chunked_array([[7, 9]]), 3).tolist() == [0, 4]
    many = cells_of(pa.chunked_array([list(range(100))]), 2)
    assert np.bincount(many.astype(np.int64)).tolist() == [25, 25, 25, 25]
    assert cells_of(pa.chunked_array([], pa.int64()), 2).tolist() == []


VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.string(), ["b", None, "a"]),
    (pa.dictionary(pa.int32(), pa.string()), ["b", None, "a"]),
    (pa.float64(), [2.5, None, 1.5]),
    (pa.bool_(), [True, None, False]),
    (pa.decimal128(10, 2), [Decimal("2.50"), None, Decimal("1.50")]),
    (pa.date32(), [datetime.date(2024, 1, 2), None, datetime.date(2024, 1, 1)]),
    (pa.timestamp("us", "UTC"), [2, None, 1]),
    (pa.binary(), [b"b", None, b"a"]),
]


@pytest.mark.parametrize("layout", [LINEAR, Z_ORDER, HILBERT])
@pytest.mark.parametrize(("kind", "values"), VALUES, ids=str)
def test_columns_of_each_type_can_be_sorted_nulls_last(
    layout: str, kind: pa.DataType, values: list[Any]
) -> None:
    rows = pa.table({"x": pa.array(values, kind), "same": [1, 1, 1]})
    assert sorted_positions(rows, layout).tolist() == [2, 0, 1]


def test_a_curve_keeps_both_columns_narrow_where_a_sort_keeps_one() -> None:
    side = 32
    x, y = np.divmod(np.arange(side * side), side)
    rows = pa.table({"x": x, "y": y})

    def widths(layout: str) -> list[int]:
        parts = np.split(sorted_positions(rows, layout), 16)
        return [max(int(np.ptp(axis[part])) + 1 for part in parts) for axis in (x, y)]

    assert widths(LINEAR) == [2, 32]
    assert widths(Z_ORDER) == widths(HILBERT) == [8, 8]
