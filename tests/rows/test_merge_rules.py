"""Which row wins, against the rules spelt out row by row."""

from __future__ import annotations

import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.rows.merge_rules import combined, incoming_wins
from pyhudi.rows.spec import COMMIT_TIME, DELETE, EVENT_TIME, KEY_COLUMN
from tests.rows.test_slice_merge import rank
from tests.rows.workers import T2, insert, rows_of, spec, upsert, values

ORDERED = pa.schema(
    [
        ("id", pa.string()),
        ("v", pa.int64()),
        ("ts", pa.int64()),
        ("sub", pa.float64()),
        ("n", pa.int32()),
    ]
)
ORDERS = [("ts", "sub"), ("sub",), ("n",), ("n", "sub")]
Row = dict[str, Any]
Orders = tuple[str, ...]

rows = st.fixed_dictionaries(
    {
        "id": st.sampled_from("abcdef"),
        "ts": st.none() | st.integers(0, 2),
        "sub": st.none() | st.sampled_from([-0.0, 0.0, 1.5, float("nan")]),
        "n": st.none() | st.integers(-1, 1),
        DELETE: st.booleans(),
    }
)


def values_in(row: Row, orders: Orders) -> list[Any]:
    """Its ordering values; null in the column of ints is 0."""
    return [0 if name == "n" and row[name] is None else row[name] for name in orders]


def forced(row: Row, orders: Orders, always: bool) -> bool:
    no_value = all(row[name] is None for name in orders) or (orders == ("n",) and row["n"] == 0)
    return row[DELETE] and (always or no_value)


def winner(mode: str, orders: Orders, always: bool, older: Row, newer: Row) -> Row:
    if mode == COMMIT_TIME:
        return newer
    if forced(older, orders, always) != forced(newer, orders, always):
        return older if forced(older, orders, always) else newer
    ranks = [[rank(value) for value in values_in(row, orders)] for row in (older, newer)]
    return newer if ranks[1] >= ranks[0] else older


@settings(max_examples=150, deadline=None)
@given(
    st.lists(rows, max_size=6, unique_by=lambda row: row["id"]),
    st.lists(rows, min_size=1, max_size=12),
    st.sampled_from([EVENT_TIME, COMMIT_TIME]),
    st.sampled_from(ORDERS),
    st.booleans(),
    st.sampled_from([1, 1 << 30]),
)
def test_a_merge_follows_the_rules(
    old: list[Row], incoming: list[Row], mode: str, orders: Orders, always: bool, memory_bytes: int
) -> None:
    # The key decides nothing but which rows meet; "v" tells them apart.
    old = [{**row, "v": n, DELETE: False} for n, row in enumerate(old)]
    incoming = [{**row, "v": 100 + n} for n, row in enumerate(incoming)]
    first_of_file = {"id": "zz", "v": -1, "ts": 0, "sub": 0.5, "n": 0, DELETE: False}
    best: dict[str, Row] = {}
    for row in incoming:
        known = best.get(row["id"])
        best[row["id"]] = row if known is None else winner(mode, orders, always, known, row)
    wanted = {row["id"]: row for row in [*old, first_of_file]}
    for key, row in best.items():
        if key in wanted:
            row = winner(mode, orders, always, wanted[key], row)
        wanted[key] = row
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        facts = {"merge_mode": mode, "ordering_columns": orders, "always_delete": always}
        stored = insert(spec(root, schema=ORDERED), rows_of([*old, first_of_file], ORDERED))
        write = spec(root, T2, ORDERED, memory_bytes=memory_bytes, **facts)
        marks = {DELETE: pa.array([row[DELETE] for row in incoming])}
        stat = upsert(write, stored, rows_of(incoming, ORDERED, **marks))
        found = values(root, stat, "id", "v")
    assert found == sorted((key, row["v"]) for key, row in wanted.items() if not row[DELETE])
    assert stat["num_writes"] == len(found)
    before = {row["id"] for row in [*old, first_of_file]}
    assert stat["num_deletes"] == len(before - {key for key, _ in found})
    assert stat["num_inserts"] == len({key for key, _ in found} - before)


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (pa.string(), "a", "b"),
        (pa.string(), "z", "é"),
        (pa.decimal128(10, 2), Decimal("-1.00"), Decimal("0.50")),
        (pa.bool_(), False, True),
        (pa.timestamp("us", "UTC"), 1, 2),
        (pa.timestamp("us"), 1, 2),
        (pa.binary(), b"\x01", b"\xff"),
        (pa.float32(), -0.5, 0.5),
        (pa.int64(), -1, 1),
    ],
)
def test_ordering_values_of_every_type_compare(kind: pa.DataType, low: Any, high: Any) -> None:
    write = spec(Path("/unused"), merge_mode=EVENT_TIME, ordering_columns=("o",))
    values_of = pa.array([low, high, low, None, low, None], kind)
    against = pa.array([high, low, low, low, None, None], kind)
    wins = incoming_wins(write, pa.table({"o": values_of}), pa.table({"o": against}))
    assert wins is not None
    assert wins.tolist() == [False, True, True, False, True, True]


