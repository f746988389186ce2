"""Clustering as tasks of a Spark application, beside writes of the same application."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import pyhudi

pytestmark = pytest.mark.spark

OPTIONS = {
    "hoodie.table.name": "sorted",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.parquet.small.file.limit": "0",
}
BY_V = {"hoodie.clustering.plan.strategy.sort.columns": "v"}


def write(spark: SparkSession, path: str, rows: list[tuple[str, str, int]], **more: str) -> None:
    frame = spark.createDataFrame(rows, "id string, p string, v int").coalesce(1)
    given = {**OPTIONS, **{key.replace("_", "."): value for key, value in more.items()}}
    frame.write.format("pyhudi").options(**given).mode("append").save(path)


def test_groups_are_tasks_of_the_application(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for number in range(3):
        rows = [(f"{p}{number}{n}", p, 10 * n + number) for p in "ab" for n in (3, 1, 2)]
        write(spark, path, rows)
    before = sorted(map(tuple, spark.read.format("pyhudi").load(path).collect()))

    found = pyhudi.cluster(path, spark=spark, options=BY_V)

    assert [f.fate.value for f in found] == ["clustered"] * 6
    table = spark.read.format("pyhudi").load(path)
    assert sorted(map(tuple, table.collect())) == before
    in_a = [row.v for row in table.where("p = 'a'").collect()]
    assert in_a == sorted(in_a)
    assert len(pyhudi.Table(path).files()) == 2

    write(spark, path, [("a01", "a", 99)])
    changed_row = spark.read.format("pyhudi").load(path).where("id = 'a01'").collect()
    assert [row.v for row in changed_row] == [99]
    first = found[0].clustering
    since = spark.read.format("pyhudi").option("hoodie.datasource.query.type", "incremental")
    assert first is not None
    newer = since.option("hoodie.datasource.read.begin.instanttime", first).load(path)
    assert [row.id for row in newer.collect()] == ["a01"]


def test_a_write_clusters_after_its_commit_with_tasks_of_its_session(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    for number in range(2):
        inline = {"hoodie_clustering_inline": "true", "hoodie_clustering_inline_max_commits": "2"}
        write(spark, path, [(f"a{number}", "a", number)], **inline)
    assert [each.operation for each in pyhudi.history(path)] == ["upsert", "upsert", "cluster"]
    assert len(pyhudi.Table(path).files()) == 1
    done = pyhudi.last_commit(spark)
    assert done is not None
    assert done.entry.operation == "upsert"
    assert spark.read.format("pyhudi").load(path).count() == 2
