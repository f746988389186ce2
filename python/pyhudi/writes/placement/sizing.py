"""How large rows and files are expected to be."""

from __future__ import annotations

from collections.abc import Sequence

from pyhudi.config import ConcurrencyMode, Operation
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.slices.files import BaseFile
from pyhudi.writes.placement.assign import Sizing
from pyhudi.writes.write_context import Write

#: base files looked at for the average row
SAMPLE = 200
META_COLUMN_BYTES = 24
#: stored bytes per value by Spark type, before the table's own files tell
TYPE_BYTES = {"boolean": 1, "byte": 2, "short": 2, "integer": 4, "float": 4, "date": 4}
TEXT_BYTES = 16
NESTED_BYTES = 64


def sizing_of(write: Write, files: Sequence[BaseFile]) -> Sizing:
    """The sizing of a write: row sizes of the table's files, otherwise estimated by type."""
    sample = write.view.with_rows(list(files)[:SAMPLE])
    known = [(f.size_bytes, f.rows) for f in sample if f.rows > 0]
    rows = sum(n for _, n in known)
    guess = guessed_row_bytes(write.prepared.schema, write.options.record_bytes)
    row_bytes = sum(size for size, _ in known) // rows if rows else guess
    deletes = write.operation is Operation.DELETE
    if write.prepared.changes is not None:
        deletes |= write.prepared.changes.deletes
    alone = write.options.concurrency_mode is ConcurrencyMode.SINGLE_WRITER
    return Sizing(
        target_file_bytes=write.options.max_file_bytes,
        small_file_bytes=write.options.small_file_bytes,
        row_bytes=max(1, row_bytes),
        fill_small_files=alone and write.options.small_file_bytes > 0,
        # A log of deletes has keys alone, and leaves no rows to merge.
        most_logged=1.0 if deletes else write.options.most_logged_percent / 100,
    )


def guessed_row_bytes(schema: SparkSchema, most: int) -> int:
    """A row's stored size in bytes from its types; no more than ``most``."""
    total = META_COLUMN_BYTES
    for column in schema.columns:
        if column.is_nested:
            total += NESTED_BYTES
        elif column.type in ("string", "binary"):
            total += TEXT_BYTES
        else:
            total += TYPE_BYTES.get(column.type, 8)
    return min(total, most)
