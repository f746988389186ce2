"""Filters that partitions decide are not evaluated on the rows: they must leave the same rows."""

from __future__ import annotations

import datetime as dt
import itertools

import pytest
from pyspark.sql import DataFrame, SparkSession, functions

from tests.spark.tables import (
    DS,
    HIVE_STYLE,
    KEY,
    ORDERING,
    PARTITION,
    URL_ENCODE,
    HudiTable,
    Lake,
    Row,
    refused,
)

pytestmark = [pytest.mark.spark, pytest.mark.compiled]

TEXTS = ["a", "b", "a b", "a/b", "x=1%2F", "é", None, ""]
NUMBERS = [-1, 0, 7, None]
BOUNDED = "id long, p string, n int, b long, day date, at timestamp, wall timestamp_ntz, f double"
DAYS = [dt.date(2024, 2, 29), None]

#: over a text ``s``, a number ``n`` and a day ``d``, all partition columns; ``v`` is none
FILTERS = [
    "s = 'a'",
    "s = 'a/b'",
    "s = 'x=1%2F'",
    "s = ''",
    "s != 'a'",
    "not s = 'a'",
    "not (s = 'a' and n = 7)",
    "not (s = 'a' or n is null)",
    "s <=> 'a'",
    "s <=> null",
    "not s <=> 'a'",
    "s is null",
    "s is not null",
    "s is not null and n is not null",
    "s in ('a', 'é', 'none')",
    "s in ('a', null)",
    "s not in ('a', 'b')",
    "s >= 'b'",
    "s < 'b'",
    "s like 'a%'",
    "s like '%b' or n = 0",
    "n = 7",
    "n <=> null",
    "n is null",
    "not n is null",
    "n != 7",
    "not (n > 0)",
    "n in (7, null)",
    "n between -1 and 0",
    "n + 1 = 8",
    "s = 'a' and n = 7 and d = date'2024-02-29'",
    "d > date'2024-01-01'",
    "d is null and s = 'b'",
    "s = 'a' or v = 3",
    "s = 'a' and v > 30",
    "(s = 'a' or v = 3) and s = 'a'",
    "s = 'nowhere'",
    "s = cast(v as string)",
    "n = (select max(7))",
    "true",
]


def combined(lake: Lake, name: str, hive_style: str) -> HudiTable:
    options = {
        KEY: "v",
        PARTITION: "s,n,d",
        ORDERING: "v",
        HIVE_STYLE: hive_style,
        URL_ENCODE: "true",
        DS + "operation": "insert",
    }
    return lake.table(name, options, "v long, s string, n int, d date")


def every_row() -> list[Row]:
    return [(v, *values) for v, values in enumerate(itertools.product(TEXTS, NUMBERS, DAYS))]


def plan(df: DataFrame) -> str:
    return str(df._jdf.queryExecution().executedPlan().toString())  # type: ignore[operator]


def ids(df: DataFrame) -> list[int]:
    return sorted(row[0] for row in df.select("v").collect())


@pytest.mark.parametrize(("hive_style", "filters"), [("false", FILTERS), ("true", FILTERS[::5])])
def test_filters_leave_the_rows_that_they_leave_of_plain_parquet(
    lake: Lake, hive_style: str, filters: list[str]
) -> None:
    table = combined(lake, "t", hive_style)
    table.write(every_row())
    copy = str(lake.folder / "copy")
    lake.spark.createDataFrame(every_row(), table.ddl).coalesce(1).write.parquet(copy)
    plain = lake.spark.read.parquet(copy).cache()
    assert ids(table.df()) == ids(plain)
    for where in filters:
        expected = ids(plain.where(where))
        assert ids(table.df().where(where)) == expected, where
        assert table.df().where(where).count() == len(expected), where
        few = table.df().where(where).limit(5).collect()
        assert {row["v"] for row in few} <= set(expected), where
        assert len(few) == min(5, len(expected)), where
    plain.unpersist()


def nested_partitions(lake: Lake) -> HudiTable:
    """Partitions by a field of a struct; null and the empty text share a folder."""
    table = lake.table("nested", {KEY: "v", PARTITION: "s.x"}, "v long, s struct<x:string>")
    table.write([(v, (x,)) for v, x in enumerate(["a", "", None, "b"])])
    return table


