"""How each engine takes a stream; engines of ``benchmarks.streams`` alone.

An engine that has a sink of its own for the operation uses it. MERGE is a statement and no sink:
there ``foreachBatch`` runs it for each epoch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from benchmarks.engines.base import Engine
from benchmarks.engines.delta import VECTORS, Delta
from benchmarks.engines.hudi import LOGS, ApacheHudi, HudiFamily
from benchmarks.engines.iceberg import Iceberg
from benchmarks.engines.pyhudi import Pyhudi
from benchmarks.events import COLUMNS, DAY, ORDERING, SCHEMA

APPEND, UPSERT = "append", "upsert"


class Streams(Engine):
    """An engine that runs a stream of epochs, partitioned by day."""

    partition = DAY

    def stream(self, table: str, source: str, checkpoint: str, kind: str) -> list[dict[str, int]]:
        """Take every new file of ``source``, one to an epoch; Spark's milliseconds of each epoch.

        "triggerExecution" is the whole epoch, "addBatch" the sink's part of it. "visible" is the
        part after which the epoch's rows can be read: without Spark's own log, which follows, and
        without the services after the commit, of which pyhudi's sink tells.
        """
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        writer = reader.parquet(source).writeStream.option("checkpointLocation", checkpoint)
        query = self.start(writer.trigger(availableNow=True), table, kind)
        query.awaitTermination()
        return [_times(p) for p in query.recentProgress if p["numInputRows"]]

    @abstractmethod
    def start(self, writer: DataStreamWriter, table: str, kind: str) -> StreamingQuery:
        """Start the query that writes into the table."""

    def facts(self, rows: DataFrame) -> list[str]:
        """Number of rows and two sums over a hash of all columns."""
        hashed = rows.select(F.xxhash64(*COLUMNS).alias("h"))
        found = hashed.agg(
            F.count("h"), F.expr("bit_xor(h)"), F.expr("sum(pmod(h, 1000003))")
        ).first()
        return [str(fact) for fact in found or ()]


class HudiStreams(HudiFamily, Streams):
    """A sink that takes Hudi's options."""

    keyed: ClassVar[dict[str, str]] = {
        "hoodie.datasource.write.partitionpath.field": DAY,
        "hoodie.datasource.write.precombine.field": ORDERING,
    }
    extra: ClassVar[dict[str, str]] = keyed

    def settings(self, table: str, kind: str) -> dict[str, str]:
        """The options of an epoch."""
        return self.options(table, "bulk_insert" if kind == APPEND else kind)

    def start(self, writer: DataStreamWriter, table: str, kind: str) -> StreamingQuery:
        ready = writer.format(self.source).options(**self.settings(table, kind))
        return ready.outputMode("append").start(str(self.path(table)))


class PyhudiSink(HudiStreams, Pyhudi):
    """pyhudi's own sink."""

    name = "pyhudi-sink"
    notes = "its sink; operations bulk_insert and upsert"


class PyhudiLogSink(PyhudiSink):
    """pyhudi's own sink on merge-on-read."""

    name = "pyhudi-log-sink"
    label = "pyhudi, MOR"
    notes = "the same on merge-on-read, with the compaction between epochs that is its default"
    extra: ClassVar[dict[str, str]] = {**HudiStreams.keyed, **LOGS}


class PyhudiBatches(HudiStreams, Pyhudi):
    """pyhudi's batch writes, an epoch each."""

    name = "pyhudi-batches"
    label = "pyhudi, foreachBatch"
    notes = "`df.write` in foreachBatch; operations bulk_insert and upsert"

    def start(self, writer: DataStreamWriter, table: str, kind: str) -> StreamingQuery:
        chosen, path = self.settings(table, kind), str(self.path(table))

        def write(batch: DataFrame, epoch: int) -> None:
            batch.write.format(self.source).options(**chosen).mode("append").save(path)

        return writer.foreachBatch(write).start()


