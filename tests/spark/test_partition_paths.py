"""Partition paths in all their forms (spec/keys.md K4 and K5)."""

from __future__ import annotations

import pytest

from tests.spark.tables import (
    HIVE_STYLE,
    KEY,
    OPTIONS,
    ORDERING,
    PARTITION,
    URL_ENCODE,
    Lake,
    model_of,
)
from tests.spark.test_keys import keys_and_paths

pytestmark = pytest.mark.spark

KEYGEN = "hoodie.keygen.timebased."
GENERATOR = "hoodie.datasource.write.keygenerator.class"
GENERATOR_TYPE = "hoodie.datasource.write.keygenerator.type"


def test_several_partition_columns_in_hive_style(lake: Lake) -> None:
    table = lake.table(
        options={KEY: "id", PARTITION: "land,day", HIVE_STYLE: "true"},
        ddl="id int, land string, day date, n int",
    )
    rows = "values (1,'de',date'2024-01-01',1), (2,null,date'2024-01-01',1), (3,'',null,1)"
    names = "as t(id, land, day, n)"
    table.write(lake.spark.sql(f"select * from {rows} {names}"))
    none = "__HIVE_DEFAULT_PARTITION__"
    assert keys_and_paths(table) == [
        ("id:1", "land=de/day=2024-01-01"), ("id:2", f"land={none}/day=2024-01-01"),
        ("id:3", f"land={none}/day={none}"),
    ]  # fmt: skip

    table.write(lake.spark.sql(f"select id, land, day, 2 as n from {rows} {names}"))
    assert {r["id"]: (r["land"], r["n"]) for r in table.df().collect()} == {
        1: ("de", 2), 2: (None, 2), 3: ("", 2)
    }  # fmt: skip
    for where, ids in {
        "land is null": [2],
        "land = ''": [3],
        "day is null": [3],
        "day = date'2024-01-01'": [1, 2],
        "land <=> null and day > date'2023-12-31'": [2],
        "not (land = 'de')": [3],
        "land in ('de', 'fr') or day is null": [1, 3],
    }.items():
        assert sorted(r["id"] for r in table.df().where(where).collect()) == ids, where
        assert table.df().where(where).count() == len(ids), where


STRANGE = [
    "a/b",
    "a:b",
    "a=b",
    "100%",
    "%2F",
    "q?",
    "[x]",
    "a b",
    "München 北京 🌍",
    "it's",
    "a\\b",
]


@pytest.mark.parametrize("hive", ["false", "true"])
def test_url_encoded_partitions_hold_any_text(lake: Lake, hive: str) -> None:
    table = lake.table(options={**OPTIONS, URL_ENCODE: "true", HIVE_STYLE: hive})
    rows = [(i, "a", 1, value) for i, value in enumerate(STRANGE)]
    table.write(rows)
    newer = [(i, "b", 2, value) for i, value in enumerate(STRANGE)]
    table.write(newer)
    assert table.rows() == model_of(newer)

    start = "dt=" if hive == "true" else ""
    assert (lake.folder / "t" / f"{start}a%2Fb").is_dir()
    assert (lake.folder / "t" / f"{start}100%25").is_dir()
    for i, value in enumerate(STRANGE):
        quoted = value.replace("\\", "\\\\").replace("'", "\\'")
        where = table.df().where(f"dt = '{quoted}'")
        assert [r["id"] for r in where.collect()] == [i], value
        assert where.count() == 1, value


@pytest.mark.parametrize("hive", ["false", "true"])
def test_partitions_that_are_not_encoded_hold_all_but_slashes(lake: Lake, hive: str) -> None:
    values = [value for value in STRANGE if not {"/", "\\"} & set(value)]
    table = lake.table(options={**OPTIONS, HIVE_STYLE: hive})
    for name, ts in (("a", 1), ("b", 2)):
        table.write([(i, name, ts, value) for i, value in enumerate(values)])

    assert table.rows() == {i: (i, "b", 2, value) for i, value in enumerate(values)}
    for value in ("%2F", "100%", "a=b"):
        assert table.df().where(f"dt = '{value}'").count() == 1, value


