"""Rows of log files that Spark's executors decode themselves, where each block allows it.

Invariant: the rows are those of ``rows/slice_reader.py``, in the columns that are asked for. The
shim decodes the records at the places of this plan, and decides nothing.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from pyhudi.application.handed_files import FILES
from pyhudi.format.avro_forms import fields_of
from pyhudi.reads.change_data import task_count
from pyhudi.reads.log_slices import LogRowsPlan
from pyhudi.writes.placement.task_routes import balanced

#: a task holds one block at a time; Python's workers read larger ones piece by piece
MOST_BLOCK_BYTES: Final = 64 << 20


def block_file(plan: LogRowsPlan, parallelism: int) -> str | None:
    """The blocks of ``plan`` as a file of ``FILES``.

    A row is a block: the number of its task, the path of its log, where its content begins, its
    bytes, the fields of its records (``format/avro_forms.py``), and the numbers of the rows that
    count, ascending, as little-endian 32-bit numbers. None if Python's workers have to read one of
    them.
    """
    if plan.spec.named is not None or not plan.spec.rows:
        return None
    count = 1 if plan.few else task_count(plan.sizes, parallelism)
    tasks = balanced(dict(enumerate(plan.sizes)), count)
    rows = []
    for number, (piece, blocks) in enumerate(zip(plan.pieces, plan.blocks, strict=True)):
        if piece.slice.names or piece.number is not None or len(blocks) != len(piece.kept):
            return None
        for block, kept in zip(blocks, piece.kept, strict=True):
            if not len(kept):
                continue
            fields = fields_of(block.schema, plan.spec.rows) if block.schema else None
            if fields is None or block.length > MOST_BLOCK_BYTES:
                return None
            path = f"{plan.start}/{block.path}"
            numbers = kept.astype("<i4").tobytes()
            rows.append((tasks[number], path, block.at, block.length, fields, numbers))
    names = "task", "path", "at", "length", "fields", "kept"
    types = pa.int32(), pa.string(), pa.int64(), pa.int64(), pa.string(), pa.binary()
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    arrays = [pa.array(list(c), kind) for c, kind in zip(columns, types, strict=True)]
    return FILES.make("blocks", pa.table(arrays, list(names)))
