"""Tagging: which base file holds each incoming key.

The keys of the base files are read on executors with pyarrow and joined by Spark, over the key
columns alone; partitions and files are pruned before.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pyhudi.config import IndexType
from pyhudi.index.lookup import HITS_DDL, KEY, ORDINAL, LookupSpec, lookup
from pyhudi.planner.keys import PARTITION_PATH
from pyhudi.planner.write_context import Write
from pyhudi.timeline.view import BaseFile
from pyhudi.write.spec import DELETE

BASE_PARTITION = "_pyhudi_base_partition"
WAVES = 3


def base_keys(write: Write, files: Sequence[BaseFile]) -> DataFrame:
    """(key, ordinal, base partition) of every row in ``files``."""
    filesystem, root = write.runtime.filesystem(write.table.storage.root)
    spec = LookupSpec(
        root=root,
        fs=filesystem,
        files={o: (f.path, f.partition_path) for o, f in enumerate(files)},
        use_bloom=write.options.index_type is IndexType.BLOOM,
    )
    spark = write.spark
    slices = max(1, min(len(files), spark.sparkContext.defaultParallelism * WAVES))
    ordinals = spark.range(0, len(files), 1, slices).select(F.col("id").cast("int").alias(ORDINAL))
    return ordinals.mapInArrow(lookup(spec), HITS_DDL)  # type: ignore[arg-type]


def tag_partitioned(write: Write, rows: DataFrame, files: Sequence[BaseFile]) -> DataFrame:
    """Rows with ``ORDINAL``: a key belongs to the file of its own partition that holds it."""
    keys = base_keys(write, files).withColumnRenamed(BASE_PARTITION, PARTITION_PATH)
    return rows.join(keys, [KEY, PARTITION_PATH], "left")


def tag_global(write: Write, rows: DataFrame, files: Sequence[BaseFile]) -> DataFrame:
    """The same over all partitions; a row whose partition changed moves.

    A move is a delete in the old group and an insert in the new partition. With
    ``hoodie.simple.index.update.partition.path`` off the row stays in its old partition instead.
    """
    tagged = rows.join(base_keys(write, files), KEY, "left")
    elsewhere = F.col(ORDINAL).isNotNull() & (F.col(BASE_PARTITION) != F.col(PARTITION_PATH))
    if not write.options.update_partition_path:
        path = F.when(elsewhere, F.col(BASE_PARTITION)).otherwise(F.col(PARTITION_PATH))
        return tagged.withColumn(PARTITION_PATH, path).drop(BASE_PARTITION)
    if DELETE not in tagged.columns:
        tagged = tagged.withColumn(DELETE, F.lit(False))
    arrival = F.struct(
        F.when(elsewhere, F.lit(None).cast("int")).otherwise(F.col(ORDINAL)).alias(ORDINAL),
        F.col(PARTITION_PATH),
        F.col(DELETE),
    )
    departure = F.struct(
        F.col(ORDINAL), F.col(BASE_PARTITION).alias(PARTITION_PATH), F.lit(True).alias(DELETE)
    )
    steps = F.when(elsewhere, F.array(arrival, departure)).otherwise(F.array(arrival))
    others = [
        c for c in tagged.columns if c not in (ORDINAL, PARTITION_PATH, DELETE, BASE_PARTITION)
    ]
    exploded = tagged.select(*[F.col(f"`{c}`") for c in others], F.explode(steps).alias("_s"))
    return exploded.select("*", "_s.*").drop("_s")