@pytest.mark.parametrize("kind", [pa.int32(), pa.date32()])
def test_null_in_a_column_of_ints_is_0(kind: pa.DataType) -> None:
    write = spec(Path("/unused"), merge_mode=EVENT_TIME, ordering_columns=("o",))
    values_of = pa.array([-1, 0, 1, None, None, None, None, -1], kind)
    against = pa.array([None, None, None, -1, 0, 1, None, 5], kind)
    new = pa.table({"o": values_of})
    wins = incoming_wins(write, new, pa.table({"o": against}))
    assert wins is not None
    assert wins.tolist() == [False, True, True, True, True, False, True, False]
    deletes = new.append_column(DELETE, pa.array([True] * 8))
    wins = incoming_wins(write, deletes, pa.table({"o": against}))
    assert wins is not None
    assert wins.tolist() == [False, True, True, True, True, True, True, False]


def test_a_coded_text_column_orders_like_a_plain_one() -> None:
    write = spec(Path("/unused"), merge_mode=EVENT_TIME, ordering_columns=("o",))
    old = pa.table({"o": pa.array(["b", "b"]).dictionary_encode()})
    wins = incoming_wins(write, pa.table({"o": ["a", "c"]}), old)
    assert wins is not None
    assert wins.tolist() == [False, True]


def test_a_field_of_a_struct_orders_rows_and_a_null_struct_is_smallest() -> None:
    write = spec(Path("/unused"), merge_mode=EVENT_TIME, ordering_columns=("s.at.ts",))
    old = pa.table({"s": [{"at": {"ts": 2}}, {"at": {"ts": 2}}, None, {"at": {"ts": 2}}]})
    new = pa.table({"s": [{"at": {"ts": 1}}, {"at": {"ts": 3}}, {"at": {"ts": 0}}, {"at": None}]})
    wins = incoming_wins(write, new, old)
    assert wins is not None
    assert wins.tolist() == [False, True, True, False]
    table = pa.table({KEY_COLUMN: ["a", "a"], "s": [{"at": {"ts": 5}}, {"at": {"ts": 4}}]})
    assert combined(write, table).column("s").to_pylist() == [{"at": {"ts": 5}}]


def test_combined_rows_keep_the_order_in_which_the_winners_came() -> None:
    write = spec(Path("/unused"), merge_mode=EVENT_TIME, ordering_columns=("ts",))
    table = pa.table({KEY_COLUMN: ["c", "a", "b", "a", "c"], "ts": [1, 5, 1, 4, 1]})
    got = combined(write, table)
    assert list(zip(*(got.column(n).to_pylist() for n in (KEY_COLUMN, "ts")), strict=True)) == [
        ("a", 5),
        ("b", 1),
        ("c", 1),
    ]
