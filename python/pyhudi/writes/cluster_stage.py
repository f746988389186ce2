"""The groups of a clustering, or the slices of a compaction, as tasks of one Spark job."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from pyhudi.application.runtime import Runtime
from pyhudi.config import WriteOptions
from pyhudi.format.commit_metadata import WriteStat
from pyhudi.format.instants import InstantTime
from pyhudi.rows.cluster import cluster_files
from pyhudi.rows.compact import compact_slices
from pyhudi.rows.log_spec import ClusterTask, CompactTask, MergeSpec
from pyhudi.rows.shipping import Work, shipped
from pyhudi.rows.spec import GROUP, WriteSpec
from pyhudi.rows.task import Batches
from pyhudi.timeline.table import Table
from pyhudi.writes.key_lookup import learn_compacted
from pyhudi.writes.stage import Stage, tracked_key


class SparkTasks:
    """The tasks of ``table``'s clusterings and compactions in the session ``spark``."""

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
        work = shipped(cluster_files, spec, dict(tasks), tuple(columns), layout)
        return self._carried_out(spec, sorted(tasks), work, "cluster", "rewrite files, {} groups")

    def compact(
        self, spec: WriteSpec, order: MergeSpec, tasks: Mapping[int, CompactTask]
    ) -> list[WriteStat]:
        """Merge the slices of ``tasks``; what they wrote."""
        work = shipped(compact_slices, spec, order, dict(tasks))
        return self._carried_out(spec, sorted(tasks), work, "compact", "merge logs, {} slices")

    def _carried_out(
        self, spec: WriteSpec, numbers: Sequence[int], work: Work, service: str, what: str
    ) -> list[WriteStat]:
        """Do ``work`` with each of ``numbers`` as one task; what they wrote."""
        if not numbers:
            return []
        blobs = []
        for number in numbers:
            batch = pa.record_batch({GROUP: pa.array([number], pa.int32())})
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            blobs.append(sink.getvalue().to_pybytes())
        used = self._cpu_s

        def counted(batches: Batches) -> Batches:
            # Sent by value, as a function in a function: workers may have no pyhudi.
            before = time.process_time()
            yield from work(batches)
            used.add(time.process_time() - before)

        shown = f"pyhudi {service} {self._name}: {what.format(len(numbers))} in all"
        key = self._key(InstantTime(spec.instant))
        stage = Stage(self._runtime.jobs, self._spark, key, shown)
        return list(stage.run_blobs(blobs, counted).files)

    def ended(self, instant: InstantTime, timeout_s: float) -> bool:
        """Whether no attempt writes for ``instant`` any more, after at most this time."""
        jobs, key = self._runtime.jobs, self._key(instant)
        if not jobs.quiet(key, timeout_s):
            return False
        jobs.forget(key)
        return True

    def committed(
        self, options: WriteOptions, tasks: Iterable[CompactTask], stats: Sequence[WriteStat]
    ) -> None:
        """Remember the keys of the old base files as those of the new ones."""
        learn_compacted(self._runtime, self._root, options, tasks, stats)

    def elsewhere_cpu_s(self) -> float:
        """CPU seconds that the Python workers have used so far."""
        return float(self._cpu_s.value)

    def _key(self, instant: InstantTime) -> str:
        return tracked_key(self._root, instant)
