"""Rows whose values give way to those below, against a merge row by row as Apache Hudi does it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import UnsupportedTable
from pyhudi.format.log_blocks import BlockType, avro_content
from pyhudi.rows import slice_merge
from pyhudi.rows.change_spec import Slice
from pyhudi.rows.log_parts import parts_of
from pyhudi.rows.log_spec import MergeSpec
from pyhudi.rows.partial_rows import whole_rows
from pyhudi.rows.slice_file import SliceFile
from pyhudi.rows.slice_merge import merge
from pyhudi.rows.spec import KEY_COLUMN, Filled
from tests.format.test_delete_block import wrapped
from tests.rows import logs
from tests.rows.logs import LOG, T1, T2, avro_block, delete_block, positions

MARKER = "?"
COLUMNS = {"ts": "long", "v": "string", "w": "bytes", "n": "long"}
KINDS = pa.struct(
    [
        (KEY_COLUMN, pa.string()),
        ("ts", pa.int64()),
        ("v", pa.string()),
        ("w", pa.binary()),
        ("n", pa.int64()),
    ]
)
Image = dict[str, Any]
#: a key, its ordering value, and the values of the other columns; None of a delete
Row = tuple[str, int, tuple[str | None, bytes | None, int | None] | None]

VALUES = st.tuples(
    st.sampled_from([None, MARKER, "a", "b"]),
    st.sampled_from([None, MARKER.encode(), b"c"]),
    st.sampled_from([None, 1, 2]),
)
ROWS = st.tuples(st.sampled_from("abc"), st.integers(1, 4), VALUES)
DELETES = st.tuples(st.sampled_from("abc"), st.integers(1, 4), st.none())
BLOCKS = st.lists(
    st.lists(ROWS, min_size=1, max_size=4) | st.lists(DELETES, min_size=1, max_size=2),
    min_size=1,
    max_size=6,
)
FILLED = st.sampled_from([Filled(), Filled(MARKER), None])


# ---- the oracle


def over(high: Row, low: Row, filled: Filled | None) -> Row:
    """The row that wins, with the values that it lacks from the one that loses."""
    if high[2] is None or low[2] is None or filled is None:
        return high
    # In Spark no bytes equal the mark.
    texts: list[Any] = [MARKER, object(), object()] if filled.marker else [None] * 3
    pairs = zip(high[2], low[2], texts, strict=True)
    found: Any = tuple(b if a == unset else a for a, b, unset in pairs)
    return high[0], high[1], found


def expected(
    base: Sequence[Row], blocks: Sequence[Sequence[Row]], ordered: bool, filled: Filled | None
) -> list[Image]:
    held: dict[str, Row] = {}
    for row in (row for block in blocks for row in block):
        old = held.get(row[0])
        if old is None or not ordered or row[1] >= old[1]:
            held[row[0]] = row if old is None else over(row, old, filled)
        elif row[2] is not None:
            held[row[0]] = over(old, row, filled)
    found = []
    for row in base:
        newest = held.pop(row[0], None)
        if newest is None:
            found.append(row)
        elif ordered and row[1] > newest[1]:
            found.append(over(row, newest, filled))
        else:
            found.append(over(newest, row, filled))
    rows = [*found, *held.values()]
    return in_order(image(row) for row in rows if row[2] is not None)


def image(row: Row) -> Image:
    v, w, n = row[2] or (None, None, None)
    return {KEY_COLUMN: row[0], "ts": row[1], "v": v, "w": w, "n": n}


def in_order(images: Any) -> list[Image]:
    return sorted(images, key=str)


# ---- the same rows as files


def block_of(rows: Sequence[Row], base: Sequence[Row], placed: bool) -> bytes:
    places = {row[0]: at for at, row in enumerate(base)}
    header = positions(T1, [places[row[0]] for row in rows]) if placed else {}
    if rows[0][2] is None:
        deletes = [(row[0], wrapped("Long", row[1])) for row in rows]
        return delete_block(T2, *deletes, **header)
    held = [{"key" if n == KEY_COLUMN else n: v for n, v in image(r).items()} for r in rows]
    return avro_block(T2, held, COLUMNS, **header)


def found_in(spec: MergeSpec, data: bytes, base: Sequence[Row]) -> list[Image]:
    sink = BytesIO()
    images = [image(row) for row in base]
    pq.write_table(pa.Table.from_pylist(images, pa.schema(list(KINDS))), sink, row_group_size=2)
    stored = SliceFile(pa.BufferReader(sink.getvalue()), Slice("base.parquet"))
    parts = parts_of(spec, [(LOG, data)], {})
    parts = whole_rows(spec, parts, (lambda: nullcontext(stored)) if base else None, T1)
    merged = merge(spec, parts, stored if base else None, T1 if base else "")
    gone = set(merged.masked.tolist())
    found = [image(row) for at, row in enumerate(base) if at not in gone]
    for part, kept in zip(parts, merged.kept, strict=True):
        assert not part.place.schema or spec.filled is None, "no reader takes its rows for whole"
        if len(kept):
            found += part.images(kept[::-1], KINDS).to_pylist()
    return in_order(found)


def spec_of(ordered: bool, filled: Filled | None) -> MergeSpec:
    return logs.spec(*(["ts"] if ordered else []), kinds=KINDS, filled=filled)


@settings(max_examples=600, deadline=None)
@given(st.lists(ROWS, max_size=3), BLOCKS, st.booleans(), FILLED, st.sampled_from([1, 1_000]))
def test_values_come_from_the_rows_below_as_in_apache_hudi(
    base: list[Row], blocks: list[list[Row]], ordered: bool, filled: Filled | None, at_once: int
) -> None:
    base = list({row[0]: row for row in base}.values())
    data = b"".join(block_of(block, base, False) for block in blocks)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(slice_merge, "EVENTS_AT_ONCE", at_once)
        found = found_in(spec_of(ordered, filled), data, base)
    assert found == expected(base, blocks, ordered, filled)


@settings(max_examples=300, deadline=None)
@given(st.tuples(VALUES, VALUES, VALUES), BLOCKS, st.booleans(), FILLED)
def test_values_come_from_the_rows_below_by_positions_likewise(
    stored: tuple[Any, ...], blocks: list[list[Row]], ordered: bool, filled: Filled | None
) -> None:
    base: list[Row] = [(key, 2, values) for key, values in zip("abc", stored, strict=True)]
    once = [sorted({row[0]: row for row in block}.values(), key=str) for block in blocks]
    data = b"".join(block_of(block, base, True) for block in once)
    found = found_in(spec_of(ordered, filled), data, base)
    assert found == expected(base, once, ordered, filled)


def test_a_default_that_is_no_null_is_refused() -> None:
    """Whether Apache Hudi takes a value for the default depends on how Java holds it."""
    row = {KEY_COLUMN: "a", "ts": 1, "v": "x", "w": None, "n": None}
    found = json.loads(logs.schema(COLUMNS))
    found["fields"][-1] = {"name": "n", "type": ["long", "null"], "default": 5}
    sink = BytesIO()
    fastavro.schemaless_writer(sink, fastavro.parse_schema(found), row)
    content = avro_content([sink.getvalue()])
    data = logs.rendered(BlockType.AVRO_DATA, T2, content, SCHEMA=json.dumps(found))
    assert found_in(spec_of(False, Filled(MARKER)), data, []) == [row]
    with pytest.raises(UnsupportedTable, match="The column 'n' of rows in .* has a default other"):
        found_in(spec_of(False, Filled()), data, [])
