"""Meta columns made by the column."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.rows.meta_columns import constant, java_order, key_range, sequence


@pytest.mark.parametrize(
    ("start", "rows"), [(0, 1), (0, 12), (95, 10), (999, 2), (10**9 - 3, 6), (10**12, 3), (5, 0)]
)
def test_sequence_numbers_are_counted_as_text(start: int, rows: int) -> None:
    got = sequence("T_3_", start, rows)
    got.validate(full=True)
    assert got.to_pylist() == [f"T_3_{n}" for n in range(start, start + rows)]


def test_a_constant_is_one_dictionary_entry() -> None:
    got = constant("2024/é", 5)
    assert got.to_pylist() == ["2024/é"] * 5
    assert len(got.dictionary) == 1
    assert len(constant("", 0)) == 0


@given(st.lists(st.text(), min_size=1, max_size=20))
def test_the_key_range_is_what_java_would_find(keys: list[str]) -> None:
    found = key_range(pa.array(keys, pa.string()))
    assert found == (min(keys, key=java_order), max(keys, key=java_order))


def test_no_keys_have_no_range() -> None:
    assert key_range(pa.array([], pa.string())) is None
