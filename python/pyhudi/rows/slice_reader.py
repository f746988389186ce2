"""The worker functions of reads of slices with logs: the merge of each, and the rows of its logs.

Spark reads the base files and leaves the masked rows out; the rows of logs come from here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from pyhudi.rows.by_value import ByValue
from pyhudi.rows.log_parts import LogPart, SliceLogs, chunks
from pyhudi.rows.log_spec import BlockPlace, LogSlice, Merged, MergeSpec, Positions
from pyhudi.rows.meta_columns import constant
from pyhudi.rows.partial_rows import whole_rows
from pyhudi.rows.piece_reading import BATCH_ROWS, reading_pieces, telling_files
from pyhudi.rows.slice_file import SliceFile
from pyhudi.rows.slice_merge import merge
from pyhudi.rows.task import Batches

#: the answer of ``merge_slices``: the slice's number, positions as little-endian 64-bit numbers,
#: and the places of blocks as JSON
MERGED_SCHEMA: Final = pa.schema(
    [
        ("slice", pa.int64()),
        ("masked", pa.binary()),
        ("kept", pa.list_(pa.binary())),
        ("blocks", pa.string()),
    ]
)
#: of a slice's logs that are held in memory
MOST_HELD_BYTES: Final = 64 << 20
#: a larger piece of a log is not kept
WINDOW_BYTES: Final = 64 << 10
#: the column by which a statement finds a row's file
FILE_NUMBER = "_file-number"


@dataclass(frozen=True, slots=True)
class LogPiece(ByValue):
    """A slice whose rows from logs are wanted; ``kept`` says which of each block's rows count.

    Its rows have ``number`` in the column ``FILE_NUMBER``.
    """

    slice: LogSlice
    kept: tuple[Positions, ...]
    number: int | None = None


def merge_slices(
    spec: MergeSpec, slices: Sequence[Sequence[tuple[int, LogSlice]]]
) -> Callable[[Batches], Batches]:
    """The function for ``mapInArrow`` that merges the slices of a task, each with its number.

    Its input is one column of task numbers, indices into ``slices``; its output has
    ``MERGED_SCHEMA``. Raises ``HistoryExpired`` if a file is gone, ``TableCorrupt``,
    ``UnsupportedTable`` or ``StorageError``.
    """

    def answer(filesystem: pa.fs.FileSystem, asked: tuple[int, LogSlice]) -> Batches:
        number, each = asked
        yield encoded(number, merged(spec, filesystem, each))

    return reading_pieces(spec.fs, slices, answer)


def read_log_rows(
    spec: MergeSpec, pieces: Sequence[Sequence[LogPiece]]
) -> Callable[[Batches], Batches]:
    """The function for ``mapInArrow`` that reads the rows of a task's pieces.

    Its input is one column of task numbers, indices into ``pieces``; its output has
    ``spec.schema()``. Errors as of ``merge_slices``.
    """
    return reading_pieces(spec.fs, pieces, lambda fs, piece: log_rows(spec, fs, piece))


def merged(spec: MergeSpec, filesystem: pa.fs.FileSystem, of: LogSlice) -> Merged:
    """The merge of one slice."""
    with _reading(of):
        parts = parts_in(spec, filesystem, of)
        if of.base is None:
            found = merge(spec, parts, None, "")
        else:
            with filesystem.open_input_file(f"{spec.root}/{of.base.path}") as opened:
                found = merge(spec, parts, SliceFile(opened, of.base), of.base_instant)
        return replace(found, blocks=tuple(part.place for part in parts))


def log_rows(
    spec: MergeSpec, filesystem: pa.fs.FileSystem, piece: LogPiece
) -> Iterator[pa.RecordBatch]:
    """The rows of a slice's logs that count, in ``spec.schema()``."""
    with _reading(piece.slice):
        parts = parts_in(spec, filesystem, piece.slice)
        for part, kept in zip(parts, piece.kept, strict=True):
            for at in chunks(kept, BATCH_ROWS):
                columns = part.images(at, spec.rows).flatten()
                if spec.named is not None:
                    column, start = spec.named
                    path = constant(f"{start}/{part.path}", len(at)).cast(pa.string())
                    columns[spec.rows.get_field_index(column)] = path
                if piece.number is not None:
                    place = spec.rows.get_field_index(FILE_NUMBER)
                    columns[place] = pa.array(np.full(len(at), piece.number, np.int32))
                yield pa.RecordBatch.from_arrays(columns, schema=spec.schema())


