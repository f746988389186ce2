"""What fails outside of pyhudi, in the caller's rows or session, is told in one line."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from pyhudi.errors import ConfigError, WriteFailed
from pyhudi.spark.endpoint import Endpoint
from pyhudi.spark.protocol import Nothing, Place
from pyhudi.spark.questions import Target
from pyhudi.spark.wire import encode
from tests.spark.tables import Lake, rows_of

pytestmark = pytest.mark.spark

FAILING = {
    "an error raised": ("cast(raise_error('boom') as string)", "boom"),
    "a division by zero": ("cast(id / (id - id) as string)", "DIVIDE_BY_ZERO"),
    "a cast": ("cast(cast(name as int) as string)", "CAST_INVALID_INPUT"),
    "an element that is none": ("array(name)[id + 5]", "INVALID_ARRAY_INDEX"),
}


@pytest.mark.parametrize("case", FAILING)
@pytest.mark.parametrize("exists", [False, True], ids=["new", "existing"])
@pytest.mark.parametrize("operation", ["upsert", "bulk_insert"])
def test_an_expression_that_fails_is_told_in_one_line(
    lake: Lake, case: str, exists: bool, operation: str
) -> None:
    expression, word = FAILING[case]
    table = lake.table()
    if exists:
        table.write(rows_of(0, 3, "a"))
    lake.spark.conf.set("spark.sql.ansi.enabled", "true")
    try:
        rows = table.frame(rows_of(0, 3, "b", 2)).withColumn("name", F.expr(expression))
        with pytest.raises(WriteFailed) as failed:
            table.write(rows, operation)
    finally:
        lake.spark.conf.unset("spark.sql.ansi.enabled")
    message = str(failed.value)
    assert message.startswith(f"[WRITE_FAILED] pyhudi {operation} t")
    assert word in message
    assert "\tat " not in message
    assert len(message.splitlines()[0]) < 800
    if exists:
        assert table.rows() == {row[0]: row for row in rows_of(0, 3, "a")}
    else:
        assert not Path(table.path).exists()


def test_a_function_that_fails_is_told_in_one_line(lake: Lake, way: str) -> None:
    @F.udf("string")
    def bad(name: str) -> str:
        raise ValueError(f"not {name}")

    table = lake.table()
    with pytest.raises(WriteFailed, match="ValueError: not a"):
        table.write(table.frame(rows_of(0, 3, "a")).withColumn("name", bad("name")))


def test_a_batch_of_a_stream_that_cannot_be_evaluated_is_told_in_one_line(
    lake: Lake, tmp_path: Path
) -> None:
    table = lake.table()
    table.write(rows_of(0, 3, "a"))
    table.frame(rows_of(0, 3, "b")).write.parquet(str(tmp_path / "in"))
    before = sorted(Path(table.path).rglob("*"))
    given = lake.spark.readStream.schema("id long, name string, ts long, dt string")
    rows = given.parquet(str(tmp_path / "in"))
    rows = rows.withColumn("name", F.expr("cast(raise_error('boom') as string)"))
    writer = rows.writeStream.format("pyhudi").option("checkpointLocation", str(tmp_path / "c"))
    with pytest.raises(WriteFailed, match=r"^\[WRITE_FAILED\] pyhudi upsert t.*boom") as failed:
        writer.trigger(availableNow=True).start(table.path).awaitTermination()
    assert "\tat " not in str(failed.value)
    assert sorted(Path(table.path).rglob("*")) == before
    assert table.rows() == {row[0]: row for row in rows_of(0, 3, "a")}


STATEMENTS = {
    "a merge of doubles": (
        (
            "merge into {t} using (select 0L id, 'x' name union all select 0L, 'y') s "
            "on {t}.id = s.id when matched then update set name = s.name"
        ),
        "MERGE_CARDINALITY_VIOLATION.*Leave one row of the source",
    ),
    "an update": ("update {t} set name = bad(name)", "pyhudi update .*ValueError: not a"),
    "a dynamic overwrite": (
        "insert overwrite {t} select id, bad(name), ts, dt from {t}",
        "pyhudi overwrite partitions of .*ValueError: not a",
    ),
}


def test_a_statement_that_spark_evaluates_and_that_fails_is_told_in_one_line(
    lake: Lake, name: str
) -> None:
    def bad(text: str) -> str:
        raise ValueError(f"not {text}")

    table, spark = lake.table(), lake.spark
    table.write(rows_of(0, 3, "a"))
    spark.udf.register("bad", bad)
    spark.sql(f"create table {name} using pyhudi location '{table.path}'")
    files = sorted(Path(table.path).rglob("*"))
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        for statement, says in STATEMENTS.values():
            with pytest.raises(WriteFailed, match=says) as failed:
                spark.sql(statement.replace("{t}", name))
            assert "\n" not in str(failed.value)
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert sorted(Path(table.path).rglob("*")) == files
    assert table.rows() == {row[0]: row for row in rows_of(0, 3, "a")}


# ---- reads


@pytest.mark.parametrize("key", ["timestampAsOf", "versionAsOf", "as_of_instant", "snapshot-id"])
def test_time_travel_in_another_formats_words_is_refused(lake: Lake, key: str) -> None:
    table = lake.table()
    table.write(rows_of(0, 3, "a"))
    with pytest.raises(ConfigError, match=r"as\.of\.instant"):
        table.df(**{key: "2024-01-01"})
    with pytest.raises(ConfigError, match=r"as\.of\.instant is empty"):
        table.df(as__of__instant="")


def test_a_time_that_no_instant_can_have_is_refused(lake: Lake, name: str) -> None:
    table = lake.table()
    table.write(rows_of(0, 3, "a"))
    lake.spark.sql(f"create table {name} using pyhudi location '{table.path}'")
    with pytest.raises(ConfigError, match="outside the years 1 to 9999"):
        lake.spark.sql(f"select * from {name} timestamp as of timestamp'+10001-01-01'").collect()


# ---- what nobody foresaw


def test_an_unforeseen_error_is_short_and_logs_its_stack_at_debug_level_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails(at: Target, ask: Nothing) -> None:
        raise KeyError("word " * 1000)

    endpoint = Endpoint("secret", {"exists": fails})
    asked = encode({"place": Place("/t", {}, {}, {}, None, None), "ask": Nothing()})
    with caplog.at_level(logging.DEBUG, "pyhudi"):
        told = json.loads(endpoint.call("secret", "exists", asked))["error"]["message"]
    assert told.startswith("[INTERNAL] KeyError: ")
    assert "report it" in told
    assert len(told) < 700
    assert [record.levelno for record in caplog.records] == [logging.DEBUG]
    assert caplog.records[0].exc_info is not None


FORGOTTEN = """
import sys
import pyhudi
from pyspark.sql import SparkSession

