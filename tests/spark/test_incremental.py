"""Incremental reads through Spark: rows that commits of a range have changed, and none besides."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyhudi.reads import logged_rows
from tests.spark.tables import OPTIONS, VERSION, HudiTable, Lake, Row, refused

pytestmark = pytest.mark.spark

KIND = "hoodie.datasource.query.type"
BEGIN, END = "hoodie.datasource.read.begin.instanttime", "hoodie.datasource.read.end.instanttime"
CDC = "hoodie.table.cdc.enabled"
ORDER = {"hoodie.datasource.read.incr.order": "requested"}


def changed(begin: str, end: str | None = None) -> dict[str, str]:
    """Options of an incremental read by request times, whatever the table's version."""
    options = {KIND: "incremental", BEGIN: begin, **ORDER}
    return options if end is None else {**options, END: end}


def ids(table: HudiTable, options: dict[str, str]) -> dict[int, str]:
    """Key -> name; a key that comes twice fails."""
    frame = table.spark.read.format("pyhudi").options(**options).load(table.path)
    found = [tuple(row) for row in frame.select("id", "name").collect()]
    assert len(dict(found)) == len(found), found
    return dict(found)


def row(key: int, name: str, ts: int = 1, dt: str = "x") -> Row:
    return (key, name, ts, dt)


