"""ALTER TABLE of columns: added and widened ones, and the changes that old files cannot follow."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import open_table
from tests.spark.tables import VERSION, listing, refused
from tests.spark.test_sql import COLUMNS, create, folder_of, table

pytestmark = pytest.mark.spark


def filled(spark: SparkSession, name: str, version: str = "9") -> None:
    properties = f"primaryKey = 'id', preCombineField = 'ts', '{VERSION}' = '{version}'"
    create(spark, name, f"tblproperties ({properties})")
    rows = [(1, "a", 1, "x"), (2, "b", 1, "y")]
    spark.createDataFrame(rows, COLUMNS).coalesce(1).writeTo(name).append()


def columns(spark: SparkSession, name: str) -> list[str]:
    return [f"{f.name} {f.dataType.simpleString()}" for f in spark.table(name).schema]


@pytest.mark.parametrize("version", ["9", "6"])
def test_an_added_column_is_null_in_old_rows_and_kept_in_new_ones(
    spark: SparkSession, name: str, version: str
) -> None:
    filled(spark, name, version)

    spark.sql(f"alter table {name} add columns (tip double comment 'in euros', tags array<string>)")

    assert columns(spark, name)[-3:] == ["tip double", "tags array<string>", "dt string"]
    assert table(spark, name) == [(1, "a", 1, None, None, "x"), (2, "b", 1, None, None, "y")]

    spark.sql(f"insert into {name} values (3, 'c', 1, 0.5, array('new'), 'x')")
    spark.sql(f"update {name} set tip = 2.0, ts = 2 where id = 1")
    assert table(spark, name) == [
        (1, "a", 2, 2.0, None, "x"), (2, "b", 1, None, None, "y"), (3, "c", 1, 0.5, ["new"], "x"),
    ]  # fmt: skip


def test_a_time_before_the_change_has_the_old_columns(spark: SparkSession, name: str) -> None:
    filled(spark, name)
    (instant, *_) = spark.table(name).selectExpr("max(_hoodie_commit_time)").first() or ()
    spark.sql(f"alter table {name} add columns (tip double)")

    before = spark.sql(f"select * from {name} version as of '{instant}'")

    assert before.columns == ["id", "name", "ts", "dt"]
    assert before.count() == 2


def test_types_widen_and_old_files_are_read_so(spark: SparkSession, name: str) -> None:
    spark.sql(
        f"create table {name} (id bigint, a int, b float, c decimal(5, 2)) using pyhudi "
        "tblproperties (primaryKey = 'id')"
    )
    spark.sql(f"insert into {name} values (1, 7, cast(0.5 as float), 1.25)")

    for change in ("a type bigint", "b type double", "c type decimal(9, 2)"):
        spark.sql(f"alter table {name} alter column {change}")

    assert columns(spark, name) == ["id bigint", "a bigint", "b double", "c decimal(9,2)"]
    spark.sql(f"insert into {name} values (2, {1 << 40}, 0.1, 1234567.25)")
    found = [(row.a, row.b, str(row.c)) for row in spark.table(name).sort("id").collect()]
    assert found == [(7, 0.5, "1.25"), (1 << 40, 0.1, "1234567.25")]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("rename column dt to day", ("'dt'", "string", "the partition path uses it")),
        ("alter column ts type string", ("'ts'", "bigint", "string", "ordering of rows")),
    ],
)
def test_a_change_that_old_files_cannot_follow_is_refused(
    spark: SparkSession, name: str, change: str, words: tuple[str, ...]
) -> None:
    filled(spark, name)
    if "type string" in change:
        spark.conf.set("spark.sql.storeAssignmentPolicy", "LEGACY")
    try:
        with refused("SCHEMA_CONFLICT", folder_of(spark, name), *words):
            spark.sql(f"alter table {name} {change}")
    finally:
        spark.conf.unset("spark.sql.storeAssignmentPolicy")
    assert columns(spark, name) == ["id bigint", "name string", "ts bigint", "dt string"]


def test_properties_and_comments_stay_with_the_catalog(spark: SparkSession, name: str) -> None:
    filled(spark, name)
    before = listing(folder_of(spark, name))

    spark.sql(f"alter table {name} set tblproperties (team = 'fares')")
    spark.sql(f"alter table {name} alter column name comment 'the name'")

    shown = spark.sql(f"show create table {name}").first()
    assert shown is not None
    assert "'team' = 'fares'" in shown[0]
    assert "COMMENT 'the name'" in shown[0]
    assert listing(folder_of(spark, name)) == before


def test_the_comment_of_a_table_stays_until_it_is_changed(spark: SparkSession, name: str) -> None:
    def comment() -> str | None:
        rows = spark.sql(f"describe extended {name}").collect()
        return {row.col_name: row.data_type for row in rows}.get("Comment")

    spark.sql(
        f"create table {name} (id int) using pyhudi comment 'rides' "
        "tblproperties (primaryKey = 'id')"
    )
    spark.sql(f"alter table {name} add columns (n int)")
    spark.sql(f"alter table {name} set tblproperties (team = 'fares')")
    spark.sql(f"alter table {name} unset tblproperties (team)")
    assert comment() == "rides"
    spark.sql(f"comment on table {name} is 'fares'")
    assert comment() == "fares"
    spark.sql(f"alter table {name} unset tblproperties (comment)")
    assert comment() is None


# ---- ALTER TABLE ... RENAME TO


def called(folder: Path) -> str:
    """The name in the table's own properties."""
    return open_table(LocalStorage(str(folder))).config.name


