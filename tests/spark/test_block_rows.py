"""Rows of log files that Spark's executors decode: they are those that Python's workers give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyhudi.errors import HistoryExpired, TableCorrupt
from pyhudi.reads import change_data, log_slices
from pyhudi.spark import read_handlers
from tests import golden_tables
from tests.golden_tables import GoldenTable
from tests.spark.tables import TYPE, HudiTable, Lake
from tests.spark.test_golden import DISPUTED, WITH_ROWS, by_key, opened, rows
from tests.spark.test_log_rows import VALUES, cut_contents, logs_of

pytestmark = [pytest.mark.spark, pytest.mark.compiled]

FLAT = [name for name in VALUES if name not in ("items", "pairs", "place")]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each read of rows of logs, which are never few, whether executors decode them."""
    found: list[bool] = []
    plain = read_handlers.block_file

    def noted(*asked: Any) -> str | None:
        answer = plain(*asked)
        found.append(answer is not None)
        return answer

    monkeypatch.setattr(log_slices, "HERE_ROWS", -1)
    monkeypatch.setattr(read_handlers, "block_file", noted)
    return found


def shown(df: DataFrame) -> list[str]:
    return sorted(map(repr, df.collect()))


@pytest.mark.parametrize(
    "table",
    [t for t in WITH_ROWS if t.merge_on_read and t.name not in DISPUTED],
    ids=lambda t: t.name,
)
def test_a_golden_table_gives_its_rows(
    spark: SparkSession, tmp_path: Path, table: GoldenTable, answers: list[bool]
) -> None:
    assert rows(opened(spark, table.unzip(tmp_path))) == by_key(table.expected() or [])


def logged(spark: SparkSession, lake: Lake, version: int) -> tuple[HudiTable, DataFrame]:
    """A table of whose rows two logs changed some, and what it has then."""
    columns = [
        F.expr(f"if(id % 11 = {at % 11}, null, {value})").alias(name)
        for at, (name, value) in enumerate(VALUES.items())
    ]
    plain = spark.range(9_000).select("id", F.lit(1).alias("ts"), F.lit("d").alias("dt"))
    before = plain.select("*", *columns)
    table = lake.table(
        **{
            TYPE: "MERGE_ON_READ",
            "hoodie.write.table.version": str(version),
            "hoodie.compact.inline": "false",
        }
    )
    table.write(before.coalesce(1), "bulk_insert")
    first = before.where("id % 10 = 3")
    other = plain.withColumn("id", F.col("id") + 7).select("*", *columns)
    second = other.where("id % 20 in (3, 4)").withColumn("ts", F.lit(2))
    table.write(first, "upsert")
    table.write(second.where("id < 9000"), "upsert")
    table.write(before.where("id between 4000 and 4100"), "delete")
    kept = before.where("id % 20 not in (3, 4) or id < 7").unionByName(second.where("id < 9000"))
    return table, kept.where("id not between 4000 and 4100")


@pytest.mark.parametrize("version", [6, 8, 9])
def test_values_of_all_types_come_as_they_are(
    spark: SparkSession, lake: Lake, version: int, answers: list[bool]
) -> None:
    table, expected = logged(spark, lake, version)
    wanted = ["id", "ts", *FLAT]
    assert shown(table.df().select(wanted)) == shown(expected.select(wanted))
    assert answers == [True]
    meta = ["_hoodie_record_key", "_hoodie_commit_time"]
    assert len({row[1] for row in table.df().select(meta).collect()}) >= 2
    assert answers == [True, True]
    wanted = ["id", "items", "pairs", "place"]
    assert shown(table.df().select(wanted)) == shown(expected.select(wanted))
    assert answers == [True, True, False], "values with parts are for Python's workers"
    assert table.df().count() == expected.count()
    assert table.df().where("id % 20 = 3").agg(F.sum("ts")).first() == (
        expected.where("id % 20 = 3").agg(F.sum("ts")).first()
    )


def test_rows_come_one_by_one_where_spark_takes_no_batches(
    spark: SparkSession, lake: Lake, answers: list[bool]
) -> None:
    table, expected = logged(spark, lake, 9)
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    try:
        wanted = ["id", "ts", *FLAT]
        assert shown(table.df().select(wanted)) == shown(expected.select(wanted))
    finally:
        spark.conf.unset("spark.sql.codegen.wholeStage")
    assert answers == [True]


def test_a_column_that_is_younger_than_the_log_is_null(
    spark: SparkSession, lake: Lake, answers: list[bool]
) -> None:
    table, expected = logged(spark, lake, 9)
    spark.sql(f"alter table pyhudi.`{table.path}` add columns (late string)")
    younger = expected.where("id < 100").withColumn("late", F.lit("x"))
    table.write(younger, "upsert")
    older = expected.where("id >= 100").withColumn("late", F.lit(None).cast("string"))
    wanted = ["id", "word", "late"]
    assert shown(table.df().select(wanted)) == shown(younger.unionByName(older).select(wanted))
    assert answers == [True]


def test_a_column_with_a_wider_type_than_in_the_log_is_for_pythons_workers(
    spark: SparkSession, lake: Lake, answers: list[bool]
) -> None:
    table, expected = logged(spark, lake, 9)
    spark.sql(f"alter table pyhudi.`{table.path}` alter column whole type bigint")
    wanted = ["id", "whole"]
    assert shown(table.df().select(wanted)) == shown(expected.select(wanted))
    assert answers == [False]
    assert shown(table.df().select("id", "few")) == shown(expected.select("id", "few"))
    assert answers == [False, True]


