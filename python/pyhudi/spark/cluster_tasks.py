"""Clustering by its public name: in this process, or as tasks of a Spark application.

Nothing of Spark is imported without a session, so it also runs where PySpark is not installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from pyhudi.diagnosis.data_files import filesystems
from pyhudi.format.commit_metadata import WriteStat
from pyhudi.format.instants import InstantTime
from pyhudi.listing import Listing
from pyhudi.rows.cluster import cluster_files
from pyhudi.rows.shipping import shipped
from pyhudi.rows.spec import GROUP, ClusterTask, WriteSpec
from pyhudi.services.clustering import ClusteredFile, Clustering, TasksHere, clustered
from pyhudi.services.opened import open_writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyhudi.application.runtime import Runtime


def cluster(
    path: str,
    *,
    spark: SparkSession | None = None,
    dry_run: bool = False,
    options: Mapping[str, str] | None = None,
    hadoop_options: Mapping[str, str] | None = None,
) -> Listing[ClusteredFile]:
    """Put the rows of the table at ``path`` into fewer files, or into better sorted ones.

    Returns an entry for each file: rewritten with which others, or left, and why. With ``dry_run``
    nothing changes. Each group of files is a task of ``spark``, a session with pyhudi; without one
    the groups are rewritten one after the other in this process. Groups that other writes change
    meanwhile are left out. ``options`` are those of a write: ``hoodie.clustering.plan.strategy.*``
    say what is rewritten and how, and the lock must be that of the table's writers;
    ``hadoop_options`` are ``fs.s3a.*`` settings, which a session has itself. Errors:
    ``TableNotFound``, ``UnsupportedTable``, ``ConfigError``, ``LockTimeout``, ``SetupError`` if the
    session is not attached, ``CommitConflict`` if the table was altered or restored meanwhile.
    """
    if spark is None:
        writer, resolved = open_writer(path, options, hadoop_options)
        place = filesystems(hadoop_options or {})(writer.table.storage.root)
        return clustered(Clustering(writer, resolved, place, TasksHere()), dry_run)
    from pyhudi.config import resolve_write
    from pyhudi.spark.session import runtime_of
    from pyhudi.timeline.table import open_table

    runtime = runtime_of(spark)
    table = open_table(runtime.storage(path))
    resolved = resolve_write(options or {}, table.config.raw, {})
    root = table.storage.root
    tasks = SparkTasks(runtime, spark, root, table.config.name)
    place = runtime.filesystem(root)
    return clustered(Clustering(runtime.writer(table, resolved), resolved, place, tasks), dry_run)


class SparkTasks:
    """The groups of a clustering as tasks of one Spark job."""

    def __init__(self, runtime: Runtime, spark: SparkSession, root: str, name: str) -> None:
        self._runtime, self._spark = runtime, spark
        self._root, self._name = root, name

    def run(
        self,
        spec: WriteSpec,
        tasks: Mapping[int, ClusterTask],
        columns: Sequence[str],
        layout: str,
    ) -> list[WriteStat]:
        """Carry out ``tasks``; what they wrote."""
        from pyhudi.writes.stage import Stage

        if not tasks:
            return []
        blobs = []
        for number in sorted(tasks):
            batch = pa.record_batch({GROUP: pa.array([number], pa.int32())})
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            blobs.append(sink.getvalue().to_pybytes())
        work = shipped(cluster_files, spec, dict(tasks), tuple(columns), layout)
        what = f"pyhudi cluster {self._name}: rewrite files, {len(tasks)} groups in all"
        key = self._key(InstantTime(spec.instant))
        stage = Stage(self._runtime.jobs, self._spark, key, what)
        return list(stage.run_blobs(blobs, work).files)

    def ended(self, instant: InstantTime, timeout_s: float) -> bool:
        """Whether no attempt writes for ``instant`` any more, after at most this time."""
        return self._runtime.jobs.quiet(self._key(instant), timeout_s)

    def _key(self, instant: InstantTime) -> str:
        from pyhudi.writes.stage import tracked_key

        return tracked_key(self._root, instant)
