"""Clustering by its public name: in this process, or as tasks of a Spark application.

Nothing of Spark is imported without a session, so it also runs where PySpark is not installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyhudi.listing import Listing
from pyhudi.services.budget import Allowance, Budget
from pyhudi.services.clustering import ClusteredFile, Clustering, TasksHere, clustered
from pyhudi.services.file_systems import filesystems
from pyhudi.services.opened import open_writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def cluster(
    path: str,
    *,
    spark: SparkSession | None = None,
    dry_run: bool = False,
    max_files: int | None = None,
    max_bytes: int | None = None,
    max_cpu_minutes: float | None = None,
    options: Mapping[str, str] | None = None,
    hadoop_options: Mapping[str, str] | None = None,
) -> Listing[ClusteredFile]:
    """Put the rows of the table at ``path`` into fewer files, or into better sorted ones.

    Returns an entry for each file, which goes with its logs: rewritten with which others, or left,
    and why. With ``dry_run`` nothing changes. Each group of files is a task of ``spark``, a session
    with pyhudi; without one the groups are rewritten one after the other in this process. Groups
    that other writes change meanwhile are left out, and clustered once more from their new files.
    After ``max_files`` files, or ``max_bytes`` of them, no further group is planned. With
    ``max_cpu_minutes`` the groups are rewritten one after the other, and none begins after so much
    CPU time, that of Spark's Python workers included. The next clustering goes on. ``options`` are
    those of a write: ``hoodie.clustering.plan.strategy.*`` say what is rewritten and how, and the
    lock must be that of the table's writers; ``hadoop_options`` are ``fs.s3a.*`` settings, which a
    session has itself. Errors: ``TableNotFound``, ``UnsupportedTable``, ``ConfigError``,
    ``LockTimeout``, ``SetupError`` if the session is not attached, ``CommitConflict`` if the table
    was altered or restored meanwhile.
    """
    budget = Budget(max_files, max_bytes)
    if spark is None:
        writer, resolved = open_writer(path, options, hadoop_options)
        place = filesystems(hadoop_options or {})(writer.table.storage.root)
        allowance = Allowance(writer.clock, None, max_cpu_minutes)
        run = Clustering(writer, resolved, place, TasksHere(), allowance, budget=budget)
        return clustered(run, dry_run)
    from pyhudi.config import resolve_write
    from pyhudi.spark.session import runtime_of
    from pyhudi.timeline.table import open_table
    from pyhudi.writes.cluster_stage import SparkTasks

    runtime = runtime_of(spark)
    table = open_table(runtime.storage(path))
    resolved = resolve_write(options or {}, table.config.raw, {})
    tasks = SparkTasks(runtime, spark, table)
    place = runtime.filesystem(table.storage.root)
    writer = runtime.writer(table, resolved)
    allowance = Allowance(writer.clock, None, max_cpu_minutes)
    run = Clustering(writer, resolved, place, tasks, allowance, budget=budget)
    return clustered(run, dry_run)
