"""The worker function for bulk inserts: one pass in any order, one open file per partition."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from pyhudi.rows.base_file import BaseFileWriter, TableFiles, rows_per_unit
from pyhudi.rows.footer import Footer
from pyhudi.rows.meta_columns import TEXT, constant
from pyhudi.rows.rows import Sequencer, single
from pyhudi.rows.spec import (
    COMMIT_TIME_COLUMN,
    KEY_COLUMN,
    PARTITION_COLUMN,
    SEQNO_COLUMN,
    STAT_SCHEMA,
    GroupPlan,
    WriteSpec,
)
from pyhudi.rows.stored_types import (
    incoming_keys,
    incoming_rows,
    required_names,
    stored_schema,
)
from pyhudi.rows.task import Batches, Task, current_task, reporting

_GATHER_BYTES = 16 << 20
_MOST_AHEAD = 64


def bulk_write(spec: WriteSpec, file_seed: str) -> Callable[[Batches], Batches]:
    """The function for ``mapInArrow`` that writes a task's rows to new files.

    Its input has ``_hoodie_partition_path``, the data columns and, except for tables without
    record keys, ``_hoodie_record_key``, in any order; its output has ``STAT_SCHEMA``. File ids are
    pure functions of ``file_seed``, the task's partition number, the partition path and a counter.
    Raises ``InvalidRecord``, ``StorageError`` or ``WriteFailed``.
    """

    def write(batches: Batches) -> Batches:
        bulk = _Bulk(spec, file_seed, current_task())
        try:
            for batch in batches:
                bulk.add(batch)
            stats = bulk.finish()
        finally:
            bulk.close()
        if stats:
            yield pa.RecordBatch.from_pylist(stats, schema=STAT_SCHEMA)

    return reporting(write)


class _Partition:
    """The waiting rows of one partition, and its open file, if any."""

    def __init__(self) -> None:
        self.waiting: list[pa.Table] = []
        self.rows = 0
        self.size_bytes = 0
        self.writer: BaseFileWriter | None = None
        self.footer: Footer | None = None
        self.files = 0
        self.announced = 0


class _Bulk:
    def __init__(self, spec: WriteSpec, file_seed: str, task: Task) -> None:
        self._spec, self._seed, self._task = spec, file_seed, task
        self._files = TableFiles(spec, task)
        self._schema = stored_schema(spec.schema)
        self._required = required_names(spec.schema)
        self._sequencer = Sequencer(spec.instant, task.partition)
        self._partitions: dict[str, _Partition] = {}
        self._open: dict[str, None] = {}
        self._gathered: list[pa.Table] = []
        self._gathered_bytes = 0
        self._waiting_bytes = 0
        self._coded: frozenset[str] | None = None
        self._stats: list[dict[str, object]] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Take a batch; rows are split by partition in larger runs."""
        if not batch.num_rows:
            return
        names = [PARTITION_COLUMN, *self._schema.names]
        data = incoming_rows(batch, self._schema, self._required)
        columns = [batch.column(PARTITION_COLUMN), *data]
        if KEY_COLUMN in batch.schema.names or self._spec.key_from is not None:
            names.insert(1, KEY_COLUMN)
            columns.insert(1, incoming_keys(batch, self._spec))
        table = pa.table(columns, names=names)
        self._gathered.append(table)
        self._gathered_bytes += table.nbytes
        if self._gathered_bytes >= _GATHER_BYTES:
            self._split()

    def finish(self) -> list[dict[str, object]]:
        """Write the waiting rows and close all files; returns rows of ``STAT_SCHEMA``."""
        self._split()
        ready = [item for item in self._partitions.items() if item[1].rows]
        self._expect({path: 1 for path, partition in ready if partition.writer is None})
        for path, partition in self._partitions.items():
            self._write(path, partition)
            self._close(path, partition)
        return self._stats

    def close(self) -> None:
        """Release what the task holds."""
        self._files.close()

    def _split(self) -> None:
        """Give the gathered rows to their partitions, and write full row groups."""
        if not self._gathered:
            return
        table = pa.concat_tables(self._gathered)
        self._gathered, self._gathered_bytes = [], 0
        paths = single(table.column(PARTITION_COLUMN).cast(TEXT)).dictionary_encode()
        rows = table.drop_columns([PARTITION_COLUMN])
        if len(paths.dictionary) == 1:
            self._wait(paths.dictionary[0].as_py(), rows)
        else:
            codes = paths.indices.to_numpy()
            # numpy uses a radix sort for 16-bit numbers, five times as fast as for wider ones.
            small = codes.astype(np.uint16) if len(paths.dictionary) <= 1 << 16 else codes
            rows = rows.take(pa.array(np.argsort(small, kind="stable")))
            ends = np.cumsum(np.bincount(codes, minlength=len(paths.dictionary)))
            begin = 0
            for path, end in zip(paths.dictionary.to_pylist(), ends.tolist(), strict=True):
                self._wait(path, rows.slice(begin, end - begin))
                begin = end
        self._relieve()

    def _wait(self, path: str, rows: pa.Table) -> None:
        partition = self._partitions.setdefault(path, _Partition())
        size = rows.nbytes
        partition.waiting.append(rows)
        partition.rows += rows.num_rows
        partition.size_bytes += size
        self._waiting_bytes += size
        limit = rows_per_unit(self._spec, partition.size_bytes // partition.rows)
        if partition.rows >= limit:
            self._write(path, partition)

    def _relieve(self) -> None:
        """Write the largest partitions until the waiting rows fit into half the memory."""
        if self._waiting_bytes <= self._spec.memory_bytes:
            return
        by_size = sorted(self._partitions.items(), key=lambda item: -item[1].size_bytes)
        for path, partition in by_size:
            if self._waiting_bytes <= self._spec.memory_bytes // 2:
                return
            self._write(path, partition)

    def _write(self, path: str, partition: _Partition) -> None:
        """Write the waiting rows, by row group, to as many files as the target size needs."""
        if not partition.rows:
            return
        rows = pa.concat_tables(partition.waiting).combine_chunks()
        step = rows_per_unit(self._spec, partition.size_bytes // partition.rows)
        self._waiting_bytes -= partition.size_bytes
        partition.waiting, partition.rows, partition.size_bytes = [], 0, 0
        begin = 0
        while begin < rows.num_rows:
            left = rows.num_rows - begin
            size = left if left * 4 <= step * 5 else step
            self._write_row_group(path, partition, rows.slice(begin, size))
            begin += size

    def _write_row_group(self, path: str, partition: _Partition, rows: pa.Table) -> None:
        writer, footer = self._writer(path, partition)
        numbers = self._sequencer.take(rows.num_rows)
        # In a table without record keys the sequence number is the key (spec/keys.md K3).
        keys = single(rows.column(KEY_COLUMN)) if KEY_COLUMN in rows.column_names else numbers
        footer.added(keys)
        meta = {
            COMMIT_TIME_COLUMN: constant(self._spec.instant, rows.num_rows),
            SEQNO_COLUMN: numbers,
            KEY_COLUMN: keys,
        }
        data = [rows.column(name) for name in self._schema.names]
        writer.write(pa.table([*meta.values(), *data], names=[*meta, *self._schema.names]))
        # Written at once: these rows make a row group, or had to leave the memory.
        writer.flush()
        writer.counts.inserts += rows.num_rows
        self._coded = writer.coded
        if writer.size_bytes >= self._spec.target_file_bytes:
            self._close(path, partition)

    def _writer(self, path: str, partition: _Partition) -> tuple[BaseFileWriter, Footer]:
        if partition.writer is None or partition.footer is None:
            if len(self._open) >= self._spec.max_open_files:
                oldest = next(iter(self._open))
                self._close(oldest, self._partitions[oldest])
            if partition.files >= partition.announced:
                # A partition that has filled many files will probably fill more.
                self._expect({path: 1 + min(_MOST_AHEAD, partition.files // 4)})
            plan = GroupPlan(0, self._file_id(path, partition.files), path)
            partition.files += 1
            partition.footer = Footer(self._spec.bloom)
            partition.writer = BaseFileWriter(
                self._files, plan, self._schema, partition.footer, self._coded
            )
        self._open.pop(path, None)
        self._open[path] = None
        return partition.writer, partition.footer

    def _close(self, path: str, partition: _Partition) -> None:
        if partition.writer is not None:
            self._stats.append(partition.writer.close())
            partition.writer = partition.footer = None
            self._open.pop(path, None)

    def _expect(self, ahead: Mapping[str, int]) -> None:
        """Announce the next files of partitions together; ``ahead`` has their numbers."""
        plans = []
        for path, count in ahead.items():
            partition = self._partitions[path]
            begin = partition.files
            partition.announced = max(partition.announced, begin + count)
            plans += [
                GroupPlan(0, self._file_id(path, n), path) for n in range(begin, begin + count)
            ]
        self._files.expect(plans)

    def _file_id(self, path: str, number: int) -> str:
        """A file id that is the same in each attempt of the task, so a retry writes the same
        file groups."""
        name = f"{self._seed}/{self._task.partition}/{number}/{path}"
        return f"{uuid.uuid5(uuid.NAMESPACE_OID, name)}-0"
