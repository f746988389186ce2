"""How the tests' session differs from a user's: most tests are interpreted, names are kept."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.spark.tables import Lake

pytestmark = pytest.mark.spark


def plan_of_a_read(lake: Lake) -> str:
    table = lake.table()
    table.write([(1, "a", 1, "x")])
    return str(table.df()._jdf.queryExecution().executedPlan().toString())


def test_a_test_is_interpreted_and_reads_rows(lake: Lake) -> None:
    assert "ColumnarToRow" not in plan_of_a_read(lake)


@pytest.mark.compiled
def test_a_test_with_the_mark_reads_batches_of_columns_in_compiled_code(lake: Lake) -> None:
    assert "*(1) ColumnarToRow" in plan_of_a_read(lake)


def test_the_jvm_is_asked_once_for_a_name(spark: SparkSession) -> None:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    assert jvm.SparkSession is jvm.SparkSession
    assert jvm.java is jvm.java
