"""Tables with a schema history: columns are told by their ids, whatever files call them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyhudi.errors import SchemaConflict
from tests import golden_tables
from tests.spark.racing import SlowInput, in_background
from tests.spark.tables import MISSING, VERSION, refused
from tests.spark.test_sql import folder_of, table

pytestmark = [pytest.mark.spark, pytest.mark.compiled]

#: of the table by Apache Hudi 0.15.0: name became title, then extra was dropped
RENAMED, DROPPED = "20261121053358575", "20261121053404474"


def test_a_renamed_column_of_hudis_is_found_in_older_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = golden_tables.BY_NAME["h0150_v6-cow_evolve"].unzip(tmp_path)

    def at(instant: str) -> tuple[list[str], list[tuple[object, ...]]]:
        df = spark.read.format("pyhudi").option("as.of.instant", instant).load(str(root))
        return df.columns, sorted(tuple(row) for row in df.collect())

    names, rows = at(RENAMED)
    assert names == ["id", "title", "price", "qty", "ts", "extra"]
    assert rows == [(1, "a", 1.5, 10, 1, None), (2, "b", 2.5, 20, 1, None)]
    names, rows = at(DROPPED)
    assert names == ["id", "title", "price", "qty", "ts"]
    assert rows[2] == (3, "c", 3.5, 5_000_000_000, 1)
    df = spark.read.format("pyhudi").option("as.of.instant", RENAMED).load(str(root))
    assert [row.id for row in df.where("title = 'b' and price > 1").collect()] == [2]
    assert df.where("title is null or extra is not null").count() == 0


def columns(spark: SparkSession, name: str) -> list[str]:
    return [f"{f.name} {f.dataType.simpleString()}" for f in spark.table(name).schema]


def filled(spark: SparkSession, name: str, ddl: str, rows: str, version: str = "9") -> None:
    keyed = f"primaryKey = 'id', preCombineField = 'ts', '{VERSION}' = '{version}'"
    spark.sql(f"create table {name} ({ddl}) using pyhudi tblproperties ({keyed})")
    spark.sql(f"insert into {name} values {rows}")


@pytest.mark.parametrize("version", ["9", pytest.param("6", marks=pytest.mark.matrix)])
def test_names_come_and_go_and_data_stays_with_its_column(
    spark: SparkSession, name: str, version: str
) -> None:
    filled(spark, name, "id bigint, a string, b int, ts bigint",
           "(1, 'x', 10, 1), (2, 'y', 20, 1)", version)  # fmt: skip
    (before, *_) = spark.table(name).selectExpr("max(_hoodie_commit_time)").first() or ()

    spark.sql(f"alter table {name} rename column a to title")
    assert table(spark, name) == [(1, "x", 10, 1), (2, "y", 20, 1)]
    spark.sql(f"alter table {name} drop column b")
    spark.sql(f"alter table {name} add columns (b int)")
    spark.sql(f"alter table {name} add columns (a string after id)")

    assert columns(spark, name) == ["id bigint", "a string", "title string", "ts bigint", "b int"]
    assert table(spark, name) == [(1, None, "x", 1, None), (2, None, "y", 1, None)]
    assert spark.table(name).where("a = 'x' or b = 10").count() == 0
    bounds = spark.sql(f"select min(b), max(b), count(b), max(id) from {name}").first()
    assert tuple(bounds or ()) == (None, None, 0, 2), "none of the column that was dropped"
    assert [r.id for r in spark.table(name).where("title = 'y' and a is null").collect()] == [2]

    spark.sql(f"update {name} set a = 'new', ts = 2 where id = 1")
    assert table(spark, name) == [(1, "new", "x", 2, None), (2, None, "y", 1, None)]
    spark.sql(f"insert into {name} values (3, 'p', 'q', 1, 30)")
    spark.sql(f"alter table {name} alter column title type string")
    spark.sql(f"alter table {name} alter column b type bigint")
    spark.sql(f"alter table {name} alter column b first")
    assert table(spark, name) == [
        (30, 3, "p", "q", 1), (None, 1, "new", "x", 2), (None, 2, None, "y", 1),
    ]  # fmt: skip
    old = spark.sql(f"select * from {name} version as of '{before}'")
    assert sorted(map(tuple, old.collect())) == [(1, "x", 10, 1), (2, "y", 20, 1)]


def test_what_is_inside_of_columns_changes_and_is_merged_by_ids(
    spark: SparkSession, name: str
) -> None:
    ddl = (
        "id bigint, s struct<x: int, y: string>, l array<struct<p: int, q: string>>, "
        "m map<string, struct<v: float>>, ts bigint"
    )
    row = (
        "named_struct('x', {0}, 'y', 'a'), array(named_struct('p', {0}, 'q', 'b')), "
        "map('k', named_struct('v', float(0.5))), 1"
    )
    filled(spark, name, ddl, f"(1, {row.format(1)}), (2, {row.format(2)})")

    for change in (
        "rename column s.x to w", "drop column s.y", "add columns (s.y int)",
        "alter column s.w type bigint", "rename column l.element.q to r",
        "alter column l.element.r first", "add columns (l.element.q string)",
        "alter column m.value.v type double", "rename column m to n",
    ):  # fmt: skip
        spark.sql(f"alter table {name} {change}")

    assert columns(spark, name)[1:4] == [
        "s struct<w:bigint,y:int>", "l array<struct<r:string,p:int,q:string>>",
        "n map<string,struct<v:double>>",
    ]  # fmt: skip

    def shown() -> list[tuple[object, ...]]:
        found = spark.sql(f"select id, s.w, s.y, l[0].r, l[0].p, l[0].q, n['k'].v from {name}")
        return sorted(map(tuple, found.collect()), key=repr)

    old = [(1, 1, None, "b", 1, None, 0.5), (2, 2, None, "b", 2, None, 0.5)]
    assert shown() == old
    assert [r.id for r in spark.table(name).where("s.w = 2 and s.y is null").collect()] == [2]
    spark.sql(
        f"update {name} set s = named_struct('w', 1099511627776L, 'y', 7), ts = 2 where id = 1"
    )
    assert shown() == [(1, 1 << 40, 7, "b", 1, None, 0.5), old[1]]


def test_a_dataframe_adds_to_the_history(spark: SparkSession, name: str) -> None:
    filled(spark, name, "id bigint, a string, ts bigint", "(1, 'x', 1)")
    spark.sql(f"alter table {name} rename column a to b")
    path = str(folder_of(spark, name))
    more = spark.createDataFrame([(2, "y", 1, "z")], "id long, b string, ts long, a string")

    more.write.format("pyhudi").mode("append").option(MISSING, "true").save(path)

    assert spark.read.format("pyhudi").load(path).columns == ["id", "b", "ts", "a"]
    assert table(spark, name) == [(1, "x", 1, None), (2, "y", 1, "z")]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("rename column id to key", ("'id'", "bigint", "the record key uses it")),
        ("drop column ts", ("'ts'", "bigint", "the ordering of rows uses it")),
        ("alter column s.x type string", ("'s.x'", "from int to string", "may only widen")),
        ("drop column s.x", ("'s.x'", "int", "at least one column")),
    ],
)
def test_a_refused_change_leaves_the_table_as_it_was(
    spark: SparkSession, name: str, change: str, words: tuple[str, ...]
) -> None:
    filled(spark, name, "id bigint, s struct<x: int>, ts bigint", "(1, named_struct('x', 1), 1)")
    with refused("SCHEMA_CONFLICT", folder_of(spark, name), *words):
        spark.sql(f"alter table {name} {change}")
    assert columns(spark, name) == ["id bigint", "s struct<x:int>", "ts bigint"]


def test_a_retry_does_not_write_into_columns_that_changed_their_names_meanwhile(
    spark: SparkSession, name: str, tmp_path: Path
) -> None:
    """Each name is there again, and means the other column: the rows would fit in silence."""
    filled(spark, name, "id bigint, a string, b string, ts bigint", "(1, 'x', 'y', 1)")
    several = "'hoodie.write.concurrency.mode' = 'optimistic_concurrency_control'"
    spark.sql(f"alter table {name} set tblproperties ({several})")
    late = spark.createDataFrame([(1, "of a", "of b", 2)], "id long, a string, b string, ts long")
    rows = SlowInput(late, tmp_path / "slow")

    def write() -> None:
        rows.df.write.insertInto(name)

    with in_background(write) as done:
        rows.wait_until_read()
        spark.sql(f"update {name} set ts = 1 where id = 1")
        for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
            spark.sql(f"alter table {name} rename column {old} to {new}")
        rows.go()
        with pytest.raises(SchemaConflict, match="'a' is 'b' now"):
            done.result()

    assert [tuple(row) for row in spark.table(name).select("b", "a").collect()] == [("x", "y")]
