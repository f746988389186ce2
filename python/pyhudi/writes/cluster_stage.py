"""The groups of a clustering as tasks of one Spark job."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from pyhudi.application.runtime import Runtime
from pyhudi.format.commit_metadata import WriteStat
from pyhudi.format.instants import InstantTime
from pyhudi.rows.cluster import cluster_files
from pyhudi.rows.shipping import shipped
from pyhudi.rows.spec import GROUP, ClusterTask, WriteSpec
from pyhudi.rows.task import Batches
from pyhudi.timeline.table import Table
from pyhudi.writes.stage import Stage, tracked_key


class SparkTasks:
    """The tasks of ``table``'s clustering in the session ``spark``."""

    def __init__(self, runtime: Runtime, spark: SparkSession, table: Table) -> None:
        self._runtime, self._spark = runtime, spark
        self._root, self._name = table.storage.root, table.config.name
        self._cpu_s: Any = spark.sparkContext.accumulator(0.0)

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
        used = self._cpu_s

        def counted(batches: Batches) -> Batches:
            # Sent by value, as a function in a function: workers may have no pyhudi.
            before = sum(os.times()[:2])
            yield from work(batches)
            used.add(sum(os.times()[:2]) - before)

        what = f"pyhudi cluster {self._name}: rewrite files, {len(tasks)} groups in all"
        key = self._key(InstantTime(spec.instant))
        stage = Stage(self._runtime.jobs, self._spark, key, what)
        return list(stage.run_blobs(blobs, counted).files)

    def ended(self, instant: InstantTime, timeout_s: float) -> bool:
        """Whether no attempt writes for ``instant`` any more, after at most this time."""
        jobs, key = self._runtime.jobs, self._key(instant)
        if not jobs.quiet(key, timeout_s):
            return False
        jobs.forget(key)
        return True

    def elsewhere_cpu_s(self) -> float:
        """CPU seconds that the Python workers have used so far."""
        return float(self._cpu_s.value)

    def _key(self, instant: InstantTime) -> str:
        return tracked_key(self._root, instant)