def test_a_slash_in_a_value_that_is_not_encoded_makes_folders(lake: Lake) -> None:
    table = lake.table()
    table.write([(1, "a", 1, "2024/01/02"), (2, "a", 1, "2024/01/03")])
    table.write([(1, "b", 2, "2024/01/02")])

    assert table.rows() == model_of([(1, "b", 2, "2024/01/02"), (2, "a", 1, "2024/01/03")])
    assert (lake.folder / "t" / "2024" / "01" / "02").is_dir()
    assert [r["id"] for r in table.df().where("dt = '2024/01/02'").collect()] == [1]


@pytest.mark.parametrize(
    ("kind", "value", "folder"),
    [
        ("int", "-3", "-3"),
        ("boolean", "false", "false"),
        ("double", "1.5", "1.5"),
        ("decimal(8,2)", "1.5", "1.50"),
        ("timestamp", "timestamp'2024-01-01 00:00:00'", "1704067200000000"),
    ],
)
def test_partition_columns_of_other_types_are_pruned_right(
    lake: Lake, kind: str, value: str, folder: str
) -> None:
    table = lake.table(options={KEY: "id", PARTITION: "p"}, ddl="")
    table.write(lake.spark.sql(
        f"select * from values (1, cast({value} as {kind})), (2, cast(null as {kind})) as t(id, p)"
    ))  # fmt: skip

    assert keys_and_paths(table)[0] == ("1", folder)
    for where, ids in {
        f"p = cast({value} as {kind})": [1],
        f"p >= cast({value} as {kind})": [1],
        f"p != cast({value} as {kind})": [],
        "p is null": [2],
        "p is not null": [1],
    }.items():
        assert [r["id"] for r in table.df().where(where).collect()] == ids, where
        assert table.df().where(where).count() == len(ids), where


# ---- timestamp-based partitions

TIMES = [
    ("UNIX_TIMESTAMP", "1704164645L", "yyyy/MM/dd", {}, "2024/01/02"),
    ("EPOCHMILLISECONDS", "1704164645999L", "yyyyMMdd-HHmmss", {}, "20240102-030405"),
    ("EPOCHMICROSECONDS", "-1L", "yyyy-MM-dd hh", {}, "1969-12-31 11"),
    ("SCALAR", "19724L", "yyyy-MM", {"timestamp.scalar.time.unit": "DAYS"}, "2024-01"),
    ("DATE_STRING", "'02.01.2024'", "yyyy/MM", {"input.dateformat": "dd.MM.yyyy"}, "2024/01"),
    (
        "EPOCHMILLISECONDS",
        "1704067199000L",
        "yyyy-MM-dd HH",
        {"output.timezone": "GMT+8:00", "timezone": ""},
        "2024-01-01 07",
    ),
    (
        "DATE_STRING",
        "'2024-01-01T00:30:00+02:00'",
        "yyyy-MM-dd",
        {"input.dateformat": "yyyy-MM-dd'T'HH:mm:ssZ,yyyy-MM-dd'T'HH:mm:ssXXX"},
        "2023-12-31",
    ),
    ("EPOCHMILLISECONDS", "timestamp'2024-01-02 03:04:05'", "yyyy/MM/dd/HH", {}, "2024/01/02/03"),
    ("EPOCHMILLISECONDS", "date'2024-01-02'", "yyyyMM", {}, "202401"),
    (
        "EPOCHMILLISECONDS",
        "timestamp'9999-12-31 23:59:59.999999Z'",
        "yyyy-MM-dd HH:mm:ss",
        {},
        "9999-12-31 23:59:59",
    ),
    ("EPOCHMILLISECONDS", "253402300799999L", "yyyy", {"timezone": "GMT+8:00"}, "10000"),
]


