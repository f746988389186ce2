"""The groups of a clustering as tasks of one Spark job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from pyhudi.application.runtime import Runtime
from pyhudi.format.commit_metadata import WriteStat
from pyhudi.format.instants import InstantTime
from pyhudi.rows.cluster import cluster_files
from pyhudi.rows.shipping import shipped
from pyhudi.rows.spec import GROUP, ClusterTask, WriteSpec
from pyhudi.timeline.table import Table
from pyhudi.writes.stage import Stage, tracked_key


class SparkTasks:
    """The tasks of ``table``'s clustering in the session ``spark``."""

    def __init__(self, runtime: Runtime, spark: SparkSession, table: Table) -> None:
        self._runtime, self._spark = runtime, spark
        self._root, self._name = table.storage.root, table.config.name

    def run(
        self,
        spec: WriteSpec,
        tasks: Mapping[int, ClusterTask],
        columns: Sequence[str],
        layout: str,
    ) -> list[WriteStat]:
        """Carry out ``tasks``; what they wrote."""
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
        return tracked_key(self._root, instant)
