"""Values of every type come back as they were written, through insert and through merge."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import types as T

from tests.spark.tables import KEY, ORDERING, VERSION, HudiTable, Lake, refused

pytestmark = [pytest.mark.spark, pytest.mark.every_line]

COLUMNS: dict[str, tuple[str, list[Any]]] = {
    "flag": ("boolean", [True, False]),
    "tiny": ("byte", [-128, 127]),
    "small": ("short", [-32768, 32767]),
    "whole": ("int", [-(2**31), 2**31 - 1]),
    "big": ("long", [-(2**63), 2**63 - 1]),
    "single": ("float", [1.5, float("-inf")]),
    "double": ("double", [5e-324, 1.7976931348623157e308]),
    "d5": ("decimal(5,2)", [Decimal("-999.99"), Decimal("0.01")]),
    "d18": ("decimal(18,0)", [Decimal(10**18 - 1), Decimal(-1)]),
    "d38": ("decimal(38,18)", [Decimal("12345678901234567890.123456789012345678"), Decimal("-1")]),
    "text": ("string", ["", "naïve 日本語 🎉\n\t\u0000end"]),
    "raw": ("binary", [bytearray(b"\x00\xff"), bytearray(b"")]),
    "day": ("date", [dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    "at": ("timestamp", [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 2, 29)]),
    "wall": ("timestamp_ntz", [dt.datetime(1900, 1, 1), dt.datetime(2024, 3, 31, 2, 30, 0, 1)]),
    "list": ("array<int>", [[1, 2, 3], []]),
    "texts": ("array<string>", [["a", "b"], [""]]),
    "map": ("map<string, double>", [{"a": 1.0}, {}]),
    "struct": ("struct<a: int, b: struct<c: string, d: array<date>>>",
               [(1, ("x", [dt.date(2024, 1, 1)])), (None, (None, None))]),
    "deep": ("array<struct<k: string, v: map<string, array<decimal(9,3)>>>>",
             [[("a", {"p": [Decimal("1.500")]}), ("b", {})], []]),
}  # fmt: skip
DDL = "id int, n int, " + ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())


def plain(value: Any) -> Any:
    """A value of Spark's rows in a form that compares."""
    if isinstance(value, T.Row | tuple):
        return tuple(plain(v) for v in value)
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value


def snapshot(table: HudiTable) -> dict[int, tuple[Any, ...]]:
    return {row[0]: plain(tuple(row)) for row in table.df().collect()}


@pytest.mark.parametrize("version", ["9", pytest.param("6", marks=pytest.mark.matrix)])
def test_every_type_and_null_survive_an_insert_a_merge_and_a_copy(lake: Lake, version: str) -> None:
    table = lake.table(options={KEY: "id", ORDERING: "n", VERSION: version}, ddl=DDL)
    first = (1, 1, *[values[0] for _, values in COLUMNS.values()])
    second = (2, 1, *[values[1] for _, values in COLUMNS.values()])
    none = (3, 1, *[None for _ in COLUMNS])
    table.write([first, second, none], "bulk_insert")
    assert snapshot(table) == {row[0]: plain(row) for row in (first, second, none)}
    stored = table.ddl.replace("tiny byte", "tiny int").replace("small short", "small int")
    assert table.df().schema == table.frame([], stored).schema, "as Avro has no smaller integers"

    swapped = (1, 2, *second[2:])
    empty = (2, 2, *none[2:])
    full = (4, 1, *first[2:])
    table.write([swapped, empty, full])
    expected = {row[0]: plain(row) for row in (swapped, empty, none, full)}
    assert snapshot(table) == expected

    table.write(table.df(), mode="overwrite")
    assert snapshot(table) == expected
    for name, (kind, _) in COLUMNS.items():
        if not kind.startswith(("array", "map", "struct", "binary")):
            where = f"{name} is not null"
            assert table.df().where(where).count() == 2, name
    assert [r[0] for r in table.df().where("wall = timestamp_ntz'1900-01-01 00:00'").collect()] == [
        4
    ]
    assert [r[0] for r in table.df().where("d5 < 0").collect()] == [4]
    assert [r[0] for r in table.df().where("tiny = 127Y and small > 0S").collect()] == [1]


def test_timestamps_do_not_depend_on_the_session_zone(lake: Lake) -> None:
    table = lake.table(
        options={KEY: "id", "hoodie.datasource.write.partitionpath.field": "at"}, ddl=""
    )
    spark = lake.spark
    zones = ("UTC", "America/New_York")
    try:
        for number, zone in enumerate(zones):
            spark.conf.set("spark.sql.session.timeZone", zone)
            table.write(spark.sql(
                f"select {number} as id, timestamp_millis(1704067200123) as at, "
                "timestamp_ntz'2024-03-10 02:30:00' as wall"
            ))  # fmt: skip
        found = table.df().selectExpr(
            "unix_millis(at)", "cast(wall as string)", "_hoodie_partition_path"
        )
        assert {tuple(r) for r in found.collect()} == {
            (1704067200123, "2024-03-10 02:30:00", "1704067200123000")
        }
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_a_column_name_that_avro_forbids_is_refused(lake: Lake) -> None:
    table = lake.table(options={KEY: "id"}, ddl="id int, `größe` double")
    with refused("SCHEMA_CONFLICT", lake.folder, "'s.the id'"):
        table.write(table.frame([(1, (1,))], "id int, s struct<`the id`: int>"))

    table.write([(1, 1.5)])
    with refused("SCHEMA_CONFLICT", lake.folder, "'a b'"):
        table.write(table.frame([(1, 1.5, 2)], "id int, `größe` double, `a b` int"))
    assert table.rows() == {1: (1, 1.5)}