@pytest.fixture
def renamed(spark: SparkSession, name: str) -> Iterator[str]:
    """Another name for a table, dropped afterwards."""
    yield f"{name}_renamed"
    spark.sql(f"drop table if exists {name}_renamed")


def test_a_managed_table_takes_its_folder_along_to_its_new_name(
    spark: SparkSession, name: str, renamed: str
) -> None:
    filled(spark, name)
    before, old = table(spark, name), folder_of(spark, name)

    spark.sql(f"alter table {name} rename to {renamed}")

    assert not spark.catalog.tableExists(name)
    assert folder_of(spark, renamed) == old.with_name(renamed)
    assert not old.exists()
    assert called(old.with_name(renamed)) == renamed
    assert table(spark, renamed) == before

    spark.sql(f"insert into {renamed} values (3, 'c', 1, 'x')")
    spark.sql(f"update {renamed} set name = 'B', ts = 2 where id = 2")
    spark.sql(f"delete from {renamed} where id = 1")
    assert table(spark, renamed) == [(2, "B", 2, "y"), (3, "c", 1, "x")]
    assert spark.table(f"{renamed}.history").count() == 4


def test_the_name_that_a_table_left_is_free_for_another(
    spark: SparkSession, name: str, renamed: str
) -> None:
    filled(spark, name)
    spark.sql(f"alter table {name} rename to {renamed}")

    create(spark, name)

    assert table(spark, name) == []
    spark.sql(f"insert into {name} values (9, 'z', 1, 'z')")
    assert table(spark, name) == [(9, "z", 1, "z")]
    assert table(spark, renamed) == [(1, "a", 1, "x"), (2, "b", 1, "y")]
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        spark.sql(f"alter table {renamed} rename to {name}")
    assert called(folder_of(spark, renamed)) == renamed


def test_a_rename_that_the_catalog_refuses_leaves_the_table_its_name(
    spark: SparkSession, name: str, renamed: str
) -> None:
    filled(spark, name)
    spark.sql("create database if not exists elsewhere")

    with pytest.raises(AnalysisException, match="elsewhere"):
        spark.sql(f"alter table {name} rename to elsewhere.{renamed}")

    assert called(folder_of(spark, name)) == name
    assert table(spark, name) == [(1, "a", 1, "x"), (2, "b", 1, "y")]


def test_an_external_table_stays_where_it_is_under_its_new_name(
    spark: SparkSession, name: str, renamed: str, tmp_path: Path
) -> None:
    create(spark, name, more=f"location '{tmp_path}/outside'")
    spark.sql(f"insert into {name} values (1, 'a', 1, 'x')")

    spark.sql(f"alter table {name} rename to {renamed}")
    spark.sql(f"insert into {renamed} values (1, 'b', 2, 'x')")

    assert folder_of(spark, renamed) == tmp_path / "outside"
    assert table(spark, renamed) == [(1, "b", 2, "x")]
    assert called(tmp_path / "outside") == renamed
    by_path = spark.sql(f"select name from pyhudi.`{tmp_path}/outside`").collect()
    assert [row.name for row in by_path] == ["b"]


def test_types_are_cast_in_old_files_and_when_these_are_merged(
    spark: SparkSession, name: str
) -> None:
    spark.sql(
        f"create table {name} (id int, d date, t string, n int, f double) using pyhudi "
        "tblproperties (primaryKey = 'id')"
    )
    spark.sql(
        f"insert into {name} values (1, date'2024-01-31', '2024-02-01', 7, 1.005), "
        "(2, null, 'none', null, null)"
    )
    kinds = {"d": "string", "t": "date", "n": "string", "f": "decimal(6,2)"}
    for column, kind in kinds.items():
        spark.sql(f"alter table {name} alter column {column} type {kind}")
    day, cents = dt.date(2024, 2, 1), Decimal("1.01")
    old = [(1, "2024-01-31", day, "7", cents), (2, None, None, None, None)]
    assert table(spark, name) == old
    assert spark.sql(f"select id from {name} where d = '2024-01-31' and t > '2024-01-01'").count()

    spark.sql(f"update {name} set n = 'x' where id = 2")
    assert table(spark, name) == [old[0], (2, None, None, "x", None)]
    spark.sql(f"insert into {name} values (3, 'any', date'2024-03-01', 'y', 3.5)")
    assert spark.table(name).count() == 3
    with pytest.raises(Exception, match="may only widen"):
        spark.sql(f"alter table {name} alter column t type int")
