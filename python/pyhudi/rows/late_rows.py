"""Rows that come to a log too late: after a delete that they take the place of.

Readers merge the logs first (spec/merging.md R4). By event time a row may come after a delete that
always wins. If the base file's row has a larger ordering value, that deleted row is back and the
new one is lost. In a table of partial updates a row after any delete takes the values that it lacks
from the deleted row (R6). No log can say otherwise: the slice must be compacted before it takes the
row.
"""

from __future__ import annotations

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


class LateRows:
    """Tells which rows come too late for the logs of a slice with a base file."""

    def __init__(self, files: TableFiles, order: MergeSpec, of: LogSlice) -> None:
        self._files, self._order, self._of = files, order, of
        self._known: tuple[pa.Array, Positions | None] | None = None

    def among(self, rows: pa.Table, places: Positions) -> Mask:
        """Which of ``rows``, which are at ``places`` of the base file, are late.

        They have the record key and the ordering columns. Errors as of ``merged_parts``.
        """
        if self._known is None:
            self._known = self._deleted()
        keys, at = self._known
        if at is None:
            late = as_mask(pc.is_in(single(rows.column(KEY_COLUMN)), value_set=keys))
        else:
            late = np.isin(places, at)
        asked = np.flatnonzero(late)
        if len(asked):
            late[asked] = self._of_deleted(rows.take(pa.array(asked)), places[asked])
        return late

    def _of_deleted(self, rows: pa.Table, places: Positions) -> Mask:
        """Which ``rows``, whose keys are deleted, are late."""
        spec, late = self._files.spec, np.zeros(rows.num_rows, np.bool_)
        if spec.by_event_time:
            wins = incoming_wins(spec, rows, self._stored(places))
            late |= False if wins is None else ~wins
        if spec.filled is not None:
            late |= lacks_values(rows, spec.filled)
        return late

    def _deleted(self) -> tuple[pa.Array, Positions | None]:
        """The keys whose last event is a delete, of which a row may be late, or their places in the
        base file where all blocks have them."""
        of, order = self._of, self._order
        with reading(of):
            parts = parts_in(order, self._files.fs, of)
            deletes = [self._deletes(part) for part in parts]
            if not any(each.any() for each in deletes):
                return _NO_KEYS, None
            newest = newest_events(order, parts, of.base_instant)
            held = [mask[kept] for mask, kept in zip(deletes, newest.kept, strict=True)]
            if newest.places is None:
                return _keys(parts, newest.kept, held), None
            at = [places[mask] for places, mask in zip(newest.places, held, strict=True)]
            return _NO_KEYS, np.concatenate(at)

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
