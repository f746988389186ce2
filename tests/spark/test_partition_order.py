"""Partition columns come last in SQL, wherever they were declared; files go by names."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.tables import VERSION, HudiTable, Lake, refused

pytestmark = pytest.mark.spark

DECLARED = "create table {} (id string, dt string, name string) using pyhudi partitioned by (dt) "


def columns(spark: SparkSession, name: str) -> list[str]:
    return [str(row[0]) for row in spark.sql(f"describe {name}").collect()]


def all_rows(spark: SparkSession, name: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in spark.sql(f"select * from {name} order by id").collect()]


@pytest.mark.parametrize("version", ["6", "8", "9"])
def test_values_by_position_go_to_data_columns_first(
    version: str, spark: SparkSession, lake: Lake, name: str
) -> None:
    path = f"{lake.folder}/t"
    spark.sql(
        DECLARED.format(name)
        + f"location '{path}' tblproperties (primaryKey = 'id', '{VERSION}' = '{version}')"
    )
    spark.sql(f"insert into {name} values ('1', 'n1', 'd1')")
    spark.sql(f"insert into {name} partition (dt = 'd2') values ('2', 'n2')")
    spark.sql(f"insert into pyhudi.`{path}` values ('3', 'n3', 'd3')")
    spark.sql("select '4' id, 'n4' name, 'd4' dt").write.insertInto(name)
    expected = [(str(n), f"n{n}", f"d{n}") for n in (1, 2, 3, 4)]
    assert all_rows(spark, name) == expected
    assert all_rows(spark, f"pyhudi.`{path}`") == expected
    assert columns(spark, name)[:3] == ["id", "name", "dt"]
    assert HudiTable(spark, path, {}, "").df().columns == ["id", "name", "dt"]


def test_a_column_that_is_added_comes_before_the_partition(spark: SparkSession, name: str) -> None:
    spark.sql(DECLARED.format(name))
    spark.sql(f"alter table {name} add columns (more string comment 'said', last int)")
    spark.sql(f"alter table {name} add columns (between string after dt)")
    spark.sql(f"insert into {name} values ('1', 'n1', 'x1', 2, 'b1', 'd1')")
    assert columns(spark, name)[:6] == ["id", "name", "more", "last", "between", "dt"]
    assert all_rows(spark, name) == [("1", "n1", "x1", 2, "b1", "d1")]
    (row,) = spark.sql(f"describe {name} more").where("info_name = 'comment'").collect()
    assert row[1] == "said"


def test_the_catalogs_own_entry_has_partition_columns_last(spark: SparkSession, name: str) -> None:
    def entry() -> Any:
        jvm: Any = spark._jvm
        identifier = jvm.org.apache.spark.sql.catalyst.TableIdentifier(name)
        return spark._jsparkSession.sessionState().catalog().getTableMetadata(identifier)

    spark.sql(DECLARED.format(name))
    assert list(entry().schema().fieldNames()) == ["id", "name", "dt"]
    spark.sql(f"alter table {name} add columns (more string)")
    assert list(entry().schema().fieldNames()) == ["id", "name", "more", "dt"]
    spark.sql(f"alter table {name} alter column name after dt")
    assert list(entry().schema().fieldNames()) == ["id", "more", "name", "dt"]
    assert columns(spark, name)[:4] == ["id", "more", "name", "dt"]
    assert entry().partitionSchema().fieldNames()[0] == "dt"


def test_a_partition_column_is_not_moved(spark: SparkSession, lake: Lake, name: str) -> None:
    spark.sql(DECLARED.format(name) + f"location '{lake.folder}/t'")
    with refused("SCHEMA_CONFLICT", lake.folder, "partition columns stay after the others"):
        spark.sql(f"alter table {name} alter column dt first")


def test_create_as_select_pairs_columns_with_their_names(spark: SparkSession, name: str) -> None:
    select = "select 'd1' dt, '1' id, 'n1' name"
    create = f"table {name} using pyhudi partitioned by (dt) as "
    spark.sql(f"create {create} {select}")
    assert all_rows(spark, name) == [("1", "n1", "d1")]
    spark.sql(f"create or replace {create} {select.replace('1', '2')}")
    assert all_rows(spark, name) == [("2", "n2", "d2")]
    spark.sql(f"insert overwrite {name} select '3', 'n3', 'd3'")
    assert all_rows(spark, name) == [("3", "n3", "d3")]
    spark.sql("select 'd4' dt, 'n4' name, '4' id").write.format("pyhudi").mode("append") \
        .saveAsTable(name)  # fmt: skip
    assert all_rows(spark, name) == [("3", "n3", "d3"), ("4", "n4", "d4")]
    spark.sql(
        f"merge into {name} t using (select 'd5' dt, 'n5' name, '5' id) s on t.id = s.id "
        "when not matched then insert *"
    )
    assert all_rows(spark, name)[2] == ("5", "n5", "d5")


def test_a_table_made_by_save_is_shown_so_once_it_has_a_name(
    spark: SparkSession, lake: Lake, name: str
) -> None:
    table = lake.table(ddl="dt string, id long, ts long, name string")
    table.write([("d1", 1, 1, "n1")])
    spark.sql(f"create table {name} using pyhudi location '{table.path}'")
    spark.sql(f"insert into {name} values (2, 1, 'n2', 'd2')")
    table.write([("d3", 3, 1, "n3")])
    assert all_rows(spark, name) == [(n, 1, f"n{n}", f"d{n}") for n in (1, 2, 3)]
    assert table.df().columns == ["dt", "id", "ts", "name"], "load keeps the order of the files"


def test_several_partition_columns_come_in_the_order_of_the_partitions(
    spark: SparkSession, name: str
) -> None:
    spark.sql(
        f"create table {name} (x int, id string, y int, name string) using pyhudi "
        "partitioned by (y, x)"
    )
    spark.sql(f"insert into {name} values ('1', 'n1', 10, 20)")
    assert columns(spark, name)[:4] == ["id", "name", "y", "x"]
    spark.sql(f"insert overwrite {name} partition (y = 10, x) values ('2', 'n2', 20)")
    assert all_rows(spark, name) == [("2", "n2", 10, 20)]
    shown = spark.sql(f"show create table {name}").first()
    assert shown is not None
    assert "PARTITIONED BY (y, x)" in shown[0]


def test_parts_of_a_time_come_last_too(spark: SparkSession, name: str) -> None:
    zone = "'hoodie.keygen.timebased.timezone' = 'UTC'"
    spark.sql(
        f"create table {name} (ts bigint, id string) using pyhudi partitioned by (ts) "
        "tblproperties ('hoodie.keygen.timebased.timestamp.type' = 'EPOCHMILLISECONDS', "
        f"'hoodie.keygen.timebased.output.dateformat' = 'yyyy-MM-dd', {zone})"
    )
    spark.sql(f"insert into {name} values ('1', 1600000000000)")
    assert all_rows(spark, name) == [("1", 1600000000000)]
