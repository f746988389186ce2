"""Plain Spark Parquet: the floor for inserts and reads, a full rewrite for the rest."""

from __future__ import annotations

import shutil

from pyspark.sql import DataFrame

from benchmarks.data import KEY, PARTITION
from benchmarks.engines.base import Engine


class PlainParquet(Engine):
    """Spark's own Parquet source."""

    name = "parquet"
    label = "plain Parquet"
    notes = (
        "`df.write.partitionBy('region').parquet`; upsert, delete and MERGE rewrite the whole "
        "table: an anti-join on id and region (the small side broadcast by Spark), for the upsert "
        "a union, for the MERGE a look for the keys to delete as well, then a swap of folders"
    )

    def create(self, table: str, rows: DataFrame) -> None:
        rows.write.partitionBy(PARTITION).parquet(str(self.path(table)))

    def append(self, table: str, rows: DataFrame) -> None:
        rows.write.mode("append").partitionBy(PARTITION).parquet(str(self.path(table)))

    def upsert(self, table: str, rows: DataFrame) -> None:
        old = self.frame(table)
        kept = old.join(rows.select(KEY, PARTITION), [KEY, PARTITION], "left_anti")
        self._rewrite(table, kept.select(*rows.columns).union(rows))

    def delete(self, table: str, keys: DataFrame) -> None:
        old = self.frame(table)
        self._rewrite(table, old.join(keys, [KEY, PARTITION], "left_anti"))

    def merge(self, table: str, rows: DataFrame) -> None:
        old = self.frame(table)
        kept = old.join(rows.select(KEY, PARTITION), [KEY, PARTITION], "left_anti")
        back = rows.where("status = 'returned'").select(KEY, PARTITION)
        gone = old.select(KEY, PARTITION).join(back, [KEY, PARTITION], "left_semi")
        come = rows.join(gone, [KEY, PARTITION], "left_anti")
        self._rewrite(table, kept.select(*rows.columns).union(come.select(*rows.columns)))

    def frame(self, table: str) -> DataFrame:
        return self.spark.read.parquet(str(self.path(table)))

    def _rewrite(self, table: str, rows: DataFrame) -> None:
        fresh = self.root / f"{table}.new"
        rows.write.partitionBy(PARTITION).parquet(str(fresh))
        shutil.rmtree(self.path(table))
        fresh.rename(self.path(table))
