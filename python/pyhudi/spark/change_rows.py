"""The job of a read of change data: Python workers read the pieces that the planner chose."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from pyhudi.format.spark_schema import SparkSchema
from pyhudi.reads.change_data import ChangePlan
from pyhudi.rows.change_reader import read_changes
from pyhudi.rows.change_spec import ChangePiece
from pyhudi.rows.shipping import shipped
from pyhudi.writes.placement.task_routes import balanced


def change_rows(spark: SparkSession, plan: ChangePlan, wanted: SparkSchema) -> DataFrame:
    """The changes in the columns ``wanted``, whose order counts; nothing is read yet."""
    tasks = plan.task_count(spark.sparkContext.defaultParallelism)
    task_of = balanced(dict(enumerate(plan.sizes)), tasks)
    parts: list[list[ChangePiece]] = [[] for _ in range(tasks)]
    for number, piece in enumerate(plan.pieces):
        parts[task_of[number]].append(piece)
    schema = SparkSchema.of_arrow(plan.spec.schema())
    work: Any = shipped(read_changes, plan.spec, parts)
    numbers = spark.range(0, tasks if plan.pieces else 0, 1, tasks)
    rows = numbers.mapInArrow(work, StructType.fromJson(schema.json()))
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