def session():
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    return pyhudi.configure(builder).getOrCreate()

spark = pyhudi.attach(session())
spark.stop()
spark = session()
spark.range(3).write.format("pyhudi").save(sys.argv[1])
print(spark.read.format("pyhudi").load(sys.argv[1]).count())
print(pyhudi.last_commit(spark).entry.rows_inserted)
spark.stop()
"""


def test_a_session_after_one_that_was_stopped_is_attached_like_the_first(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", FORGOTTEN, str(tmp_path / "t")],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["3", "3"]


# ---- folders


@pytest.mark.parametrize("mode", ["append", "overwrite", "errorifexists", "ignore"])
def test_a_folder_of_other_files_becomes_no_table(lake: Lake, name: str, mode: str) -> None:
    table = lake.table()
    rows = table.frame(rows_of(0, 3, "a"))
    rows.write.partitionBy("dt").parquet(table.path)
    before = sorted(Path(table.path).rglob("*"))
    with pytest.raises(ConfigError, match="no Hudi table, but other files"):
        table.write(rows, mode=mode)
    with pytest.raises(ConfigError, match="no Hudi table, but other files"):
        lake.spark.sql(f"create table {name} (id int) using pyhudi location '{table.path}'")
    with pytest.raises(ConfigError, match="no Hudi table, but other files"):
        lake.spark.sql(
            f"create table {name} using pyhudi location '{table.path}' as select 1 as id"
        )
    assert not lake.spark.catalog.tableExists(name)
    assert sorted(Path(table.path).rglob("*")) == before


def test_an_empty_folder_becomes_a_table(lake: Lake) -> None:
    table = lake.table()
    (Path(table.path) / "dt=1").mkdir(parents=True)
    (Path(table.path) / "_SUCCESS").touch()
    table.write(rows_of(0, 3, "a"))
    assert len(table.rows()) == 3
