"""A micro-batch as one write: which write of its batch it is, and whether it has rows.

Invariant: an epoch without rows makes no commit. Its input is evaluated before its instant is
requested, so it has none; only a single pass and an overwrite learn it as they write, and their
instant is undone. In complete mode, and in a user's function, an overwrite without rows is a commit
(docs/decisions/stream_epochs.md).
"""

from __future__ import annotations

from pyhudi.application.runtime import Runtime
from pyhudi.config import Operation, WriteOptions
from pyhudi.errors import SchemaConflict
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.format.stream_marks import Epoch
from pyhudi.format.table_config import TableConfig
from pyhudi.writes.collected import COLLECT_BYTES, may_be_collected
from pyhudi.writes.intent import REPLACING
from pyhudi.writes.kept import Kept
from pyhudi.writes.prepare import Prepared
from pyhudi.writes.stage import worker_error


class NothingArrived(Exception):
    """Not an error: the epoch has no rows, so there is nothing to commit."""


def receive(
    runtime: Runtime,
    config: TableConfig,
    options: WriteOptions,
    operation: Operation,
    prepared: Prepared,
    kept: Kept,
    single_pass: bool,
) -> None:
    """Evaluate an epoch's input and keep it for all attempts; ``NothingArrived`` if it is empty.

    A single pass keeps nothing: it evaluates its rows as it writes them, and so does an operation
    that replaces rows. ``WriteFailed`` if the input cannot be evaluated.
    """
    if operation in REPLACING or single_pass:
        return
    kept.fit(prepared)
    what = f"pyhudi {operation.value} {config.name}"
    try:
        if kept.table is None and kept.rows is None:
            job = f"{what}: read the input"
            if may_be_collected(config, options, operation, prepared):
                kept.table = runtime.jobs.collect(prepared.rows, COLLECT_BYTES, job)
            if kept.table is None:
                kept.checkpointed(runtime.jobs, prepared, job)
        if kept.table is not None:
            empty = not kept.table.num_rows
        else:
            assert kept.rows is not None
            empty = kept.rows.isEmpty()
    except runtime.spark_errors as e:
        raise worker_error(e, what) from e
    if empty:
        raise NothingArrived


def check_columns_stay(
    before: SparkSchema | None, after: SparkSchema, options: WriteOptions, epoch: Epoch
) -> None:
    """``SchemaConflict`` if the stream would change columns, and the option stops it there."""
    if before is None or options.stream_evolves or before == after:
        return
    known = before.by_lower_name()
    for column in after.columns:
        old = known.get(column.lower_name)
        if old is None or old.type != column.type:
            change = "adds it" if old is None else f"changes it from {old.type} to {column.type}"
            raise SchemaConflict(
                f"Column '{column.name}' is not in the table as it is in the stream: "
                f"{epoch.who} {change}. Nothing of the batch was written, since {EVOLVES} is "
                "false. Set it to true to change the table by the stream, or change the table "
                "with ALTER TABLE and start the query again.",
                column=column.name,
                ours=str(column.type),
                theirs=None if old is None else str(old.type),
                rule="the columns of a stream",
            )


EVOLVES = "hoodie.datasource.write.streaming.schema.evolve"
