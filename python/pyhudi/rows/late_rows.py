"""Rows that come to a log too late: after a delete that they take the place of.

Readers merge the logs first (spec/merging.md R4). By event time a row may come after a delete that
always wins. If the base file's row has a larger ordering value, that deleted row is back and the
new one is lost. In a table of partial updates a row after any delete takes the values that it lacks
from the deleted row (R6). No log can say otherwise: the slice must be compacted before it takes the
row.

A compaction that is pending will write a new base file. If the delete is not in its plan, the rows
of the logs that it merges meet the new row like those of the base file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.rows.base_file import TableFiles
from pyhudi.rows.filled import lacks_values
from pyhudi.rows.log_parts import LogPart
from pyhudi.rows.log_spec import LogSlice, MergeSpec, Positions
from pyhudi.rows.merge_rules import as_mask, incoming_wins
from pyhudi.rows.merged_slice import reading
from pyhudi.rows.ordering import Mask
from pyhudi.rows.rows import single
from pyhudi.rows.slice_file import SliceFile
from pyhudi.rows.slice_merge import forced_deletes, newest_events
from pyhudi.rows.slice_reader import parts_in
from pyhudi.rows.spec import KEY_COLUMN


@dataclass(frozen=True, slots=True)
class _Deleted:
    """The rows of a slice whose last event is a delete after which one may be late.

    By ``keys``, or by their places ``at`` in the base file where all blocks have them.
    ``unplanned`` are the keys of those whose delete no pending compaction merges.
    """

    keys: pa.Array
    at: Positions | None
    unplanned: pa.Array


class LateRows:
    """Tells which rows come too late for the logs of a slice.

    A compaction is to merge the blocks before the instant ``planned[0]`` of the logs
    ``planned[1]``; None if none is pending.
    """

    def __init__(
        self,
        files: TableFiles,
        order: MergeSpec,
        of: LogSlice,
        planned: tuple[str, frozenset[str]] | None = None,
    ) -> None:
        self._files, self._order, self._of, self._planned = files, order, of, planned
        # No cached properties: this class travels to workers, and a lock does not.
        self._known: _Deleted | None = None
        self._merged: list[pa.Table] | None = None

    def among(self, rows: pa.Table, places: Positions | None) -> Mask:
        """Which of ``rows``, which are at ``places`` of the base file, are late; None: not in it.

        They have the record key and the ordering columns. Errors as of ``merged_parts``.
        """
        late = np.zeros(rows.num_rows, np.bool_)
        if places is None and self._planned is None:
            return late
        if self._known is None:
            self._known = self._gone()
        keys, gone = single(rows.column(KEY_COLUMN)), self._known
        if places is not None:
            if gone.at is None:
                late = as_mask(pc.is_in(keys, value_set=gone.keys))
            else:
                late = np.isin(places, gone.at)
            asked = np.flatnonzero(late)
            if len(asked):
                old = partial(self._stored, places[asked])
                late[asked] = self._loses(rows.take(pa.array(asked)), old)
        if self._planned is not None:
            asked = np.flatnonzero(as_mask(pc.is_in(keys, value_set=gone.unplanned)))
            if len(asked):
                late[asked] |= self._below_planned(rows.take(pa.array(asked)))
        return late

    def _below_planned(self, rows: pa.Table) -> Mask:
        """Which of ``rows`` are late beside rows that a pending compaction merges."""
        late, keys = np.zeros(rows.num_rows, np.bool_), single(rows.column(KEY_COLUMN))
        if self._merged is None:
            self._merged = self._merged_soon()
        for old in self._merged:
            found = pc.index_in(keys, value_set=single(old.column(KEY_COLUMN)))
            at = np.flatnonzero(as_mask(pc.is_valid(found)))
            if len(at):
                theirs = partial(old.take, found.drop_null())
                late[at] |= self._loses(rows.take(pa.array(at)), theirs)
        return late

    def _loses(self, rows: pa.Table, old: Callable[[], pa.Table]) -> Mask:
        """Which of ``rows`` are late beside the deleted ones of their keys, ``old``."""
        spec, late = self._files.spec, np.zeros(rows.num_rows, np.bool_)
        if spec.by_event_time:
            wins = incoming_wins(spec, rows, old())
            late |= False if wins is None else ~wins
        if spec.filled is not None:
            late |= lacks_values(rows, spec.filled)
        return late

    def _gone(self) -> _Deleted:
        of, order = self._of, self._order
        with reading(of):
            parts = parts_in(order, self._files.fs, of)
            deletes = [self._deletes(part) for part in parts]
            if not any(each.any() for each in deletes):
                return _Deleted(_NO_KEYS, None, _NO_KEYS)
            newest = newest_events(order, parts, of.base_instant)
            held = [mask[kept] for mask, kept in zip(deletes, newest.kept, strict=True)]
            late = [mask & (not self._is_planned(p)) for mask, p in zip(held, parts, strict=True)]
            unplanned = _keys(parts, newest.kept, late) if self._planned is not None else _NO_KEYS
            if newest.places is None:
                return _Deleted(_keys(parts, newest.kept, held), None, unplanned)
            at = [places[mask] for places, mask in zip(newest.places, held, strict=True)]
            return _Deleted(_NO_KEYS, np.concatenate(at), unplanned)

    def _merged_soon(self) -> list[pa.Table]:
        """The rows that a pending compaction merges, by block: key and ordering columns."""
        kind = pa.struct([pa.field(KEY_COLUMN, pa.string()), *self._order.ordering])
        with reading(self._of):
            parts = parts_in(self._order, self._files.fs, self._of)
            planned = [part for part in parts if not part.deletes and self._is_planned(part)]
            rows = [part.images(np.arange(part.size), kind) for part in planned]
        return [pa.table(each.flatten(), names=[field.name for field in kind]) for each in rows]

    def _is_planned(self, part: LogPart) -> bool:
        """Whether a pending compaction merges a block."""
        return (
            self._planned is not None
            and part.instant < self._planned[0]
            and part.path in self._planned[1]
        )

    def _deletes(self, part: LogPart) -> Mask:
        """Which rows of a block are deletes after which a row may be late."""
        if self._files.spec.filled is not None:
            return part.taken_away(self._order)
        return forced_deletes(self._order, part)

    def _stored(self, places: Positions) -> pa.Table:
        """The ordering columns of the base file's rows at ``places``."""
        base = self._of.base
        assert base is not None
        with (
            reading(self._of),
            self._files.fs.open_input_file(self._files.absolute(base.path)) as opened,
        ):
            rows = SliceFile(opened, base).images(places, self._order.ordering)
        return pa.table(rows.flatten(), names=[field.name for field in rows.type])


# Not by `pa.array`, which imports pandas: commands import this module and need none.
_NO_KEYS = pa.nulls(0, pa.string())


def _keys(parts: list[LogPart], kept: tuple[Positions, ...], held: list[Mask]) -> pa.Array:
    found = [p.keys_at(own[mask]) for p, own, mask in zip(parts, kept, held, strict=True)]
    return pa.concat_arrays([_NO_KEYS, *found])
