"""What a remote Spark Connect session does with pyhudi's tables; it has no pyhudi of its own.

``python -S connect_client.py URL FOLDER WHAT``: each function below is one such session, and
prints what it found as one line of JSON.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import Observation, SparkSession, functions
from pyspark.sql.types import LongType

from tests import mistakes, sql_suite

KEY = "hoodie.datasource.write.recordkey.field"
OPERATION = "hoodie.datasource.write.operation"
SLOW_ROWS = 1_200  # a second each, two at a time: longer than any answer may take


def session(url: str) -> Any:
    assert importlib.util.find_spec("pyhudi") is None, "this client is to do without pyhudi"
    return SparkSession.builder.remote(url).getOrCreate()


def message(call: Callable[[], object]) -> str:
    try:
        call()
    except Exception as e:
        return str(e)
    raise AssertionError("no error")


def rows(spark: Any, query: str) -> list[list[Any]]:
    return [list(row) for row in spark.sql(query).collect()]


def statements(spark: Any, folder: str, *given: str) -> object:
    """SQL statements, the last a query; then the same table by path."""
    *changes, query = given
    changed = [rows(spark, statement) for statement in changes]
    found = rows(spark, query)
    path = f"{folder}/by_path"
    frame = spark.createDataFrame([(1, "a"), (2, "b")], "id long, name string")
    frame.write.format("pyhudi").option(KEY, "id").save(path)
    spark.sql("select 2L as id, 'c' as name").write.format("pyhudi").mode("append").save(path)
    by_path = spark.read.format("pyhudi").load(path).orderBy("id")
    return {
        "changed": changed,
        "rows": found,
        "by_path": [list(row) for row in by_path.collect()],
        "error": message(lambda: spark.read.format("pyhudi").load(f"{folder}/nothing").collect()),
    }


def suite(spark: Any, folder: str, file: str) -> object:
    """A file of the SQL suite; what was wrong with which statement."""
    given = sql_suite.parse(Path(file).read_text(encoding="utf-8"))

    def run(statement: str) -> sql_suite.Texts:
        return sql_suite.texts_of(spark.sql(statement).collect())

    spark.sql("create database suite")
    spark.sql("use suite")
    wrong = sql_suite.failures(given, run, {"folder": f"{folder}/{Path(file).stem}"})
    spark.sql("use default")
    spark.sql("drop database suite cascade")
    return wrong


def mistaken(spark: Any, folder: str, places: str, *given: str) -> object:
    """After the statements given, the mistakes that get no clear error, or change files."""

    def run(statement: str) -> None:
        try:
            spark.sql(statement).collect()
        except Exception as error:
            # Behind the text PySpark shows the server's stack of each error of Spark's.
            raise RuntimeError(str(error).partition("\n\nJVM stacktrace:")[0]) from error

    def failing(number: int) -> int:
        raise ValueError("not this one")

    for statement in given:
        spark.sql(statement)
    spark.udf.register("failing", failing, LongType())
    found = json.loads(places)
    before = mistakes.data_files(found)
    wrong = mistakes.unclear(run, found, mistakes.BY_UDF)
    if mistakes.data_files(found) != before:
        wrong.append("files were changed")
    return wrong


def tables_of_version(spark: Any, folder: str, version: str, count: str) -> object:
    """Make tables one after the other by a setting of this session."""
    spark.conf.set("hoodie.write.table.version", version)
    for number in range(int(count)):
        name = f"of_{version}_{number}"
        spark.sql(f"create temporary view news as select {number}L as id, '{version}' as name")
        frame = spark.table("news")
        frame.write.format("pyhudi").option(KEY, "id").save(f"{folder}/{name}")
        spark.sql("drop view news")
    return "made"


def observed(spark: Any, folder: str) -> object:
    """What the metrics of written frames get."""
    found = []
    for operation in ("bulk_insert", "insert", "upsert"):
        asked = Observation()
        counts = functions.count("*").alias("rows"), functions.sum("id").alias("sum")
        rows = spark.range(100).observe(asked, *counts)
        given = {KEY: "id", OPERATION: operation}
        rows.write.format("pyhudi").options(**given).mode("append").save(f"{folder}/observed")
        found.append(asked.get)
    return found


def write_at(spark: Any, folder: str, path: str) -> object:
    """Upsert one row, whose key no slow row has."""
    row = spark.sql("select -1L as id")
    row.write.format("pyhudi").option(KEY, "id").mode("append").save(path)
    return "written"


def questions(spark: Any, folder: str, path: str, count: str) -> object:
    """Many short statements, each of which asks the planner."""
    return [spark.read.format("pyhudi").load(path).count() for _ in range(int(count))]


def streams(spark: Any, folder: str) -> object:
    """A stream by the sink and one by ``foreachBatch``, each with its last batch repeated."""
    source, options = Path(folder) / "source", {KEY: "id", OPERATION: "insert"}
    source.mkdir()

    def run(name: str, begin: Callable[[Any], Any]) -> list[list[Any]]:
        """Write what there is; ``begin`` starts the query of a stream's rows."""
        files = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1)
        query = begin(
            files.json(str(source))
            .writeStream.option("checkpointLocation", f"{folder}/of_{name}")
            .trigger(availableNow=True)
        )
        assert query.awaitTermination(60), name
        return sorted(rows(spark, f"select id from pyhudi.`{folder}/{name}`"))

    def forget(name: str) -> None:
        logs = Path(folder) / f"of_{name}" / "commits"
        last = max(int(file.name) for file in logs.iterdir() if file.name.isdecimal())
        (logs / f".{last}.crc").unlink()
        (logs / str(last)).unlink()

    def sink(stream: Any) -> Any:
        return stream.format("pyhudi").options(**options).start(f"{folder}/sunk")

    def each(frame: Any, batch: int) -> None:
        # This function runs in a process of the server's, which lacks this module.
        key, how = "hoodie.datasource.write.recordkey.field", "hoodie.datasource.write.operation"
        given = {key: "id", how: "insert"}
        frame.write.format("pyhudi").options(**given).mode("append").save(f"{folder}/each")
        frame.createOrReplaceTempView("given")
        frame.sparkSession.sql(
            f"merge into pyhudi.`{folder}/counted` t using (select count(*) n from given) s "
            "on t.id = 0 when matched then update set n = t.n + s.n"
        )

    counted = spark.sql("select 0L as id, 0L as n").write.format("pyhudi").option(KEY, "id")
    counted.save(f"{folder}/counted")
    found = []
    for number in range(3):
        (source / f"{number}.json").write_text(json.dumps({"id": number}))
        if number:
            forget("sunk")
            forget("each")
        found = [run("sunk", sink), run("each", lambda s: s.foreachBatch(each).start())]
    return [*found, rows(spark, f"select n from pyhudi.`{folder}/counted`")]


