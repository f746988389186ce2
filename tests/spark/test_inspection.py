"""``pyhudi.Table`` beside Spark: its listings as DataFrames."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException

import pyhudi
from tests.spark.tables import Lake, rows_of
from tests.spark.test_sql import create, folder_of

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


@pytest.mark.parametrize("as_of", [" version as of '1'", " timestamp as of '2024-01-01'"])
def test_a_listing_is_of_now(lake: Lake, as_of: str) -> None:
    table = lake.table()
    table.write(rows_of(0, 9, "a"))
    with pytest.raises(AnalysisException, match="TABLE_NOT_FOUND|NOT_FOUND"):
        lake.spark.sql(f"select * from pyhudi.`{table.path}`.files{as_of}").collect()


def test_sql_reads_listings_by_name(lake: Lake, name: str) -> None:
    spark = lake.spark
    create(spark, name)
    spark.sql(f"insert into {name} values (1, 'a', 1, 'x'), (2, 'b', 1, 'y')")
    spark.sql(f"delete from {name} where id = 1")
    path = folder_of(spark, name)

    history = "select operation, rows_inserted, rows_deleted from {}.history where files > 0"
    assert [row[:] for row in spark.sql(history.format(name) + " order by instant").collect()] == [
        ("upsert", 2, 0), ("delete", 0, 1),
    ]  # fmt: skip
    for table in (name, f"default.{name}", f"spark_catalog.default.{name}", f"pyhudi.`{path}`"):
        files = spark.sql(f"select partition, rows from {table}.files order by 1")
        assert [row[:] for row in files.collect()] == [("dt=x", 0), ("dt=y", 1)], table
        assert spark.table(f"{table}.partitions").count() == 2
        assert spark.table(f"{table}.history").count() == 2
        health = spark.table(f"{table}.health").where("measure = 'small files'")
        assert [(row.value, row.level) for row in health.collect()] == [(2.0, "ok")]
    spark.sql(f"alter table {name} set tblproperties ('hoodie.parquet.small.file.limit' = '1')")
    judged = spark.table(f"{name}.health").where("measure = 'small files'")
    assert [row.value for row in judged.collect()] == [0.0], "by the table's own options"
    with pytest.raises(AnalysisException, match="NOT_FOUND"):
        spark.table("nothing_of_this_name.history")
