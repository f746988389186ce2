"""Hudi tables in the catalog: created, adopted, filled, changed and dropped by SQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.spark.tables import (
    DDL,
    KEY,
    OPERATION,
    OPTIONS,
    ORDERING,
    Lake,
    listing,
    readable,
    refused,
    rows_of,
)

pytestmark = pytest.mark.spark

COLUMNS = "id bigint, name string, ts bigint, dt string"
INTO = "hoodie.spark.sql.insert.into.operation"
ORDERED = "tblproperties (primaryKey = 'id', preCombineField = 'ts', type = 'cow')"
KEYED = ORDERED.replace(")", ", 'hoodie.spark.sql.insert.into.operation' = 'upsert')")


def create(spark: SparkSession, name: str, properties: str = KEYED, more: str = "") -> None:
    spark.sql(
        f"create table {name} ({COLUMNS}) using pyhudi partitioned by (dt) {more} {properties}"
    )


def table(spark: SparkSession, name: str) -> list[tuple[object, ...]]:
    return sorted(map(tuple, spark.table(name).collect()), key=repr)


def folder_of(spark: SparkSession, name: str) -> Path:
    rows = spark.sql(f"describe table extended {name}").collect()
    (location,) = [row[1] for row in rows if row[0] == "Location"]
    return Path(location.removeprefix("file:"))


@pytest.fixture
def dynamic(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    yield
    spark.conf.unset("spark.sql.sources.partitionOverwriteMode")


# ---- create


def test_a_created_table_is_empty_and_takes_rows(spark: SparkSession, name: str) -> None:
    create(spark, name)
    assert table(spark, name) == []
    assert spark.table(name).columns == ["id", "name", "ts", "dt"]

    spark.sql(f"insert into {name} values (1, 'a', 5, 'x'), (2, 'a', 5, 'y')")
    spark.sql(f"insert into {name} values (1, 'b', 6, 'x'), (2, 'older', 4, 'y')")
    assert table(spark, name) == [(1, "b", 6, "x"), (2, "a", 5, "y")]
    assert (folder_of(spark, name) / ".hoodie" / "hoodie.properties").is_file()


def test_insert_into_keeps_doubles_as_in_hudi(spark: SparkSession, name: str) -> None:
    create(spark, name, ORDERED)
    for text in ("a", "b"):
        spark.sql(f"insert into {name} values (1, '{text}', 1, 'x')")
    assert [row[1] for row in table(spark, name)] == ["a", "b"]


def test_insert_into_does_what_the_session_says(spark: SparkSession, name: str) -> None:
    create(spark, name, ORDERED)
    spark.sql(f"insert into {name} values (1, 'a', 1, 'x')")
    spark.conf.set("hoodie.spark.sql.insert.into.operation", "upsert")
    try:
        spark.sql(f"insert into {name} values (1, 'b', 1, 'x')")
    finally:
        spark.conf.unset("hoodie.spark.sql.insert.into.operation")
    assert [row[1] for row in table(spark, name)] == ["b"]


def test_a_table_as_select_keeps_doubles_by_a_bulk_insert(spark: SparkSession, name: str) -> None:
    spark.sql(
        f"create table {name} using pyhudi {ORDERED} as select * from values (1, 'a', 1L), "
        "(1, 'b', 2L) as v(id, name, ts)"
    )
    assert sorted(row[1] for row in table(spark, name)) == ["a", "b"]
    assert [row[0] for row in spark.sql(f"select operation from {name}.history").collect()] == [
        "bulk_insert"
    ]


def test_inserts_by_position_by_name_and_into_a_static_partition(
    spark: SparkSession, name: str
) -> None:
    create(spark, name)
    spark.sql(f"insert into {name} (dt, id, name, ts) values ('x', 1, 'named', 1)")
    spark.sql(f"insert into {name} partition (dt = 'y') select 2, 'static', 1")
    spark.sql(f"insert into {name} partition (dt) select 3, 'dynamic', 1, 'z'")
    spark.sql(f"insert into {name} values (4, cast(null as string), 1, null)")
    assert table(spark, name) == [
        (1, "named", 1, "x"), (2, "static", 1, "y"), (3, "dynamic", 1, "z"), (4, None, 1, None),
    ]  # fmt: skip


def test_a_table_as_select_has_the_rows_and_the_options(spark: SparkSession, name: str) -> None:
    spark.sql(
        f"create table {name} using pyhudi partitioned by (dt) {KEYED} "
        "as select id, 'n' as name, 1L as ts, cast(id % 2 as string) as dt from range(10)"
    )
    assert len(table(spark, name)) == 10
    spark.sql(f"insert into {name} select 3, 'up', 2, '1'")
    assert len(table(spark, name)) == 10
    properties = (folder_of(spark, name) / ".hoodie/hoodie.properties").read_text()
    assert "hoodie.table.partition.fields=dt" in properties


def test_a_failed_table_as_select_leaves_nothing(
    spark: SparkSession, name: str, tmp_path: Path
) -> None:
    for where in ("", f"location '{tmp_path}/t'"):
        with pytest.raises(Exception, match="INVALID_RECORD"):
            spark.sql(f"create table {name} using pyhudi {where} tblproperties (primaryKey = 'id') "
                      "as select nullif(id, 3) as id from range(5)")  # fmt: skip
        assert not spark.catalog.tableExists(name)
        assert not (tmp_path / "t").exists()
    warehouse = Path(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:"))
    assert not (warehouse / name).exists()


def test_an_existing_table_is_adopted_and_never_initialised_again(
    spark: SparkSession, lake: Lake, name: str
) -> None:
    made = lake.table()
    made.write(rows_of(0, 4, "a"))
    before = listing(lake.folder)
    spark.sql(f"create table {name} using pyhudi location '{made.path}'")
    assert listing(lake.folder) == before
    assert table(spark, name) == sorted(rows_of(0, 4, "a"))
    assert [c.name for c in spark.catalog.listColumns(name)] == ["id", "name", "ts", "dt"]

    newer = "(select 1L id, 'sql' name, 2L ts, '2024-01-02' dt)"
    spark.sql(f"merge into {name} t using {newer} s on t.id = s.id when matched then update set *")
    assert made.rows()[1] == (1, "sql", 2, "2024-01-02"), "key and ordering come from the table"
    spark.sql(f"drop table {name}")
    assert len(made.rows()) == 4


def test_adopting_with_a_definition_that_contradicts_the_table_is_refused(
    spark: SparkSession, lake: Lake, name: str
) -> None:
    made = lake.table()
    made.write(rows_of(0, 4, "a"))
    for columns, properties in (
        (COLUMNS.replace("ts bigint", "ts string"), KEYED),
        (COLUMNS + ", more int", KEYED),
        (COLUMNS, "tblproperties (primaryKey = 'name')"),
        (COLUMNS, "tblproperties (type = 'mor')"),
    ):
        with pytest.raises(Exception, match=r"^\[(CONFIG_ERROR|SCHEMA_CONFLICT|TABLE_EXISTS)\]"):
            spark.sql(f"create table {name} ({columns}) using pyhudi location '{made.path}' "
                      f"{properties}")  # fmt: skip
        assert not spark.catalog.tableExists(name)
    assert len(made.rows()) == 4


def test_a_new_external_table_outlives_its_name(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    create(spark, name, more=f"location '{tmp_path}/t'")
    spark.sql(f"insert into {name} values (1, 'a', 1, 'x')")
    spark.sql(f"drop table {name}")
    assert spark.read.format("pyhudi").load(f"{tmp_path}/t").count() == 1


def test_a_table_that_cannot_be_made_is_not_in_the_catalog(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    for properties in (
        "primaryKey = 'nope'",
        "'hoodie.write.table.version' = '6', 'hoodie.table.cdc.enabled' = 'true'",
        "primaryKey='id', preCombineField='x'",
    ):
        with refused("CONFIG_ERROR" if "cdc" not in properties else "UNSUPPORTED_TABLE", tmp_path):
            create(spark, name, f"tblproperties ({properties})", f"location '{tmp_path}/t'")
        assert not spark.catalog.tableExists(name)


# ---- overwrite


def test_insert_overwrite_of_a_table_and_of_a_partition(spark: SparkSession, name: str) -> None:
    create(spark, name)
    spark.sql(f"insert into {name} values (1, 'a', 1, 'x'), (2, 'a', 1, 'y'), (3, 'a', 1, 'z')")
    spark.sql(f"insert overwrite {name} partition (dt = 'x') select 4, 'b', 1")
    assert table(spark, name) == [(2, "a", 1, "y"), (3, "a", 1, "z"), (4, "b", 1, "x")]

    spark.sql(f"insert overwrite {name} partition (dt = 'y') select 5, 'b', 1 where false")
    assert table(spark, name) == [(3, "a", 1, "z"), (4, "b", 1, "x")]

    spark.sql(f"insert overwrite {name} values (6, 'c', 1, 'x')")
    assert table(spark, name) == [(6, "c", 1, "x")]


def test_dynamic_overwrite_replaces_the_partitions_that_are_written(
    spark: SparkSession, name: str, dynamic: None
) -> None:
    create(spark, name)
    spark.sql(f"insert into {name} values (1, 'a', 1, 'x'), (2, 'a', 1, 'y'), (3, 'a', 1, 'z')")
    spark.sql(f"insert overwrite {name} values (4, 'b', 1, 'x'), (5, 'b', 1, 'new')")
    assert table(spark, name) == [(2, "a", 1, "y"), (3, "a", 1, "z"), (4, "b", 1, "x"),
                                  (5, "b", 1, "new")]  # fmt: skip

    spark.sql(f"insert overwrite {name} select * from {name} where false")
    assert len(table(spark, name)) == 4
    temporary = folder_of(spark, name) / ".hoodie" / ".temp"
    assert not temporary.exists() or not any(temporary.iterdir())


def test_overwriting_what_is_no_whole_partition_is_refused(spark: SparkSession, name: str) -> None:
    create(spark, name)
    spark.sql(f"insert into {name} values (1, 'a', 1, 'x'), (2, 'a', 1, 'x')")
    fresh = spark.createDataFrame([(1, "b", 1, "x")], DDL)
    with refused("CONFIG_ERROR", folder_of(spark, name)):
        fresh.writeTo(name).overwrite(F.col("id") == 1)
    assert len(table(spark, name)) == 2


# ---- the writers of DataFrames


def test_save_as_table_in_its_four_modes(spark: SparkSession, name: str) -> None:
    def save(mode: str, *rows: tuple[object, ...]) -> None:
        df = spark.createDataFrame(list(rows), DDL)
        options = {**OPTIONS, INTO: "upsert"}
        df.write.format("pyhudi").options(**options).mode(mode).saveAsTable(name)

    save("error", (1, "a", 1, "x"))
    with refused("TABLE_OR_VIEW_ALREADY_EXISTS", folder_of(spark, name)):
        save("error", (2, "a", 1, "x"))
    save("ignore", (3, "a", 1, "x"))
    assert table(spark, name) == [(1, "a", 1, "x")]
    save("append", (1, "b", 2, "x"), (4, "b", 1, "y"))
    assert table(spark, name) == [(1, "b", 2, "x"), (4, "b", 1, "y")]
    save("overwrite", (5, "c", 1, "x"))
    assert table(spark, name) == [(5, "c", 1, "x")]


def test_write_to_appends_and_overwrites(spark: SparkSession, name: str) -> None:
    def frame(*rows: tuple[object, ...]) -> object:
        return spark.createDataFrame(list(rows), DDL)

    frame((1, "a", 1, "x")).writeTo(name).using("pyhudi").tableProperty(
        "primaryKey", "id"
    ).tableProperty("preCombineField", "ts").partitionedBy("dt").create()
    frame((1, "b", 2, "x"), (2, "b", 1, "y")).writeTo(name).option(INTO, "upsert").append()
    assert table(spark, name) == [(1, "b", 2, "x"), (2, "b", 1, "y")]
    frame((3, "c", 1, "x")).writeTo(name).overwritePartitions()
    assert table(spark, name) == [(2, "b", 1, "y"), (3, "c", 1, "x")]
    frame((4, "d", 1, "x")).writeTo(name).overwrite(F.col("dt") == "x")
    assert table(spark, name) == [(2, "b", 1, "y"), (4, "d", 1, "x")]
    frame((2, "", 0, "y")).writeTo(name).option(OPERATION, "delete").append()
    assert table(spark, name) == [(4, "d", 1, "x")]


# ---- delete, truncate, drop


def test_whole_partitions_can_be_deleted(spark: SparkSession, name: str) -> None:
    create(spark, name)
    spark.sql(
        f"insert into {name} values (1,'a',1,'x'), (2,'a',1,'y'), (3,'a',1,'z'), (4,'a',1,null)"
    )
    spark.sql(f"delete from {name} where dt = 'x'")
    assert [row[0] for row in table(spark, name)] == [2, 3, 4]
    spark.sql(f"delete from {name} where dt in ('y', 'w')")
    assert [row[0] for row in table(spark, name)] == [3, 4]
    spark.sql(f"delete from {name} where dt = 'nothing'")
    assert [row[0] for row in table(spark, name)] == [3, 4]
    spark.sql(f"delete from {name}")
    assert table(spark, name) == []


def test_truncate_empties_a_table_that_can_still_be_read_as_of_before(
    spark: SparkSession, name: str
) -> None:
    create(spark, name)
    spark.sql(f"insert into {name} values (1, 'a', 1, 'x')")
    (instant,) = [r[0] for r in spark.table(name).select("_hoodie_commit_time").collect()]
    spark.sql(f"truncate table {name}")
    assert table(spark, name) == []
    old = spark.sql(f"select id from {name} version as of '{instant}'").collect()
    assert [row[0] for row in old] == [1]
    spark.sql(f"insert into {name} values (2, 'b', 1, 'x')")
    assert table(spark, name) == [(2, "b", 1, "x")]


@pytest.mark.parametrize("purge", ["", "purge"])
def test_a_dropped_managed_table_is_gone_from_disk_and_can_be_made_again(
    spark: SparkSession, name: str, purge: str
) -> None:
    create(spark, name)
    spark.sql(f"insert into {name} values (1, 'a', 1, 'x')")
    folder = folder_of(spark, name)
    spark.sql(f"drop table {name} {purge}")
    assert not folder.exists()

    create(spark, name)
    assert table(spark, name) == []
    spark.sql(f"insert into {name} values (2, 'b', 1, 'y')")
    assert table(spark, name) == [(2, "b", 1, "y")]


# ---- descriptions


def test_show_create_table_makes_the_same_table_again(spark: SparkSession, name: str) -> None:
    create(
        spark, name, KEYED.replace(")", ", hoodie.datasource.write.hive_style_partitioning='true')")
    )
    text = spark.sql(f"show create table {name}").collect()[0][0]
    properties = folder_of(spark, name) / ".hoodie/hoodie.properties"
    own = ("#", "pyhudi.table.id")
    before = sorted(x for x in properties.read_text().splitlines() if not x.startswith(own))
    spark.sql(f"drop table {name}")
    spark.sql(text)

    after = sorted(x for x in properties.read_text().splitlines() if not x.startswith(own))
    assert after == before
    assert "hoodie.datasource.write.hive_style_partitioning=true" in after


def test_describe_tells_columns_partitions_and_provider(spark: SparkSession, name: str) -> None:
    create(spark, name)
    rows = [tuple(r[:2]) for r in spark.sql(f"describe table extended {name}").collect()]
    assert rows[:4] == [("id", "bigint"), ("name", "string"), ("ts", "bigint"), ("dt", "string")]
    assert ("# Partition Information", "") in rows or ("# Partitioning", "") in rows
    assert ("Provider", "pyhudi") in rows
    shown = {row[0]: row[1] for row in spark.sql(f"show tblproperties {name}").collect()}
    assert (shown["primaryKey"], shown["preCombineField"]) == ("id", "ts")


def test_tables_travel_in_time_by_sql(spark: SparkSession, name: str) -> None:
    create(spark, name)
    for i in range(3):
        spark.sql(f"insert into {name} values ({i}, 'a', 1, 'x')")
    times = sorted(r[0] for r in spark.table(name).select("_hoodie_commit_time").collect())
    for i, time in enumerate(times):
        assert spark.sql(f"select * from {name} version as of '{time}'").count() == i + 1
        assert (
            spark.sql(f"select * from {name} timestamp as of '{readable(time)}'").count() == i + 1
        )


def test_tables_of_other_providers_are_as_before(spark: SparkSession, name: str) -> None:
    spark.sql(f"create table {name} (id int) using parquet")
    spark.sql(f"insert into {name} values (1)")
    assert table(spark, name) == [(1,)]


def test_a_table_keeps_to_its_key_whatever_the_session_says(spark: SparkSession, name: str) -> None:
    create(spark, name)
    spark.conf.set(KEY, "name")
    try:
        spark.sql(f"insert into {name} values (1, 'a', 1, 'x'), (2, 'a', 1, 'x')")
    finally:
        spark.conf.unset(KEY)
    assert len(table(spark, name)) == 2
    assert ORDERING not in spark.sql(f"show create table {name}").collect()[0][0]
