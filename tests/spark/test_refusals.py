"""Bad input gets one clear error, and nothing on disk is changed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import pyhudi
from pyhudi.errors import HudiError, SchemaConflict
from tests import golden_tables
from tests.spark.tables import (
    DS,
    INDEX,
    KEY,
    OPERATION,
    OPTIONS,
    ORDERING,
    PARTITION,
    URL_ENCODE,
    VERSION,
    HudiTable,
    Lake,
    listing,
    refused,
    rows_of,
)

pytestmark = pytest.mark.spark

Attempt = Callable[[HudiTable], None]


@pytest.fixture(scope="module")
def _three(spark_session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Lake(pyhudi.attach(spark_session), tmp_path_factory.mktemp("three")).table()
    made.write(rows_of(0, 3, "a"))
    return Path(made.path)


@pytest.fixture
def table(lake: Lake, _three: Path) -> HudiTable:
    """A table of three rows: a copy of one that is made once."""
    shutil.copytree(_three, lake.folder / "t")
    return lake.table()


def upsert(**options: str) -> Attempt:
    named = {k.replace("__", "."): v for k, v in options.items()}
    return lambda table: table.write(rows_of(0, 3, "b", 2), **named)


def changed(**columns: str) -> Attempt:
    """An upsert of rows whose ``columns`` are replaced by expressions."""
    return lambda table: table.write(
        table.frame(rows_of(0, 3, "b", 2)).withColumns({k: F.expr(v) for k, v in columns.items()})
    )


def without(column: str) -> Attempt:
    return lambda table: table.write(table.frame(rows_of(0, 3, "b", 2)).drop(column))


ANYWHERE: dict[str, tuple[Attempt, str, tuple[str, ...]]] = {
    "a misspelt option": (upsert(**{DS + "recordkey.fild": "id"}), "CONFIG_ERROR",
                          (DS + "recordkey.fild", "did you mean", DS + "recordkey.field")),
    "a value that is none": (upsert(**{OPERATION: "upsrt"}), "CONFIG_ERROR",
                             (OPERATION, "upsrt", "bulk_insert")),
    "a number that is none": (upsert(hoodie__parquet__max__file__size="big"), "CONFIG_ERROR",
                              ("hoodie.parquet.max.file.size", "big")),
    "an unserved index": (upsert(**{INDEX: "RECORD_INDEX"}), "CONFIG_ERROR", ("RECORD_INDEX",)),
    "a null key": (changed(id="nullif(id, 1)"), "INVALID_RECORD", ("id", "null")),
    "a missing key column": (without("id"), None, ("'id'",)),
    "a key of a strange type": (changed(id="array(id)"), None, ("id",)),
    "a partition outside": (changed(dt="'../out'"), "INVALID_RECORD", ("../out",)),
    "a partition that Hadoop would split": (changed(dt="'a\\\\b'"), "INVALID_RECORD", ("a\\b",)),
    "a partition in the metadata": (changed(dt="'.hoodie'"), "INVALID_RECORD", (".hoodie",)),
    "a failing expression": (changed(name="cast(raise_error('boom') as string)"), None, ("boom",)),
    "no bucket key": (upsert(**{INDEX: "BUCKET", "hoodie.bucket.index.hash.field": "name"}),
                      "CONFIG_ERROR", ("hash.field", "name")),
    "an unserved lock": (upsert(hoodie__write__lock__provider="zookeeper"), None, ("zookeeper",)),
}  # type: ignore[dict-item]  # fmt: skip


def test_no_table_is_made_that_could_only_be_read_here(lake: Lake) -> None:
    strange = {DS + "partitionpath.field": "dt:EXOTIC", DS + "keygenerator.type": "CUSTOM"}
    made = lake.table(**strange)
    with refused("UNSUPPORTED_TABLE", lake.folder):
        made.write(rows_of(0, 3, "b", 2))
    assert not (lake.folder / "t").exists()


@pytest.mark.parametrize("case", ANYWHERE)
def test_a_write_that_cannot_be_makes_no_table(lake: Lake, case: str) -> None:
    attempt, code, words = ANYWHERE[case]
    if code is None:
        with pytest.raises(Exception, match=r"^\[[A-Z_]+\] "):
            attempt(lake.table())
    else:
        with refused(code, lake.folder, *words):
            attempt(lake.table())
    assert not (lake.folder / "t").exists()


# Errors that only the rows show come when the instant has begun: it is rolled back.
LATE = ("a null key", "a partition outside", "a partition that Hadoop would split",
        "a partition in the metadata", "a failing expression")  # fmt: skip


@pytest.mark.parametrize("case", [case for case in ANYWHERE if case not in LATE])
def test_a_write_that_cannot_be_touches_no_file_of_its_table(
    lake: Lake, table: HudiTable, case: str
) -> None:
    attempt, code, words = ANYWHERE[case]
    before = listing(lake.folder)
    with pytest.raises(Exception, match=rf"^\[{code or '[A-Z_]+'}\] ") as told:
        attempt(table)
    assert all(word in str(told.value) for word in words)
    assert listing(lake.folder) == before


@pytest.mark.parametrize("case", LATE)
def test_a_write_that_is_found_out_by_its_rows_leaves_nothing_behind(
    table: HudiTable, case: str
) -> None:
    attempt, code, _ = ANYWHERE[case]
    with pytest.raises(Exception, match=rf"^\[{code or '[A-Z_]+'}\] "):
        attempt(table)
    assert table.rows() == {row[0]: row for row in rows_of(0, 3, "a")}
    assert len(table.base_files()) == 3
    table.write(rows_of(0, 3, "c", 3))
    assert {row[1] for row in table.rows().values()} == {"c0", "c1", "c2"}


EXISTING: dict[str, tuple[Attempt, str, tuple[str, ...]]] = {
    "another table name": (upsert(hoodie__table__name="other"), "CONFIG_ERROR", ("other", "'t'")),
    "another key": (upsert(**{KEY: "name"}), "CONFIG_ERROR", ("name", "'id'")),
    "other partitions": (upsert(**{PARTITION: "name"}), "CONFIG_ERROR", ("name", "'dt'")),
    "another ordering": (upsert(**{ORDERING: "id"}), "CONFIG_ERROR", ("'id'", "'ts'")),
    "another version": (upsert(**{VERSION: "6"}), "CONFIG_ERROR", ("'6'", "'9'")),
    "another encoding": (upsert(**{URL_ENCODE: "true"}), "CONFIG_ERROR", ("urlencode",)),
    "a type that does not fit": (changed(name="array(name)"), "SCHEMA_CONFLICT", ("'name'",)),
    "a missing partition column": (without("dt"), "SCHEMA_CONFLICT", ("'dt'",)),
    "the bucket index over other files": (upsert(**{INDEX: "BUCKET"}), "CONFIG_ERROR",
                                          ("BUCKET", "hoodie.index.type")),
}  # fmt: skip


def test_another_index_over_files_named_for_buckets_is_refused(lake: Lake) -> None:
    buckets = {INDEX: "BUCKET", "hoodie.bucket.index.num.buckets": "4"}
    table = lake.table(options={**OPTIONS, **buckets})
    table.write(rows_of(0, 9, "a"))
    with refused("CONFIG_ERROR", lake.folder, "hoodie.index.type"):
        lake.table().write(rows_of(0, 3, "b"))
    with refused("CONFIG_ERROR", lake.folder, "num.buckets"):
        table.write(rows_of(0, 3, "b"), **{"hoodie.bucket.index.num.buckets": "1"})
    with refused("CONFIG_ERROR", lake.folder, "num.buckets", "8 buckets", "second row"):
        table.write(rows_of(0, 9, "b"), **{"hoodie.bucket.index.num.buckets": "8"})
    table.write(rows_of(0, 9, "c"))
    assert table.df().count() == 9


def test_another_column_of_the_key_for_its_bucket_is_refused(lake: Lake) -> None:
    buckets = {INDEX: "BUCKET", "hoodie.bucket.index.num.buckets": "8", KEY: "id,name"}
    table = lake.table(options={**OPTIONS, **buckets, "hoodie.bucket.index.hash.field": "name"})
    table.write(rows_of(0, 9, "a"))
    with refused("CONFIG_ERROR", lake.folder, "hash.field"):
        lake.table(options={**OPTIONS, **buckets}).write(rows_of(0, 9, "a"))


@pytest.mark.parametrize(
    "name", ["h120_v9-mor_bucket_consistent", "h0150_v6-mor_bucket_consistent"]
)
def test_new_groups_in_a_table_of_consistent_hashing_are_refused(lake: Lake, name: str) -> None:
    root = golden_tables.BY_NAME[name].unzip(lake.folder)
    rows = lake.spark.read.format("pyhudi").load(str(root))
    for operation in ("upsert", "bulk_insert", "insert_overwrite_table"):
        with refused("UNSUPPORTED_TABLE", lake.folder, "consistent hashing"):
            writer = rows.write.format("pyhudi").option(OPERATION, operation)
            writer.mode("append").save(str(root))
    first, *others = sorted(row[0] for row in rows.select("_hoodie_partition_path").collect())
    gone = {OPERATION: "delete_partition", "hoodie.datasource.write.partitions.to.delete": first}
    rows.limit(0).write.format("pyhudi").options(**gone).mode("append").save(str(root))
    left = lake.spark.read.format("pyhudi").load(str(root))
    kept = [row[0] for row in left.select("_hoodie_partition_path").collect()]
    assert sorted(kept) == [each for each in others if each != first]


def test_keys_with_times_as_texts_are_refused(lake: Lake) -> None:
    """Apache Hudi makes them by keygenerator.consistent.logical.timestamp.enabled."""
    ddl = "at timestamp, text string, n int"
    table = lake.table(options={KEY: "text"}, ddl=ddl)
    row = (datetime(2024, 1, 1, 10, 0, 0, 123456), "2024-01-01 10:00:00.123", 1)
    table.write([row])
    table.change_property("hoodie.table.recordkey.fields", "at")
    table = HudiTable(lake.spark, table.path, {}, ddl)
    with refused("UNSUPPORTED_TABLE", lake.folder, "'at'", "consistent.logical.timestamp"):
        table.write([row])
    table.write([row], "insert_overwrite_table")
    table.write([row])
    assert table.df().count() == 1


def test_partitions_of_times_as_texts_are_refused(lake: Lake) -> None:
    """Apache Hudi's SQL names the folders of a partition by a TIMESTAMP so."""
    ddl = "id int, at timestamp, text string, n int"
    options = {KEY: "id", PARTITION: "text", URL_ENCODE: "true"}
    table = lake.table(options=options, ddl=ddl)
    rows = [(i, datetime(2024, 1, i), f"2024-01-0{i} 00:00:00", 1) for i in (1, 2)]
    table.write(rows)
    table.change_property("hoodie.table.partition.fields", "at")
    table = HudiTable(lake.spark, table.path, {}, ddl)
    for operation in ("upsert", "insert_overwrite", "delete"):
        with refused("UNSUPPORTED_TABLE", lake.folder, "'at'", "2024-01-01 00%3A00%3A00"):
            table.write(rows, operation)
    with refused("UNSUPPORTED_TABLE", lake.folder, "'at'"):
        lake.spark.sql(f"update pyhudi.`{table.path}` set n = 2 where id = 1")
    lake.spark.sql(f"delete from pyhudi.`{table.path}` where id = 1")
    assert [row.id for row in table.df().collect()] == [2]
    table.write(rows, "insert_overwrite_table")
    table.write(rows)
    assert table.df().count() == 2


