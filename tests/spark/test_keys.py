"""Record keys and partition paths in all their forms (spec/keys.md K1 to K5)."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from pyhudi.writes.keys.expressions import key_text
from tests.spark.tables import (
    HIVE_STYLE,
    INDEX,
    KEY,
    OPTIONS,
    ORDERING,
    PARTITION,
    URL_ENCODE,
    VERSION,
    ZONE,
    HudiTable,
    Lake,
    model_of,
    refused,
    settings,
)

pytestmark = pytest.mark.spark

KEYGEN = "hoodie.keygen.timebased."
GENERATOR = "hoodie.datasource.write.keygenerator.class"
GENERATOR_TYPE = "hoodie.datasource.write.keygenerator.type"


def keys_and_paths(table: HudiTable) -> list[tuple[str, str]]:
    return sorted(
        map(tuple, table.df().select("_hoodie_record_key", "_hoodie_partition_path").collect())
    )


def test_a_key_of_several_columns_names_them_and_marks_null_and_empty_parts(lake: Lake) -> None:
    table = lake.table(options={KEY: "a,b", ORDERING: "ts"}, ddl="a string, b int, ts long")
    table.write([("x", 1, 1), (None, 1, 1), ("", 2, 1), ("y", None, 1), ("p,b:2", 1, 1)])
    assert [k for k, _ in keys_and_paths(table)] == sorted(
        ["a:x,b:1", "a:__null__,b:1", "a:__empty__,b:2", "a:y,b:__null__", "a:p,b:2,b:1"]
    )

    table.write([("x", 1, 2), (None, 1, 2), ("y", None, 0)])
    found = sorted(map(tuple, table.df().select("a", "b", "ts").collect()), key=repr)
    assert found == sorted(
        [("x", 1, 2), (None, 1, 2), ("", 2, 1), ("y", None, 1), ("p,b:2", 1, 1)], key=repr
    )


COMPLEX = {KEY: "id", PARTITION: "d,e", ORDERING: "ts"}
COMPLEX_DDL = "id long, d string, e string, ts long"
VALUE_ONLY = "hoodie.write.complex.keygen.new.encoding"


def upserted_keys(table: HudiTable, **options: str) -> list[str]:
    """The record keys after two writes of one row."""
    for ts in (1, 2):
        table.write([(1, "p", "q", ts)], **options)
    assert [row["ts"] for row in table.df().collect()] == [2]
    return [key for key, _ in keys_and_paths(table)]


@pytest.mark.parametrize("version", ["6", "8", "9"])
def test_the_complex_generator_names_a_lone_key_column_as_hudi_does(
    lake: Lake, version: str
) -> None:
    table = lake.table(options={**COMPLEX, VERSION: version}, ddl=COMPLEX_DDL)
    assert upserted_keys(table) == ["id:1"]


def test_one_key_and_one_partition_column_are_not_named(lake: Lake) -> None:
    table = lake.table(options={**COMPLEX, PARTITION: "d"}, ddl=COMPLEX_DDL)
    assert upserted_keys(table) == ["1"]


def test_the_other_encoding_is_had_below_version_9_and_followed_ever_after(lake: Lake) -> None:
    """Hudi 0.14.1 to 1.0.2 write such keys without an option."""
    table = lake.table(options={**COMPLEX, VERSION: "6"}, ddl=COMPLEX_DDL)
    table.write([(1, "p", "q", 1)], **{VALUE_ONLY: "true"})
    assert upserted_keys(table) == ["1"]
    with refused("CONFIG_ERROR", table.path, VALUE_ONLY, "do not name their column"):
        table.write([(1, "p", "q", 3)], **{VALUE_ONLY: "false"})

    newest = lake.table("newest", options=COMPLEX, ddl=COMPLEX_DDL)
    assert upserted_keys(newest, **{VALUE_ONLY: "true"}) == ["id:1"]


def test_a_table_of_version_9_with_plain_keys_keeps_them(lake: Lake) -> None:
    """As one that an upgrade brought from a release that wrote them so."""
    table = lake.table(options=COMPLEX, ddl=COMPLEX_DDL)
    table.write([(1, "p", "q", 1)], **{GENERATOR_TYPE: "SIMPLE"})
    table.change_property("hoodie.table.keygenerator.type", "COMPLEX")
    assert upserted_keys(table) == ["1"]


def test_the_bucket_of_a_named_lone_key_is_that_of_the_whole_record_key(lake: Lake) -> None:
    """Buckets of Hudi 1.2.0."""
    buckets = {INDEX: "BUCKET", "hoodie.bucket.index.num.buckets": "64"}
    ddl = "id string, d string, e string, ts long"
    table = lake.table(options={**COMPLEX, **buckets}, ddl=ddl)
    found = {"1": 49, "2": 50, "30": 59, "31": 60, "a": 33, "a:b": 9, "id:7": 54}
    for ts in (1, 2):
        table.write([(key, "p", "q", ts) for key in found])
    rows = table.df().select("id", "_hoodie_file_name", "ts").collect()
    assert sorted((r["id"], int(r["_hoodie_file_name"][:8])) for r in rows) == sorted(found.items())
    with pytest.raises(AnalysisException, match="is not certain"):
        table.write([("x,y:z", "p", "q", 1)])


def test_keys_of_both_forms_are_refused_until_the_table_is_overwritten(lake: Lake) -> None:
    table = lake.table(options=COMPLEX, ddl=COMPLEX_DDL)
    table.write([(1, "p", "q", 1)])
    table.change_property("hoodie.table.keygenerator.type", "SIMPLE")
    table.write([(2, "p", "r", 1)])
    table.change_property("hoodie.table.keygenerator.type", "COMPLEX")
    with refused("UNSUPPORTED_TABLE", table.path, "id:<value>", "insert_overwrite_table"):
        table.write([(1, "p", "q", 2)])

    table.write([(1, "p", "q", 2), (2, "p", "r", 2)], "insert_overwrite_table")
    table.write([(1, "p", "q", 3)])
    assert sorted(k for k, _ in keys_and_paths(table)) == ["id:1", "id:2"]


def test_an_encoding_that_the_table_records_is_followed(lake: Lake) -> None:
    table = lake.table(options=COMPLEX, ddl=COMPLEX_DDL)
    table.write([(1, "p", "q", 1)])
    table.write([(1, "p", "q", 1)], "delete")
    table.change_property("hoodie.table.complex.keygen.encoding", "VALUE_ONLY")
    assert upserted_keys(table) == ["1"]


def test_a_key_may_be_a_nested_field(lake: Lake) -> None:
    table = lake.table(
        options={KEY: "who.id", PARTITION: "who.land"},
        ddl="who struct<id: int, land: string>, n int",
    )
    table.write([((1, "de"), 1), ((2, "fr"), 1)])
    table.write([((1, "de"), 2)])

    assert keys_and_paths(table) == [("1", "de"), ("2", "fr")]
    assert sorted(row[1] for row in table.df().collect()) == [1, 2]
    assert [row[1] for row in table.df().where("who.land = 'de'").collect()] == [2]


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("boolean", "true", "true"),
        ("tinyint", "-7", "-7"),
        ("bigint", "9007199254740993", "9007199254740993"),
        ("decimal(12,3)", "1.5", "1.500"),
        ("double", "1e10", "1.0E10"),
        ("float", "0.1", "0.1"),
        ("date", "'2024-02-29'", "2024-02-29"),
        ("timestamp", "'2024-01-01 00:00:00.000001'", "1704067200000001"),
        ("timestamp_ntz", "'1969-12-31 23:59:59.999999'", "-1"),
        ("string", "'ключ 鍵 🔑 \\\\'", "ключ 鍵 🔑 \\"),
    ],
)
def test_keys_of_every_plain_type_have_the_text_that_hudi_gives_them(
    lake: Lake, kind: str, value: str, text: str
) -> None:
    table = lake.table(options={KEY: "k", ORDERING: "n"}, ddl="")
    for n in (1, 2):
        table.write(lake.spark.sql(f"select cast({value} as {kind}) as k, {n} as n"))

    assert keys_and_paths(table) == [(text, "")]
    assert [row["n"] for row in table.df().collect()] == [2]


SMALL_DECIMALS = {
    "decimal(20,18)": {"0": "0E-18", "1e-18": "1E-18", "-1.234e-7": "-1.23400000000E-7"},
    "decimal(20,7)": {"0": "0E-7", "1e-7": "1E-7", "0.000001": "0.0000010", "-12": "-12.0000000"},
    "decimal(38,6)": {"0": "0.000000", "1e-6": "0.000001"},
}


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_small_decimals_have_the_text_of_java_whatever_spark_s_casts_give(
    spark: SparkSession, ansi: str
) -> None:
    with settings(spark, {"spark.sql.ansi.enabled": ansi}):
        for kind, texts in SMALL_DECIMALS.items():
            values = ", ".join(f"(cast({value} as {kind}))" for value in (*texts, "null"))
            rows = spark.sql(f"select * from values {values} as t(k)")
            found = rows.select(key_text(rows.schema, "k")).collect()
            assert [row[0] for row in found] == [*texts.values(), None], kind


#: wall clocks, of which the clocks of St. John's leave the first one out
WALL_CLOCKS = ("2024-03-10 02:30:00", "2024-03-10 03:30:00", "9999-12-31 23:59:59.999999")


@pytest.mark.every_line
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_wall_clock_has_one_text_in_the_zone_of_every_session(
    spark: SparkSession, ansi: str
) -> None:
    texts = ["1710037800000000", "1710041400000000", "253402300799999999", "-62135596799999999"]
    clocks = (*WALL_CLOCKS, "0001-01-01 00:00:00.000001")
    values = ", ".join(f"(timestamp_ntz'{clock}')" for clock in clocks)
    for zone in ("UTC", "America/St_Johns", "Asia/Kolkata"):
        with settings(spark, {ZONE: zone, "spark.sql.ansi.enabled": ansi}):
            rows = spark.sql(f"select * from values {values}, (null) as t(k)")
            found = [row[0] for row in rows.select(key_text(rows.schema, "k")).collect()]
            assert found == [*texts, None], zone


@pytest.mark.usefixtures("way")
def test_wall_clocks_in_keys_and_paths_are_found_from_every_zone(lake: Lake) -> None:
    table = lake.table(options={KEY: "k", PARTITION: "p", ORDERING: "n"}, ddl="")
    zones = ["America/St_Johns", "UTC", "America/St_Johns"]
    for n, zone in enumerate(zones):
        with settings(lake.spark, {ZONE: zone}):
            values = ", ".join(f"(timestamp_ntz'{clock}')" for clock in WALL_CLOCKS)
            table.write(lake.spark.sql(f"select k, k as p, {n} as n from values {values} as t(k)"))
            for clock in WALL_CLOCKS:
                for column in "kp":
                    where = f"{column} = timestamp_ntz'{clock}'"
                    assert [row["n"] for row in table.df().where(where).collect()] == [n]
    assert table.df().count() == len(WALL_CLOCKS)


@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM"])
@pytest.mark.usefixtures("way")
def test_keys_in_any_script_are_found_again(lake: Lake, index: str) -> None:
    """Beyond U+FFFF the order of UTF-16, in which footers bound keys, is not that of UTF-8."""
    table = lake.table(options={KEY: "k", ORDERING: "n", INDEX: index}, ddl="k string, n int")
    keys = ["a", "\ufb01x", "🔑", "ключ", "鍵", "\U0001d11e", "\ufffd", "z\u0000z", "a,b:c"]
    table.write([(key, 1) for key in keys])
    table.write([(key, 2) for key in keys])

    assert table.rows() == {key: (key, 2) for key in keys}


def test_a_table_without_a_key_makes_one_for_each_row(lake: Lake) -> None:
    table = lake.table(options={PARTITION: "dt"})
    rows = [(1, "a", 1, "x"), (1, "a", 1, "x"), (2, "b", 1, "y")]
    for operation in (None, "insert", "bulk_insert"):
        table.write(rows, operation)

    keys = [k for k, _ in keys_and_paths(table)]
    assert len(set(keys)) == len(keys) == 9
    assert {k.split("_")[0] for k in keys} == set(table.instants())
    assert "hoodie.table.recordkey.fields" not in table.properties()

    combine = {"hoodie.combine.before.insert": "true"}
    table.write([(3, "c", 1, "x")], "insert_overwrite", **combine)
    assert sorted(map(tuple, table.df().collect())) == [(2, "b", 1, "y")] * 3 + [(3, "c", 1, "x")]


# ---- partitions


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


# ---- columns that place rows


def test_a_key_does_not_change_its_type_to_one_of_other_texts(lake: Lake) -> None:
    table = lake.table(options={KEY: "id", ORDERING: "ts"}, ddl="id int, ts long")
    table.write([(1, 1)])
    with refused("SCHEMA_CONFLICT", table.path, "'id'", "double"):
        table.write(table.frame([(1.0, 5)], "id double, ts long"))

    table.write(table.frame([(2**32 + 1,)], "id long"), "delete")
    assert table.rows() == {1: (1, 1)}, "a key that is too large for int is another key"
    table.write(table.frame([(1, 2), (2**32 + 1, 1)], "id long, ts long"))
    assert table.rows() == {1: (1, 2), 2**32 + 1: (2**32 + 1, 1)}


def test_a_delete_needs_the_partition_unless_the_index_is_global(lake: Lake) -> None:
    table = lake.table()
    table.write([(1, "a", 1, "p"), (2, "b", 1, "q")])
    with refused("CONFIG_ERROR", table.path, "partition column 'dt'"):
        table.write(table.frame([(1,)], "id long"), "delete")

    table.write(table.frame([(1,)], "id long"), "delete", **{INDEX: "GLOBAL_SIMPLE"})
    assert table.rows() == {2: (2, "b", 1, "q")}


def test_a_delete_by_bucket_of_unknown_keys_makes_no_file(lake: Lake) -> None:
    buckets = {INDEX: "BUCKET", "hoodie.bucket.index.num.buckets": "4"}
    table = lake.table(options={**OPTIONS, **buckets})
    table.write([(i, "a", 1, "p") for i in (1, 5)])
    before = len(table.base_files())
    table.write([(2, "a", 1, "nowhere"), (3, "a", 1, "p"), (1, "a", 1, "p")], "delete")

    assert table.rows() == {5: (5, "a", 1, "p")}
    assert len(table.base_files()) == before + 1
    assert not (lake.folder / "t" / "nowhere").exists()


def test_partitions_are_deleted_by_name_with_a_frame_of_no_columns(lake: Lake) -> None:
    """Hudi's documentation does so: ``spark.emptyDataFrame``."""
    table = lake.table()
    table.write([(1, "a", 1, "p"), (2, "b", 1, "q")])
    empty = lake.spark.createDataFrame([], "x int").drop("x")
    table.write(empty, "delete_partition", hoodie__datasource__write__partitions__to__delete="p")
    assert table.rows() == {2: (2, "b", 1, "q")}
    table.write(table.frame([("q",)], "dt string"), "delete_partition")
    assert table.rows() == {}
