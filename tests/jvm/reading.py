"""What the read tests share: loading, looking at plans, and one small table."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

IDS = {"id": "long", "name": "string"}


def load(spark: SparkSession, path: str, **options: str) -> DataFrame:
    return spark.read.format("pyhudi").options(**options).load(path)


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def plan_text(frame: DataFrame) -> str:
    return frame._jdf.queryExecution().executedPlan().toString()


def scanned_rows(frame: DataFrame) -> int:
    """Rows that left the scan of an executed frame: its only leaf knows."""
    plan = frame._jdf.queryExecution().executedPlan()
    return plan.collectLeaves().head().metrics().apply("numOutputRows").value()