@pytest.mark.parametrize("case", EXISTING)
def test_a_write_that_contradicts_the_table_changes_nothing(
    lake: Lake, table: HudiTable, case: str
) -> None:
    attempt, code, words = EXISTING[case]
    with refused(code, lake.folder, *words):
        attempt(table)


NEW: dict[str, tuple[Attempt, str, tuple[str, ...]]] = {
    "an unwritten version": (upsert(**{VERSION: "7"}), "", ("7",)),
    "change logs of version 6": (
        upsert(**{VERSION: "6", "hoodie.table.cdc.enabled": "true"}),
        "UNSUPPORTED_TABLE", ("version 8 or 9",)),
    "no such partition column": (upsert(**{PARTITION: "nope"}), "CONFIG_ERROR",
                                 ("partition column", "'nope'")),
    "no such ordering column": (upsert(**{ORDERING: "nope"}), "CONFIG_ERROR",
                                ("ordering column", "'nope'")),
    "an upsert without a key": (upsert(**{KEY: "", OPERATION: "upsert"}), "CONFIG_ERROR",
                                ("upsert", "record key")),
    "event time without an order": (
        upsert(**{ORDERING: "", "hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}),
        "CONFIG_ERROR", ("hoodie.table.ordering.fields",)),
    "a timestamp generator without a format": (
        upsert(**{DS + "keygenerator.type": "TIMESTAMP"}), "CONFIG_ERROR", ("output.dateformat",)),
}  # fmt: skip


@pytest.mark.parametrize("case", NEW)
def test_a_table_that_cannot_be_made_is_not_begun(lake: Lake, case: str) -> None:
    attempt, code, words = NEW[case]
    with refused(code, lake.folder, *words) if code else pytest.raises(Exception, match=r"^\["):
        attempt(lake.table())
    assert not (lake.folder / "t").exists()


# ---- reads


def test_a_path_without_a_table_is_named(lake: Lake) -> None:
    with refused("TABLE_NOT_FOUND", lake.folder, str(lake.folder / "t")):
        lake.table().rows()
    with refused("TABLE_NOT_FOUND", lake.folder):
        lake.spark.sql(f"select * from pyhudi.`{lake.folder}/t`").collect()


@pytest.mark.parametrize("path", ["some/where", "file:some/where"])
def test_a_relative_path_is_refused(lake: Lake, path: str) -> None:
    before = set(os.listdir())
    with refused("CONFIG_ERROR", lake.folder, path.removeprefix("file:")):
        HudiTable(lake.spark, path, {}, "").rows()
    with refused("CONFIG_ERROR", lake.folder, path.removeprefix("file:")):
        HudiTable(lake.spark, path, OPTIONS, "id long, ts long, dt string").write([(1, 1, "x")])
    assert set(os.listdir()) == before


def test_a_scheme_that_workers_cannot_reach_is_refused_with_the_reason(lake: Lake) -> None:
    with refused("UNSUPPORTED_TABLE", lake.folder, "ftp"):
        HudiTable(lake.spark, "ftp://host/table", {}, "").rows()


def test_a_misspelt_read_option_is_named(lake: Lake, table: HudiTable) -> None:
    with refused("CONFIG_ERROR", lake.folder, "hoodie.datasource.query.typ", "query.type"):
        table.rows(hoodie__datasource__query__typ="snapshot")


def edited(table: HudiTable, old: str, new: str) -> Path:
    path = Path(table.path) / ".hoodie" / "hoodie.properties"
    text = path.read_text("latin-1")
    assert old in text
    path.write_text(text.replace(old, new), "latin-1")
    return path


def test_corrupt_properties_are_told_with_path_and_rule(lake: Lake, table: HudiTable) -> None:
    checksum = table.properties()["hoodie.table.checksum"]
    path = edited(table, checksum, "1")
    with refused("TABLE_CORRUPT", lake.folder, str(path), "checksum"):
        table.rows()
    with refused("TABLE_CORRUPT", lake.folder, str(path), "checksum"):
        table.write(rows_of(0, 3, "b"))


@pytest.mark.parametrize("version", ["5", "7", "10"])
def test_a_table_of_another_version_is_refused_with_the_remedy(
    lake: Lake, table: HudiTable, version: str
) -> None:
    edited(table, "hoodie.table.version=9", f"hoodie.table.version={version}")
    with refused("UNSUPPORTED_TABLE", lake.folder, f"{version}"):
        table.rows()
    with refused("UNSUPPORTED_TABLE", lake.folder, f"{version}"):
        table.write(rows_of(0, 3, "b"))


@pytest.mark.parametrize("version", ["6", "9"])
def test_a_corrupt_commit_is_told_with_its_path(lake: Lake, version: str) -> None:
    table = lake.table(options={**OPTIONS, VERSION: version})
    table.write(rows_of(0, 3, "a"))
    root = Path(table.path)
    (commit,) = root.rglob("*.commit")
    elsewhere = root.rename(root.with_name("copy"))
    commit = elsewhere / commit.relative_to(root)
    commit.write_bytes(commit.read_bytes()[: commit.stat().st_size // 2])
    for crc in elsewhere.rglob("*.crc"):
        crc.unlink()
    moved = HudiTable(lake.spark, str(elsewhere), {}, table.ddl)
    with refused("TABLE_CORRUPT", lake.folder, commit.name):
        moved.rows()
    with refused("TABLE_CORRUPT", lake.folder, commit.name):
        moved.write(rows_of(0, 3, "b"))


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("h120_v9-mor_log", "hoodie.record.merge.mode", "CUSTOM"),
        ("h120_v8-mor_np", "hoodie.populate.meta.fields", "false"),
    ],
)
def test_writes_to_tables_that_are_read_only_here_are_refused(
    lake: Lake, name: str, key: str, value: str
) -> None:
    root = golden_tables.BY_NAME[name].unzip(lake.folder)
    table = HudiTable(
        lake.spark, str(root), {}, "id long, name string, price double, ts long, dt string"
    )
    table.change_property(key, value)
    with refused("UNSUPPORTED_TABLE", lake.folder):
        table.write([(1, "a", 1.0, 1, "x")])


# ---- in Python


def test_python_callers_catch_our_classes_and_sparks(table: HudiTable) -> None:
    with pytest.raises(SchemaConflict, match=r"^\[SCHEMA_CONFLICT\] ") as caught:
        changed(name="array(name)")(table)
    assert caught.value.column == "name"
    assert isinstance(caught.value, AnalysisException)
    with pytest.raises(AnalysisException) as spark_alone:
        table.df().select("nothing").collect()
    assert not isinstance(spark_alone.value, HudiError)


def test_a_lock_file_in_the_folder_of_the_option_is_waited_for(lake: Lake) -> None:
    """A Hudi writer with the same option puts its lock file there."""
    table = lake.table()
    folder = lake.folder / "locks"
    folder.mkdir()
    path = {"hoodie.write.lock.filesystem.path": str(folder)}
    table.write(rows_of(0, 3, "a"), **path)
    assert list(folder.iterdir()) == [], "the lock was released"

    (folder / "lock").write_text("{}")
    with pytest.raises(AnalysisException, match=f"LOCK_TIMEOUT.*{folder}/lock"):
        table.write(rows_of(0, 3, "b", 2), **path, hoodie__write__lock__wait_time_ms="1")
    assert sorted(row[1] for row in table.rows().values()) == ["a0", "a1", "a2"]
