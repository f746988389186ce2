"""Columns that a Hudi table cannot have are refused by name, on every way that makes one."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import functions as F

from pyhudi.errors import SchemaConflict
from pyhudi.format.schemas import META_COLUMNS
from tests.spark.tables import (
    KEY,
    OPTIONS,
    ORDERING,
    PARTITION,
    HudiTable,
    Lake,
    model_of,
    refused,
    rows_of,
)

pytestmark = [pytest.mark.spark, pytest.mark.every_line]

VOIDS = {
    "n": "null as n",
    "n.element": "array() as n",
    "n.x": "named_struct('x', null) as n",
    "n.value": "map('a', null) as n",
}


@pytest.mark.parametrize("column", VOIDS)
@pytest.mark.parametrize("exists", [False, True], ids=["new", "existing"])
def test_a_new_column_without_a_type_is_refused(lake: Lake, column: str, exists: bool) -> None:
    table = lake.table()
    if exists:
        table.write(rows_of(0, 3, "a"))
    rows = table.frame(rows_of(0, 3, "b", 2)).selectExpr("*", VOIDS[column])
    with refused("SCHEMA_CONFLICT", lake.folder, f"'{column}'", "Cast it to a type"):
        table.write(rows)
    if exists:
        assert table.rows() == {row[0]: row for row in rows_of(0, 3, "a")}
    else:
        assert not Path(table.path).exists()


def test_a_table_made_of_a_query_refuses_a_column_without_a_type(lake: Lake, name: str) -> None:
    with refused("SCHEMA_CONFLICT", lake.folder, "'n'", "Cast it to a type"):
        lake.spark.sql(f"create table {name} using pyhudi as select 1 as id, null as n")
    assert not lake.spark.catalog.tableExists(name)


@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert"])
def test_nulls_without_a_type_enter_the_columns_that_the_table_has(
    lake: Lake, operation: str
) -> None:
    ddl = "id long, ts long, name string, l array<int>, s struct<a: int, b: string>"
    table = lake.table(options={KEY: "id", ORDERING: "ts"}, ddl=f"{ddl}, m map<string, int>")
    table.write([(1, 1, "a", [1], (1, "b"), {"k": 1})])
    nothing = "2L id, 2L ts, null name, array() l, named_struct('A', null, 'b', 'c') s, map() m"
    table.write(lake.spark.sql(f"select {nothing}"), operation)
    assert table.rows() == {
        1: (1, 1, "a", [1], (1, "b"), {"k": 1}),
        2: (2, 2, None, [], (None, "c"), {}),
    }
    table.write(table.frame([(3, 3, *[None] * 4)]).withColumn("name", F.lit(None)), operation)
    assert table.rows()[3] == (3, 3, None, None, None, None)


def test_a_delete_may_leave_columns_without_a_type(lake: Lake) -> None:
    table = lake.table()
    table.write(rows_of(0, 3, "a"))
    table.write(table.frame(rows_of(0, 1, "a")).withColumn("name", F.lit(None)), "delete")
    assert set(table.rows()) == {1, 2}


def test_a_type_that_hudi_lacks_is_shown_as_sql_writes_it(lake: Lake, name: str) -> None:
    with refused("SCHEMA_CONFLICT", lake.folder, "'m'", "type interval day to second,"):
        lake.spark.sql(f"create table {name} (id int, m interval day to second) using pyhudi")
    words = ("'m'", "type map<int,array<string>>,")
    with refused("SCHEMA_CONFLICT", lake.folder, *words):
        lake.spark.sql(f"create table {name} (id int, m map<int, array<string>>) using pyhudi")
    rows = lake.table().frame(rows_of(0, 3, "a")).selectExpr("*", "map(1, array('a')) as m")
    with refused("SCHEMA_CONFLICT", lake.folder, *words):
        lake.table().write(rows)


def test_a_collation_is_refused(lake: Lake, name: str) -> None:
    if lake.spark.version < "4":
        pytest.skip("Spark 3.5 has no collations")
    words = ("a collation", "UTF8_BINARY")
    for kind in ("string", "array<string"):
        collated = kind + " collate UTF8_LCASE" + ">" * kind.count("<")
        with refused("SCHEMA_CONFLICT", lake.folder, "'s", *words):
            lake.spark.sql(f"create table {name} (id int, s {collated}) using pyhudi")
    rows = lake.table().frame(rows_of(0, 3, "a"))
    with refused("SCHEMA_CONFLICT", lake.folder, "'name'", *words):
        lake.table().write(rows.withColumn("name", F.expr("name collate UTF8_LCASE")))
    with refused("SCHEMA_CONFLICT", lake.folder, "'name'", *words):
        lake.spark.sql(f"create table {name} using pyhudi as select 'a' collate UTF8_LCASE name")


@pytest.mark.parametrize(
    "change",
    [
        "add columns (z string collate UTF8_LCASE)",
        "add columns (z array<string collate UTF8_LCASE>)",
        "add columns (s.z string collate UTF8_LCASE)",
        "alter column name type string collate UTF8_LCASE",
        "alter column s.x type string collate UTF8_LCASE",
        "default collation UTF8_LCASE",
    ],
)
def test_a_table_does_not_get_a_collation(lake: Lake, name: str, change: str) -> None:
    """A filter would find other rows than by the collation."""
    if lake.spark.version < "4":
        pytest.skip("Spark 3.5 has no collations")
    lake.spark.sql(f"create table {name} (id int, name string, s struct<x: string>) using pyhudi")
    before = lake.spark.table(name).schema
    with pytest.raises(Exception, match="collat"):
        lake.spark.sql(f"alter table {name} {change}")
    assert lake.spark.table(name).schema == before
    lake.spark.sql(f"alter table {name} add columns (plain string collate UTF8_BINARY)")
    with pytest.raises(Exception, match="default collation UTF8_LCASE"):
        lake.spark.sql(
            f"create table other_{name} (id int) using pyhudi default collation UTF8_LCASE"
        )


# ---- names


def test_two_columns_of_one_name_are_refused(lake: Lake, name: str) -> None:
    table = lake.table()
    rows = table.frame(rows_of(0, 3, "a"))
    with refused("SCHEMA_CONFLICT", lake.folder, "'name' exists 2 times"):
        table.write(rows.selectExpr("*", "1 as name"))
    table.write(rows)
    with refused("SCHEMA_CONFLICT", lake.folder, "'name' exists 2 times"):
        table.write(rows.selectExpr("*", "1 as name"))


def test_names_that_differ_in_case_alone_are_refused_wherever_spark_tells_them_apart(
    lake: Lake, name: str
) -> None:
    spark = lake.spark
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        rows = lake.table().frame(rows_of(0, 3, "a"))
        with refused("SCHEMA_CONFLICT", lake.folder, "name, NAME"):
            lake.table().write(rows.selectExpr("*", "1 as NAME"))
        with refused("SCHEMA_CONFLICT", lake.folder, "id, ID"):
            spark.sql(f"create table {name} (id int, ID int) using pyhudi")
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_rows_without_columns_are_refused(lake: Lake) -> None:
    with refused("SCHEMA_CONFLICT", lake.folder, "no columns"):
        lake.table(options={}).write(lake.spark.range(3).select())


def test_a_partition_column_named_twice_is_refused(lake: Lake) -> None:
    writer = lake.table().frame(rows_of(0, 3, "a")).write.format("pyhudi").option(KEY, "id")
    with refused("CONFIG_ERROR", lake.folder, "'dt'", "twice"):
        writer.partitionBy("dt", "dt").save(str(lake.folder / "t"))


def test_a_column_name_that_avro_forbids_is_refused_by_create_table_too(
    lake: Lake, name: str
) -> None:
    with refused("SCHEMA_CONFLICT", lake.folder, "'a b'"):
        lake.spark.sql(f"create table {name} (id int, `a b` int) using pyhudi")


def test_columns_in_any_script_place_and_order_rows(lake: Lake, name: str) -> None:
    options = {KEY: "ключ", ORDERING: "größe", PARTITION: "名前"}
    table = lake.table(options=options, ddl="`ключ` string, `größe` int, `名前` string")
    table.write([("a", 1, "x"), ("b", 1, "y")])
    table.write([("a", 2, "x"), ("b", 0, "y")])
    assert table.rows() == {"a": ("a", 2, "x"), "b": ("b", 1, "y")}
    assert table.df().where("`名前` = 'y'").count() == 1

    spark = lake.spark
    spark.sql(f"create table {name} using pyhudi location '{table.path}'")
    spark.sql(f"insert into {name} partition (`名前` = 'z') values ('c', 3)")
    spark.sql(f"delete from {name} where `名前` = 'x'")
    partitions = spark.sql(f"show partitions {name}").collect()
    assert sorted(map(tuple, partitions)) == [("x",), ("y",), ("z",)]
    made = f"create table {name}2 (id int, `größe` int) using pyhudi partitioned by (`größe`)"
    spark.sql(f"{made} location '{lake.folder}/made'")
    spark.sql(f"insert into {name}2 values (1, 2)")
    assert spark.table(f"{name}2").collect() == [(1, 2)]
    spark.sql(f"drop table {name}2")


def test_meta_columns_are_no_columns_of_a_table_whatever_their_case(lake: Lake, name: str) -> None:
    table = lake.table()
    table.write(rows_of(0, 3, "a"))
    table.write(table.df().selectExpr("*", "_HOODIE_RECORD_KEY", "_hoodie_COMMIT_time"))
    assert table.rows() == model_of(rows_of(0, 3, "a"))
    assert table.df().where("_Hoodie_Record_Key = '1'").count() == 1
    with refused("SCHEMA_CONFLICT", lake.folder, "'_HOODIE_COMMIT_TIME'"):
        lake.spark.sql(f"create table {name} (id int, _HOODIE_COMMIT_TIME string) using pyhudi")


def test_a_definition_lists_all_columns_of_hudi_s_own_or_none(lake: Lake, name: str) -> None:
    listed = ", ".join(f"{each} string" for each in META_COLUMNS)
    lake.spark.sql(f"create table {name} ({listed}, id int) using pyhudi")
    lake.spark.sql(f"insert into {name} values (1)")
    assert lake.spark.table(name).columns == ["id"]
    some = f"select id, _hoodie_commit_time from {name}"
    for rest in ("(id int, _hoodie_commit_time string) using pyhudi", f"using pyhudi as {some}"):
        with refused("SCHEMA_CONFLICT", lake.folder, "'_hoodie_commit_time' is one of Hudi's own"):
            lake.spark.sql(f"create table {name}2 {rest}")


def test_a_mark_of_deletes_that_is_no_boolean_is_refused(lake: Lake) -> None:
    rows = lake.table().frame(rows_of(0, 3, "a"))
    for _ in ("no table", "a table"):
        with refused("SCHEMA_CONFLICT", lake.folder, "'_hoodie_is_deleted' is string"):
            lake.table().write(rows.selectExpr("*", "'true' as _hoodie_is_deleted"))
        lake.table().write(rows)


def test_columns_are_named_whatever_their_case(lake: Lake, name: str) -> None:
    given = {KEY: "ID", ORDERING: "Ts"}
    table = HudiTable(lake.spark, str(lake.folder / "t"), given, "Id int, ts int, City string")
    for ts, city in ((1, "x"), (2, "y")):
        writer = table.frame([(1, ts, city), (2, 0, "x")]).write.format("pyhudi").options(**given)
        writer.mode("append").partitionBy("city").save(table.path)
    assert sorted(map(tuple, table.df().collect())) == [(1, 1, "x"), (1, 2, "y"), (2, 0, "x")]
    found = table.properties()
    assert found["hoodie.table.recordkey.fields"] == "Id"
    assert found["hoodie.table.partition.fields"] == "City"
    assert found["hoodie.table.ordering.fields"] == "ts"

    spark = lake.spark
    spark.sql(
        f"create table {name} (ID int, Ts int, city string) using pyhudi partitioned by (CITY) "
        f"tblproperties (primaryKey = 'id') location '{table.path}'"
    )
    spark.sql(f"insert into {name} select 3, 1, 'z'")
    assert spark.table(name).columns == ["Id", "ts", "City"]
    assert spark.table(name).count() == 4


def test_a_definition_names_its_columns_whatever_their_case(lake: Lake, name: str) -> None:
    spark = lake.spark
    spark.sql(
        f"create table {name} (Id int, Ts int, City string) using pyhudi partitioned by (city) "
        "tblproperties (primaryKey = 'id', preCombineField = 'TS', "
        "'hoodie.spark.sql.insert.into.operation' = 'upsert')"
    )
    spark.sql(f"insert into {name} values (1, 1, 'x'), (2, 1, 'y')")
    spark.sql(f"insert into {name} values (1, 2, 'x')")
    assert sorted(map(tuple, spark.table(name).collect())) == [(1, 2, "x"), (2, 1, "y")]


def test_a_difference_inside_a_column_is_told_by_its_leaf(lake: Lake) -> None:
    table = lake.table(
        options=OPTIONS, ddl="id long, ts long, dt string, s struct<b: struct<d: int>>"
    )
    table.write([(1, 1, "x", ((1,),))])
    other = "id long, ts long, dt string, s struct<b: struct<d: string>>"
    with pytest.raises(SchemaConflict, match=r"Column 's\.b\.d' is int in the table but string"):
        table.write(table.frame([(1, 2, "x", (("1",),))], other))
