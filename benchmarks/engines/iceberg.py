"""Iceberg 1.10.1, copy-on-write, in a file-system catalog."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pyspark.sql import DataFrame

from benchmarks.engines.base import Engine
from integration.peers.maven import ICEBERG

PROPERTIES = {
    "format-version": "2",
    "write.parquet.compression-codec": "snappy",
    "write.distribution-mode": "none",
    "write.spark.fanout.enabled": "true",
}


class Iceberg(Engine):
    """Iceberg by writeTo and MERGE."""

    name = "iceberg"
    label = "Iceberg 1.10.1"
    notes = (
        "format version 2, copy-on-write (the default), file-system catalog; `write."
        "distribution-mode=none` and fan-out writers, its fastest way here for inserts; upsert "
        "and delete by MERGE on id and region"
    )
    extra: ClassVar[dict[str, str]] = {}

    @classmethod
    def jars(cls) -> tuple[str, ...]:
        return ICEBERG

    @classmethod
    def conf(cls, root: Path) -> dict[str, str]:
        extensions = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        return {
            "spark.sql.extensions": extensions,
            "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.ice.type": "hadoop",
            "spark.sql.catalog.ice.warehouse": str(root),
        }

    def path(self, table: str) -> Path:
        return self.root / "db" / table

    def create(self, table: str, rows: DataFrame) -> None:
        writer = rows.writeTo(self.sql_name(table)).partitionedBy(rows[self.partition])
        for key, value in {**PROPERTIES, **self.extra}.items():
            writer = writer.tableProperty(key, value)
        writer.create()

    def append(self, table: str, rows: DataFrame) -> None:
        rows.writeTo(self.sql_name(table)).append()

    def upsert(self, table: str, rows: DataFrame) -> None:
        clauses = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        self.merge_into(self.sql_name(table), rows, clauses)

    def delete(self, table: str, keys: DataFrame) -> None:
        self.merge_into(self.sql_name(table), keys, "WHEN MATCHED THEN DELETE")

    def sql_name(self, table: str) -> str:
        return f"ice.db.{table}"

    def frame(self, table: str) -> DataFrame:
        return self.spark.table(self.sql_name(table))
