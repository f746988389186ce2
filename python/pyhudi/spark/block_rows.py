"""Rows of log files that Spark's executors decode themselves, where each block allows it.

Invariant: the rows are those of ``rows/slice_reader.py``, in the columns that are asked for. The
shim decodes the records at the places of this plan, and decides nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from pyhudi.application.handed_files import FILES
from pyhudi.format.avro_forms import fields_of
from pyhudi.format.log_blocks import COUNT_BYTES
from pyhudi.reads.change_data import task_count
from pyhudi.reads.log_slices import HERE_BYTES, LogRowsPlan
from pyhudi.rows.log_spec import LANDMARK, BlockPlace, Positions
from pyhudi.writes.placement.task_routes import balanced

#: a task holds one window at a time; Python's workers read larger ones piece by piece
MOST_WINDOW_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a block that is read: ``length`` bytes from ``at`` on in the log ``path``.

    A record begins there, and ``kept`` counts from it.
    """

    path: str
    at: int
    length: int
    fields: str
    kept: Positions


def block_file(plan: LogRowsPlan, parallelism: int) -> str | None:
    """The blocks of ``plan`` as a file of ``FILES``.

    A row is a window of a block: the number of its task, the path of its log, where its first
    record begins, its bytes, the fields of its records (``format/avro_forms.py``), and the numbers
    of the rows that count, ascending from its first record, as little-endian 32-bit numbers. None
    if Python's workers have to read one of them.
    """
    found = _windows(plan)
    if found is None:
        return None
    sizes = Counter[int]()
    for number, window in found:
        sizes[number] += window.length
    many = task_count(list(sizes.values()), parallelism)
    tasks = balanced(sizes, 1 + sizes.total() // HERE_BYTES if plan.few else many)
    rows = [
        (tasks[number], w.path, w.at, w.length, w.fields, w.kept.astype("<i4").tobytes())
        for number, w in found
    ]
    names = "task", "path", "at", "length", "fields", "kept"
    types = pa.int32(), pa.string(), pa.int64(), pa.int64(), pa.string(), pa.binary()
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    arrays = [pa.array(list(c), kind) for c, kind in zip(columns, types, strict=True)]
    return FILES.make("blocks", pa.table(arrays, list(names)))


def _windows(plan: LogRowsPlan) -> list[tuple[int, Window]] | None:
    """What is read of each block, and the number of its piece; None as of ``block_file``."""
    if plan.spec.named is not None or not plan.spec.rows:
        return None
    found = []
    for number, (piece, blocks) in enumerate(zip(plan.pieces, plan.blocks, strict=True)):
        if piece.slice.names or piece.number is not None or len(blocks) != len(piece.kept):
            return None
        for block, kept in zip(blocks, piece.kept, strict=True):
            if not len(kept):
                continue
            fields = fields_of(block.schema, plan.spec.rows) if block.schema else None
            if fields is None:
                return None
            window = _window(block, kept, f"{plan.start}/{block.path}", fields)
            if window.length > MOST_WINDOW_BYTES:
                return None
            found.append((number, window))
    return found


def _window(block: BlockPlace, kept: Positions, path: str, fields: str) -> Window:
    """The part of a block that has the records ``kept``: all of it where no landmarks are known."""
    first, last = int(kept[0]) // LANDMARK, int(kept[-1]) // LANDMARK
    known = block.landmarks
    begin, skipped = (int(known[first]), first * LANDMARK) if len(known) else (COUNT_BYTES, 0)
    end = int(known[last + 1]) if last + 1 < len(known) else block.length
    return Window(path, block.at + begin, end - begin, fields, kept - skipped)