@pytest.mark.parametrize(("kind", "value", "output", "more", "folder"), TIMES)
def test_the_timestamp_key_generator_makes_paths_of_times(
    lake: Lake, kind: str, value: str, output: str, more: dict[str, str], folder: str
) -> None:
    options = {
        KEY: "id", PARTITION: "at", ORDERING: "n",
        GENERATOR: "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
        KEYGEN + "timestamp.type": kind, KEYGEN + "output.dateformat": output,
        **{KEYGEN + k: v for k, v in ({"timezone": "UTC"} | more).items() if v},
    }  # fmt: skip
    table = lake.table(options=options, ddl="")
    table.write(lake.spark.sql(f"select 1 as id, {value} as at, 1 as n"))
    assert keys_and_paths(table) == [("1", folder)]

    table.options = {}
    table.write(lake.spark.sql(f"select 1 as id, {value} as at, 2 as n"))
    assert [row["n"] for row in table.df().where(f"at = {value}").collect()] == [2]
    assert table.df().where(f"at = {value}").count() == 1


NULL_TIMES = [
    ("bigint", "EPOCHMILLISECONDS", {"timezone": "GMT-8:00"}, "1969-12-31"),
    ("bigint", "SCALAR", {"timestamp.scalar.time.unit": "DAYS"}, "1970-01-02"),
    ("timestamp", "EPOCHMICROSECONDS", {}, "1970-01-01"),
    ("date", "EPOCHMILLISECONDS", {}, "1970-01-01"),
    ("string", "DATE_STRING", {"input.dateformat": "yyyy-MM-dd"}, "1970-01-01"),
    (
        "string",
        "DATE_STRING",
        {"input.dateformat": "yyyy-MM-dd", "input.timezone": "GMT+8:00", "output.timezone": "UTC"},
        "1969-12-31",
    ),
]


@pytest.mark.parametrize(("column", "kind", "more", "folder"), NULL_TIMES)
def test_a_null_time_is_the_start_of_1970_as_in_hudi(
    lake: Lake, column: str, kind: str, more: dict[str, str], folder: str
) -> None:
    """Folders of Hudi 1.2.0; of its columns of dates and timestamps, the null ones."""
    options = {
        KEY: "id", PARTITION: "at",
        GENERATOR: "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
        KEYGEN + "timestamp.type": kind, KEYGEN + "output.dateformat": "yyyy-MM-dd",
        **{KEYGEN + k: v for k, v in more.items()},
    }  # fmt: skip
    table = lake.table(options=options, ddl="")
    table.write(lake.spark.sql(f"select 1 as id, cast(null as {column}) as at"))
    assert keys_and_paths(table) == [("1", folder)]
    assert [row["id"] for row in table.df().where("at is null").collect()] == [1]


def test_the_custom_key_generator_makes_each_part_in_its_own_way(lake: Lake) -> None:
    """Folders and keys of Hudi 1.2.0."""
    options = {
        KEY: "id", PARTITION: "d:SIMPLE,at:timestamp", ORDERING: "ts", GENERATOR_TYPE: "CUSTOM",
        KEYGEN + "timestamp.type": "EPOCHMILLISECONDS", KEYGEN + "output.dateformat": "yyyy-MM-dd",
    }  # fmt: skip
    table = lake.table(options=options, ddl="id long, d string, at long, ts long")
    rows = [(1, "x", None), (2, "", 1700000000000), (3, None, 1)]
    for ts in (1, 2):
        table.write([(*row, ts) for row in rows])
    none = "__HIVE_DEFAULT_PARTITION__"
    assert keys_and_paths(table) == [
        ("1", "x/1970-01-01"), ("2", f"{none}/2023-11-14"), ("3", f"{none}/1970-01-01")
    ]  # fmt: skip
    assert table.properties()["hoodie.table.partition.fields"] in (
        "d:SIMPLE,at:timestamp", "d\\:SIMPLE,at\\:timestamp"
    )  # fmt: skip
    assert [row["id"] for row in table.df().where("at = 1700000000000").collect()] == [2]
