"""The worker function for planned file groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from pyhudi.errors import WriteFailed
from pyhudi.rows.base_file import TableFiles
from pyhudi.rows.log_spec import LoggedSlices
from pyhudi.rows.log_writer import LogAppend
from pyhudi.rows.merge import Append, Merge
from pyhudi.rows.merge_rules import as_mask
from pyhudi.rows.rows import Sequencer, incoming_table
from pyhudi.rows.spec import GROUP, HOME, STAT_SCHEMA, GroupPlan, WriteSpec
from pyhudi.rows.stored_types import stored_schema
from pyhudi.rows.task import Batches, current_task, reporting

Job: TypeAlias = Append | Merge | LogAppend


def write_groups(
    spec: WriteSpec,
    groups: Mapping[int, GroupPlan],
    task_of: Mapping[int, int] | None = None,
    deletes: LoggedSlices | None = None,
) -> Callable[[Batches], Batches]:
    """The function for ``mapInArrow`` that writes the file groups of a task.

    ``task_of`` gives the task of each group by its ordinal, so that a task can announce all its
    files at once. It is a hint: without it each file is announced just before it is written.
    ``deletes`` are the slices whose logs have deletes that a row may come after too late.
    Its input has ``_pyhudi_group`` (int32, sorted, a group wholly in one task),
    ``_hoodie_record_key``, perhaps ``_pyhudi_delete`` and ``_pyhudi_home``, and the data columns;
    its output has ``STAT_SCHEMA``, a row for each file. Groups without rows are left alone. Raises
    ``InvalidRecord``, ``TableCorrupt``, ``StorageError`` or ``WriteFailed``.
    """

    def write(batches: Batches) -> Batches:
        task = current_task()
        files = TableFiles(spec, task)
        try:
            mine = [groups[o] for o, owner in (task_of or {}).items() if owner == task.partition]
            files.expect(mine)
            yield from write_with(files, batches)
        finally:
            files.close()

    def write_with(files: TableFiles, batches: Batches) -> Batches:
        task = files.task
        schema = stored_schema(spec.schema)
        sequencer = Sequencer(spec.instant, task.partition)
        done: set[int] = set()
        job: Job | None = None
        current = -1
        for ordinal, rows in _by_group(batches):
            if ordinal != current:
                if job is not None:
                    yield _as_batch(job.finish())
                if ordinal in done or ordinal not in groups:
                    raise WriteFailed(
                        f"File group {ordinal} came to task {task.partition} unsorted or without "
                        "a plan. Nothing was committed. This is an error in pyhudi: please report "
                        "it."
                    )
                done.add(ordinal)
                current = ordinal
                plan = groups[ordinal]
                job = _job_of(spec, plan)(files, plan, schema, sequencer)
                if isinstance(job, LogAppend) and deletes is not None:
                    job.look_at(deletes)
            assert job is not None
            incoming = incoming_table(rows, spec, schema)
            if isinstance(job, LogAppend) and HOME in rows.schema.names:
                job.note_changed(incoming, as_mask(rows.column(HOME).is_valid()))
            job.add(incoming)
        if job is not None:
            yield _as_batch(job.finish())

    return reporting(write)


def _job_of(spec: WriteSpec, plan: GroupPlan) -> type[Job]:
    if plan.log_version is not None:
        return LogAppend
    merges = spec.combine if plan.base_file is None else spec.match_keys
    return Merge if merges else Append


def _by_group(batches: Batches) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Each run of rows of one group, with the group's ordinal."""
    for batch in batches:
        if not batch.num_rows:
            continue
        ordinals = batch.column(GROUP).to_numpy(zero_copy_only=False)
        bounds = np.flatnonzero(np.diff(ordinals)) + 1
        begin = 0
        for end in [*bounds.tolist(), batch.num_rows]:
            yield int(ordinals[begin]), batch.slice(begin, end - begin)
            begin = end


def _as_batch(stat: dict[str, object]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([stat], schema=STAT_SCHEMA)
