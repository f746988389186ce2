"""Change data of slices with logs: what the blocks of one commit did to the rows of the others.

Invariant: the rows before a commit are those of the merge without its blocks, the rows after it
those of the merge with them (``slice_merge.py``), so an image is what a snapshot would have given.
A row that both merges give is no change, whatever the commit wrote: by event time it may lose.
By partial updates a row that loses may still give values to one that wins; if it gives none, the
row that stays is no change either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from operator import is_
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.format.change_log import DELETE, INSERT, UPDATE
from pyhudi.rows.change_spec import ChangeSpec
from pyhudi.rows.log_parts import LogPart, SliceLogs, chunks
from pyhudi.rows.log_spec import Merged, MergeSpec, Positions, SliceChange, SliceChanges
from pyhudi.rows.meta_columns import constant
from pyhudi.rows.ordering import Mask
from pyhudi.rows.partial_rows import Opener, PartialPart, differ, relaid, whole_rows
from pyhudi.rows.piece_reading import BATCH_ROWS, reading
from pyhudi.rows.slice_file import SliceFile
from pyhudi.rows.slice_merge import merge
from pyhudi.rows.slice_reader import logs_in


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

    def of_base(self) -> Mask:
        """Which of them are rows of the base file, with values of logs perhaps."""
        found = [np.zeros(0, np.bool_)]
        for source, at in self._picks:
            if isinstance(source, PartialPart):
                found.append(source.layers.kept(source.number, at))
            else:
                found.append(np.full(len(at), not isinstance(source, LogPart)))
        return np.concatenate(found)


class FewRows:
    """Those rows of a base file that any of its changes needs, read once for all of them."""

    def __init__(self, base: SliceFile, at: Sequence[Positions]) -> None:
        self._base = base
        self._at = np.unique(np.concatenate([np.zeros(0, np.int64), *at]))
        self._images: dict[pa.StructType, pa.StructArray] = {}
        self._keys: pa.Array | None = None

    def keys_at(self, at: Positions) -> pa.Array:
        """Their record keys at ``at``, in this order."""
        if self._keys is None:
            self._keys = self._base.keys_at(self._at)
        return self._keys.take(pa.array(np.searchsorted(self._at, at)))

    def images(self, at: Positions, kind: pa.StructType) -> pa.StructArray:
        """The rows at ``at`` as structs of the type ``kind``."""
        if kind not in self._images:
            self._images[kind] = self._base.images(self._at, kind)
        return self._images[kind].take(pa.array(np.searchsorted(self._at, at)))


@dataclass(slots=True)
class _Difference:
    """What a commit did to the rows of a slice: of its base file, and of each of its blocks."""

    change: SliceChange
    gone: Positions
    came: Positions
    gone_logged: list[Picked]
    came_logged: list[Picked]


def slice_changes(
    spec: ChangeSpec, filesystem: pa.fs.FileSystem, piece: SliceChanges
) -> Iterator[pa.RecordBatch]:
    """The changes of one piece, in ``spec.schema()``; errors as of ``read_changes``.

    The files are read once: the merges of all commits come first, then the rows in which they
    differ.
    """
    first = piece.changes[0]
    with reading(first.instant, " and ".join(piece.files)), ExitStack() as opened:
        base = None
        if first.slice.base is not None:
            path = f"{spec.root}/{first.slice.base.path}"
            source = opened.enter_context(filesystem.open_input_file(path))
            base = SliceFile(source, first.slice.base)
        last = piece.changes[-1]
        logs = logs_in(_order(spec, last), filesystem, last.slice)
        if first.whole:
            yield from _whole(spec, first, logs, base)
            return
        found = list(_differences(spec, piece, logs, base))
        rows = None
        if base is not None:
            rows = FewRows(base, [at for each in found for at in (each.gone, each.came)])
        for each in found:
            gone: list[Picked] = [] if rows is None else [(rows, each.gone)]
            came: list[Picked] = [] if rows is None else [(rows, each.came)]
            gone, came = gone + each.gone_logged, came + each.came_logged
            yield from _paired(spec, each.change, PickedRows(gone), PickedRows(came))


def _differences(
    spec: ChangeSpec, piece: SliceChanges, logs: SliceLogs, base: SliceFile | None
) -> Iterator[_Difference]:
    """What each commit did; the state after one is most often that before the next."""
    known: tuple[list[LogPart], Merged] | None = None
    for change in piece.changes:
        parts, after = _merged(spec, change, logs, base)
        others = [part for part in parts if part.instant != change.instant]
        if known is not None and len(known[0]) == len(others) and all(map(is_, known[0], others)):
            before = known[1]
        else:
            before = merge(_order(spec, change), others, base, change.slice.base_instant)
        whole = [
            whole_rows(_order(spec, change), each, _as_open(base), change.slice.base_instant)
            for each in (others, parts)
        ]
        gone_logged, came_logged = _of_logs(spec, (whole[0], before), (whole[1], after))
        gone = np.setdiff1d(after.masked, before.masked)
        came = np.setdiff1d(before.masked, after.masked)
        yield _Difference(change, gone, came, gone_logged, came_logged)
        known = parts, after


def _of_logs(
    spec: ChangeSpec, before: tuple[list[LogPart], Merged], after: tuple[list[LogPart], Merged]
) -> tuple[list[Picked], list[Picked]]:
    """The rows of logs that a commit took away, and those that it brought."""
    assert spec.merge is not None, "the table has logs"
    held = {part.block: (part, kept) for part, kept in zip(before[0], before[1].kept, strict=True)}
    gone: list[Picked] = []
    came: list[Picked] = []
    for part, now in zip(after[0], after[1].kept, strict=True):
        older, then = held.get(part.block, (part, np.zeros(0, np.int64)))
        old, new = np.setdiff1d(then, now), np.setdiff1d(now, then)
        if isinstance(part, PartialPart) and isinstance(older, PartialPart):
            # A row that stays may have got other columns from the rows below it.
            turned = relaid(older, part, np.intersect1d(then, now), spec.merge.data)
            old, new = np.union1d(old, turned), np.union1d(new, turned)
        gone.append((older, old))
        came.append((part, new))
    return gone, came


def _as_open(base: SliceFile | None) -> Opener | None:
    """Gives the base file that is open."""
    return None if base is None else lambda: nullcontext(base)


def _order(spec: ChangeSpec, change: SliceChange) -> MergeSpec:
    assert spec.merge is not None, "the table has logs"
    ordering = spec.merge.ordering if change.ordering is None else change.ordering
    return replace(spec.merge, counted=change.counted, ordering=ordering)


def _merged(
    spec: ChangeSpec, change: SliceChange, logs: SliceLogs, base: SliceFile | None
) -> tuple[list[LogPart], Merged]:
    """The blocks that count after a commit, and their merge."""
    parts = logs.parts(change.slice.logs, change.counted)
    return parts, merge(_order(spec, change), parts, base, change.slice.base_instant)


def _whole(
    spec: ChangeSpec, change: SliceChange, logs: SliceLogs, base: SliceFile | None
) -> Iterator[pa.RecordBatch]:
    """All rows of a slice as the operation ``change.whole``."""
    parts, after = _merged(spec, change, logs, base)
    parts = whole_rows(_order(spec, change), parts, _as_open(base), change.slice.base_instant)
    for rows in _all_rows(after, parts, base) if change.whole in change.ops else ():
        yield _of_one_kind(spec, change, rows)


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
    updated = updated[_changed(spec, gone, came, at[updated], updated)]
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


def _changed(
    spec: ChangeSpec, gone: PickedRows, came: PickedRows, old: Positions, new: Positions
) -> Mask:
    """Which of the ``new`` rows are changes of the ``old`` ones: a row of the base file that stays
    is none, unless it got a value."""
    found = np.ones(len(new), np.bool_)
    assert spec.merge is not None, "the table has logs"
    stays = np.flatnonzero(gone.of_base()[old] & came.of_base()[new])
    if len(stays):
        before = gone.images(spec.merge.data).take(pa.array(old[stays]))
        found[stays] = differ(before, came.images(spec.merge.data).take(pa.array(new[stays])))
    return found


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
