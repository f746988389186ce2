"""Apache Hudi 1.2.0, and what it shares with pyhudi: the options."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pyspark.sql import DataFrame

from benchmarks.data import KEY, ORDERING, PARTITION
from benchmarks.engines.base import Engine
from integration.peers.maven import HUDI
from integration.peers.spark import HUDI_CONF

OPTIONS = {
    "hoodie.datasource.write.recordkey.field": KEY,
    "hoodie.datasource.write.partitionpath.field": PARTITION,
    "hoodie.datasource.write.precombine.field": ORDERING,
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.parquet.compression.codec": "snappy",
}

#: updates and deletes go to log files
LOGS = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}

#: several writers, as both engines are told of them
MANY = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.num.retries.on.conflict.failures": "20",
}


class HudiFamily(Engine):
    """A writer that takes Hudi's options."""

    source: ClassVar[str]
    extra: ClassVar[dict[str, str]] = {}
    many: ClassVar[dict[str, str]] = MANY
    _among_others = False

    def expect_other_writers(self) -> None:
        self._among_others = True
        for key, value in self.many.items():  # for statements, which have no options
            self.spark.conf.set(key, value)

    def create(self, table: str, rows: DataFrame) -> None:
        self._write(table, rows, "bulk_insert", "overwrite")

    def append(self, table: str, rows: DataFrame) -> None:
        self._write(table, rows, "bulk_insert", "append")

    def insert(self, table: str, rows: DataFrame) -> None:
        self._write(table, rows, "insert", "append")

    def upsert(self, table: str, rows: DataFrame) -> None:
        self._write(table, rows, "upsert", "append")

    def delete(self, table: str, keys: DataFrame) -> None:
        self._write(table, keys, "delete", "append")

    def frame(self, table: str) -> DataFrame:
        return self.spark.read.format(self.source).load(str(self.path(table)))

    def options(self, table: str, operation: str) -> dict[str, str]:
        """What a write of the table is told."""
        return {
            **OPTIONS,
            **self.extra,
            **(self.many if self._among_others else {}),
            "hoodie.table.name": table,
            "hoodie.datasource.write.operation": operation,
        }

    def _write(self, table: str, rows: DataFrame, operation: str, mode: str) -> None:
        chosen = self.options(table, operation)
        rows.write.format(self.source).options(**chosen).mode(mode).save(str(self.path(table)))


class ApacheHudi(HudiFamily):
    """Apache Hudi with its defaults, the metadata table among them."""

    name = "hudi"
    label = "Apache Hudi 1.2.0"
    source = "hudi"
    notes = (
        "copy-on-write, table version 9, Kryo; defaults: metadata table on, SIMPLE index, row "
        "writer and sort mode NONE for bulk_insert, timeline-server markers; operations "
        "bulk_insert (creation and tiny appends), upsert, delete"
    )

    # Its writers of a race are threads of one JVM, for which this is the cheapest lock.
    many: ClassVar[dict[str, str]] = {
        **MANY,
        "hoodie.write.lock.provider": (
            "org.apache.hudi.client.transaction.lock.InProcessLockProvider"
        ),
    }

    def sql_name(self, table: str) -> str:
        location = self.path(table)
        self.spark.sql(f"CREATE TABLE IF NOT EXISTS {table} USING hudi LOCATION '{location}'")
        for key, value in self.extra.items():
            self.spark.conf.set(key, value)
        return table

    @classmethod
    def jars(cls) -> tuple[str, ...]:
        return (HUDI["1.2.0"],)

    @classmethod
    def conf(cls, root: Path) -> dict[str, str]:
        return HUDI_CONF


class ApacheHudiWithoutMetadata(ApacheHudi):
    """Apache Hudi with everything off that small tables can do without."""

    name = "hudi-lean"
    label = "Apache Hudi 1.2.0, lean"
    notes = "as Apache Hudi 1.2.0, but metadata table and timeline server off, direct markers"
    extra: ClassVar[dict[str, str]] = {
        "hoodie.metadata.enable": "false",
        "hoodie.embed.timeline.server": "false",
        "hoodie.write.markers.type": "DIRECT",
    }