def named_streams(spark: Any, folder: str) -> object:
    """Streams by ``toTable``, each with its last batch repeated; and options that do not fit."""
    source = Path(folder) / "named_source"
    source.mkdir()

    def run(name: str, **options: str) -> str:
        files = spark.readStream.schema("id long, city string").option("maxFilesPerTrigger", 1)
        query = (
            files.json(str(source))
            .writeStream.format("pyhudi")
            .options(**options)
            .option("checkpointLocation", f"{folder}/of_{name}")
            .trigger(availableNow=True)
            .partitionBy("city")
            .toTable(name)
        )
        assert query.awaitTermination(60), name
        return str(query.id)

    def forget(name: str) -> None:
        logs = Path(folder) / f"of_{name}" / "commits"
        last = max(int(file.name) for file in logs.iterdir() if file.name.isdecimal())
        (logs / f".{last}.crc").unlink()
        (logs / str(last)).unlink()

    spark.sql(
        "create table before (id long, city string) using pyhudi partitioned by (city) "
        "tblproperties (primaryKey = 'id')"
    )
    queries: dict[str, set[str]] = {"before": set(), "made": set()}
    for number in range(3):
        told = json.dumps({"id": number, "city": f"c{number % 2}"})
        (source / f"{number}.json").write_text(told)
        for name, seen in queries.items():
            if number:
                forget(name)
            seen.add(run(name, **{KEY: "id", OPERATION: "insert"}))
    wrong = message(lambda: run("wrong", **{KEY: "nothing"}))
    return {
        "rows": [rows(spark, f"select id, city from {name} order by id") for name in queries],
        "partitions": [rows(spark, f"show partitions {name}") for name in queries],
        "queries": [len(seen) for seen in queries.values()],
        "wrong": wrong,
        "tables": [row[1] for row in rows(spark, "show tables")],
    }


