"""Tables that SQL names by their paths: pyhudi.`/data/trips`."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import pyhudi
from tests.spark.tables import Lake

pytestmark = pytest.mark.spark

KEYED = "tblproperties (primaryKey = 'id', preCombineField = 'ts')"


def made(spark: SparkSession, lake: Lake) -> str:
    path = f"pyhudi.`{lake.folder}/trips`"
    spark.sql(
        f"create table {path} (id int, name string, ts int, dt string) partitioned by (dt) {KEYED}"
    )
    spark.sql(f"insert into {path} values (1, 'a', 1, 'x'), (2, 'b', 1, 'y'), (3, 'c', 1, 'y')")
    return path


def rows(spark: SparkSession, path: str) -> list[tuple[object, ...]]:
    return sorted(map(tuple, spark.sql(f"select id, name, ts, dt from {path}").collect()))


def test_every_statement_serves_a_path(spark: SparkSession, lake: Lake) -> None:
    path = made(spark, lake)
    spark.sql(f"update {path} set name = 'u', ts = 2 where id = 1")
    spark.sql(f"delete from {path} where id = 2")
    spark.sql(
        f"merge into {path} t using (select * from values (3, 'm', 3, 'y'), (4, 'n', 3, 'z') "
        "as v(id, name, ts, dt)) s "
        "on t.id = s.id when matched then update set * when not matched then insert *"
    )
    assert rows(spark, path) == [(1, "u", 2, "x"), (3, "m", 3, "y"), (4, "n", 3, "z")]

    assert [row[0] for row in spark.sql(f"show partitions {path}").collect()] == [
        "dt=x", "dt=y", "dt=z",
    ]  # fmt: skip
    spark.sql(f"alter table {path} drop partition (dt = 'z')")
    spark.sql(f"alter table {path} add columns (more int)")
    spark.sql(f"insert into {path} (id, name, ts, dt, more) values (5, 'e', 4, 'x', 7)")
    assert sorted(spark.sql(f"select id, more from {path}").collect()) == [
        (1, None), (3, None), (5, 7),
    ]  # fmt: skip

    spark.sql(f"insert overwrite {path} values (9, 'o', 9, 1, 'x')")
    assert rows(spark, path) == [(9, "o", 9, "x")]
    first = pyhudi.history(str(lake.folder / "trips"))[0].instant
    assert len(rows(spark, f"{path} version as of '{first}'")) == 3
    spark.sql(f"truncate table {path}")
    assert rows(spark, path) == []


def test_a_path_is_made_with_its_rows_or_not_at_all(spark: SparkSession, lake: Lake) -> None:
    path = f"pyhudi.`{lake.folder}/copy`"
    query = "select id, if(id > 1, raise_error('no'), 'a') name from range(3)"
    with pytest.raises(Exception, match="no"):
        spark.sql(f"create table {path} tblproperties (primaryKey = 'id') as {query}")
    assert not (lake.folder / "copy").exists()

    spark.sql(f"create table {path} using pyhudi as select id, 'a' name from range(3)")
    assert spark.sql(f"select * from {path}").count() == 3
    with pytest.raises(AnalysisException, match="already exists|TABLE_EXISTS"):
        spark.sql(f"create table {path} as select 1 id")
    spark.sql(f"create table if not exists {path} (id int)")
    spark.range(5).selectExpr("id", "'b' name").writeTo(path).append()
    assert spark.table(path).count() == 8


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("drop table {}", "delete the folder"),
        ("drop table {} purge", "delete the folder"),
        ("alter table {} rename to pyhudi.`/elsewhere`", "path"),
        ("alter table {} set tblproperties ('a' = 'b')", "no catalog"),
        ("create table pyhudi.`{folder}/other` (id int) using parquet", "not one of parquet"),
        ("create table pyhudi.`{folder}/other` (id int) location '/elsewhere'", "its name says"),
    ],
)
def test_what_a_path_cannot_do_is_said(
    spark: SparkSession, lake: Lake, statement: str, words: str
) -> None:
    path = made(spark, lake)
    with pytest.raises(AnalysisException, match=f"UNSUPPORTED_TABLE.*{words}"):
        spark.sql(statement.format(path, folder=lake.folder))
    assert len(rows(spark, path)) == 3
    assert not (lake.folder / "other").exists()


def test_a_name_is_no_path(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("trips", f"`{tmp_path}/nothing`"):
        with pytest.raises(AnalysisException, match="TABLE_NOT_FOUND"):
            spark.sql(f"insert into pyhudi.{name} values (1)")
        with pytest.raises(AnalysisException, match="TABLE_NOT_FOUND"):
            spark.table(f"pyhudi.{name}")
    assert list(tmp_path.iterdir()) == []
