"""Reads by path through Spark's own vectorized Parquet reader."""

from __future__ import annotations

import datetime
import os
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.jvm.fake_planner import META, FakePlanner, struct

pytestmark = pytest.mark.spark

IDS = {"id": "long", "name": "string"}


def load(spark: SparkSession, path: str, **options: str) -> DataFrame:
    return spark.read.format("pyhudi").options(**options).load(path)


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def plan_text(frame: DataFrame) -> str:
    return frame._jdf.queryExecution().executedPlan().toString()


@pytest.fixture
def people(planner: FakePlanner, path: str) -> str:
    planner.create(path, struct(IDS), [])
    planner.add(path, pa.table({"id": [1, 2], "name": ["ann", "bob"]}), IDS)
    planner.add(path, pa.table({"id": [3], "name": [None]}, pa.schema([("id", pa.int64()), ("name", pa.string())])), IDS)
    return path


def test_all_columns_but_the_hidden_ones_are_read(spark: SparkSession, people: str) -> None:
    frame = load(spark, people)
    assert frame.columns == ["id", "name"]
    assert rows(frame.fillna("-")) == [(1, "ann"), (2, "bob"), (3, "-")]


def test_a_read_asks_python_once_for_the_table_and_once_for_the_files(
    spark: SparkSession, planner: FakePlanner, people: str
) -> None:
    load(spark, people).where("id > 1").collect()
    assert [name for name, _ in planner.calls] == ["describe", "plan_scan"]


def test_a_read_is_vectorized_in_whole_stage_code_generation(
    spark: SparkSession, people: str
) -> None:
    frame = load(spark, people).where("id > 1").select(F.upper("name"))
    text = plan_text(frame)
    assert "ColumnarToRow" in text and "*(1)" in text


def test_the_meta_columns_and_the_file_are_read_by_name(spark: SparkSession, people: str) -> None:
    frame = load(spark, people).where("id = 3").select(*META, "_file", "id")
    (row,) = frame.collect()
    assert row["_hoodie_record_key"] == "3"
    assert row["_hoodie_file_name"] == "part-1.parquet"
    assert row["_file"] == f"{people}/part-1.parquet"
    assert row["id"] == 3