def followed(spark: Any, folder: str) -> object:
    """Streams of one table into others: the latest images, and the changes; and an error."""
    source = f"{folder}/followed"

    def write(ids: str, name: str, how: str = "upsert") -> None:
        frame = spark.sql(f"select explode(array({ids})) as id, '{name}' as name")
        writer = frame.write.format("pyhudi").option(KEY, "id").option(OPERATION, how)
        writer.mode("append").save(source)

    def run(into: str, *columns: str, key: str = "id", **options: str) -> list[list[Any]]:
        stream = spark.readStream.format("pyhudi").options(**options).load(source)
        query = (
            (stream.selectExpr(*columns) if columns else stream)
            .writeStream.format("pyhudi")
            .options(**{KEY: key, OPERATION: "upsert"})
            .option("checkpointLocation", f"{folder}/of_{into}")
            .trigger(availableNow=True)
            .start(f"{folder}/{into}")
        )
        assert query.awaitTermination(60), into
        found = spark.read.format("pyhudi").load(f"{folder}/{into}")
        return sorted(list(row) for row in found.collect())

    changes = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.query.incremental.format": "cdc_columns",
    }
    told = "coalesce(after.id, before.id) as id", "op", "after.name as name"
    found = []
    for ids, name, how in (("1, 2", "a", "upsert"), ("2, 3", "b", "upsert"), ("1", "", "delete")):
        write(ids, name, how)
        latest = run("latest", maxFilesPerTrigger="1")
        found.append([latest, run("changed", *told, **changes)])
    wrong = {"hoodie.datasource.streaming.startOffset": "yesterday"}
    return {"found": found, "error": message(lambda: run("wrong", **wrong))}


def slow(spark: Any, mark: str) -> Any:
    """Rows that take ten minutes, and a file ``mark`` once the first is under way."""

    def late(number: int) -> int:
        with open(mark, "a"):
            time.sleep(1)
        return number

    wait = functions.udf(late, LongType())
    return spark.range(0, SLOW_ROWS, 1, 2).select(wait("id").alias("id"))


def interrupted(spark: Any, folder: str, path: str) -> object:
    """A write that is cancelled when a line comes by stdin."""

    def cancel() -> None:
        sys.stdin.readline()
        spark.interruptAll()

    waiting = threading.Thread(target=cancel)
    waiting.start()
    found = slow_write(spark, folder, path)
    waiting.join()
    return found


def cut_short(spark: Any, folder: str, first: str, setting: str, slow: str, *given: str) -> object:
    """Statements, the third of which is cancelled when a line comes by stdin; the last a query.

    A file ``ready`` says that the first two are done.
    """
    *changes, query = given
    spark.sql(first)
    spark.sql(setting)
    Path(folder, "ready").touch()

    def cancel() -> None:
        sys.stdin.readline()
        spark.interruptAll()

    waiting = threading.Thread(target=cancel)
    waiting.start()
    error = message(lambda: spark.sql(slow))
    waiting.join()
    for statement in changes:
        spark.sql(statement)
    return {"error": error, "rows": rows(spark, query)}


def slow_write(spark: Any, folder: str, path: str) -> object:
    rows = slow(spark, f"{folder}/began")
    beats = {"hoodie.client.heartbeat.interval_in_ms": "5000"}  # the next write waits for them
    write = rows.write.format("pyhudi").option(KEY, "id").options(**beats).mode("append")
    return {"error": message(lambda: write.save(path))}


def main() -> None:
    url, folder, what, *arguments = sys.argv[1:]
    print(json.dumps(globals()[what](session(url), folder, *arguments)), flush=True)


if __name__ == "__main__":
    main()
