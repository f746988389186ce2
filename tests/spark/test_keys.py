"""Record keys in all their forms (spec/keys.md K1 to K3), and what finds rows by them."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from pyhudi.writes.keys.expressions import key_text
from tests.spark.tables import (
    INDEX,
    KEY,
    OPTIONS,
    ORDERING,
    PARTITION,
    VERSION,
    ZONE,
    HudiTable,
    Lake,
    refused,
    settings,
)

pytestmark = pytest.mark.spark

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
