"""The worker function of an incremental read from change logs: the rows that a range leaves.

Invariant: a row is the image after the last change that the range's logs tell of its key. A file
group whose logs do not hold that image gives the rows of the range from its newest base file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.format.change_log import AFTER, BEFORE, DELETE, INSERT, LoggedChanges, logged_changes
from pyhudi.rows.by_value import ByValue
from pyhudi.rows.change_spec import Slice
from pyhudi.rows.piece_reading import BATCH_ROWS, reading, reading_pieces
from pyhudi.rows.slice_file import Positions, SliceFile
from pyhudi.rows.spec import FileNames, FileSystemSpec
from pyhudi.rows.stored_types import converted
from pyhudi.rows.task import Batches


@dataclass(frozen=True, slots=True)
class LoggedPiece(ByValue):
    """A file group that a range changed: its change logs by commit, and its newest base file.

    ``logs`` are in the order of the commits, each with the names of columns then if they differ;
    none if the rows come from ``file``.
    """

    file: Slice
    logs: tuple[tuple[tuple[str, ...], FileNames | None], ...] = ()


@dataclass(frozen=True, slots=True)
class LoggedSpec(ByValue):
    """One incremental read from change logs; all its tasks get the same.

    ``root`` is the table's path in the form for ``fs``, ``rows`` the struct type of the answer,
    ``keys`` that of the columns that tell rows apart, ``instants`` the commits of the range.
    """

    root: str
    fs: FileSystemSpec
    rows: pa.StructType
    keys: pa.StructType
    instants: tuple[str, ...]

    def schema(self) -> pa.Schema:
        """The columns of the answer."""
        return pa.schema(list(self.rows))


def read_logged_rows(
    spec: LoggedSpec, pieces: Sequence[Sequence[LoggedPiece]]
) -> Callable[[Batches], Batches]:
    """The function for ``mapInArrow`` that reads the changed rows of a task's file groups.

    Its input is one column of task numbers, indices into ``pieces``; its output has
    ``spec.schema()``. Raises ``HistoryExpired`` if a file is gone, ``TableCorrupt`` or
    ``StorageError``.
    """
    return reading_pieces(spec.fs, pieces, lambda fs, piece: GroupReader(spec, fs, piece).batches())


class GroupReader:
    """Reads the changed rows of one file group."""

    def __init__(self, spec: LoggedSpec, filesystem: pa.fs.FileSystem, piece: LoggedPiece) -> None:
        self._spec, self._fs, self._piece = spec, filesystem, piece

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, in ``spec.schema()``."""
        paths = [path for logs, _ in self._piece.logs for path in logs] or [self._piece.file.path]
        with reading(self._spec.instants[-1], " and ".join(paths)):
            rows = self._logged() if self._piece.logs else None
            yield from self._of_file() if rows is None else self._cut(rows)

    def _logged(self) -> pa.StructArray | None:
        """The rows that the logs leave; None if a log lacks an image."""
        keys: list[pa.StructArray] = []
        rows: list[pa.StructArray] = []
        ops: list[pa.Array] = []
        steps: list[Positions] = []
        for step, (paths, names) in enumerate(self._piece.logs):
            for path in paths:
                with self._fs.open_input_file(f"{self._spec.root}/{path}") as source:
                    data = source.read()
                for found in logged_changes(data, path):
                    if not {BEFORE, AFTER} <= found.images.keys():
                        return None
                    rows.append(converted(found.images[AFTER], self._spec.rows, False, names))
                    ops.append(found.ops)
                    steps.append(np.full(len(found.ops), step))
                    if len(self._piece.logs) > 1:
                        keys.append(self._keys(found, names))
        if not rows:
            return None
        every = pa.concat_arrays(ops)
        stays = pc.not_equal(every, DELETE)
        if keys:
            last = last_of_each(pa.concat_arrays(keys), every, np.concatenate(steps))
            if last is None:
                return None
            stays = pc.and_(stays, last)
        return pa.concat_arrays(rows).filter(stays)

    def _keys(self, found: LoggedChanges, names: FileNames | None) -> pa.StructArray:
        stays = pc.not_equal(found.ops, DELETE)
        images = (found.images[name] for name in (AFTER, BEFORE))
        after, before = (converted(image, self._spec.keys, False, names) for image in images)
        columns = (
            pc.if_else(stays, one, other)
            for one, other in zip(after.flatten(), before.flatten(), strict=True)
        )
        return pa.StructArray.from_arrays(list(columns), fields=list(self._spec.keys))

    def _of_file(self) -> Iterator[pa.RecordBatch]:
        file = self._piece.file
        with self._fs.open_input_file(f"{self._spec.root}/{file.path}") as opened:
            held = SliceFile(opened, file)
            at = held.written_by(self._spec.instants)
            for start in range(0, len(at), BATCH_ROWS):
                yield from self._cut(held.images(at[start : start + BATCH_ROWS], self._spec.rows))

    def _cut(self, rows: pa.StructArray) -> Iterator[pa.RecordBatch]:
        schema = self._spec.schema()
        for start in range(0, len(rows), BATCH_ROWS):
            columns = rows.slice(start, BATCH_ROWS).flatten()
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def last_of_each(keys: pa.StructArray, ops: pa.Array, steps: Positions) -> pa.BooleanArray | None:
    """For each change whether it is the last of its key; None if a key has several rows.

    ``steps`` number the commits and ascend; nulls in keys are equal.
    """
    codes = [
        np.asarray(pc.dictionary_encode(column, null_encoding="encode").indices)
        for column in keys.flatten()
    ]
    _, numbers = np.unique(np.stack(codes), axis=1, return_inverse=True)
    numbers = numbers.reshape(-1)
    order = np.argsort(numbers, kind="stable")
    same = numbers[order][1:] == numbers[order][:-1]
    before, after = order[:-1][same], order[1:][same]
    deletes, inserts = (np.asarray(pc.equal(ops, op)) for op in (DELETE, INSERT))
    again = inserts[after] & ~deletes[before]
    if again.any() or (steps[before] == steps[after]).any():
        return None
    found = np.ones(len(keys), np.bool_)
    found[before] = False
    return pa.array(found)
