"""The worker function of change data: what a commit did to a file group, row by row.

Invariant: a row comes once for each commit of the range that inserted, updated or deleted it, and
not at all if its file was only written again. Rows of one file group are compared with rows of the
same group only: first by position, since a merge keeps the order of the rows, and by key where
that fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.format.change_log import (
    AFTER,
    BEFORE,
    DELETE,
    INSERT,
    RULE,
    UPDATE,
    LoggedChanges,
    logged_changes,
)
from pyhudi.format.corruption import corrupt
from pyhudi.rows.change_spec import ChangePiece, ChangeSpec, Slice
from pyhudi.rows.log_spec import SliceChanges
from pyhudi.rows.meta_columns import constant
from pyhudi.rows.piece_reading import BATCH_ROWS, reading, reading_pieces
from pyhudi.rows.slice_changes import slice_changes
from pyhudi.rows.slice_file import Positions, SliceFile
from pyhudi.rows.stored_types import converted
from pyhudi.rows.task import Batches

#: operation, its rows' positions in the older slice and in the newer one, -1 for none
Found = tuple[str, Positions, Positions]


def read_changes(
    spec: ChangeSpec, pieces: Sequence[Sequence[ChangePiece | SliceChanges]]
) -> Callable[[Batches], Batches]:
    """The function for ``mapInArrow`` that reads the change data of a task's pieces.

    Its input is one column of task numbers, indices into ``pieces``; its output has
    ``spec.schema()``. Raises ``HistoryExpired`` if a file is gone, ``TableCorrupt``,
    ``UnsupportedTable`` or ``StorageError``.
    """

    def answer(filesystem: pa.fs.FileSystem, piece: ChangePiece | SliceChanges) -> Batches:
        if isinstance(piece, SliceChanges):
            return slice_changes(spec, filesystem, piece)
        return PieceReader(spec, filesystem, piece).batches()

    return reading_pieces(spec.fs, pieces, answer)


class PieceReader:
    """Reads one piece."""

    def __init__(self, spec: ChangeSpec, filesystem: pa.fs.FileSystem, piece: ChangePiece) -> None:
        self._spec, self._fs, self._piece = spec, filesystem, piece
        self._open: list[SliceFile] = []

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The changes, in ``spec.schema()``."""
        try:
            with reading(self._piece.instant, " and ".join(self._piece.files)):
                yield from self._logged() if self._piece.logs else self._inferred()
        finally:
            for each in self._open:
                with suppress(OSError):
                    each.close()

    # ---- without a log

    def _inferred(self) -> Iterator[pa.RecordBatch]:
        old, new = self._slice(self._piece.before), self._slice(self._piece.after)
        for op, before, after in self._differences(old, new):
            if op not in self._piece.ops:
                continue
            for start in range(0, len(before), BATCH_ROWS):
                chunk = slice(start, start + BATCH_ROWS)
                yield self._batch(op, old, before[chunk], new, after[chunk])

    def _differences(self, old: SliceFile | None, new: SliceFile | None) -> Iterator[Found]:
        if new is None or old is None:
            rows = (old or new).rows if old or new else 0  # type: ignore[union-attr]
            every, none = np.arange(rows), np.full(rows, -1)
            yield (DELETE, every, none) if new is None else (INSERT, none, every)
            return
        written = new.written_by([self._piece.instant])
        if self._piece.aligned and self._in_place(old, new, written):
            came_from = np.where(written < old.rows, written, -1)
        else:
            held = old.keys()
            keys = new.keys_at(written)
            found = pc.index_in(keys, value_set=held)
            came_from = np.asarray(found.fill_null(-1)).astype(np.int64)
            if DELETE in self._piece.ops:
                gone = np.flatnonzero(~np.asarray(pc.is_in(held, value_set=new.keys())))
                yield DELETE, gone, np.full(len(gone), -1)
        updated = came_from >= 0
        yield UPDATE, came_from[updated], written[updated]
        yield INSERT, came_from[~updated], written[~updated]

    def _in_place(self, old: SliceFile, new: SliceFile, written: Positions) -> bool:
        """Whether the rows of ``old`` that were written again are at their old positions."""
        if new.rows < old.rows:
            return False
        at = written[written < old.rows]
        return bool(new.keys_at(at).equals(old.keys_at(at)))

    def _batch(
        self,
        op: str,
        old: SliceFile | None,
        before: Positions,
        new: SliceFile | None,
        after: Positions,
    ) -> pa.RecordBatch:
        images = []
        for kind, file, at in ((self._spec.before, old, before), (self._spec.after, new, after)):
            if kind is not None:
                empty = file is None or (at < 0).all()
                images.append(
                    pa.nulls(len(at), kind) if empty or file is None else file.images(at, kind)
                )
        return self._columns(constant(op, len(before)).cast(pa.string()), images)

    # ---- from a log

    def _logged(self) -> Iterator[pa.RecordBatch]:
        for path in self._piece.logs:
            with self._fs.open_input_file(f"{self._spec.root}/{path}") as source:
                data = source.read()
            for block in logged_changes(data, path):
                found = block.only(self._piece.ops)
                for start in range(0, len(found.ops), BATCH_ROWS):
                    yield self._of_log(found.part(start, BATCH_ROWS))

    def _of_log(self, found: LoggedChanges) -> pa.RecordBatch:
        images = []
        names = self._piece.after.names if self._piece.after else None
        kinds = ((BEFORE, self._spec.before, DELETE + UPDATE), (AFTER, self._spec.after, "iu"))
        for name, kind, ops in kinds:
            if kind is None:
                continue
            if name in found.images:
                images.append(converted(found.images[name], kind, False, names))
            else:
                images.append(self._looked_up(found, name, kind, ops))
        return self._columns(found.ops, images)

    def _looked_up(
        self, found: LoggedChanges, name: str, kind: pa.StructType, ops: str
    ) -> pa.Array:
        """An image that the log lacks, by the rows' keys from the slice that holds it."""
        file = self._slice(self._piece.before if name == BEFORE else self._piece.after)
        wanted = np.asarray(pc.is_in(found.ops, value_set=pa.array(list(ops))))
        if file is None or found.keys is None or not wanted.any():
            return pa.nulls(len(found.ops), kind)
        held = pc.index_in(found.keys, value_set=file.keys()).fill_null(-1)
        at = np.where(wanted, np.asarray(held).astype(np.int64), -1)
        if (at[wanted] < 0).any():
            lacks = f"{file.path} lacks the row of a key that the log names"
            raise corrupt(self._piece.logs[0], RULE, lacks)
        return file.images(at, kind)

    # ---- both

    def _columns(self, ops: pa.Array, images: list[pa.Array]) -> pa.RecordBatch:
        times = constant(self._piece.instant, len(ops)).cast(pa.string())
        return pa.RecordBatch.from_arrays([ops, times, *images], schema=self._spec.schema())

    def _slice(self, of: Slice | None) -> SliceFile | None:
        if of is None:
            return None
        known = next((each for each in self._open if each.path == of.path), None)
        if known is None:
            opened = self._fs.open_input_file(f"{self._spec.root}/{of.path}")
            known = SliceFile(opened, of)
            self._open.append(known)
        return known