@pytest.fixture(params=["6", "9", "9, from logs"])
def table(request: pytest.FixtureRequest, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> HudiTable:
    """A table after an insert, an upsert, a delete and an insert into another partition."""
    version, *from_logs = request.param.split(",")
    made = lake.table(options={**OPTIONS, VERSION: version, CDC: str(bool(from_logs)).lower()})
    monkeypatch.setattr(logged_rows, "WORTH", 1000.0)  # the files are smaller than their logs
    made.write([row(1, "a"), row(2, "a"), row(3, "a")])
    made.write([row(2, "b", 2), row(4, "b", 2)], "upsert")
    made.write([row(3, "", 3)], "delete")
    made.write([row(9, "d", 4, "y")], "insert")
    return made


def test_each_range_gives_the_rows_that_it_changed_once(table: HudiTable) -> None:
    one, two, three, four = table.instants()
    assert ids(table, changed("earliest")) == {1: "a", 2: "b", 4: "b", 9: "d"}
    assert ids(table, changed("000", two)) == {1: "a", 2: "b", 3: "a", 4: "b"}
    assert ids(table, changed(one)) == {2: "b", 4: "b", 9: "d"}
    assert ids(table, changed(two, three)) == {}
    assert ids(table, changed(three)) == {9: "d"}
    assert ids(table, changed(four)) == {}
    assert ids(table, changed(str(int(one) - 1), one)) == {1: "a", 2: "a", 3: "a"}


def test_an_overwrite_gives_its_rows_and_takes_what_it_replaced(table: HudiTable) -> None:
    one = table.instants()[0]
    table.write([row(1, "o", 5), row(7, "o", 5)], "insert_overwrite")
    assert ids(table, changed(one)) == {1: "o", 7: "o", 9: "d"}
    table.write([row(8, "p", 6)], "insert_overwrite_table")
    assert ids(table, changed(one)) == {8: "p"}
    before = table.instants()[-1]
    table.write([row(8, "", 7)], "delete_partition",
                hoodie__datasource__write__partitions__to__delete="x")  # fmt: skip
    assert ids(table, changed(before)) == {}


def test_counts_limits_filters_and_columns_are_those_of_the_changed_rows(table: HudiTable) -> None:
    one, two, *_ = table.instants()
    frame = table.spark.read.format("pyhudi").options(**changed(one, two)).load(table.path)
    assert frame.columns == table.df().columns
    assert frame.count() == 2
    assert frame.where("dt = 'x'").count() == 2
    assert frame.where("dt = 'y'").count() == 0
    assert len(frame.limit(1).collect()) == 1
    assert len(frame.limit(2).collect()) == 2
    assert [r[0] for r in frame.where("id > 2").select("name").collect()] == ["b"]
    assert frame.agg({"id": "max"}).collect()[0][0] == 4
    assert frame.agg({"ts": "min"}).collect()[0][0] == 2
    times = frame.select("_hoodie_commit_time", "_file", "_pos").collect()
    assert {r[0] for r in times} == {two}
    assert {two in r[1] for r in times} == {True}
    assert frame.join(table.spark.range(3), "id").count() == 1


def test_a_range_reads_only_its_files(table: HudiTable) -> None:
    *_, three, four = table.instants()
    frame = table.spark.read.format("pyhudi").options(**changed(three, four)).load(table.path)
    files = {r[0].rsplit("/", 1)[1] for r in frame.select("_file").collect()}
    assert len(files) == 1
    assert four in files.pop()
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "files: 1," in plan or "pyhudi" in plan


def test_a_frame_of_a_range_up_to_now_keeps_its_rows(table: HudiTable) -> None:
    one = table.instants()[0]
    frame = table.spark.read.format("pyhudi").options(**changed(one)).load(table.path)
    table.write([row(2, "later", 9), row(10, "later", 9)], "upsert")
    assert {r[0]: r[1] for r in frame.select("id", "name").collect()} == {2: "b", 4: "b", 9: "d"}


def test_the_rows_of_a_range_can_be_written_to_their_own_table(table: HudiTable) -> None:
    one = table.instants()[0]
    frame = table.spark.read.format("pyhudi").options(**changed(one)).load(table.path)
    again = frame.selectExpr("id", "concat(name, '!') name", "ts + 10 ts", "dt")
    table.write(again, "upsert")
    names = {key: found[1] for key, found in table.rows().items()}
    assert names == {1: "a", 2: "b!", 4: "b!", 9: "d!"}


def named(spark: SparkSession, name: str, rows: Iterable[str]) -> list[str]:
    """A table of a catalog with a commit for each text of values; their instants."""
    spark.sql(f"create table {name} (id int, v string) using pyhudi options (primaryKey = 'id')")
    for values in rows:
        source = f"(select * from values {values} as s(id, v)) s"
        spark.sql(
            f"merge into {name} t using {source} on t.id = s.id "
            "when matched then update set * when not matched then insert *"
        )
    return [r[0] for r in spark.sql(f"select instant from {name}.history order by 1").collect()]


@pytest.fixture
def two(spark: SparkSession, name: str) -> tuple[str, list[str]]:
    return name, named(spark, name, ["(1, 'a'), (2, 'a')", "(2, 'b'), (3, 'b')"])


def test_a_table_by_name_can_be_the_source_of_a_merge(
    spark: SparkSession, two: tuple[str, list[str]]
) -> None:
    name, instants = two
    spark.read.options(**changed(instants[0])).table(name).createOrReplaceTempView("news")
    spark.sql(f"merge into {name} t using news s on t.id = s.id "
              "when matched then update set v = concat(s.v, '?')")  # fmt: skip
    found = spark.sql(f"select id, v from {name}").collect()
    assert {r[0]: r[1] for r in found} == {1: "a", 2: "b?", 3: "b?"}


def test_a_range_for_a_whole_session_is_refused(
    spark: SparkSession, two: tuple[str, list[str]], tmp_path: Path
) -> None:
    name, _ = two
    for key in (KIND, BEGIN):
        spark.conf.set(key, "incremental" if key == KIND else "earliest")
        try:
            with refused("CONFIG_ERROR", tmp_path, "an option of the one read"):
                spark.sql(f"select * from {name}").collect()
            with refused("CONFIG_ERROR", tmp_path, "an option of the one read"):
                spark.sql(f"update {name} set v = 'x'")
        finally:
            spark.conf.unset(key)


def test_a_table_that_is_always_read_incrementally_takes_no_change_of_rows(
    spark: SparkSession, table: HudiTable, name: str
) -> None:
    spark.sql(
        f"create table {name} using pyhudi options (`{KIND}` = 'incremental', "
        f"`{BEGIN}` = 'earliest') location '{table.path}'"
    )
    assert spark.sql(f"select * from {name}").count() == 4
    with refused("CONFIG_ERROR", table.path, "must see all of them"):
        spark.sql(f"update {name} set name = 'x' where id = 1")
