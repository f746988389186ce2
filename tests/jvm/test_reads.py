"""Reads by path through Spark's own vectorized Parquet reader."""

from __future__ import annotations

import datetime
import functools
import operator
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pyhudi.reads.conditions import (
    AnyOf,
    Bytes,
    Compare,
    Comparison,
    Day,
    Exact,
    Flag,
    HasText,
    IsNotNull,
    LocalMoment,
    Moment,
    Not,
    Real,
    TextPart,
    Whole,
)
from tests.jvm.fake_planner import META, FakePlanner, struct
from tests.jvm.reading import IDS, load, plan_text, rows, scanned_rows
from tests.reads.conditions import among, compare

pytestmark = [pytest.mark.spark, pytest.mark.every_line]


def test_all_columns_but_the_hidden_ones_are_read(spark: SparkSession, people: str) -> None:
    frame = load(spark, people)
    assert frame.columns == ["id", "name"]
    assert rows(frame.fillna("-")) == [(1, "ann"), (2, "bob"), (3, "-")]


def test_a_read_asks_python_once_for_the_table_and_once_for_the_files(
    spark: SparkSession, planner: FakePlanner, people: str
) -> None:
    load(spark, people).where("id > 1").collect()
    assert [name for name, _ in planner.calls] == ["describe", "plan_scan"]


def test_a_read_is_vectorized_in_whole_stage_code_generation(
    spark: SparkSession, people: str
) -> None:
    frame = load(spark, people).where("id > 1").select(F.upper("name"))
    text = plan_text(frame)
    assert "ColumnarToRow" in text
    assert "*(1)" in text


def test_the_meta_columns_and_the_file_are_read_by_name(spark: SparkSession, people: str) -> None:
    frame = load(spark, people).where("id = 3").select(*META, "_file", "id")
    (row,) = frame.collect()
    assert row["_hoodie_record_key"] == "3"
    assert row["_hoodie_file_name"] == "part-1.parquet"
    assert row["_file"] == f"{people}/part-1.parquet"
    assert row["id"] == 3


# ---- pruning and pushing


def test_filters_columns_and_limit_reach_python(
    spark: SparkSession, planner: FakePlanner, people: str
) -> None:
    day = datetime.date(2024, 5, 1)
    frame = load(spark, people).withColumn("day", F.lit(day))
    frame.where("id in (2, 3) and (name like 'b%' or not id <=> 7)").select("id").collect()
    load(spark, people).limit(1).collect()
    first, second = planner.named("plan_scan")
    either = AnyOf((HasText(TextPart.START, "name", "b"), Not(compare("id", "<=>", 7))))
    assert first["filters"] == (among("id", 2, 3), either)
    assert (first["limit"], second["limit"]) == (None, 1)


OLD_DAY = Day(datetime.date(1500, 1, 2).toordinal() - datetime.date(1970, 1, 1).toordinal())
KINDS = {
    "flag": ("boolean", pa.bool_(), True, "true", Flag(True)),
    "small": ("short", pa.int16(), 3, "3", Whole(3)),
    "number": ("integer", pa.int32(), -5, "-5", Whole(-5)),
    "big": ("long", pa.int64(), 2**53 + 1, "9007199254740993", Whole(2**53 + 1)),
    "fraction": (
        "float",
        pa.float32(),
        0.1,
        "CAST(0.1 AS FLOAT)",
        Real("0.10000000149011612"),
    ),
    "no_number": ("double", pa.float64(), float("nan"), "DOUBLE('NaN')", Real("NaN")),
    "real": ("double", pa.float64(), 1.5, "1.5", Real("1.5")),
    "money": ("decimal(10,2)", pa.decimal128(10, 2), Decimal("12.50"), "12.50", Exact("12.50")),
    "day": ("date", pa.date32(), datetime.date(1500, 1, 2), "DATE'1500-01-02'", OLD_DAY),
    "at": (
        "timestamp",
        pa.timestamp("us", "UTC"),
        datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc),
        "TIMESTAMP'2024-01-01 00:00:00'",
        Moment(1_704_067_200_000_000),
    ),
    "local": (
        "timestamp_ntz",
        pa.timestamp("us"),
        datetime.datetime(2024, 1, 1),
        "TIMESTAMP_NTZ'2024-01-01 00:00:00'",
        LocalMoment(1_704_067_200_000_000),
    ),
    "raw": ("binary", pa.binary(), b"ab", "X'6162'", Bytes("YWI=")),
}


