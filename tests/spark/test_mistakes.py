"""What users do wrong: each gives one clear error, and leaves all rows and files as they were."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import pyhudi
from pyhudi.errors import HudiError
from tests.mistakes import BY_UDF, MISTAKES, MOST_LINES, TABLES, data_files, unclear
from tests.spark.tables import KEY, OPERATION

pytestmark = pytest.mark.spark


@pytest.fixture
def places(spark: SparkSession, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The tables of the mistakes, in a database of their own, and a folder of Parquet files."""
    folder = tmp_path
    places = {"lake": str(folder / "lake"), "parquet": str(folder / "parquet")}
    spark.range(3).write.parquet(places["parquet"])
    spark.sql("CREATE DATABASE mistakes")
    spark.sql("USE mistakes")
    for statement in TABLES:
        spark.sql(statement.replace("{lake}", places["lake"]))
    yield places
    spark.sql("USE default")
    spark.sql("DROP DATABASE mistakes CASCADE")


def test_mistakes_in_sql(spark: SparkSession, places: dict[str, str]) -> None:
    assert len({statement for statement, _ in MISTAKES}) >= 140
    before = data_files(places), rows(spark)

    def failing(number: int) -> int:
        raise ValueError("not this one")

    spark.udf.register("failing", failing, "bigint")
    wrong = unclear(lambda statement: spark.sql(statement).collect(), places, BY_UDF)
    assert not wrong, "\n".join(wrong)
    assert (data_files(places), rows(spark)) == before
    assert not spark.sql("SHOW TABLES LIKE 'bad'").collect()


def rows(spark: SparkSession) -> list[tuple[Any, ...]]:
    found = spark.sql("SELECT * FROM rides ORDER BY id").collect()
    return [tuple(row) for row in found]


Call = Callable[[SparkSession, str], object]


def save(how: str = "append", what: str = "1L id, 1D fare, 1L ts, 'x' city", **given: str) -> Call:
    """Writes a row to the table with options, their dots as double underscores."""
    options = {key.replace("__", "."): value for key, value in given.items()}

    def call(spark: SparkSession, lake: str) -> object:
        frame = spark.sql(f"SELECT {what}")
        writer = frame.write.format("pyhudi").options(**options).mode(how)
        return writer.save(f"{lake}/rides")

    return call


def load(path: str = "rides", **given: str) -> Call:
    """Reads a table, or what is at another path."""
    options = {key.replace("__", "."): value for key, value in given.items()}
    return lambda spark, lake: (
        spark.read.format("pyhudi").options(**options).load(f"{lake}/{path}").collect()
    )


CALLS: dict[str, tuple[Call, str]] = {
    "a misspelt point in time": (load(as__of__instnat="20250101"), "Did you mean 'as.of.instant'"),
    "a version of Delta": (load(versionAsOf="1"), "as.of.instant|VERSION|not a point in time"),
    "a change feed": (load(readChangeFeed="true"), "pyhudi.commits"),
    "a filter of files": (load(pathGlobFilter="*.parquet"), "filter the rows"),
    "a CSV reader's option": (load(header="true"), "knows its columns"),
    "a base path": (load(basePath="/x"), "the table's own folder"),
    "an unknown key": (load(hoodie__datasource__query__tpye="snapshot"), "did you mean"),
    "an unknown kind of query": (load(hoodie__datasource__query__type="changes"), "snapshot,"),
    "a range without a begin": (
        load(hoodie__datasource__query__type="incremental"), "begin.instanttime"
    ),
    "an empty time": (load(as__of__instant=" "), "as.of.instant is empty"),
    "a time that is none": (load(as__of__instant="soon"), "'soon' is not a point in time"),
    "a table that is not there": (load("trips"), "Nothing is there"),
    "a partition": (load("rides/city=Porto"), "It is a partition of the table at"),
    "a pattern": (load("rides/*"), "A path with|is no table"),
    "a folder of tables": (load(""), "There is one at"),
    "a second first write": (save("errorifexists"), "use mode|Use mode"),
    "another key": (save(primaryKey="ts"), "keeps what it was created with"),
    "another kind": (save(type="mor"), "keeps what it was created with"),
    "a key without its prefix": (save(recordkey__field="id"), "Did you mean 'hoodie.datasource"),
    "a codec of Parquet": (save(compression="zstd"), "hoodie.parquet.compression.codec"),
    "a limit of Spark's files": (save(maxRecordsPerFile="10"), "hoodie.parquet.max.file.size"),
    "a point in time of a write": (save(versionAsOf="1"), "newest state"),
    "a part of Delta": (save("overwrite", replaceWhere="id = 1"), "mode overwrite with"),
    "another schema": (save("overwrite", overwriteSchema="true"), "use ALTER TABLE"),
    "a key of a family": (save(hoodie__clean__automtic="true"), "hoodie.clean.automatic"),
    "no number": (save(hoodie__parquet__max__file__size="1g"), "must be a whole number"),
    "an unknown operation": (save(**{OPERATION: "upsrt"}), "must be one of"),
    "a column that is missing": (save(what="1L id, 1D fare, 'x' city"), "ts"),
    "a column of another type": (save(what="1L id, 'a' fare, 1L ts, 'x' city"), "fare"),
    "a null key": (save(what="CAST(NULL AS BIGINT) id, 1D fare, 1L ts, 'x' city"), "null or empty"),
    "a key of another type": (save(what="array(1) id, 1D fare, 1L ts, 'x' city"), "id"),
    "a folder above": (save(what="1L id, 1D fare, 1L ts, 'a/../b' city"), "not a folder inside"),
    "a provider without its place": (
        save(hoodie__write__lock__provider="zookeeper"), "needs 'hoodie.write.lock.zookeeper",
    ),
    "a new table in another": (
        lambda spark, lake: (
            spark.range(1).write.format("pyhudi").option(KEY, "id").save(f"{lake}/rides/new")
        ),
        "lies inside the table at",
    ),
    "a relative path": (
        lambda spark, lake: spark.range(1).write.format("pyhudi").save("relative"),
        "absolute. Write it in full",
    ),
    "no path": (
        lambda spark, lake: spark.range(1).write.format("pyhudi").save(),
        "path",
    ),
    "an update of nothing": (
        lambda spark, lake: pyhudi.Table(f"{lake}/rides").commit("20010101000000000"),
        "has no completed commit",
    ),
    "a table of nothing": (lambda spark, lake: pyhudi.Table(f"{lake}/x"), "Nothing is there"),
    "a history of nothing": (lambda spark, lake: pyhudi.history(f"{lake}/x"), "Nothing is there"),
    "an unknown order": (
        lambda spark, lake: pyhudi.commits(f"{lake}/rides", order="newest"), "Use one of",
    ),
    "a diff from before": (
        lambda spark, lake: pyhudi.Table(f"{lake}/rides").diff("1999-01-01"), "first commit is",
    ),
}  # fmt: skip


def test_mistakes_in_python(spark: SparkSession, places: dict[str, str]) -> None:
    before, unsaid = (data_files(places), rows(spark)), []
    for name, (call, says) in CALLS.items():
        try:
            call(spark, places["lake"])
            unsaid.append(f"{name}: no error")
        except Exception as error:
            text = str(error).strip()
            if len(text.splitlines()) > MOST_LINES or not re.search(says, text):
                unsaid.append(f"{name}: {text[:400]}")
            if not isinstance(error, HudiError) and "pyspark" not in type(error).__module__:
                unsaid.append(f"{name}: a {type(error).__name__}")
    assert not unsaid, "\n".join(unsaid)
    assert (data_files(places), rows(spark)) == before
