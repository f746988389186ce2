"""Changes of rows whose values give way to those below: each commit tells what it changed.

Change data and the commit times of rows, by which incremental reads find them, are those of the
states before and after, merged row by row (``test_filled_rows.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow.fs import LocalFileSystem

from pyhudi.rows.change_spec import ChangeSpec, Slice
from pyhudi.rows.log_parts import parts_of
from pyhudi.rows.log_spec import CountedInstants, LogSlice, MergeSpec, SliceChange, SliceChanges
from pyhudi.rows.partial_rows import whole_rows
from pyhudi.rows.slice_changes import slice_changes
from pyhudi.rows.slice_file import SliceFile
from pyhudi.rows.slice_merge import merge
from pyhudi.rows.spec import COMMIT_TIME_COLUMN, KEY_COLUMN, FileSystemSpec, Filled
from tests.format.test_delete_block import wrapped
from tests.rows import logs
from tests.rows.logs import T1, T2, T3, T4, T5, T6, avro_block, delete_block, positions
from tests.rows.test_filled_rows import (
    BLOCKS,
    COLUMNS,
    KINDS,
    MARKER,
    VALUES,
    Image,
    Row,
    expected,
    image,
)

BASE = "base.parquet"
INSTANTS = (T2, T3, T4, T5, T6)
#: meta columns first, as in each file
STORED = pa.struct([(COMMIT_TIME_COLUMN, pa.string()), *KINDS])
DATA = pa.struct([field for field in KINDS if field.name != KEY_COLUMN])


def log_of(number: int) -> str:
    return f".f_{INSTANTS[number]}.log.1_0-1-2"


def put(root: Path, base: Sequence[Row], blocks: Sequence[Sequence[Row]], placed: bool) -> None:
    """A base file of the first instant, and a log with one block for each later one."""
    rows = [{COMMIT_TIME_COLUMN: T1, **image(row)} for row in base]
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(list(STORED))), root / BASE)
    places = {row[0]: at for at, row in enumerate(base)}
    for number, held in enumerate(blocks):
        instant = INSTANTS[number]
        header = positions(T1, [places[row[0]] for row in held]) if placed else {}
        if held[0][2] is None:
            deletes = [(row[0], wrapped("Long", row[1])) for row in held]
            content = delete_block(instant, *deletes, **header)
        else:
            images = [{COMMIT_TIME_COLUMN: instant, "key": row[0], **image(row)} for row in held]
            columns = {COMMIT_TIME_COLUMN: "string", **COLUMNS}
            content = avro_block(instant, images, columns, **header)
        (root / log_of(number)).write_bytes(content)


def spec_of(root: Path, ordered: bool, filled: Filled | None) -> MergeSpec:
    more = {"filled": filled, "root": str(root), "data": DATA}
    return logs.spec(*(["ts"] if ordered else []), kinds=STORED, **more)


def times_after(spec: MergeSpec, root: Path, count: int) -> dict[str, str]:
    """The commit of each key's row after ``count`` blocks, as a query shows it."""
    held = [(log_of(n), (root / log_of(n)).read_bytes()) for n in range(count)]
    with pa.OSFile(str(root / BASE)) as opened:
        stored = SliceFile(opened, Slice(BASE))
        parts = whole_rows(spec, parts_of(spec, held, {}), lambda: nullcontext(stored), T1)
        merged = merge(spec, parts, stored, T1)
        rows = pq.read_table(root / BASE).to_pylist()
        gone = set(merged.masked.tolist())
        found = [row for at, row in enumerate(rows) if at not in gone]
        wanted = pa.struct([STORED.field(COMMIT_TIME_COLUMN), STORED.field(KEY_COLUMN)])
        for part, kept in zip(parts, merged.kept, strict=True):
            if len(kept):
                found += part.images(kept, wanted).to_pylist()
    return {row[KEY_COLUMN]: row[COMMIT_TIME_COLUMN] for row in found}


def changes_of(spec: MergeSpec, root: Path, count: int) -> list[list[tuple[str, Any, Any]]]:
    """(operation, image before, image after) of the changes of each block."""
    paths = [log_of(number) for number in range(count)]
    asked = []
    for number in range(count):
        counted = CountedInstants(frozenset({T1, *INSTANTS[: number + 1]}), T1)
        of = LogSlice(Slice(BASE), T1, tuple(paths[: number + 1]))
        asked.append(SliceChange(INSTANTS[number], of, counted))
    wanted = ChangeSpec(str(root), FileSystemSpec("local"), KINDS, KINDS, spec)
    found: list[list[tuple[str, Any, Any]]] = [[] for _ in asked]
    for batch in slice_changes(wanted, LocalFileSystem(), SliceChanges(tuple(asked))):
        op, instant, before, after = (column.to_pylist() for column in batch.columns)
        for at in range(len(op)):
            found[INSTANTS.index(instant[at])].append((op[at], before[at], after[at]))
    return found


def by_key(images: Sequence[Image]) -> dict[str, Image]:
    return {each[KEY_COLUMN]: each for each in images}


BASES = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(1, 4), VALUES), max_size=3, min_size=1,
    unique_by=lambda row: row[0],
)  # fmt: skip


@pytest.mark.parametrize("ordered", [True, False], ids=["event time", "commit time"])
@given(
    base=BASES,
    blocks=BLOCKS.filter(lambda blocks: len(blocks) <= len(INSTANTS)),
    filled=st.sampled_from([Filled(), Filled(MARKER)]),
    placed=st.booleans(),
)
@settings(deadline=None, max_examples=60)
def test_each_commit_tells_the_rows_that_it_changed(
    tmp_path_factory: pytest.TempPathFactory,
    ordered: bool,
    base: list[Row],
    blocks: list[list[Row]],
    filled: Filled,
    placed: bool,
) -> None:
    root = tmp_path_factory.mktemp("t")
    known = {row[0] for row in base}
    placed = placed and all(row[0] in known for block in blocks for row in block)
    if placed:
        # Positions ascend, and a block has one row of a key.
        order = [row[0] for row in base]
        blocks = [
            sorted({row[0]: row for row in block}.values(), key=lambda row: order.index(row[0]))
            for block in blocks
        ]
    put(root, base, blocks, placed)
    spec = spec_of(root, ordered, filled)
    before, was = by_key(expected(base, [], ordered, filled)), dict.fromkeys(known, T1)
    for number, told in enumerate(changes_of(spec, root, len(blocks))):
        after = by_key(expected(base, blocks[: number + 1], ordered, filled))
        now = times_after(spec, root, number + 1)
        rows = {row[0] for row in blocks[number]}
        keys = [(new or old)[KEY_COLUMN] for _, old, new in told]
        assert len(set(keys)) == len(keys)
        changes = dict(zip(keys, told, strict=True))
        assert changes.keys() <= rows
        for key in known | before.keys() | after.keys():
            old, new = before.get(key), after.get(key)
            if old != new:
                op = "i" if old is None else "d" if new is None else "u"
                assert changes[key] == (op, old, new)
                # A delete that loses takes the values of logs away from the row that stays.
                lost = any(row[0] == key and row[2] is None for row in blocks[number])
                assert new is None or now[key] == INSTANTS[number] or (lost and now[key] == T1)
            elif key in changes:
                # It took the place of an equal row.
                assert changes[key] == ("u", old, new)
                assert any(row[0] == key and row[1] >= old["ts"] for row in blocks[number])
            elif new is not None and now[key] != was[key]:
                # It gave the value that was there.
                assert key in rows
                assert now[key] == INSTANTS[number]
        assert now.keys() == after.keys()
        before, was = after, now