def test_a_field_of_a_struct_chooses_partitions_like_a_column(lake: Lake) -> None:
    table = nested_partitions(lake)
    expected = {
        "s.x = 'a'": [0],
        "s.x = ''": [1],
        "s.x is null": [2],
        "s.x is not null": [0, 1, 3],
        "s.x != 'a'": [1, 3],
        "s.x in ('b', '')": [1, 3],
        "not s.x <=> null": [0, 1, 3],
    }
    assert {where: ids(table.df().where(where)) for where in expected} == expected
    one = table.df().where("s.x = 'a'")
    one.collect()
    assert "files: 1," in plan(one), "the other partitions are not read"


def test_an_overwrite_by_a_field_of_a_struct_loses_no_other_row_of_its_folder(lake: Lake) -> None:
    table = nested_partitions(lake)
    fresh = table.frame([(9, (None,))])
    with refused("CONFIG_ERROR", table.path, "does not say for sure"):
        fresh.writeTo(f"pyhudi.`{table.path}`").overwrite(functions.expr("s.x is null"))
    fresh = table.frame([(9, ("a",))])
    fresh.writeTo(f"pyhudi.`{table.path}`").overwrite(functions.expr("s.x = 'a'"))
    assert ids(table.df()) == [1, 2, 3, 9]


def counted_from_metadata(df: DataFrame) -> bool:
    """Whether ``count(*)`` is answered without a scan."""
    return "BatchScan" not in plan(df.groupBy().count())


def test_what_partitions_decide_is_counted_from_metadata(lake: Lake) -> None:
    table = combined(lake, "t", "false")
    table.write(every_row())
    for where in ("s = 'a/b'", "n = 7", "n is null", "s = 'a' and n > 0", "not (n = 7)"):
        assert counted_from_metadata(table.df().where(where)), where
    # Where null and the empty text share a folder, only the rows tell.
    for where in ("s is null", "s != 'a'", "s = 'a' and v > 3", "s = 'a' or v = 3"):
        assert not counted_from_metadata(table.df().where(where)), where

    frame = table.df().where("s = 'a'")
    for by_footers in ("count(n)", "count(s)", "max(v)", "min(d)", "count(*), max(n)"):
        assert "BatchScan" not in plan(frame.selectExpr(*by_footers.split(", "))), by_footers
    for one_by_one in ("max(s)", "sum(v)", "count(distinct n)", "max(v + 1)"):
        assert "BatchScan" in plan(frame.selectExpr(one_by_one)), one_by_one
    assert frame.selectExpr("count(n)", "count(1)", "count(*)").collect()[0][:] == (6, 8, 8)


def test_structs_arrays_and_maps_are_counted_by_their_rows(lake: Lake) -> None:
    ddl = "v long, s struct<x:long>, a array<long>, m map<string,long>"
    table = lake.table("nested", {KEY: "v"}, ddl)
    table.write([(1, (1,), [1], {"x": 1}), (2, (None,), [], {}), (3, None, None, None)])

    counted = table.df().selectExpr("count(s)", "count(a)", "count(m)", "count(v)")
    assert counted.collect()[0][:] == (2, 2, 2, 3)


def test_least_and_greatest_values_are_those_of_the_rows(lake: Lake) -> None:
    table = lake.table(options={KEY: "id", PARTITION: "p"}, ddl=BOUNDED)
    table.write([])
    exact = [f"{f}({c})" for f in ("min", "max", "count") for c in ("n", "b", "day", "at", "wall")]
    assert "BatchScan" not in plan(table.df().selectExpr(*exact))
    assert table.df().selectExpr(*exact).first() == (None,) * 10 + (0,) * 5

    moment = dt.datetime(2024, 2, 29, 12, 0, 0, 123456)
    table.write([
        (1, "x", 7, 1 << 40, dt.date(1582, 10, 4), moment, moment, 0.5),
        (2, "x", None, -1, None, None, None, float("nan")),
        (3, "y", -7, None, dt.date(2024, 2, 29), moment, None, None),
        (4, "z", None, None, None, None, None, None),
    ])  # fmt: skip
    frame = table.df()
    for where in ("true", "p = 'x'", "p = 'z'", "p in ('y', 'z')", "p = 'nowhere'"):
        for expressions in (exact, ["count(*)", "max(n)"], ["count(f)", "min(n)"]):
            answered = frame.where(where).selectExpr(*expressions)
            assert "BatchScan" not in plan(answered), (where, expressions)
            read = frame.where(where).where("rand() >= 0").selectExpr(*expressions)
            assert answered.collect() == read.collect(), (where, expressions)
    assert "BatchScan" in plan(frame.selectExpr("max(f)")), "statistics leave NaN out"
    assert "BatchScan" in plan(frame.where("n > 0").selectExpr("max(n)"))

    wider = table.frame(
        [(5, "w", 1 << 40, 5, None, None, None, None)], BOUNDED.replace("n int", "n long")
    )
    table.write(wider)
    for of in ("max(n)", "min(n)", "count(n)"):
        assert "BatchScan" in plan(table.df().selectExpr(of)), "old files hold another type"
    assert table.df().selectExpr("min(n)", "max(n)", "count(n)").first() == (-7, 1 << 40, 3)
    assert "BatchScan" not in plan(table.df().selectExpr("max(b)"))


