"""ALTER TABLE of columns: added and widened ones, and the changes that old files cannot follow."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

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

    assert columns(spark, name)[-2:] == ["tip double", "tags array<string>"]
    assert table(spark, name) == [(1, "a", 1, "x", None, None), (2, "b", 1, "y", None, None)]

    spark.sql(f"insert into {name} values (3, 'c', 1, 'x', 0.5, array('new'))")
    spark.sql(f"update {name} set tip = 2.0, ts = 2 where id = 1")
    assert table(spark, name) == [
        (1, "a", 2, "x", 2.0, None), (2, "b", 1, "y", None, None), (3, "c", 1, "x", 0.5, ["new"]),
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
        ("rename column dt to day", ("'dt'", "string", "partitions is made of it")),
        ("alter column ts type string", ("'ts'", "bigint", "string", "may only widen")),
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
