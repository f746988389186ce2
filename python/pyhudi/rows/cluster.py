"""The worker function of a clustering: some slices of a partition become files, in another order.

Rows keep their commit time, sequence number and key, so nobody takes them for changed. What logs
have replaced or deleted is left out, as in a read. If the rows of a task do not fit in memory, they
are put in sorted buckets on the local disk first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.rows.base_file import BaseFileWriter, TableFiles
from pyhudi.rows.curves import LINEAR, sorted_positions
from pyhudi.rows.footer import Footer
from pyhudi.rows.log_spec import ClusterTask, LogSlice
from pyhudi.rows.merged_slice import MergedSlice
from pyhudi.rows.old_file import OldFile
from pyhudi.rows.rows import single
from pyhudi.rows.spec import GROUP, KEY_COLUMN, STAT_SCHEMA, GroupPlan, WriteSpec
from pyhudi.rows.spill import BucketStore
from pyhudi.rows.stored_types import stored_schema
from pyhudi.rows.task import Batches, current_task, reporting

#: a task holds so many times ``memory_bytes`` while it sorts
MEMORY_SHARE = 4
TAKEN_ROWS = 1 << 16


def cluster_files(
    spec: WriteSpec,
    tasks: Mapping[int, ClusterTask],
    columns: Sequence[str] = (),
    layout: str = LINEAR,
) -> Callable[[Batches], Batches]:
    """The function that carries out ``tasks``, sorted by ``columns`` if there are any.

    Its input has ``_pyhudi_group`` (int32), the numbers of tasks; its output has ``STAT_SCHEMA``, a
    row for each new file. ``layout`` is one of ``curves.py``. Raises ``TableCorrupt``,
    ``StorageError`` or ``WriteFailed``.
    """

    def write(batches: Batches) -> Batches:
        files = TableFiles(spec, current_task())
        try:
            for batch in batches:
                for number in batch.column(GROUP).to_pylist():
                    for stat in _rewritten(files, tasks[number], columns, layout):
                        yield pa.RecordBatch.from_pylist([stat], schema=STAT_SCHEMA)
        finally:
            files.close()

    return reporting(write)


def _rewritten(
    files: TableFiles, task: ClusterTask, columns: Sequence[str], layout: str
) -> Iterator[dict[str, object]]:
    schema = stored_schema(files.spec.schema)
    old: list[OldFile | MergedSlice] = []
    try:
        for each in task.slices:
            old.append(_opened(files, task, each, schema))
        # Rows that keep their order keep their dictionaries; of others a sample decides.
        keeps = not columns and any(each.base is not None for each in task.slices)
        coded = frozenset[str]().union(*(each.coded for each in old)) if keeps else None
        outputs = _Outputs(files, task, schema, sum(each.rows for each in old), coded)
        units = _sorted(files.spec, old, columns, layout) if columns else _units(old)
        for unit in units:
            yield from outputs.add(unit)
        yield from outputs.finish()
    finally:
        for opened in old:
            opened.close()


def _opened(
    files: TableFiles, task: ClusterTask, of: LogSlice, schema: pa.Schema
) -> OldFile | MergedSlice:
    if of.base is not None and not of.logs:
        return OldFile(files, of.base.path, schema, of.base.names)
    assert task.order is not None, "logs are merged by an order"
    return MergedSlice(files, task.order, of, schema)


class _Outputs:
    """The new files of a task, each with an equal number of rows."""

    def __init__(
        self,
        files: TableFiles,
        task: ClusterTask,
        schema: pa.Schema,
        rows: int,
        coded: frozenset[str] | None,
    ) -> None:
        self._files, self._schema = files, schema
        self._plans = [
            GroupPlan(number, f"{task.prefix}-{number}", task.partition_path)
            for number in range(task.outputs if rows else 0)
        ]
        self._rows = -(-rows // max(1, len(self._plans)))
        self._coded = coded
        self._writer: BaseFileWriter | None = None
        self._footer: Footer
        self._left = 0
        files.expect(self._plans)

    def add(self, rows: pa.Table) -> Iterator[dict[str, object]]:
        """Write rows; the statistics of files that are full."""
        begin = 0
        while begin < rows.num_rows:
            if self._writer is None:
                self._open()
            assert self._writer is not None
            piece = rows.slice(begin, self._left)
            for keys in piece.column(KEY_COLUMN).chunks:
                self._footer.added(keys)
            self._writer.write(piece)
            self._writer.counts.inserts += piece.num_rows
            begin += piece.num_rows
            self._left -= piece.num_rows
            if not self._left:
                yield from self.finish()

    def finish(self) -> Iterator[dict[str, object]]:
        """Close the open file, if there is one."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            yield writer.close()
            self._coded = writer.coded

    def _open(self) -> None:
        self._footer = Footer(self._files.spec.bloom, self._rows)
        plan = self._plans.pop(0)
        self._writer = BaseFileWriter(self._files, plan, self._schema, self._footer, self._coded)
        self._left = self._rows


