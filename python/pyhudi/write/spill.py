"""Incoming rows that do not fit in memory, sorted into buckets in one local temporary file.

Each bucket is small enough to be read back whole. The file holds the rows as Arrow writes them;
where each part begins stays in memory.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.write.merge_rules import Positions


class BucketStore:
    """Rows by bucket number: in memory up to ``memory_bytes``, from then on in a file."""

    def __init__(
        self, schema: pa.Schema, buckets: int, memory_bytes: int, folder: str | None
    ) -> None:
        self._schema = schema
        self._memory_bytes = memory_bytes
        self._folder = folder
        self._held: list[tuple[pa.Table, npt.NDArray[np.int64]]] = []
        self._held_bytes = 0
        self._parts: list[list[tuple[int, int]]] = [[] for _ in range(buckets)]
        self._file: pa.NativeFile | None = None
        self._path = ""
        self._end = 0

    @property
    def on_disk(self) -> bool:
        """Whether the rows outgrew the memory."""
        return self._file is not None

    def add(self, rows: pa.Table, picks: Positions, buckets: Positions) -> None:
        """Put row ``picks[i]`` into bucket ``buckets[i]``, for each i."""
        order = np.argsort(buckets, kind="stable")
        counts = np.bincount(buckets, minlength=len(self._parts))
        bounds = np.concatenate(([0], np.cumsum(counts)))
        ordered = rows.take(pa.array(picks[order])).combine_chunks()
        if not self.on_disk:
            self._held.append((ordered, bounds))
            self._held_bytes += ordered.nbytes
            if self._held_bytes <= self._memory_bytes:
                return
            self._open()
            for table, table_bounds in self._held:
                self._write(table, table_bounds)
            self._held, self._held_bytes = [], 0
            return
        self._write(ordered, bounds)

    def read(self, bucket: int) -> pa.Table:
        """The rows of a bucket, in the order in which they came."""
        parts = [
            table.slice(bounds[bucket], bounds[bucket + 1] - bounds[bucket])
            for table, bounds in self._held
            if bounds[bucket + 1] > bounds[bucket]
        ]
        if self._file is not None:
            self._file.flush()
            with pa.OSFile(self._path, "rb") as source:
                for offset, size in self._parts[bucket]:
                    data = source.read_at(size, offset)
                    batch = pa.ipc.read_record_batch(data, self._schema)
                    parts.append(pa.Table.from_batches([batch]))
        return pa.concat_tables(parts) if parts else self._schema.empty_table()

    def close(self) -> None:
        """Delete the temporary file."""
        if self._file is not None:
            self._file.close()
            os.unlink(self._path)
            self._file = None

    def _open(self) -> None:
        handle, self._path = tempfile.mkstemp(".arrow", "pyhudi-spill-", spill_folder(self._folder))
        os.close(handle)
        self._file = pa.OSFile(self._path, "wb")

    def _write(self, table: pa.Table, bounds: Sequence[int] | npt.NDArray[np.int64]) -> None:
        assert self._file is not None
        batch = table.to_batches()[0] if table.num_rows else None
        if batch is None:
            return
        for bucket in np.flatnonzero(np.diff(bounds)).tolist():
            data = batch.slice(bounds[bucket], bounds[bucket + 1] - bounds[bucket]).serialize()
            self._file.write(data)
            self._parts[bucket].append((self._end, data.size))
            self._end += data.size


def spill_folder(asked: str | None) -> str | None:
    """Where temporary files go: as asked, else Spark's local disk, else the system's default."""
    if asked is not None:
        return asked
    folders = [folder for folder in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if folder]
    return folders[0] if folders and os.path.isdir(folders[0]) else None
