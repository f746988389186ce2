"""Rows of logs with some columns only, against a merge row by row as Apache Hudi 1.2.0 does it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.rows import slice_merge
from pyhudi.rows.change_spec import Slice
from pyhudi.rows.log_parts import LogPart, parts_of
from pyhudi.rows.log_spec import MergeSpec
from pyhudi.rows.partial_rows import PartialPart, relaid, whole_rows
from pyhudi.rows.slice_file import SliceFile
from pyhudi.rows.slice_merge import merge
from pyhudi.rows.spec import KEY_COLUMN
from tests.format.test_delete_block import wrapped
from tests.rows import logs
from tests.rows.logs import LOG, T1, T2, T3, avro_block, delete_block, positions

COLUMNS = {"ts": "long", "v": "string", "w": "string", "x": "string"}
VALUES = ("v", "w", "x")
KINDS = pa.struct(
    [(KEY_COLUMN, pa.string()), ("ts", pa.int64()), *((name, pa.string()) for name in VALUES)]
)
Image = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """A row of the base file or of a log; ``has`` are the columns of its block, None of a delete's.

    ``images`` are those that lie below each other, the highest first; ``whole``: nothing can lie
    below them.
    """

    key: str
    ts: int
    has: tuple[str, ...] | None
    images: tuple[Image, ...] = ()
    whole: bool = True


def blocks_of(of: st.SearchStrategy[tuple[str, ...] | None]) -> st.SearchStrategy[list[list[Row]]]:
    facts = st.tuples(st.sampled_from("abc"), st.integers(1, 4))
    block = st.tuples(of, st.lists(facts, max_size=4))
    return st.lists(block.map(_rows_of), min_size=1, max_size=6)


def _rows_of(block: tuple[tuple[str, ...] | None, list[tuple[str, int]]]) -> list[Row]:
    return [Row(key, ts, block[0]) for key, ts in block[1]]


HAS = st.none() | st.sampled_from([VALUES, ("v",), ("w",), ("v", "x"), ("w", "x"), ()])
BASE_ROWS = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 4)), max_size=5)


def named(base: Sequence[tuple[str, int]] | None, blocks: Sequence[list[Row]]) -> list[list[Row]]:
    """The rows of the base file and of each block, with values that tell them from others."""
    first = [Row(key, ts, VALUES) for key, ts in dict(base or ()).items()]
    found = []
    for number, rows in enumerate([first, *blocks]):
        given = []
        for at, row in enumerate(rows):
            image = {KEY_COLUMN: row.key, "ts": row.ts}
            image |= {name: f"{name}{number}.{at}" for name in row.has or ()}
            whole = row.has is None or row.has == VALUES
            given.append(replace(row, images=(image,), whole=whole))
        found.append(given)
    return found


# ---- the oracle


def met(old: Row, new: Row, ordered: bool) -> Row:
    won, lost = (new, old) if not ordered or new.ts >= old.ts else (old, new)
    if won.whole or lost.has is None:
        return won
    return replace(won, images=won.images + lost.images, whole=lost.whole)


def image_of(row: Row) -> Image:
    found: Image = dict.fromkeys([KEY_COLUMN, *COLUMNS])
    for image in reversed(row.images):
        found |= image
    return found


def expected(rows: Sequence[Sequence[Row]], ordered: bool) -> list[Image]:
    held: dict[str, Row] = {}
    for row in (row for block in rows[1:] for row in block):
        held[row.key] = met(held[row.key], row, ordered) if row.key in held else row
    found = []
    for row in rows[0]:
        newest = held.pop(row.key, row)
        found.append(row if newest is row else met(row, newest, ordered))
    found += held.values()
    return in_order(image_of(row) for row in found if row.has is not None)


def in_order(images: Any) -> list[Image]:
    return sorted(images, key=str)


# ---- the same rows as files


def file_of(rows: Sequence[Row]) -> SliceFile:
    images = [image_of(row) for row in rows]
    sink = BytesIO()
    pq.write_table(pa.Table.from_pylist(images, pa.schema(list(KINDS))), sink, row_group_size=2)
    return SliceFile(pa.BufferReader(sink.getvalue()), Slice("base.parquet"))


def block_of(rows: Sequence[Row], base: Sequence[Row], placed: bool, instant: str = T2) -> bytes:
    places = {row.key: at for at, row in enumerate(base)}
    header = positions(T1, [places[row.key] for row in rows]) if placed else {}
    has = rows[0].has
    if has is None:
        return delete_block(instant, *((row.key, wrapped("Long", row.ts)) for row in rows))
    columns = {name: kind for name, kind in COLUMNS.items() if name == "ts" or name in has}
    if has != VALUES:
        header["IS_PARTIAL"] = "true"
    held = [{"key": r.key, **{n: r.images[0][n] for n in columns}} for r in rows]
    return avro_block(instant, held, columns, **header)


class Opened:
    """The base file, or none."""

    def __init__(self, rows: Sequence[Row] | None) -> None:
        self.file = None if rows is None else file_of(rows)

    def __call__(self) -> AbstractContextManager[SliceFile]:
        assert self.file is not None
        return nullcontext(self.file)


def whole(spec: MergeSpec, data: bytes, opened: Opened) -> list[LogPart]:
    parts = parts_of(spec, [(LOG, data)], {})
    return whole_rows(spec, parts, None if opened.file is None else opened, T1)


def left(spec: MergeSpec, data: bytes, base: Sequence[Row] | None) -> Iterator[Image]:
    opened = Opened(base)
    parts = whole(spec, data, opened)
    found = merge(spec, parts, opened.file, T1 if base is not None else "")
    gone = set(found.masked.tolist())
    yield from (image_of(row) for at, row in enumerate(base or ()) if at not in gone)
    for part, kept in zip(parts, found.kept, strict=True):
        if len(kept):
            yield from part.images(kept[::-1], KINDS).to_pylist()


def spec_of(ordered: bool) -> MergeSpec:
    return logs.spec(*(["ts"] if ordered else []), kinds=KINDS)


@settings(max_examples=400, deadline=None)
@given(st.none() | BASE_ROWS, blocks_of(HAS), st.booleans(), st.sampled_from([1, 1_000]))
def test_rows_lie_over_others_as_in_apache_hudi(
    base: list[tuple[str, int]] | None, blocks: list[list[Row]], ordered: bool, at_once: int
) -> None:
    rows = named(base, blocks)
    data = b"".join(block_of(block, rows[0], False) for block in rows[1:] if block)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(slice_merge, "EVENTS_AT_ONCE", at_once)
        found = in_order(left(spec_of(ordered), data, None if base is None else rows[0]))
    assert found == expected(rows, ordered)


@settings(max_examples=200, deadline=None)
@given(blocks_of(HAS.filter(lambda has: has is not None)), st.booleans())
def test_rows_with_positions_lie_over_others_likewise(
    blocks: list[list[Row]], ordered: bool
) -> None:
    rows = named([("a", 2), ("b", 1), ("c", 3)], blocks)
    once = [list({row.key: row for row in block}.values()) for block in rows[1:]]
    ascending = [rows[0], *(sorted(block, key=lambda row: row.key) for block in once)]
    data = b"".join(block_of(block, rows[0], True) for block in ascending[1:] if block)
    found = in_order(left(spec_of(ordered), data, rows[0]))
    assert found == expected(ascending, ordered)


def test_a_row_is_relaid_only_if_other_values_show() -> None:
    """By event time a later row may come to lie below one that stays."""
    steps = [Row("a", 9, ("v",)), Row("a", 8, ("w",)), Row("a", 7, ("w",)), Row("a", 6, ("x",))]
    rows = named([("a", 1)], [[step] for step in steps])
    data = [block_of(block, rows[0], False) for block in rows[1:]]
    spec, opened = spec_of(True), Opened(rows[0])
    found = []
    for count in range(1, len(data)):
        then, now = (whole(spec, b"".join(data[:n]), opened)[0] for n in (count, count + 1))
        assert isinstance(then, PartialPart)
        assert isinstance(now, PartialPart)
        found.append(relaid(then, now, np.array([0]), KINDS).tolist())
    assert found == [[0], [], [0]]


def test_blocks_that_do_not_count_lie_below_nothing() -> None:
    rows = named([("a", 1)], [[Row("a", 2, ("v",))], [Row("a", 3, ("w",))]])
    instants = [T2, T3]
    blocks = [block_of(b, rows[0], False, t) for b, t in zip(rows[1:], instants, strict=True)]
    spec = logs.spec("ts", kinds=KINDS, completed=[T1, T3])
    found = in_order(left(spec, b"".join(blocks), rows[0]))
    assert found == expected([rows[0], rows[2]], ordered=True)
