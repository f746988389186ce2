"""Writes by path: all four save modes reach Python with the whole DataFrame."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from tests.jvm.fake_planner import FakePlanner

pytestmark = [pytest.mark.spark, pytest.mark.every_line]


def people(spark: SparkSession, *ids: int) -> DataFrame:
    return spark.createDataFrame([(i, f"name {i}") for i in ids], "id long, name string")


def save(frame: DataFrame, path: str, mode: str, **options: str) -> None:
    frame.write.format("pyhudi").mode(mode).options(**options).save(path)


def ids(spark: SparkSession, path: str) -> list[int]:
    return sorted(row.id for row in spark.read.format("pyhudi").load(path).collect())


def test_append_adds_rows(spark: SparkSession, planner: FakePlanner, path: str) -> None:
    save(people(spark, 1), path, "append")
    save(people(spark, 2), path, "append")
    assert ids(spark, path) == [1, 2]


def test_overwrite_replaces_rows(spark: SparkSession, planner: FakePlanner, path: str) -> None:
    save(people(spark, 1), path, "append")
    save(people(spark, 2), path, "overwrite")
    assert ids(spark, path) == [2]


def test_ignore_leaves_a_table_as_it_is(
    spark: SparkSession, planner: FakePlanner, path: str
) -> None:
    save(people(spark, 1), path, "ignore")
    save(people(spark, 2), path, "ignore")
    assert ids(spark, path) == [1]


def test_error_mode_refuses_an_existing_table_with_the_message_of_python(
    spark: SparkSession, planner: FakePlanner, path: str
) -> None:
    save(people(spark, 1), path, "error")
    with pytest.raises(AnalysisException) as caught:
        save(people(spark, 2), path, "error")
    assert str(caught.value) == f"[TABLE_EXISTS] there is a table at {path}: choose another mode."
    assert ids(spark, path) == [1]


def test_options_arrive_in_the_spelling_of_the_user(
    spark: SparkSession, planner: FakePlanner, path: str
) -> None:
    frame = people(spark, 1)
    writer = frame.write.format("pyhudi").mode("append").option("hoodie.Table.name", "T")
    writer.partitionBy("name").save(path)
    (request,) = planner.named("write")
    assert request["options"] == {"hoodie.Table.name": "T"}
    assert request["partitioning"] == ["name"]


def test_settings_of_the_session_travel_along(
    spark: SparkSession, planner: FakePlanner, path: str
) -> None:
    spark.conf.set("hoodie.datasource.write.operation", "insert")
    try:
        save(people(spark, 1), path, "append")
    finally:
        spark.conf.unset("hoodie.datasource.write.operation")
    (request,) = planner.named("write")
    assert request["session"] == {"hoodie.datasource.write.operation": "insert"}


def test_a_write_asks_nothing_but_the_write(
    spark: SparkSession, planner: FakePlanner, path: str
) -> None:
    save(people(spark, 1), path, "append")
    assert [name for name, _ in planner.calls] == ["write"]
