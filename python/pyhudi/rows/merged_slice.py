"""The rows of a slice with logs, as a compaction and a clustering write them.

The base file is read one unit at a time, and large logs block by block. Rows keep their commit
time, sequence number and key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager

import numpy as np
import pyarrow as pa

from pyhudi.rows.base_file import TableFiles
from pyhudi.rows.damage import readable
from pyhudi.rows.log_parts import LogPart, chunks
from pyhudi.rows.log_spec import LogSlice, Merged, MergeSpec, Positions
from pyhudi.rows.meta_columns import TEXT
from pyhudi.rows.old_file import OldFile
from pyhudi.rows.piece_reading import BATCH_ROWS
from pyhudi.rows.slice_file import SliceFile
from pyhudi.rows.slice_merge import merge
from pyhudi.rows.slice_reader import parts_in
from pyhudi.rows.spec import COMMIT_TIME_COLUMN, KEY_COLUMN, SEQNO_COLUMN


def merged_parts(
    files: TableFiles, order: MergeSpec, of: LogSlice
) -> tuple[Sequence[LogPart], Merged]:
    """The blocks of a slice's logs that count, and what they leave of its rows.

    Raises ``TableCorrupt``, ``UnsupportedTable`` or ``StorageError``.
    """
    with reading(of):
        parts = parts_in(order, files.fs, of)
        if of.base is None:
            return parts, merge(order, parts, None, "")
        with files.fs.open_input_file(files.absolute(of.base.path)) as opened:
            return parts, merge(order, parts, SliceFile(opened, of.base), of.base_instant)


def rows_that_stay(
    old: OldFile, masked: Positions, told: Sequence[str] = (KEY_COLUMN,)
) -> Iterator[tuple[pa.Table, pa.Table]]:
    """The units of a base file without the rows at ``masked``; these, with the columns ``told``."""
    start = 0
    for unit in old.units():
        rows = unit.num_rows
        low, high = np.searchsorted(masked, [start, start + rows])
        gone = unit.select(told).slice(0, 0)
        if low < high:
            keep = np.ones(rows, np.bool_)
            keep[masked[low:high] - start] = False
            gone = unit.select(told).filter(pa.array(~keep))
            unit = unit.filter(pa.array(keep))
        yield unit, gone
        start += rows


def rows_of_logs(
    parts: Sequence[LogPart], kept: Sequence[Positions], schema: pa.Schema
) -> Iterator[pa.Table]:
    """The rows of logs that count: commit time, sequence number, key and the columns ``schema``."""
    texts = [pa.field(name, TEXT) for name in (COMMIT_TIME_COLUMN, SEQNO_COLUMN, KEY_COLUMN)]
    kind = pa.struct([*texts, *schema])
    for part, own in zip(parts, kept, strict=True):
        for at in chunks(own, BATCH_ROWS):
            yield pa.table(part.images(at, kind).flatten(), names=[f.name for f in kind])


class MergedSlice:
    """A slice with logs as rows of the table's schema: it is read as an ``OldFile``.

    Between two passes it keeps the positions of its rows, not its logs, so that of many slices one
    has its logs in memory.
    """

    def __init__(
        self, files: TableFiles, order: MergeSpec, of: LogSlice, schema: pa.Schema
    ) -> None:
        """Errors as of ``merged_parts`` and ``OldFile``."""
        self._files, self._order, self._of, self._schema = files, order, of, schema
        _, self._found = merged_parts(files, order, of)
        base = of.base
        self._old = None if base is None else OldFile(files, base.path, schema, base.names)

    @property
    def rows(self) -> int:
        """Rows that a reader sees."""
        held = 0 if self._old is None else self._old.rows - len(self._found.masked)
        return held + self._found.rows

    @property
    def coded(self) -> frozenset[str]:
        """The columns that have dictionaries in the base file."""
        return frozenset() if self._old is None else self._old.coded

    def units(self) -> Iterator[pa.Table]:
        """Commit time, sequence number, key and the table's data columns, unit by unit."""
        if self._old is not None:
            for unit, _ in rows_that_stay(self._old, self._found.masked):
                if unit.num_rows:
                    yield unit
        if self._found.rows:
            with reading(self._of):
                parts = parts_in(self._order, self._files.fs, self._of)
            yield from rows_of_logs(parts, self._found.kept, self._schema)

    def close(self) -> None:
        """Close the base file."""
        if self._old is not None:
            self._old.close()


def reading(of: LogSlice) -> AbstractContextManager[None]:
    """Tells what fails below it as an error of the slice's files."""
    return readable(", ".join([*([of.base.path] if of.base else []), *of.logs]))
