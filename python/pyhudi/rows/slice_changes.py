"""Change data of slices with logs: what the blocks of one commit did to the rows of the others.

Invariant: the rows before a commit are those of the merge without its blocks, the rows after it
those of the merge with them (``slice_merge.py``), so an image is what a snapshot would have given.
A row that both merges give is no change, whatever the commit wrote: by event time it may lose.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.format.change_log import DELETE, INSERT, UPDATE
from pyhudi.rows.change_spec import ChangeSpec
from pyhudi.rows.log_parts import LogPart, chunks
from pyhudi.rows.log_spec import Merged, MergeSpec, Positions, SliceChange
from pyhudi.rows.meta_columns import constant
from pyhudi.rows.piece_reading import BATCH_ROWS, reading
from pyhudi.rows.slice_file import SliceFile
from pyhudi.rows.slice_merge import merge
from pyhudi.rows.slice_reader import parts_in


class RowSource(Protocol):
    """A base file or a block of a log, whose rows are found by position."""

    def keys_at(self, at: Positions) -> pa.Array: ...

    def images(self, at: Positions, kind: pa.StructType) -> pa.StructArray: ...


Picked = tuple[RowSource, Positions]


class PickedRows:
    """Rows of several sources, one source after the other."""

    def __init__(self, picks: Sequence[Picked]) -> None:
        self._picks = [(source, at) for source, at in picks if len(at)]

    def __len__(self) -> int:
        return sum(len(at) for _, at in self._picks)

    def keys(self) -> pa.Array:
        """Their record keys."""
        found = [source.keys_at(at).cast(pa.string()) for source, at in self._picks]
        return pa.concat_arrays([pa.array([], pa.string()), *found])

    def images(self, kind: pa.StructType) -> pa.StructArray:
        """The rows themselves."""
        found = [source.images(at, kind) for source, at in self._picks]
        return pa.concat_arrays([pa.array([], kind), *found])


def slice_changes(
    spec: ChangeSpec, filesystem: pa.fs.FileSystem, piece: SliceChange
) -> Iterator[pa.RecordBatch]:
    """The changes of one piece, in ``spec.schema()``; errors as of ``read_changes``."""
    assert spec.merge is not None, "the table has logs"
    order = replace(spec.merge, counted=piece.counted)
    with reading(piece.instant, " and ".join(piece.files)):
        parts = parts_in(order, filesystem, piece.slice)
        if piece.slice.base is None:
            yield from _changes(spec, order, piece, parts, None)
            return
        with filesystem.open_input_file(f"{spec.root}/{piece.slice.base.path}") as opened:
            base = SliceFile(opened, piece.slice.base)
            yield from _changes(spec, order, piece, parts, base)


def _changes(
    spec: ChangeSpec,
    order: MergeSpec,
    piece: SliceChange,
    parts: Sequence[LogPart],
    base: SliceFile | None,
) -> Iterator[pa.RecordBatch]:
    after = merge(order, parts, base, piece.slice.base_instant)
    if piece.whole:
        for rows in _all_rows(after, parts, base) if piece.whole in piece.ops else ():
            yield _of_one_kind(spec, piece, rows)
        return
    others = [part for part in parts if part.instant != piece.instant]
    before = merge(order, others, base, piece.slice.base_instant)
    kept = dict(zip(map(id, others), before.kept, strict=True))
    gone: list[Picked] = []
    came: list[Picked] = []
    if base is not None:
        gone.append((base, np.setdiff1d(after.masked, before.masked)))
        came.append((base, np.setdiff1d(before.masked, after.masked)))
    for part, now in zip(parts, after.kept, strict=True):
        then = kept.get(id(part), np.zeros(0, np.int64))
        gone.append((part, np.setdiff1d(then, now)))
        came.append((part, np.setdiff1d(now, then)))
    yield from _paired(spec, piece, PickedRows(gone), PickedRows(came))


def _all_rows(
    merged: Merged, parts: Sequence[LogPart], base: SliceFile | None
) -> Iterator[PickedRows]:
    """All rows that a merge leaves, some at a time."""
    sources: list[Picked] = [*zip(parts, merged.kept, strict=True)]
    if base is not None:
        sources.insert(0, (base, np.setdiff1d(np.arange(base.rows), merged.masked)))
    for source, every in sources:
        for at in chunks(every, BATCH_ROWS):
            yield PickedRows([(source, at)])


def _of_one_kind(spec: ChangeSpec, piece: SliceChange, rows: PickedRows) -> pa.RecordBatch:
    """``rows`` as deletes or as inserts."""
    images = []
    for op, kind in ((DELETE, spec.before), (INSERT, spec.after)):
        if kind is not None:
            images.append(rows.images(kind) if op == piece.whole else pa.nulls(len(rows), kind))
    return _columns(spec, piece.whole, piece.instant, len(rows), images)


def _paired(
    spec: ChangeSpec, piece: SliceChange, gone: PickedRows, came: PickedRows
) -> Iterator[pa.RecordBatch]:
    """A row that came in place of one with its key is an update."""
    if not len(gone) and not len(came):
        return
    old, new = _numbered(gone.keys(), came.keys())
    at = np.asarray(pc.index_in(new, value_set=old).fill_null(-1)).astype(np.int64)
    updated, inserted = np.flatnonzero(at >= 0), np.flatnonzero(at < 0)
    deleted = np.setdiff1d(np.arange(len(old)), at)
    held = [
        (rows.images(kind), side)
        for rows, kind, side in ((gone, spec.before, 0), (came, spec.after, 1))
        if kind is not None
    ]
    for op, places in (
        (DELETE, (deleted, np.full(len(deleted), -1))),
        (UPDATE, (at[updated], updated)),
        (INSERT, (np.full(len(inserted), -1), inserted)),
    ):
        for start in range(0, len(places[0]) if op in piece.ops else 0, BATCH_ROWS):
            picks = [each[start : start + BATCH_ROWS] for each in places]
            images = [rows.take(pa.array(picks[n], mask=picks[n] < 0)) for rows, n in held]
            yield _columns(spec, op, piece.instant, len(picks[0]), images)


def _numbered(old: pa.Array, new: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Numbers that are equal if the keys are; of equal keys in one array the first meets the first
    of the other, and so on."""
    codes = np.asarray(pa.concat_arrays([old, new]).dictionary_encode().indices).astype(np.int64)
    width = len(codes) + 1

    def turns(own: Positions) -> Positions:
        order = np.argsort(own, kind="stable")
        ordered = own[order]
        first = np.searchsorted(ordered, ordered)
        found = np.empty(len(own), np.int64)
        found[order] = np.arange(len(own)) - first
        return found

    sides = codes[: len(old)], codes[len(old) :]
    one, other = (pa.array(own * width + turns(own)) for own in sides)
    return one, other


def _columns(
    spec: ChangeSpec, op: str, instant: str, count: int, images: Sequence[pa.Array]
) -> pa.RecordBatch:
    texts = [constant(each, count).cast(pa.string()) for each in (op, instant)]
    return pa.RecordBatch.from_arrays([*texts, *images], schema=spec.schema())
