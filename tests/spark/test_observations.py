"""Metrics that a user observes on a frame which is written (``df.observe``)."""

from __future__ import annotations

from concurrent.futures import Future
from threading import Thread
from typing import Any

import pytest
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from pyhudi.errors import WriteFailed
from tests.spark.tables import DDL, INDEX, OPERATION, OPTIONS, Lake

pytestmark = [pytest.mark.spark, pytest.mark.every_line]

#: Spark's ``Observation.get`` waits for ever if nobody tells it anything
PATIENCE_S = 60.0
ROWS = [(n, f"name {n}", n, "xyz"[n % 3]) for n in range(100)]


def observed(rows: DataFrame) -> tuple[Observation, DataFrame]:
    asked = Observation()
    return asked, rows.observe(asked, F.count("*").alias("rows"), F.sum("ts").alias("sum"))


def told(asked: Observation) -> dict[str, Any]:
    answer: Future[dict[str, Any]] = Future()
    Thread(target=lambda: answer.set_result(asked.get), daemon=True).start()
    return answer.result(PATIENCE_S)


@pytest.mark.parametrize(
    ("operation", "index"),
    [
        ("bulk_insert", "SIMPLE"),
        ("insert", "SIMPLE"),
        ("upsert", "SIMPLE"),
        ("upsert", "BUCKET"),
        ("insert_overwrite", "SIMPLE"),
    ],
)
def test_an_observation_of_a_written_frame_gets_all_rows(
    lake: Lake, way: str, operation: str, index: str
) -> None:
    options = {**OPTIONS, OPERATION: operation, INDEX: index}
    table = lake.table(operation, options, DDL)
    for size in (60, 100):
        asked, rows = observed(lake.spark.createDataFrame(ROWS[:size], DDL))

        table.write(rows)

        assert told(asked) == {"rows": size, "sum": sum(range(size))}


def test_a_statement_tells_what_its_source_observes(spark: SparkSession, name: str) -> None:
    spark.sql(f"create table {name} ({DDL}) using pyhudi tblproperties (primaryKey = 'id')")
    rows = spark.createDataFrame(ROWS, DDL)
    for statement in (
        f"insert into {name} select * from observed_rows",
        f"""merge into {name} t using observed_rows s on t.id = s.id
        when matched then update set * when not matched then insert *""",
    ):
        asked, source = observed(rows)
        source.createOrReplaceTempView("observed_rows")

        spark.sql(statement)

        assert told(asked)["rows"] == 100


def test_an_observation_of_a_failed_write_does_not_wait(lake: Lake) -> None:
    table = lake.table("failed", OPTIONS, DDL)
    bad = F.when(F.col("id") < 99, F.col("name")).otherwise(F.raise_error(F.lit("a bad row")))
    rows = lake.spark.createDataFrame(ROWS, DDL).withColumn("name", bad)
    asked, rows = observed(rows)

    with pytest.raises(WriteFailed, match="a bad row"):
        table.write(rows)

    assert told(asked)["rows"] < 100
