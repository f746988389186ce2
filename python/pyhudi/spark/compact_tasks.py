"""Compaction by its public name: in this process, or as tasks of a Spark application.

Nothing of Spark is imported without a session, so it also runs where PySpark is not installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyhudi.format.instants import InstantTime
from pyhudi.listing import Listing
from pyhudi.services.budget import Budget
from pyhudi.services.compaction import (
    CompactedSlice,
    Compaction,
    SlicesHere,
    compacted,
    stated_step,
)
from pyhudi.services.file_systems import filesystems
from pyhudi.services.opened import open_writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compact(
    path: str,
    *,
    spark: SparkSession | None = None,
    op: str = "scheduleAndRun",
    instants: Sequence[str] = (),
    dry_run: bool = False,
    max_files: int | None = None,
    max_bytes: int | None = None,
    options: Mapping[str, str] | None = None,
    hadoop_options: Mapping[str, str] | None = None,
) -> Listing[CompactedSlice]:
    """Merge the log files of the merge-on-read table at ``path`` into new base files.

    Returns an entry for each file group with logs: compacted, or left, and why. ``op`` is
    ``schedule`` to make a plan, ``run`` to run the pending plans, also those of Apache Hudi,
    ``scheduleAndRun`` for both, or ``unschedule`` to delete pending plans. A log compaction merges
    the logs of a group into one log: ``scheduleLogCompaction``, ``logCompact``,
    ``scheduleAndLogCompact`` and ``unscheduleLogCompaction`` are its steps. Of pending plans only
    ``instants`` are touched, all if none is named; to name one also says that no program runs it
    whose heartbeat does not show it. With ``dry_run`` nothing changes. Each slice is a task of
    ``spark``, a session with pyhudi; without one the slices are merged one after the other in this
    process. After ``max_files`` files, or ``max_bytes`` of them, a plan takes no further slice.
    Writes of logs go on meanwhile. ``options`` are those of a write: ``hoodie.compaction.*`` say
    which slices are taken, and the lock must be that of the table's writers; ``hadoop_options`` are
    ``fs.s3a.*`` settings, which a session has itself. Errors: ``TableNotFound``,
    ``UnsupportedTable``, ``ConfigError``, ``LockTimeout``, ``SetupError`` if the session is not
    attached, ``CommitConflict`` if a commit that it merged was undone meanwhile.
    """
    step, budget = stated_step(op), Budget(max_files, max_bytes)
    named = frozenset(InstantTime(each) for each in instants)
    if spark is None:
        writer, resolved = open_writer(path, options, hadoop_options)
        place = filesystems(hadoop_options or {})(writer.table.storage.root)
        run = Compaction(writer, resolved, place, SlicesHere(), budget, named)
        return compacted(run, step, dry_run)
    from pyhudi.config import resolve_write
    from pyhudi.spark.session import runtime_of
    from pyhudi.timeline.table import open_table
    from pyhudi.writes.cluster_stage import SparkTasks

    runtime = runtime_of(spark)
    table = open_table(runtime.storage(path))
    resolved = resolve_write(options or {}, table.config.raw, {})
    tasks, place = SparkTasks(runtime, spark, table), runtime.filesystem(table.storage.root)
    run = Compaction(runtime.writer(table, resolved), resolved, place, tasks, budget, named)
    return compacted(run, step, dry_run)