def _units(old: Sequence[OldFile | MergedSlice]) -> Iterator[pa.Table]:
    for each in old:
        yield from each.units()


def _sorted(
    spec: WriteSpec, old: Sequence[OldFile | MergedSlice], columns: Sequence[str], layout: str
) -> Iterator[pa.Table]:
    """All rows of ``old`` in their new order."""
    rows = sum(each.rows for each in old)
    limit = spec.memory_bytes * MEMORY_SHARE
    held: list[pa.Table] = []
    size = 0
    for unit in _units(old):
        held.append(_decoded(unit))
        size += held[-1].nbytes
        if size > limit:
            break
    else:
        if held:
            table = pa.concat_tables(held).combine_chunks()
            yield from _taken(table, sorted_positions(table.select(columns), layout))
        return
    width = size / sum(each.num_rows for each in held)
    del held
    buckets = int(width * rows // limit) + 1
    yield from _by_buckets(spec, old, columns, layout, buckets)


def _by_buckets(
    spec: WriteSpec,
    old: Sequence[OldFile | MergedSlice],
    columns: Sequence[str],
    layout: str,
    buckets: int,
) -> Iterator[pa.Table]:
    """The same, one of ``buckets`` ranges of the order at a time; the files are read twice."""
    keys = pa.concat_tables([_decoded(unit.select(columns)) for unit in _units(old)])
    order = sorted_positions(keys, layout)
    del keys
    ranks: npt.NDArray[np.int64] = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    del order
    bucket_of = ranks // -(-len(ranks) // buckets)
    store: BucketStore | None = None
    try:
        begin = 0
        for unit in _units(old):
            rows = _decoded(unit)
            if store is None:
                store = BucketStore(rows.schema, buckets, spec.memory_bytes, spec.spill_folder)
            picks = np.arange(rows.num_rows, dtype=np.int64)
            store.add(rows, picks, bucket_of[begin : begin + rows.num_rows])
            begin += rows.num_rows
        for bucket in range(buckets):
            assert store is not None
            # A bucket has its rows as they came, so their ranks are those of its positions.
            places = np.argsort(ranks[bucket_of == bucket], kind="stable")
            yield from _taken(store.read(bucket).combine_chunks(), places)
    finally:
        if store is not None:
            store.close()


def _taken(rows: pa.Table, places: npt.NDArray[np.int64]) -> Iterator[pa.Table]:
    """The rows at these places, a part at a time: a second copy of all of them is not needed."""
    for begin in range(0, len(places), TAKEN_ROWS):
        yield rows.take(pa.array(places[begin : begin + TAKEN_ROWS]))


def _decoded(rows: pa.Table) -> pa.Table:
    """``rows`` without dictionaries, which differ from file to file."""
    columns = [
        single(column.cast(column.type.value_type))
        if pa.types.is_dictionary(column.type)
        else single(column)
        for column in rows.columns
    ]
    return pa.table(columns, names=rows.column_names)