def log_columns(
    spec: MergeSpec, filesystem: pa.fs.FileSystem, piece: LogPiece
) -> tuple[dict[str, pa.Array], tuple[BlockPlace, ...]]:
    """The columns ``spec.rows`` of the rows of a slice's logs that count, in their order, and the
    places of the blocks, of which those that were read have landmarks."""
    with _reading(piece.slice):
        parts = parts_in(spec, filesystem, piece.slice)
        rows = [
            part.images(kept, spec.rows)
            for part, kept in zip(parts, piece.kept, strict=True)
            if len(kept)
        ]
        places = tuple(part.place for part in parts)
    whole = pa.concat_arrays(rows) if rows else pa.array([], spec.rows)
    columns = zip((field.name for field in spec.rows), whole.flatten(), strict=True)
    return dict(columns), places


def encoded(number: int, found: Merged) -> pa.RecordBatch:
    """A merge as a row of ``MERGED_SCHEMA``."""
    kept = [each.astype("<i8").tobytes() for each in found.kept]
    masked = found.masked.astype("<i8").tobytes()
    schemas = list(dict.fromkeys(each.schema for each in found.blocks))
    places = [(b.path, b.at, b.length, schemas.index(b.schema)) for b in found.blocks]
    columns = [
        pa.array([number]),
        pa.array([masked]),
        pa.array([kept], pa.list_(pa.binary())),
        pa.array([json.dumps([schemas, places])]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=MERGED_SCHEMA)


def decoded(masked: bytes, kept: Sequence[bytes], blocks: str) -> Merged:
    """The merge in a row of ``MERGED_SCHEMA``."""
    schemas, places = json.loads(blocks)
    return Merged(
        np.frombuffer(masked, "<i8"),
        tuple(np.frombuffer(each, "<i8") for each in kept),
        tuple(BlockPlace(path, at, size, sys.intern(schemas[n])) for path, at, size, n in places),
    )


class LargeLog:
    """A log that is not held in memory. Small pieces come from a window that it keeps.

    It is opened for each piece: a slice may have more logs than a process may have open files.
    """

    def __init__(self, filesystem: pa.fs.FileSystem, path: str) -> None:
        self._fs, self._path = filesystem, path
        with self._fs.open_input_file(path) as opened:
            self._size = int(opened.size())
        self._start, self._window = 0, b""

    def size(self) -> int:
        """Its bytes."""
        return self._size

    def read_at(self, nbytes: int, offset: int) -> bytes:
        """``nbytes`` from ``offset`` on, or as many as the file has."""
        nbytes = min(nbytes, self._size - offset)
        if nbytes <= 0:
            return b""
        if nbytes > WINDOW_BYTES:
            return self._read(nbytes, offset)
        if not self._start <= offset <= offset + nbytes <= self._start + len(self._window):
            most = min(WINDOW_BYTES, self._size - offset)
            self._start, self._window = offset, self._read(most, offset)
        at = offset - self._start
        return self._window[at : at + nbytes]

    def _read(self, nbytes: int, offset: int) -> bytes:
        with self._fs.open_input_file(self._path) as opened:
            return bytes(opened.read_at(nbytes, offset))


def parts_in(spec: MergeSpec, filesystem: pa.fs.FileSystem, of: LogSlice) -> list[LogPart]:
    """The blocks of a slice's logs that count, in the order of their merge."""
    parts = logs_in(spec, filesystem, of).parts(of.logs, spec.counted)
    base = of.base

    @contextmanager
    def opened() -> Iterator[SliceFile]:
        assert base is not None
        with filesystem.open_input_file(f"{spec.root}/{base.path}") as source:
            yield SliceFile(source, base)

    return whole_rows(spec, parts, None if base is None else opened, of.base_instant)


def logs_in(spec: MergeSpec, filesystem: pa.fs.FileSystem, of: LogSlice) -> SliceLogs:
    """The logs of a slice.

    Logs of ``MOST_HELD_BYTES`` together are held in memory, the others are read block by block.
    """
    left = MOST_HELD_BYTES

    def read(path: str) -> bytes | LargeLog:
        nonlocal left
        place, data = f"{spec.root}/{path}", b""
        if left > 0:
            with filesystem.open_input_stream(place) as source:
                data = bytes(source.read(left + 1))
        fits = 0 < len(data) <= left
        left -= len(data)
        return data if fits else LargeLog(filesystem, place)

    return SliceLogs(read, of.names, spec.whole_logs)


def _reading(of: LogSlice) -> AbstractContextManager[None]:
    """Tells what fails below it as an error of the slice's files."""
    paths = " and ".join([*([of.base.path] if of.base else []), *of.logs])
    return telling_files(
        paths,
        f"The query needs {paths}, and one of these files is gone: a clean or a rollback has "
        "deleted it since the query was planned. Run the query again.",
        None,
    )
