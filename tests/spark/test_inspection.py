"""``pyhudi.Table`` beside Spark: its listings as DataFrames."""

from __future__ import annotations

import pytest

import pyhudi
from tests.spark.tables import Lake, rows_of

pytestmark = pytest.mark.spark


def test_listings_are_spark_dataframes_on_demand(lake: Lake) -> None:
    table = lake.table()
    table.write(rows_of(0, 9, "a"))
    table.write(rows_of(0, 2, "b", 2))

    seen = pyhudi.Table(table.path)
    files = seen.files().to_spark(lake.spark)

    assert files.groupBy().sum("rows").collect()[0][0] == table.df().count() == 9
    assert (
        sorted(row.partition for row in files.collect())
        == seen.files().to_arrow()["partition"].to_pylist()
    )
    assert seen.history().to_spark(lake.spark).where("rows_updated = 2").count() == 1
    assert [field.name for field in seen.schema()] == table.df().columns
