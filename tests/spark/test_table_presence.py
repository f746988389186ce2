"""What a statement that fails takes away, and what DROP does, while others use the table."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from pyhudi.errors import TableNotFound
from pyhudi.spark.session import spark_runtime
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import PROPERTIES
from pyhudi.writes.intent import Intent, save_intent
from pyhudi.writes.write import write_table
from tests.spark.racing import SlowInput, in_background
from tests.spark.tables import OPTIONS, HudiTable, Lake, Row, refused

pytestmark = pytest.mark.spark

#: a write that leaves the running ones alone, without waiting for their next beat
BESIDE = {"hoodie__clean__failed__writes__policy": "LAZY"}
THEIRS: Row = (9, "theirs", 1, "p")
FAILING = "select id, if(id > 0, raise_error('unfit'), name) name, ts, dt from slow"


@pytest.fixture
def slow(lake: Lake) -> Iterator[SlowInput]:
    """The view `slow`, whose one row comes when the test lets it."""
    found = SlowInput(lake.table().frame([(1, "mine", 1, "p")]), lake.folder / "gate")
    found.df.createOrReplaceTempView("slow")
    yield found
    found.go()


def managed(spark: SparkSession, name: str) -> HudiTable:
    """The table at the place of the managed table `name`."""
    warehouse = spark.conf.get("spark.sql.warehouse.dir") or ""
    return HudiTable(spark, f"{warehouse.removeprefix('file:')}/{name}", OPTIONS, "id long")


def is_registered(spark: SparkSession, name: str) -> bool:
    return bool(spark.sql(f"show tables like '{name}'").collect())


@pytest.mark.parametrize("external", [False, True], ids=["managed", "external"])
def test_a_failed_create_as_select_leaves_the_rows_that_another_committed(
    external: bool, spark: SparkSession, lake: Lake, name: str, slow: SlowInput
) -> None:
    path = lake.table().path if external else managed(spark, name).path
    table = HudiTable(spark, path, OPTIONS, lake.table().ddl)
    place = f"location '{path}'" if external else ""
    create = (
        f"create table {name} using pyhudi {place} partitioned by (dt) "
        f"tblproperties (primaryKey = 'id', orderingFields = 'ts') as {FAILING}"
    )
    with in_background(spark.sql, create) as failing:
        slow.wait_until_read()
        table.write([THEIRS], **BESIDE)
        slow.go()
        with pytest.raises(PySparkException, match="unfit"):
            failing.result()
    assert table.rows() == {9: THEIRS}
    assert [tuple(row) for row in spark.table(name).collect()] == [THEIRS]


@pytest.mark.parametrize("external", [False, True], ids=["managed", "external"])
def test_a_failed_create_as_select_can_be_repeated(
    external: bool, spark: SparkSession, lake: Lake, name: str, slow: SlowInput
) -> None:
    path = lake.table().path if external else managed(spark, name).path
    place = f"location '{path}'" if external else ""
    create = f"create table {name} using pyhudi {place} partitioned by (dt) as "
    slow.go()
    with pytest.raises(PySparkException, match="unfit"):
        spark.sql(create + FAILING)
    assert not is_registered(spark, name)
    assert not Path(path).exists()
    spark.sql(create + "select * from slow")
    assert spark.table(name).count() == 1


@pytest.mark.parametrize("place", ["t", "elsewhere"])
def test_a_failed_create_as_select_leaves_what_another_statement_registered_meanwhile(
    spark: SparkSession, lake: Lake, name: str, slow: SlowInput, place: str
) -> None:
    path, theirs = lake.table().path, f"{lake.folder}/{place}"
    with in_background(
        spark.sql, f"create table {name} using pyhudi location '{path}' as {FAILING}"
    ) as failing:
        slow.wait_until_read()
        spark.sql(f"drop table {name}")
        columns = "" if theirs == path else "(id long, name string, ts long, dt string)"
        spark.sql(f"create table {name} {columns} using pyhudi location '{theirs}'")
        slow.go()
        with pytest.raises(PySparkException, match="unfit"):
            failing.result()
    spark.sql(f"insert into {name} values (9, 'theirs', 1, 'p')")
    assert [tuple(row) for row in spark.table(name).collect()] == [THEIRS]


def test_create_as_select_does_not_take_over_a_table_that_appeared_meanwhile(
    spark: SparkSession, lake: Lake, name: str
) -> None:
    table = lake.table()
    table.write([THEIRS])
    with refused("TABLE_EXISTS", table.path):
        spark.sql(f"create table {name} using pyhudi location '{table.path}' as select 1 as id")
    assert not is_registered(spark, name)


def test_a_failed_replace_leaves_the_rows(
    spark: SparkSession, lake: Lake, name: str, slow: SlowInput
) -> None:
    slow.go()
    create = f"create or replace table {name} using pyhudi partitioned by (dt) as "
    spark.sql(create + "select * from slow")
    with pytest.raises(PySparkException, match="unfit"):
        spark.sql(create + FAILING)
    assert spark.table(name).count() == 1


def test_a_first_write_that_fails_leaves_the_rows_of_another_first_write(
    spark: SparkSession, lake: Lake, slow: SlowInput
) -> None:
    table = lake.table()
    with in_background(table.write, spark.sql(FAILING)) as failing:
        slow.wait_until_read()
        table.write([THEIRS], **BESIDE)
        slow.go()
        with pytest.raises(PySparkException, match="unfit"):
            failing.result()
    assert table.rows() == {9: THEIRS}


def test_a_write_whose_table_was_taken_away_by_its_creator_makes_it(
    spark: SparkSession, lake: Lake
) -> None:
    table, storage = lake.table(), LocalStorage(lake.table().path)
    rows = table.frame([THEIRS])
    table.write([(1, "mine", 1, "p")])
    made, asked = storage.read(PROPERTIES), []
    storage.delete_folder("")
    storage.put_if_absent(PROPERTIES, made)

    def intent(exists: bool) -> Intent | None:
        if exists and not asked:
            storage.delete([PROPERTIES])
        asked.append(exists)
        return save_intent("append", exists, table.path)

    write_table(spark_runtime(spark), rows, table.path, OPTIONS, {}, intent)
    assert asked[-1] is False
    assert table.rows() == {9: THEIRS}


def test_a_first_write_whose_table_was_dropped_meanwhile_does_not_make_it_again(
    lake: Lake, slow: SlowInput
) -> None:
    table = lake.table()
    with in_background(table.write, slow.df) as failing:
        slow.wait_until_read()
        shutil.rmtree(table.path)
        slow.go()
        with pytest.raises(TableNotFound, match="was taken away"):
            failing.result()
    assert not Path(table.path, PROPERTIES).exists()


@pytest.mark.parametrize(
    "drop", ["drop table {0}.t", "drop table {0}.t purge", "drop database {0} cascade"]
)
def test_a_managed_table_is_not_dropped_under_a_running_write(
    spark: SparkSession, lake: Lake, name: str, slow: SlowInput, drop: str
) -> None:
    database = f"{name}_db"
    spark.sql(f"create database {database} location '{lake.folder}/db'")
    spark.sql(
        f"create table {database}.t (id long, name string, ts long, dt string) using pyhudi "
        "partitioned by (dt) tblproperties (primaryKey = 'id', orderingFields = 'ts')"
    )
    table = HudiTable(spark, f"{lake.folder}/db/t", OPTIONS, "id long")
    with in_background(table.write, slow.df) as running:
        slow.wait_until_read()
        try:
            with pytest.raises(AnalysisException, match=r"\[WRITE_FAILED\] .* was not dropped"):
                spark.sql(drop.format(database))
        finally:
            slow.go()
        running.result()
    assert spark.table(f"{database}.t").count() == 1
    spark.sql(drop.format(database))
    assert not Path(table.path).exists()
    spark.sql(f"drop database if exists {database}")


def test_dropping_an_external_table_keeps_its_files_unless_they_are_purged_as_in_hudi(
    spark: SparkSession, lake: Lake, name: str
) -> None:
    table = lake.table()
    table.write([THEIRS])
    spark.sql(f"create table {name} using pyhudi location '{table.path}'")
    spark.sql(f"drop table {name}")
    assert not is_registered(spark, name)
    assert table.rows() == {9: THEIRS}

    spark.sql(f"create table {name} using pyhudi location '{table.path}'")
    spark.sql(f"drop table {name} purge")
    assert not is_registered(spark, name)
    assert table.base_files() == []


def test_dropping_a_database_drops_its_managed_tables_and_keeps_others_files(
    spark: SparkSession, lake: Lake, name: str
) -> None:
    table = lake.table()
    table.write([THEIRS])
    spark.sql(f"create database {name}_db location '{lake.folder}/db'")
    spark.sql(f"create table {name}_db.mine using pyhudi as select 1 as id")
    spark.sql(f"create table {name}_db.theirs using pyhudi location '{table.path}'")
    spark.sql(f"drop database {name}_db cascade")
    assert not (lake.folder / "db" / "mine").exists()
    assert table.rows() == {9: THEIRS}


def test_a_managed_table_whose_files_are_gone_can_be_dropped(
    spark: SparkSession, name: str
) -> None:
    spark.sql(f"create table {name} using pyhudi as select 1 as id")
    LocalStorage(managed(spark, name).path).delete_folder("")
    spark.sql(f"drop table {name}")
    assert not is_registered(spark, name)


@pytest.mark.parametrize("way", ["create", "as select"])
def test_a_managed_table_can_be_made_again_where_a_dropped_one_left_its_locks(
    spark: SparkSession, name: str, way: str
) -> None:
    made = f"create table {name} (id long, v long) using pyhudi tblproperties (primaryKey = 'id')"
    spark.sql(made)
    table = managed(spark, name)
    spark.sql(f"insert into {name} values (1, 1)")
    locks = [
        Path(table.path) / ".hoodie" / path
        for path in ("locks/lock3.acquired", ".locks/table_lock.json")
    ]
    for lock in locks:
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.touch()
    spark.sql(f"drop table {name}")
    assert all(lock.exists() for lock in locks)

    if way == "create":
        spark.sql(made)
        spark.sql(f"insert into {name} values (2, 2)")
    else:
        spark.sql(
            f"create table {name} using pyhudi tblproperties (primaryKey = 'id') "
            "as select 2L as id, 2L as v"
        )
    assert [tuple(row) for row in spark.table(name).collect()] == [(2, 2)]
    described = spark.sql(f"describe table extended {name}").collect()
    assert {row[0]: row[1] for row in described}["Type"] == "MANAGED"
    spark.sql(f"drop table {name}")
    assert not list(Path(table.path).rglob("*.parquet"))

    (Path(table.path) / "notes.txt").touch()
    with pytest.raises(PySparkException, match="(?i)location"):
        spark.sql(made)
