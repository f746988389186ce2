"""The jobs of reads of changes: Python workers read the pieces that the planner chose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from pyhudi.format.spark_schema import SparkSchema
from pyhudi.reads.change_data import ChangePlan
from pyhudi.reads.logged_rows import LoggedPlan
from pyhudi.rows.change_reader import read_changes
from pyhudi.rows.logged_reader import read_logged_rows
from pyhudi.rows.shipping import Work, shipped
from pyhudi.writes.placement.task_routes import balanced


def change_rows(spark: SparkSession, plan: ChangePlan, wanted: SparkSchema) -> DataFrame:
    """The changes in the columns ``wanted``, whose order counts; nothing is read yet."""
    schema = SparkSchema.of_arrow(plan.spec.schema())
    rows = _read(spark, plan, read_changes, schema)
    options = {"ignoreNullFields": "false"}
    images = {each.name for each in schema.columns if each.is_nested}
    return rows.select(
        *(
            F.to_json(name, options).alias(name)
            if name in images and kind == "string"
            else F.col(name)
            for name, kind in wanted.types.items()
        )
    )


def logged_rows(spark: SparkSession, plan: LoggedPlan, wanted: SparkSchema) -> DataFrame:
    """The changed rows in the columns ``wanted``; nothing is read yet."""
    return _read(spark, plan, read_logged_rows, wanted)


def _read(
    spark: SparkSession,
    plan: ChangePlan | LoggedPlan,
    factory: Callable[..., Work],
    schema: SparkSchema,
) -> DataFrame:
    tasks = plan.task_count(spark.sparkContext.defaultParallelism)
    task_of = balanced(dict(enumerate(plan.sizes)), tasks)
    parts: list[list[object]] = [[] for _ in range(tasks)]
    for number, piece in enumerate(plan.pieces):
        parts[task_of[number]].append(piece)
    work: Any = shipped(factory, plan.spec, parts)
    numbers = spark.range(0, tasks if plan.pieces else 0, 1, tasks)
    return numbers.mapInArrow(work, StructType.fromJson(schema.json()))