@pytest.mark.parametrize("column", KINDS)
def test_a_literal_of_every_kind_is_pushed_and_the_row_is_found(
    spark: SparkSession, planner: FakePlanner, path: str, column: str
) -> None:
    kind, arrow, value, literal, pushed = KINDS[column]
    planner.create(path, struct({column: kind}), [])
    planner.add(path, pa.table({column: pa.array([value, None], arrow)}), {column: kind})
    frame = load(spark, path).where(f"{column} = {literal}")
    assert frame.count() == 1
    (request,) = planner.named("plan_scan")
    assert request["filters"] == (IsNotNull(column), Compare(Comparison.EQUAL, column, pushed))


def test_a_long_chain_of_conditions_is_one_flat_filter(
    spark: SparkSession, planner: FakePlanner, people: str
) -> None:
    ids = range(2, 102)
    frame = load(spark, people).where(
        functools.reduce(operator.or_, (F.col("id") == n for n in ids))
    )
    assert rows(frame.select("id")) == [(2,), (3,)]
    (request,) = planner.named("plan_scan")
    assert request["filters"] == (AnyOf(tuple(compare("id", "=", n) for n in ids)),)


def test_row_groups_that_cannot_match_are_not_read(
    spark: SparkSession, planner: FakePlanner, path: str
) -> None:
    planner.create(path, struct(IDS), [])
    many = pa.table({"id": range(10_000), "name": ["x"] * 10_000})
    planner.add(path, many, IDS, row_group=1000)
    frame = load(spark, path).where("_hoodie_record_key = '4321'").select("id")
    assert rows(frame) == [(4321,)]
    assert scanned_rows(frame) == 1000


# ---- the user's schema and the user's mistakes


def test_a_schema_of_the_user_selects_columns(spark: SparkSession, people: str) -> None:
    frame = spark.read.format("pyhudi").schema("name string").load(people)
    assert frame.columns == ["name"]
    assert frame.where("name = 'bob'").count() == 1


@pytest.mark.parametrize("schema", ["name int", "nobody string"])
def test_a_schema_that_is_not_the_tables_is_refused(
    spark: SparkSession, people: str, schema: str
) -> None:
    with pytest.raises(AnalysisException, match=r"\[SCHEMA_CONFLICT\] the given schema has n"):
        spark.read.format("pyhudi").schema(schema).load(people).collect()


def test_a_read_without_a_path_says_so(spark: SparkSession, planner: FakePlanner) -> None:
    with pytest.raises(AnalysisException, match=r"\[CONFIG_ERROR\] no path was given"):
        spark.read.format("pyhudi").load()
    with pytest.raises(AnalysisException, match=r"\[CONFIG_ERROR\] no path was given, or more"):
        spark.read.format("pyhudi").load(["/a", "/b"])
    assert planner.calls == []


def test_an_error_arrives_with_exactly_the_text_of_python(
    spark: SparkSession, planner: FakePlanner, path: str
) -> None:
    with pytest.raises(AnalysisException) as caught:
        load(spark, path)
    assert str(caught.value) == f"[TABLE_NOT_FOUND] there is no table at {path}: write one first."
    origin = caught.value._origin  # type: ignore[attr-defined]
    assert origin.getClass().getName() == "org.apache.spark.sql.pyhudi.HudiAnalysisException"
    assert origin.errorClassName() == "TableNotFound"


def test_a_table_is_read_as_of_the_instant_at_which_it_was_loaded(
    spark: SparkSession, planner: FakePlanner, people: str
) -> None:
    frame = load(spark, people)
    planner.add(people, pa.table({"id": [9], "name": ["new"]}), IDS)
    assert sorted(row.id for row in frame.collect()) == [1, 2, 3]
    assert frame.count() == 3
    assert load(spark, people).count() == 4


def test_a_cached_frame_is_not_served_for_a_newer_instant(
    spark: SparkSession, planner: FakePlanner, people: str
) -> None:
    cached = load(spark, people).cache()
    try:
        assert cached.count() == 3
        assert "InMemoryTableScan" in plan_text(load(spark, people))
        planner.add(people, pa.table({"id": [9], "name": ["new"]}), IDS)
        assert sorted(row.id for row in load(spark, people).collect()) == [1, 2, 3, 9]
    finally:
        cached.unpersist()


def test_a_column_of_the_table_hides_the_file_column(
    spark: SparkSession, planner: FakePlanner, path: str
) -> None:
    planner.create(path, struct({"_file": "string"}), [])
    planner.add(path, pa.table({"_file": ["mine"]}), {"_file": "string"})
    assert rows(load(spark, path)) == [("mine",)]
