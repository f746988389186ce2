"""Tables that a definition with other columns replaces in place."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pyhudi.errors import SchemaConflict
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.schema_history import SchemaHistory
from pyhudi.timeline.table import open_table
from tests.spark.racing import SlowInput, in_background
from tests.spark.tables import DDL, OPERATION, OPTIONS, TYPE, VERSION, Lake, refused, settings

pytestmark = pytest.mark.spark

LAZY = "hoodie.clean.failed.writes.policy"
PARTITIONED = "using pyhudi partitioned by (dt)"


def ids(path: str) -> dict[str, int]:
    """The id of each column; none for a table whose columns are told by name."""
    table = open_table(LocalStorage(path))
    current = SchemaHistory(table, table.timeline()).current()
    return {name: own for own, name in current.paths()} if current is not None else {}


@pytest.mark.every_line
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("version", ["6", "9"])
def test_each_state_is_read_by_its_own_columns(
    spark: SparkSession, lake: Lake, name: str, kind: str, version: str
) -> None:
    path = lake.table().path
    replace = f"create or replace table {name} {PARTITIONED}"
    spark.sql(
        f"""create table {name} ({DDL}, more struct<a: int, b: string>) {PARTITIONED}
        location '{path}' tblproperties (primaryKey = 'id', preCombineField = 'ts',
        type = '{kind}', 'hoodie.write.table.version' = '{version}')"""
    )
    more = "named_struct('a', 1, 'b', 'b')"
    spark.sql(f"insert into {name} values (1, 'one', 1, {more}, 'x'), (2, 'two', 1, null, 'y')")
    spark.sql(f"update {name} set name = 'changed', ts = 2 where id = 1")
    old = sorted(map(tuple, spark.table(name).collect()))
    seen = spark.table(name).select(F.max("_hoodie_commit_time")).first()
    assert seen is not None

    spark.sql(f"{replace} as select length(name) as name, id, ts, dt, 'new' as fresh from {name}")
    assert spark.table(name).columns == ["name", "id", "ts", "fresh", "dt"]
    assert sorted(map(tuple, spark.table(name).collect())) == [
        (3, 2, 1, "new", "y"),
        (7, 1, 2, "new", "x"),
    ]
    first = ids(path)
    spark.sql(f"insert into {name} values (9, 3, 1, 'newer', 'x')")
    spark.sql(f"update {name} set fresh = 'changed', ts = 5 where id = 2")
    spark.sql(f"{replace} as select id, cast(name as string) as name, ts, dt from {name}")
    assert sorted(map(tuple, spark.table(name).collect())) == [
        (1, "7", 2, "x"),
        (2, "3", 5, "y"),
        (3, "9", 1, "x"),
    ]
    last = ids(path)
    assert last["id"] == first["id"]
    assert last["name"] > max(first.values())
    travelled = spark.sql(f"select id, name, ts, more, dt from {name} timestamp as of '{seen[0]}'")
    assert sorted(map(tuple, travelled.collect())) == old


def test_a_definition_that_only_adds_columns_keeps_names(spark: SparkSession, name: str) -> None:
    spark.sql(f"create table {name} using pyhudi as select 1L as id, 'a' as name")
    spark.sql(f"create or replace table {name} using pyhudi as select 'b' as name, 2 as id, 3 as n")
    assert [tuple(row) for row in spark.table(name).collect()] == [("b", 2, 3)]
    assert spark.table(name).dtypes == [("name", "string"), ("id", "bigint"), ("n", "int")]
    place = spark.sql(f"describe extended {name}").where("col_name = 'Location'").first()
    assert place is not None
    assert ids(place.data_type.removeprefix("file:")) == {}


@pytest.mark.parametrize(
    ("definition", "role"),
    [
        ("1L as id, 'a' as name, 'x' as dt", "the ordering of rows"),
        ("1L as id, 'a' as name, 1L as ts", "the partition path"),
        ("named_struct('a', 1) as id, 'a' as name, 1L as ts, 'x' as dt", "the record key"),
    ],
)
def test_columns_that_place_or_order_rows_stay(
    spark: SparkSession, lake: Lake, name: str, definition: str, role: str
) -> None:
    table = lake.table()
    table.write([(1, "a", 1, "x")])
    spark.sql(f"create table {name} using pyhudi location '{table.path}'")
    with refused("TABLE_EXISTS", table.path, role, "Drop the table first."):
        spark.sql(f"create or replace table {name} using pyhudi as select {definition}")


@pytest.mark.every_line
@pytest.mark.parametrize("api", ["saveAsTable", "createOrReplace", "path"])
def test_frames_replace_columns_too(spark: SparkSession, lake: Lake, name: str, api: str) -> None:
    if api == "path":
        name = f"pyhudi.`{lake.folder}/t`"
    old = spark.range(3).select("id", F.lit("a").alias("note"))
    old.writeTo(name).using("pyhudi").create()
    rows = spark.range(2).select("id", F.lit(1.5).alias("price"))
    if api == "saveAsTable":
        rows.write.format("pyhudi").mode("overwrite").saveAsTable(name)
    else:
        rows.writeTo(name).using("pyhudi").createOrReplace()
    assert sorted(map(tuple, spark.table(name).collect())) == [(0, 1.5), (1, 1.5)]
    assert spark.table(name).columns == ["id", "price"]


def test_a_table_that_keeps_partitions_keeps_its_columns(
    spark: SparkSession, lake: Lake, name: str
) -> None:
    table = lake.table()
    table.write([(1, "a", 1, "x"), (2, "b", 1, "y")])
    spark.sql(f"create table {name} using pyhudi location '{table.path}'")
    rows = spark.sql("select 2L as id, 5L as ts, 'y' as dt")
    writer = rows.write.format("pyhudi").mode("overwrite").partitionBy("dt")
    with refused("SCHEMA_CONFLICT", table.path, "'name'"):
        writer.option(OPERATION, "insert_overwrite").saveAsTable(name)


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_write_that_began_before_the_replacement_is_refused(
    spark: SparkSession, lake: Lake, name: str, kind: str, tmp_path: Path
) -> None:
    table = lake.table(options={**OPTIONS, TYPE: kind, VERSION: "9"})
    table.write([(1, "a", 1, "x"), (2, "b", 1, "y")])
    spark.sql(f"create table {name} using pyhudi location '{table.path}'")
    slow = SlowInput(table.frame([(1, "late", 2, "x"), (7, "late", 2, "z")]), tmp_path / "slow")
    with in_background(table.write, slow.df, "upsert") as writing:
        slow.wait_until_read()
        replace = f"create or replace table {name} using pyhudi"
        with settings(spark, {LAZY: "LAZY"}):
            spark.sql(f"{replace} as select id, ts, dt from {name}")
        slow.go()
        with pytest.raises(SchemaConflict, match="'name' is gone"):
            writing.result()
    assert sorted(map(tuple, spark.table(name).collect())) == [(1, 1, "x"), (2, 1, "y")]


def test_a_replacement_that_lost_a_race_has_the_columns_of_its_definition(
    spark: SparkSession, lake: Lake, name: str, tmp_path: Path
) -> None:
    table = lake.table()
    table.write([(1, "a", 1, "x")])
    spark.sql(f"create table {name} using pyhudi location '{table.path}'")
    slow = SlowInput(table.frame([(5, "new", 1, "x")]), tmp_path / "slow")
    slow.df.createOrReplaceTempView("slow_rows")
    replace = f"create or replace table {name} using pyhudi as select id, ts, dt from slow_rows"
    with in_background(spark.sql, replace) as replacing:
        slow.wait_until_read()
        more = spark.sql("select 1L as id, 'b' as name, 2L as ts, 'x' as dt, 7 as added")
        table.write(more, "upsert", **{LAZY: "LAZY"})
        slow.go()
        replacing.result()
    assert spark.table(name).columns == ["id", "ts", "dt"]
    assert [tuple(row) for row in spark.table(name).collect()] == [(5, 1, "x")]


def test_the_catalog_forgets_what_it_said_of_a_replaced_column(
    spark: SparkSession, name: str
) -> None:
    spark.sql(
        f"create table {name} (id int, code char(5) comment 'old', dt string) {PARTITIONED} "
        "tblproperties (primaryKey = 'id')"
    )
    spark.sql(f"create or replace table {name} (id int, dt string) {PARTITIONED}")
    spark.sql(f"alter table {name} add columns (code string)")
    spark.sql(f"insert into {name} (id, code, dt) values (1, 'ab', 'x')")
    assert spark.table(name).select("code").collect() == [("ab",)]
    assert "CHAR" not in spark.sql(f"show create table {name}").collect()[0][0]