class HudiSink(HudiStreams, ApacheHudi):
    """Apache Hudi's sink on copy-on-write."""

    name = "hudi-sink"
    notes = "copy-on-write; its sink; operations bulk_insert and upsert, metadata table on"


class HudiLogSink(HudiSink):
    """Apache Hudi's sink on merge-on-read."""

    name = "hudi-log-sink"
    label = "Apache Hudi 1.2.0, MOR"
    notes = "the same on merge-on-read, with the compaction beside the stream that is its default"
    extra: ClassVar[dict[str, str]] = {**HudiStreams.keyed, **LOGS}


class DeltaSink(Delta, Streams):
    """Delta: its sink for appends, MERGE for upserts."""

    name = "delta-sink"
    label = "Delta 3.3.2"
    notes = (
        "copy-on-write; appends by its sink; upserts by MERGE in foreachBatch, on id and day, with "
        "the days of the epoch as constants, so that the other partitions are not read"
    )

    def start(self, writer: DataStreamWriter, table: str, kind: str) -> StreamingQuery:
        if kind == UPSERT:
            return writer.foreachBatch(merging(self.sql_name(table))).start()
        return writer.format("delta").outputMode("append").start(str(self.path(table)))


class DeltaVectors(DeltaSink):
    """Delta with deletion vectors."""

    name = "delta-vectors"
    label = "Delta 3.3.2, vectors"
    notes = "the same with deletion vectors"

    @classmethod
    def conf(cls, root: Path) -> dict[str, str]:
        return {**super().conf(root), **VECTORS}


class IcebergSink(Iceberg, Streams):
    """Iceberg: its sink for appends, MERGE for upserts."""

    name = "iceberg-sink"
    notes = (
        "format version 2, copy-on-write; appends by its sink, fan-out writers; upserts by MERGE "
        "in foreachBatch as for Delta"
    )

    def start(self, writer: DataStreamWriter, table: str, kind: str) -> StreamingQuery:
        name = self.sql_name(table)
        if kind == UPSERT:
            return writer.foreachBatch(merging(name)).start()
        ready = writer.format("iceberg").outputMode("append").option("fanout-enabled", "true")
        return ready.toTable(name)


class IcebergDeletes(IcebergSink):
    """Iceberg with position deletes."""

    name = "iceberg-deletes"
    label = "Iceberg 1.10.1, MOR"
    notes = "the same with `write.merge.mode=merge-on-read`"
    extra: ClassVar[dict[str, str]] = {"write.merge.mode": "merge-on-read"}


def merging(target: str) -> Callable[[DataFrame, int], None]:
    """For foreachBatch: a MERGE of the epoch into ``target``."""

    def merge(batch: DataFrame, epoch: int) -> None:
        days = ", ".join(f"'{row[0]}'" for row in batch.select(DAY).distinct().collect())
        batch.createOrReplaceTempView("epoch")
        batch.sparkSession.sql(
            f"MERGE INTO {target} t USING epoch s "
            f"ON t.id = s.id AND t.{DAY} = s.{DAY} AND t.{DAY} IN ({days}) "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    return merge


def _times(progress: Mapping[str, Any]) -> dict[str, int]:
    spent, told = dict(progress["durationMs"]), progress["sink"].get("metrics") or {}
    served = int(told["writeMs"]) - int(told["commitMs"]) if "commitMs" in told else 0
    return spent | {"visible": spent["triggerExecution"] - spent["commitOffsets"] - served}


def heap_megabytes(engine: Engine) -> float:
    """What the JVM's heap holds after a collection."""
    jvm: Any = engine.spark.sparkContext._jvm
    jvm.System.gc()
    runtime = jvm.Runtime.getRuntime()
    return float(runtime.totalMemory() - runtime.freeMemory()) / 1e6


STREAMS: dict[str, type[Engine]] = {
    engine.name: engine
    for engine in (
        PyhudiSink, PyhudiLogSink, PyhudiBatches, HudiSink, HudiLogSink, DeltaSink, DeltaVectors,
        IcebergSink, IcebergDeletes,
    )
}  # fmt: skip
