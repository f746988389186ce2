"""CALL: procedures in the catalog of paths, which Spark 4 alone lets a catalog offer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

from pyhudi.clock import SystemClock
from pyhudi.storage.open import open_storage
from pyhudi.timeline.table import open_table
from tests.spark.test_sql import create, folder_of, table

pytestmark = [pytest.mark.spark, pytest.mark.every_line]

DEAD, LONG_AGO_S = "20240501123005123", 1714566605


@pytest.fixture
def calls(spark: SparkSession) -> None:
    if spark.version.startswith("3.5"):
        with pytest.raises(ParseException):
            spark.sql("call pyhudi.system.clean_failed_writes(table => 'trips')")
        pytest.skip("Spark 3.5 has no CALL")


def left_by_a_dead_writer(folder: Path) -> None:
    hoodie = folder / ".hoodie"
    left = ("timeline", f"{DEAD}.commit.requested"), ("timeline", f"{DEAD}.inflight")
    for place, file in (*left, (".heartbeat", DEAD)):
        (hoodie / place).mkdir(exist_ok=True)
        (hoodie / place / file).touch()
        os.utime(hoodie / place / file, (LONG_AGO_S, LONG_AGO_S))


def pending(folder: Path) -> int:
    return len(open_table(open_storage(str(folder), {}, SystemClock())).timeline().pending)


@pytest.mark.parametrize("by", ["name", "path", "qualified name"])
def test_failed_writes_are_rolled_back_by_a_call(
    spark: SparkSession, calls: None, name: str, by: str
) -> None:
    create(spark, name)
    spark.sql(f"insert into {name} values (1, 'a', 1, 'x')")
    folder = folder_of(spark, name)
    left_by_a_dead_writer(folder)
    named = {"name": name, "path": str(folder), "qualified name": f"spark_catalog.default.{name}"}

    call = f"call pyhudi.system.clean_failed_writes(table => '{named[by]}')"
    (told,) = spark.sql(call).collect()

    assert (told.instant, told.action, told.outcome) == (DEAD, "commit", "rolled back")
    assert told.rollback > DEAD
    assert told.files_deleted == 0
    assert pending(folder) == 0
    assert table(spark, name) == [(1, "a", 1, "x")]
    assert spark.sql(call).collect() == []


def test_what_a_session_says_holds_for_its_calls(
    spark: SparkSession, calls: None, name: str
) -> None:
    create(spark, name)
    spark.sql(f"insert into {name} values (1, 'a', 1, 'x')")
    left_by_a_dead_writer(folder_of(spark, name))
    spark.conf.set("hoodie.clean.failed.writes.policy", "NEVER")
    try:
        (told,) = spark.sql(f"call pyhudi.system.clean_failed_writes('{name}')").collect()
    finally:
        spark.conf.unset("hoodie.clean.failed.writes.policy")

    assert told.outcome == "policy NEVER: left alone"
    assert pending(folder_of(spark, name)) == 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("clean('trips')", "there is no procedure"),
        ("clean_failed_writes('nowhere')", "nowhere"),
        ("clean_failed_writes('/nowhere/at/all')", "/nowhere/at/all"),
        ("clean_failed_writes(null)", "is not a table"),
        ("sync_partitions('/nowhere/at/all')", "No Hive Metastore lists partitions"),
    ],
)
def test_a_call_for_nothing_says_so(
    spark: SparkSession, calls: None, call: str, words: str
) -> None:
    with pytest.raises(AnalysisException, match=words):
        spark.sql(f"call pyhudi.system.{call}")


def test_the_catalog_of_paths_lists_its_procedures(spark: SparkSession) -> None:
    if spark.version < "4.1":
        with pytest.raises(ParseException):
            spark.sql("show procedures in pyhudi")
        pytest.skip("SHOW PROCEDURES came with Spark 4.1")
    for place in ("pyhudi", "pyhudi.system"):
        listed = spark.sql(f"show procedures in {place}").collect()
        assert {row.catalog for row in listed} == {"pyhudi"}
        names = {row.procedure_name for row in listed}
        assert names == {"clean_failed_writes", "sync_partitions"}
