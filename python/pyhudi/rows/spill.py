"""Incoming rows that do not fit in memory, sorted into buckets in one local temporary file.

Each bucket is small enough to be read back at once. The file holds the rows in Arrow's format; the
positions of its parts stay in memory.
"""

from __future__ import annotations

import os
import tempfile
from typing import IO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.rows.merge_rules import Positions


class BucketStore:
    """Rows by bucket number: in memory up to ``memory_bytes``, then in a file."""

    def __init__(
        self, schema: pa.Schema, buckets: int, memory_bytes: int, folder: str | None
    ) -> None:
        self._schema = schema
        self._memory_bytes = memory_bytes
        self._folder = folder
        self._held: list[tuple[pa.Table, npt.NDArray[np.int64]]] = []
        self._held_bytes = 0
        self._parts: list[list[tuple[int, int]]] = [[] for _ in range(buckets)]
        self._file: IO[bytes] | None = None
        self._end = 0

    @property
    def on_disk(self) -> bool:
        """Whether rows were written to disk."""
        return self._file is not None

    def add(self, rows: pa.Table, picks: Positions, buckets: Positions) -> None:
        """Put row ``picks[i]`` into bucket ``buckets[i]``, for each i."""
        # Sorted by bucket; rows of a bucket keep their order, since the later row wins a tie.
        order = np.lexsort((picks, buckets))
        counts = np.bincount(buckets, minlength=len(self._parts))
        bounds = np.concatenate(([0], np.cumsum(counts)))
        self._held.append((rows.take(pa.array(picks[order])).combine_chunks(), bounds))
        self._held_bytes += self._held[-1][0].nbytes
        if self.on_disk or self._held_bytes > self._memory_bytes:
            self._write_held()

    def read(self, bucket: int) -> pa.Table:
        """The rows of a bucket, in the order in which they came."""
        parts = [
            table.slice(bounds[bucket], bounds[bucket + 1] - bounds[bucket])
            for table, bounds in self._held
            if bounds[bucket + 1] > bounds[bucket]
        ]
        if self._file is not None:
            self._file.flush()
            for offset, size in self._parts[bucket]:
                data = pa.py_buffer(os.pread(self._file.fileno(), size, offset))
                batch = pa.ipc.read_record_batch(data, self._schema)
                parts.append(pa.Table.from_batches([batch]))
        return pa.concat_tables(parts) if parts else self._schema.empty_table()

    def close(self) -> None:
        """Free the disk space."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write_held(self) -> None:
        if self._file is None:
            # The file has no name, so nothing of it stays, however this process ends.
            self._file = tempfile.TemporaryFile(dir=spill_folder(self._folder))  # noqa: SIM115
        for table, bounds in self._held:
            for bucket in np.flatnonzero(np.diff(bounds)).tolist():
                part = table.slice(bounds[bucket], bounds[bucket + 1] - bounds[bucket])
                data = part.to_batches()[0].serialize()
                self._file.write(data)
                self._parts[bucket].append((self._end, data.size))
                self._end += data.size
        self._held, self._held_bytes = [], 0


def spill_folder(asked: str | None) -> str | None:
    """The folder for temporary files: ``asked``, or Spark's local disk, or the default."""
    if asked is not None:
        return asked
    folders = [folder for folder in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if folder]
    return folders[0] if folders and os.path.isdir(folders[0]) else None
