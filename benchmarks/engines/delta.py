"""Delta Lake 3.3.2, copy-on-write."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame

from benchmarks.engines.base import Engine
from integration.peers.maven import DELTA

#: deletion vectors on new tables
VECTORS = {"spark.databricks.delta.properties.defaults.enableDeletionVectors": "true"}


class Delta(Engine):
    """Delta Lake by DataFrame writes and MERGE."""

    name = "delta"
    label = "Delta 3.3.2"
    notes = (
        "copy-on-write (deletion vectors off, which is the default); `spark.databricks.delta."
        "snapshotPartitions=2` instead of 50, as the tables are small; upsert and delete by MERGE "
        "on id and region"
    )

    @classmethod
    def jars(cls) -> tuple[str, ...]:
        return DELTA

    @classmethod
    def conf(cls, root: Path) -> dict[str, str]:
        return {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.databricks.delta.snapshotPartitions": "2",
        }

    def create(self, table: str, rows: DataFrame) -> None:
        rows.write.format("delta").partitionBy(self.partition).save(str(self.path(table)))

    def append(self, table: str, rows: DataFrame) -> None:
        rows.write.format("delta").mode("append").save(str(self.path(table)))

    def upsert(self, table: str, rows: DataFrame) -> None:
        clauses = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        self.merge_into(self.sql_name(table), rows, clauses)

    def delete(self, table: str, keys: DataFrame) -> None:
        self.merge_into(self.sql_name(table), keys, "WHEN MATCHED THEN DELETE")

    def sql_name(self, table: str) -> str:
        return f"delta.`{self.path(table)}`"

    def frame(self, table: str) -> DataFrame:
        return self.spark.read.format("delta").load(str(self.path(table)))
