"""Which rows an overwrite replaces, on every route and by every setting that says so."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.spark.tables import KEY, OPTIONS, Lake, refused, settings
from tests.spark.test_sql import KEYED, create

pytestmark = pytest.mark.spark

SPARK = "spark.sql.sources.partitionOverwriteMode"
MODE = "hoodie.datasource.overwrite.mode"
OPERATION = "hoodie.datasource.write.operation"
DDL = "id bigint, name string, ts bigint, dt string"
OLD = [(1, "a", 1, "x"), (2, "b", 1, "x"), (3, "c", 1, "y")]
NEW = [(9, "n", 1, "x")]


def ids(df: DataFrame) -> list[int]:
    return sorted(row.id for row in df.collect())


@pytest.mark.parametrize(
    ("session", "options", "left"),
    [
        ({SPARK: "dynamic"}, {}, [3, 9]),
        ({}, {"partitionOverwriteMode": "dynamic"}, [3, 9]),
        ({SPARK: "dynamic"}, {OPERATION: "insert_overwrite_table"}, [9]),
    ],
)
def test_a_save_spares_partitions_where_spark_would(
    lake: Lake, session: dict[str, str], options: dict[str, str], left: list[int]
) -> None:
    table = lake.table(options={**OPTIONS})
    table.write(OLD)
    with settings(lake.spark, session):
        table.write(NEW, mode="overwrite", **options)
    assert ids(table.df()) == left


def test_partition_by_and_dynamic_overwrite_go_together(lake: Lake) -> None:
    table = lake.table(options={KEY: "id"})
    for rows in (OLD, NEW):
        writer = table.frame(rows).write.format("pyhudi").partitionBy("dt").mode("overwrite")
        writer.option(KEY, "id").option("partitionOverwriteMode", "dynamic").save(table.path)
    assert ids(table.df()) == [3, 9]


@pytest.mark.parametrize("option", ["replaceWhere", "overwrite-mode", "overwriteSchema"])
def test_a_save_refuses_what_other_formats_would_heed(lake: Lake, option: str) -> None:
    table = lake.table()
    table.write(OLD)
    with refused("CONFIG_ERROR", table.path, option):
        table.write(NEW, mode="overwrite", **{option: "dt = 'x'"})


def filled(spark: SparkSession, name: str) -> DataFrame:
    """A table of the catalog with the old rows; the new ones."""
    create(spark, name, KEYED)
    spark.createDataFrame(OLD, DDL).coalesce(1).writeTo(name).append()
    return spark.createDataFrame(NEW, DDL).coalesce(1)


def test_inserts_by_name_spare_partitions_where_dynamic_is_asked_for(
    spark: SparkSession, name: str
) -> None:
    new = filled(spark, name)
    with settings(spark, {MODE: "dynamic"}):
        new.write.insertInto(name, overwrite=True)
    assert ids(spark.table(name)) == [3, 9]
    # Spark hands the writer's options over only where the format is named.
    writer = new.withColumn("dt", F.lit("y")).write.format("pyhudi")
    writer.option("partitionOverwriteMode", "dynamic").insertInto(name, overwrite=True)
    assert ids(spark.table(name)) == [9, 9]


def test_a_table_that_is_replaced_heeds_the_options_of_the_write_alone(
    spark: SparkSession, name: str
) -> None:
    new = filled(spark, name)
    writer = new.write.format("pyhudi").mode("overwrite").partitionBy("dt")
    writer.option("partitionOverwriteMode", "dynamic").saveAsTable(name)
    assert ids(spark.table(name)) == [3, 9]
    for session in ({MODE: "dynamic"}, {SPARK: "dynamic"}):
        spark.createDataFrame(OLD[2:], DDL).writeTo(name).append()
        with settings(spark, session):
            new.write.format("pyhudi").mode("overwrite").partitionBy("dt").saveAsTable(name)
        assert ids(spark.table(name)) == [9]


def test_a_condition_is_replaced_whatever_the_mode(spark: SparkSession, name: str) -> None:
    new = filled(spark, name)
    for session in ({MODE: "dynamic"}, {SPARK: "dynamic"}):
        with settings(spark, session):
            new.withColumn("dt", F.lit("z")).writeTo(name).overwrite(F.col("dt") != "y")
        assert ids(spark.table(name)) == [3, 9]
    with pytest.raises(Exception, match=r"\[CONFIG_ERROR\] 'replaceWhere'"):
        new.writeTo(name).option("replaceWhere", "dt = 'x'").overwritePartitions()
    with (
        settings(spark, {SPARK: "dynamic", MODE: "static"}),
        pytest.raises(Exception, match=r"\[CONFIG_ERROR\] .*is dynamic"),
    ):
        spark.sql(f"insert overwrite {name} select 9, 'n', 1, 'x'")
    assert ids(spark.table(name)) == [3, 9]


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_new_rows_where_the_condition_is_false_cost_no_old_row(
    spark: SparkSession, name: str, kind: str
) -> None:
    create(spark, name, KEYED.replace("cow", kind))
    spark.createDataFrame(OLD, DDL).writeTo(name).append()
    elsewhere = spark.createDataFrame([(8, "m", 1, "x"), (9, "n", 1, "y")], DDL)
    for condition in (F.col("dt") == "x", F.col("dt") == "w", F.col("dt") > "y"):
        with pytest.raises(Exception, match=r"\[INVALID_RECORD\] New rows lie in"):
            elsewhere.writeTo(name).overwrite(condition)
        assert ids(spark.table(name)) == [1, 2, 3]
    with pytest.raises(Exception, match=r"\[INVALID_RECORD\] New rows lie in"):
        spark.sql(f"insert into {name} replace where dt = 'x' values (9, 'n', 1, 'new')")
    elsewhere.writeTo(name).overwrite(F.col("dt").isin("x", "y", "none"))
    assert ids(spark.table(name)) == [8, 9]


@pytest.mark.parametrize("flag", ["true", "false"])
def test_the_partition_of_a_flag_is_overwritten(spark: SparkSession, name: str, flag: str) -> None:
    spark.sql(f"create table {name} (id int, flag boolean) using pyhudi partitioned by (flag)")
    spark.sql(f"insert into {name} values (1, true), (2, false), (3, null)")
    spark.sql(f"insert overwrite {name} partition (flag = {flag}) select 4")
    assert ids(spark.table(name)) == ([2, 3, 4] if flag == "true" else [1, 3, 4])
