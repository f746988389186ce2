"""Statements of Hudi's SQL that Spark takes by pyhudi's extension alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.every_line]


def rows(spark: SparkSession, query: str) -> list[tuple[object, ...]]:
    return sorted(map(tuple, spark.sql(query).collect()), key=str)


def test_a_time_may_be_an_instant_of_17_or_14_digits(spark: SparkSession, name: str) -> None:
    spark.sql(f"create table {name} (id int) using pyhudi")
    spark.sql(f"insert into {name} values (1)")
    (instant,) = spark.sql(f"select instant from {name}.history").first() or ()
    spark.sql(f"insert into {name} values (2)")
    then = f"select * from {name} timestamp as of '{instant}'"
    assert rows(spark, then) == [(1,)]
    assert rows(spark, f"with old as ({then}) select id + 1 from old") == [(2,)]
    assert rows(spark, f"select id from {name} where id not in ({then})") == [(2,)]
    assert rows(spark, f"select * from {name} timestamp as of '29991231235959'") == [(1,), (2,)]


def test_an_insert_may_name_some_of_the_columns(spark: SparkSession, name: str) -> None:
    spark.sql(
        f"create table {name} (id int, fare double, note string, dt string) using pyhudi "
        "partitioned by (dt) tblproperties (primaryKey = 'id')"
    )
    spark.sql(f"insert into {name} (dt, ID) values ('x', 1)")
    spark.sql(f"insert into {name} partition (dt = 'y') (note, id) select 'n', 2")
    assert rows(spark, f"select * from {name}") == [(1, None, None, "x"), (2, None, "n", "y")]
    with pytest.raises(Exception, match="nothing"):
        spark.sql(f"insert into {name} (id, nothing) values (3, 1)")
    with pytest.raises(Exception, match=r"\[INVALID_RECORD\]"):
        spark.sql(f"insert into {name} (fare, dt) values (1.0, 'x')")
    assert spark.table(name).count() == 2


def test_a_table_named_history_is_described(spark: SparkSession) -> None:
    spark.sql("create table history (id int) using pyhudi")
    try:
        assert spark.sql("describe history id").collect()[0].info_value == "id"
    finally:
        spark.sql("drop table history")


def test_columns_are_shown(spark: SparkSession, name: str) -> None:
    spark.sql(f"create table {name} (dt string, id int) using pyhudi partitioned by (dt)")
    assert [row.col_name for row in spark.sql(f"show columns in {name}").collect()] == ["id", "dt"]


def test_a_column_that_an_insert_leaves_out_has_its_default(spark: SparkSession, name: str) -> None:
    columns = "id int, fare double default 1D + 0.5D, note string"
    spark.sql(f"create table {name} ({columns}) using pyhudi")
    spark.sql(f"insert into {name} (id) values (1)")
    spark.sql(f"insert into {name} (note, id) values ('n', 2)")
    assert rows(spark, f"select * from {name}") == [(1, 1.5, None), (2, 1.5, "n")]


def test_a_table_like_another_has_its_columns_and_its_key_and_no_rows(
    spark: SparkSession, name: str, tmp_path: Path
) -> None:
    spark.sql(
        f"create table {name} (id int, ts bigint, dt string) using pyhudi partitioned by (dt) "
        "tblproperties (primaryKey = 'id', preCombineField = 'ts')"
    )
    spark.sql(f"insert into {name} values (1, 1, 'x')")
    like, outside = f"{name}_like", f"{name}_outside"
    try:
        spark.sql(f"create table {like} like {name} using pyhudi")
        spark.sql(f"create table if not exists {like} like {name}")
        with pytest.raises(Exception, match=like):
            spark.sql(f"create table {like} like {name} using pyhudi")
        assert spark.table(like).schema == spark.table(name).schema
        assert spark.table(like).count() == 0
        spark.sql(f"insert into {like} values (1, 5, 'x')")
        spark.sql(f"update {like} set ts = 6 where id = 1")
        assert rows(spark, f"select *, _hoodie_record_key from {like}") == [(1, 6, "x", "1")]
        spark.sql(f"create table {outside} like {name} using pyhudi location '{tmp_path}/t'")
        assert (tmp_path / "t" / ".hoodie" / "hoodie.properties").exists()
        assert rows(spark, f"select * from {name}") == [(1, 1, "x")]
    finally:
        for table in (like, outside):
            spark.sql(f"drop table if exists {table}")


def test_a_table_like_a_view_or_one_with_buckets_is_what_they_are(
    spark: SparkSession, name: str
) -> None:
    spark.sql(f"create table {name} (other int) using pyhudi")
    spark.sql(
        f"create table {name}_buckets (id int) using parquet clustered by (id) into 2 buckets"
    )
    try:
        spark.sql(f"create or replace temp view {name}_view as select 1 as id, 'x' as note")
        spark.sql(f"create table {name}_like like {name}_view using pyhudi")
        assert spark.table(f"{name}_like").columns == ["id", "note"]
        with pytest.raises(Exception, match="(?i)bucket"):
            spark.sql(f"create table {name}_no like {name}_buckets using pyhudi")
    finally:
        spark.catalog.dropTempView(f"{name}_view")
        for table in ("_buckets", "_like", "_no"):
            spark.sql(f"drop table if exists {name}{table}")


def test_a_repair_finds_nothing_to_do_in_a_catalog_without_partitions(
    spark: SparkSession, name: str
) -> None:
    spark.sql(f"create table {name} (id int, dt string) using pyhudi partitioned by (dt)")
    spark.sql(f"insert into {name} values (1, 'x')")
    for statement in (
        "msck repair table {}", "msck repair table {} sync partitions",
        "alter table {} recover partitions",
    ):  # fmt: skip
        assert spark.sql(statement.format(name)).collect() == []
    assert rows(spark, f"show partitions {name}") == [("dt=x",)]

    plain = f"{name}_plain"
    spark.sql(f"create table {plain} (id int) using pyhudi")
    try:
        with pytest.raises(AnalysisException, match="NOT_A_PARTITIONED_TABLE.*nothing was changed"):
            spark.sql(f"msck repair table {plain}")
    finally:
        spark.sql(f"drop table {plain}")


def test_columns_that_each_write_fills_itself_cannot_be_set(spark: SparkSession, name: str) -> None:
    spark.sql(f"create table {name} (id int, v int) using pyhudi tblproperties (primaryKey = 'id')")
    spark.sql(f"insert into {name} values (1, 1), (2, 2)")
    merge = f"merge into {name} t using (select 1 as id, 5 as v) s on t.id = s.id "
    for statement, column in (
        (f"update {name} set _hoodie_commit_time = 'x'", "_hoodie_commit_time"),
        (f"update {name} set v = 3, _HOODIE_RECORD_KEY = 'x' where id = 1", "_HOODIE_RECORD_KEY"),
        (merge + "when matched then update set t._hoodie_file_name = 'x'", "_hoodie_file_name"),
        (merge + "when not matched then insert (id, _pos) values (3, 4)", "_pos"),
        (merge + "when not matched by source then update set _file = 'x'", "_file"),
    ):
        with pytest.raises(AnalysisException, match=rf"CONFIG_ERROR\] {column} of .*{name} cannot"):
            spark.sql(statement)
    assert rows(spark, f"select * from {name}") == [(1, 1), (2, 2)]

    spark.sql(f"update {name} set v = 3 where _hoodie_record_key = '1'")
    merge = (
        f"merge into {name} t using (select '2' as k, 4 as v) s on t._hoodie_record_key = s.k "
        "when matched then update set v = s.v"
    )
    spark.sql(merge)
    assert rows(spark, f"select * from {name}") == [(1, 3), (2, 4)]