def test_explain_shows_which_filters_chose_the_partitions(lake: Lake) -> None:
    table = combined(lake, "t", "false")
    table.write(every_row())
    shown = plan(table.df().where("n = 7 and s != 'a' and v > 3"))
    taken = shown.split("PartitionFilters: [")[1].split("]")[0]
    left = shown.split("PushedFilters: [")[1].split("]")[0]
    assert taken == "IsNotNull(n), EqualTo(n,7)"
    assert sorted(left.split(", ")) == [
        "GreaterThan(v,3)", "IsNotNull(s)", "IsNotNull(v)", "Not(EqualTo(s,a))"
    ]  # fmt: skip


def test_a_limit_behind_a_decided_filter_reads_as_few_files_as_hold_it(lake: Lake) -> None:
    table = combined(lake, "t", "false")
    table.write(every_row())
    frame = table.df().where("s = 'a'").limit(1)
    frame._jdf.queryExecution().optimizedPlan().stats()  # type: ignore[operator]
    assert "limit: 1" in plan(frame)
    assert frame.rdd.getNumPartitions() == 1
    assert len(frame.collect()) == 1


def test_a_past_state_is_filtered_by_the_partitions_that_it_had(lake: Lake) -> None:
    table = lake.table()
    table.write([(1, "a", 1, "x"), (2, "b", 1, "y")])
    opened = table.df()
    table.write([(3, "c", 1, None), (4, "d", 1, "x")])
    table.write([(1, "", 0, "x"), (4, "", 0, "x")], "delete")
    first, second, _ = table.instants()

    for where, then, later, now in (
        ("dt = 'x'", 1, 2, 0),
        ("dt is not null", 2, 3, 1),
        ("dt is null", 0, 1, 1),
    ):
        assert table.df(as__of__instant=first).where(where).count() == then, where
        assert table.df(as__of__instant=second).where(where).count() == later, where
        assert table.df().where(where).count() == now, where
        assert opened.where(where).count() == then, where
        assert len(opened.where(where).collect()) == then, where


def test_joins_that_prune_partitions_give_the_rows_of_plain_parquet(
    spark: SparkSession, lake: Lake
) -> None:
    table = lake.table()
    rows = [(n, f"a{n}", 1, f"p{n % 4}" if n % 5 else None) for n in range(40)]
    table.write(rows)
    copy = str(lake.folder / "copy")
    spark.createDataFrame(rows, table.ddl).write.parquet(copy)
    chosen = spark.createDataFrame([("p1", 1), ("p3", 2), (None, 3)], "dt string, w int")
    for plain, hudi in ((spark.read.parquet(copy), table.df()),):
        for kind in ("inner", "left", "left_semi", "left_anti", "full"):
            for where in ("w > 0", "w = 2", "w >= 3"):
                few = chosen.where(where)
                expected = sorted(map(repr, plain.join(few, "dt", kind).collect()))
                assert sorted(map(repr, hudi.join(few, "dt", kind).collect())) == expected
        both = [
            side.where("dt = 'p1'").alias("l").join(side.where("dt = 'p1'").alias("r"), "id")
            for side in (plain, hudi)
        ]
        assert both[0].count() == both[1].count() == 8