def test_statements_change_rows_of_logs(
    spark: SparkSession, lake: Lake, answers: list[bool]
) -> None:
    """Where Spark finds rows by the numbers of their files, Python's workers read them."""
    table, expected = logged(spark, lake, 9)
    spark.sql(f"update pyhudi.`{table.path}` set word = 'u' where id % 20 = 3")
    changed = F.expr("if(id % 20 = 3, 'u', word)").alias("word")
    assert shown(table.df().select("id", "word")) == shown(expected.select("id", changed))


@pytest.mark.parametrize(("damage", "told"), [("cut", TableCorrupt), ("gone", HistoryExpired)])
def test_a_log_that_is_damaged_after_its_merge_is_told(
    spark: SparkSession,
    tmp_path: Path,
    answers: list[bool],
    damage: str,
    told: type[Exception],
) -> None:
    root = golden_tables.BY_NAME["h120_v9-mor_types"].unzip(tmp_path)
    df = opened(spark, root).select("_hoodie_record_key", "id")
    before = shown(df)
    assert before
    assert answers == [True]
    for log in logs_of(root):
        cut_contents(log) if damage == "cut" else log.unlink()
    with pytest.raises(told):
        df.collect()


def in_partitions(spark: SparkSession, lake: Lake, changed: str) -> tuple[HudiTable, DataFrame]:
    """A table of four files, one a partition, with logs of the ``changed`` rows; what it has."""
    table = lake.table(**{TYPE: "MERGE_ON_READ", "hoodie.compact.inline": "false"})
    before = spark.range(40).selectExpr("id", "1 ts", "concat('d', id % 4) dt")
    table.write(before.repartition(4, "dt"), "bulk_insert")
    late = before.where(changed).withColumn("ts", F.lit(2))
    table.write(late, "upsert")
    return table, before.where(f"not ({changed})").unionByName(late)


def test_few_rows_of_many_logs_take_one_task_and_no_query_of_their_own(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks: list[set[int]] = []
    plain = read_handlers.block_file

    def noted(*asked: Any) -> str | None:
        name = plain(*asked)
        assert name is not None
        with pa.OSFile(name) as file:
            tasks.append(set(pa.ipc.open_stream(file).read_all()["task"].to_pylist()))
        return name

    monkeypatch.setattr(read_handlers, "block_file", noted)
    monkeypatch.setattr(read_handlers, "log_rows", None)
    monkeypatch.setattr(change_data, "TASK_BYTES", 1)
    table, expected = in_partitions(spark, lake, "id < 8")
    assert shown(table.df().select(expected.columns)) == shown(expected)
    assert len(tasks[0]) == 1
    monkeypatch.setattr(log_slices, "HERE_ROWS", -1)
    assert shown(table.df().select(expected.columns)) == shown(expected)
    assert len(tasks[1]) == 4


@pytest.mark.parametrize("version", [6, 9])
def test_of_logs_no_more_is_read_than_lies_between_the_rows_that_a_filter_leaves(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    read: list[pa.Table] = []
    plain = read_handlers.block_file

    def noted(*asked: Any) -> str | None:
        name = plain(*asked)
        assert name is not None
        with pa.OSFile(name) as file:
            read.append(pa.ipc.open_stream(file).read_all())
        return name

    monkeypatch.setattr(read_handlers, "block_file", noted)
    table, expected = logged(spark, lake, version)
    wanted = ["id", "ts", *FLAT]
    for few in ("between 5000 and 5050", "between 8990 and 9100", "< 9", "in (13, 8993)"):
        found, right = (rows.where(f"id {few}").select(wanted) for rows in (table.df(), expected))
        assert shown(found) == shown(right)
    assert shown(table.df().select(wanted)) == shown(expected.select(wanted))
    *some, first_and_last, every = (pc.sum(each["length"]).as_py() for each in read)
    assert max(some) < every // 4
    assert every // 4 < first_and_last < every


def test_rows_of_slices_without_base_files_are_decoded(
    spark: SparkSession, lake: Lake, answers: list[bool]
) -> None:
    """No reader of base files has settings of the storage that they could share."""
    options = {
        TYPE: "MERGE_ON_READ",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "2",
        "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
        "hoodie.compact.inline": "false",
    }
    table = lake.table(**options)
    rows = spark.range(40).selectExpr("id", "1 ts", "'d' dt")
    table.write(rows, "upsert")
    assert not [path for path in Path(table.path).rglob("*.parquet") if ".hoodie" not in path.parts]
    assert shown(table.df().select(rows.columns)) == shown(rows)
    assert answers == [True]


def test_files_with_and_without_logs_are_read_side_by_side(
    spark: SparkSession, lake: Lake, answers: list[bool]
) -> None:
    """The readers of files whose rows all count, and of the others, are not the same."""
    table, expected = in_partitions(spark, lake, "dt < 'd2'")
    assert shown(table.df().select(expected.columns)) == shown(expected)
    wanted = expected.where("ts = 2 or id = 3").select("id")
    assert shown(table.df().where("ts = 2 or id = 3").select("id")) == shown(wanted)
    assert answers == [True, True]
