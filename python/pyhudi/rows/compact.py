"""The worker function of a compaction: a slice's base file and logs become one base file.

A task with the version of a log is one of a log compaction (``rows/log_compact.py``).

Rows keep their commit time, sequence number and key, so nobody takes them for changed. The old base
file is read one unit at a time, and large logs block by block, as when they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.rows.base_file import BaseFileWriter, TableFiles
from pyhudi.rows.change_log_writer import change_log_of
from pyhudi.rows.compacted_changes import CompactedChanges
from pyhudi.rows.footer import Footer, reusable_filter
from pyhudi.rows.log_compact import log_compacted
from pyhudi.rows.log_parts import LogPart
from pyhudi.rows.log_spec import CompactTask, Merged, MergeSpec
from pyhudi.rows.merged_slice import merged_parts, rows_of_logs, rows_that_stay
from pyhudi.rows.meta_columns import TEXT
from pyhudi.rows.old_file import OldFile
from pyhudi.rows.rows import single
from pyhudi.rows.spec import GROUP, KEY_COLUMN, STAT_SCHEMA, WriteSpec
from pyhudi.rows.stored_types import stored_schema
from pyhudi.rows.task import Batches, current_task, reporting


def compact_slices(
    spec: WriteSpec, order: MergeSpec, tasks: Mapping[int, CompactTask]
) -> Callable[[Batches], Batches]:
    """The function that carries out ``tasks``, whose logs are merged by ``order``.

    Its input has ``_pyhudi_group`` (int32), the numbers of tasks; its output has ``STAT_SCHEMA``, a
    row for each new file. A log compaction of blocks that do not count writes none. Raises
    ``TableCorrupt``, ``UnsupportedTable``, ``StorageError`` or ``WriteFailed``.
    """

    def write(batches: Batches) -> Batches:
        files = TableFiles(spec, current_task())
        try:
            for batch in batches:
                asked = [tasks[number] for number in batch.column(GROUP).to_pylist()]
                files.expect([task.plan for task in asked])
                for task in asked:
                    logged = task.plan.log_version is not None
                    stat = (log_compacted if logged else _compacted)(files, order, task)
                    if stat is not None:
                        yield pa.RecordBatch.from_pylist([stat], schema=STAT_SCHEMA)
        finally:
            files.close()

    return reporting(write)


def _compacted(files: TableFiles, order: MergeSpec, task: CompactTask) -> dict[str, object]:
    schema, base = stored_schema(files.spec.schema), task.slice.base
    parts, found = merged_parts(files, order, task.slice)
    old = None if base is None else OldFile(files, base.path, schema, base.names)
    with nullcontext() if old is None else closing(old):
        return _written(files, task, schema, old, parts, found)


def _written(
    files: TableFiles,
    task: CompactTask,
    schema: pa.Schema,
    old: OldFile | None,
    parts: Sequence[LogPart],
    found: Merged,
) -> dict[str, object]:
    """Write the rows that the merge leaves: those of the old file, then those of the logs."""
    plan, bloom = task.plan, files.spec.bloom
    most = found.rows + (old.rows if old is not None else 0)
    kept_filter = None
    if old is not None:
        entries = old.metadata.metadata or {}
        kept_filter = reusable_filter(bloom, entries, most, plan.base_file or "")
    footer = Footer(bloom, most, kept_filter)
    coded = old.coded if old is not None else None
    writer = BaseFileWriter(files, plan, schema, footer, coded)
    log = change_log_of(files, plan, schema)
    changes = None
    if log is not None:
        again = partial(rows_of_logs, parts, found.kept, schema)
        changes = CompactedChanges(log, schema.names, again)
    told = changes.columns if changes is not None else (KEY_COLUMN,)
    gone: list[pa.Array] = [pa.array([], TEXT)]
    for unit, dropped in rows_that_stay(old, found.masked, told) if old is not None else ():
        gone.append(single(dropped.column(KEY_COLUMN)).cast(TEXT))
        if changes is not None:
            changes.gone(dropped)
        if unit.num_rows:
            footer.copied(single(unit.column(KEY_COLUMN)))
            writer.write(unit)
    replaced = pa.concat_arrays(gone)
    for fresh in rows_of_logs(parts, found.kept, schema):
        keys = single(fresh.column(KEY_COLUMN))
        footer.added(keys)
        writer.write(fresh)
        known = pc.is_in(keys, value_set=replaced)
        if changes is not None:
            changes.came(fresh, known)
        writer.counts.updates += pc.sum(known).as_py() or 0
    writer.counts.inserts = found.rows - writer.counts.updates
    writer.counts.deletes = len(replaced) - writer.counts.updates
    return writer.close() | (changes.close() if changes is not None else {})
