"""``df.writeStream.format("pyhudi")``: each batch is in the table once.

A stream reads JSON files, a file a batch. Spark repeats a batch if the batch's file is missing in
the commit log of the checkpoint, as after a crash.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

import pyhudi
from pyhudi.errors import ConfigError, SchemaConflict, StreamConflict
from pyhudi.format.stream_marks import HUDI_KEY, STREAMS_KEY
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import open_table
from pyhudi.transactions.epoch_conflicts import NAME, REPLACES
from pyhudi.writes.arrival import EVOLVES
from tests.process_facts import eventually
from tests.spark.tables import KEY, OPERATION, ORDERING, PARTITION

pytestmark = pytest.mark.spark

DDL = "id long, name string, ts long, dt string"
OPTIONS = {"hoodie.table.name": "t", KEY: "id", PARTITION: "dt", ORDERING: "ts"}
LONG_S = 120
BEGAN_S = 1_700_000_000


@dataclass
class Stream:
    """A stream of files into the table at ``path``; ``checkpoint`` is its folder."""

    spark: SparkSession
    folder: Path
    name: str = "a"
    options: Mapping[str, str] = field(default_factory=lambda: OPTIONS)
    ddl: str = DDL

    @property
    def path(self) -> str:
        return str(self.folder / "table")

    @property
    def checkpoint(self) -> Path:
        return self.folder / f"checkpoint-{self.name}"

    def put(self, *batches: Iterable[tuple[Any, ...]]) -> None:
        """Files, a batch each."""
        source = self.folder / f"source-{self.name}"
        source.mkdir(exist_ok=True)
        columns = [column.split()[0] for column in self.ddl.split(", ")]
        for rows in batches:
            lines = [json.dumps(dict(zip(columns, row, strict=True))) for row in rows]
            number = len(list(source.iterdir()))
            file = source / f"{number:05}.json"
            file.write_text("\n".join(lines))
            # Spark reads the oldest first.
            os.utime(file, (BEGAN_S + number, BEGAN_S + number))

    def rows(self) -> DataFrame:
        source = str(self.folder / f"source-{self.name}")
        files = self.spark.readStream.schema(self.ddl).option("maxFilesPerTrigger", 1)
        return files.json(source)

    def writer(self, df: DataFrame | None = None, **more: str) -> DataStreamWriter:
        options = {**self.options, **{k.replace("__", "."): v for k, v in more.items()}}
        stream = (df or self.rows()).writeStream.format("pyhudi").options(**options)
        return stream.option("checkpointLocation", str(self.checkpoint))

    def run(self, df: DataFrame | None = None, **more: str) -> StreamingQuery:
        """Write what there is."""
        return ended(self.writer(df, **more).trigger(availableNow=True).start(self.path))

    def forget(self, batch: int) -> None:
        """Have Spark repeat a batch."""
        for name in (str(batch), f".{batch}.crc"):
            (self.checkpoint / "commits" / name).unlink()

    def table(self) -> list[tuple[Any, ...]]:
        df = self.spark.read.format("pyhudi").load(self.path)
        return sorted(map(tuple, df.select("id", "name", "ts", "dt").collect()))

    def commits(self) -> int:
        return sum(entry.is_commit for entry in pyhudi.history(self.path))

    def told(self) -> dict[str, Any]:
        """What the newest commit says of streams."""
        extra = pyhudi.last_commit(self.spark).metadata  # type: ignore[union-attr]
        return {**json.loads(extra[STREAMS_KEY]), "hudi": json.loads(extra[HUDI_KEY])}


def ended(query: StreamingQuery) -> StreamingQuery:
    assert query.awaitTermination(LONG_S)
    return query


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


def row(key: int, name: str = "a", ts: int = 1, dt: str = "x") -> tuple[Any, ...]:
    return key, name, ts, dt


@pytest.mark.every_line
def test_batches_are_upserted_and_told(stream: Stream) -> None:
    stream.put([row(1), row(2, dt="y")], [row(2, "b", 2, "y"), row(3)])
    query = stream.run()
    assert stream.table() == [row(1), row(2, "b", 2, "y"), row(3)]
    assert stream.commits() == 2
    told = stream.told()
    assert told["default_single_writer"]["query"] == query.id
    assert told["default_single_writer"]["batch"] == 1
    assert told["hudi"] == {"default_single_writer": "1"}


def test_a_query_may_run_once_or_at_intervals(stream: Stream) -> None:
    stream.put([row(1)], [row(1, "b", 2), row(2)])
    ended(stream.writer().trigger(once=True).start(stream.path))
    assert (stream.commits(), stream.table()) == (1, [row(1, "b", 2), row(2)])
    query = stream.writer().trigger(processingTime="100 milliseconds").start(stream.path)
    try:
        for number in (3, 4):
            stream.put([row(number)])
            assert eventually(lambda n=number: stream.commits() == n - 1)  # type: ignore[misc]
    finally:
        query.stop()
    assert stream.table() == [row(1, "b", 2), row(2), row(3), row(4)]
    assert stream.told()["default_single_writer"]["batch"] == 2


def test_the_progress_shows_what_a_batch_did(stream: Stream) -> None:
    stream.put([row(1), row(2)], [row(2, "b", 2), row(3)])
    shown = [dict(p["sink"]["metrics"]) for p in stream.run().recentProgress if p["numInputRows"]]
    assert [s["rowsIn"] for s in shown] == ["2", "2"]
    assert [(s["rowsInserted"], s["rowsUpdated"]) for s in shown] == [("2", "0"), ("1", "1")]
    assert (shown[1]["rowsDeleted"], shown[1]["filesWritten"]) == ("0", "1")
    assert (shown[1]["indexProbed"], shown[1]["indexHits"]) == ("2", "1")
    assert int(shown[1]["bytesWritten"]) > 0
    assert shown[1]["instant"] == pyhudi.history(stream.path)[-1].instant


@pytest.mark.parametrize("operation", ["insert", "bulk_insert", "upsert"])
def test_a_repeated_batch_is_in_the_table_once(stream: Stream, operation: str) -> None:
    options = {**OPTIONS, OPERATION: operation}
    stream.options = options
    stream.put([row(1), row(2)], [row(3)])
    stream.run()
    stream.forget(1)
    stream.put([row(4)])
    stream.run()
    assert stream.table() == [row(n) for n in (1, 2, 3, 4)]
    assert stream.commits() == 3


def test_a_batch_is_known_after_other_commits(stream: Stream) -> None:
    stream.options = {**OPTIONS, OPERATION: "insert"}
    stream.put([row(1)])
    stream.run()
    for key in (5, 6):
        df = stream.spark.createDataFrame([row(key)], DDL)
        df.write.format("pyhudi").options(**OPTIONS).mode("append").save(stream.path)
    stream.forget(0)
    stream.run()
    assert stream.table() == [row(1), row(5), row(6)]


KEYLESS = {"hoodie.table.name": "t", PARTITION: "dt"}


@pytest.mark.parametrize(
    ("options", "operation"),
    [(OPTIONS, "upsert"), (OPTIONS, "bulk_insert"), (KEYLESS, "insert")],
    ids=["upsert", "bulk_insert", "insert without a key"],
)
def test_an_empty_batch_makes_no_commit(
    stream: Stream, options: dict[str, str], operation: str
) -> None:
    stream.options = {**options, OPERATION: operation}
    stream.put([row(2)], [row(1)], [row(2)], [row(4)])
    stream.run(stream.rows().where("id <> 2"))
    assert stream.table() == [row(1), row(4)]
    assert stream.commits() == 2
    assert stream.told()["default_single_writer"]["batch"] == 3
    assert not open_table(LocalStorage(stream.path)).timeline().pending
    stream.put([row(2)])
    query = stream.run(stream.rows().where("id <> 2"))
    stream.forget(4)
    stream.run(stream.rows().where("id <> 2"))
    assert stream.commits() == 2, "an empty batch that is repeated is empty"
    assert query.exception() is None


@pytest.mark.parametrize("mode", ["append", "update"])
@pytest.mark.parametrize("operation", ["insert_overwrite", "insert_overwrite_table"])
def test_a_batch_without_rows_that_would_overwrite_replaces_nothing(
    stream: Stream, operation: str, mode: str
) -> None:
    stream.put([row(1)], [], [row(2)], [])
    writer = stream.writer(**{OPERATION: operation}).outputMode(mode)
    ended(writer.trigger(availableNow=True).start(stream.path))
    assert stream.table() == [row(2)]
    assert stream.commits() == 2
    assert not open_table(LocalStorage(stream.path)).timeline().pending


@pytest.mark.parametrize("operation", ["upsert", "bulk_insert"])
def test_a_first_batch_without_rows_makes_a_table_with_columns(
    stream: Stream, operation: str
) -> None:
    stream.put([row(1)])
    stream.run(stream.rows().where("id <> 1"), **{OPERATION: operation})
    assert stream.table() == []
    assert stream.commits() == 0
    stream.put([row(2)])
    stream.run(stream.rows().where("id <> 1"), **{OPERATION: operation})
    assert stream.table() == [row(2)]


@pytest.mark.parametrize("operation", ["bulk_insert", "insert"])
def test_a_frame_without_rows_is_a_commit(stream: Stream, operation: str) -> None:
    none = stream.spark.createDataFrame([], DDL)
    writer = none.write.format("pyhudi").options(**{**KEYLESS, OPERATION: operation})
    writer.mode("append").save(stream.path)
    assert stream.commits() == 1
    assert stream.table() == []


def test_soft_deletes_leave_by_the_stream(stream: Stream) -> None:
    stream.ddl = DDL + ", _hoodie_is_deleted boolean"
    stream.put([(*row(1), False), (*row(2), False)], [(*row(1, ts=2), True)])
    stream.run()
    assert stream.table() == [row(2)]


def test_a_fresh_checkpoint_is_an_error_that_names_both_queries(stream: Stream) -> None:
    stream.put([row(1)])
    old = stream.run()
    fresh = Stream(stream.spark, stream.folder, "b")
    fresh.put([row(7)])
    with pytest.raises(StreamConflict, match=str(old.id)):
        fresh.run()
    assert stream.table() == [row(1)]
    assert stream.commits() == 1
    fresh.run(**{REPLACES: str(old.id)})
    assert stream.table() == [row(1), row(7)]
    stream.put([row(8)])
    with pytest.raises(StreamConflict, match="a second stream, or the same one"):
        stream.run()


def test_two_named_streams_write_beside_each_other(stream: Stream) -> None:
    other = Stream(stream.spark, stream.folder, "b", {**OPTIONS, NAME: "other"})
    for one, keys in ((stream, (1, 3)), (other, (2, 4))):
        for key in keys:
            one.put([row(key)])
            one.run()
    stream.forget(1)
    other.forget(1)
    stream.run()
    other.run()
    assert stream.table() == [row(n) for n in (1, 2, 3, 4)]
    assert stream.commits() == 4


def test_a_checkpoint_from_before_is_an_error(stream: Stream) -> None:
    stream.put([row(1)], [row(2)])
    stream.run()
    for log in ("commits", "offsets", "sources/0"):
        for file in (stream.checkpoint / log).glob("*1*"):
            file.unlink()
    stream.forget(0)
    with pytest.raises(StreamConflict, match="checkpoint is older than the table"):
        stream.run()
    assert stream.table() == [row(1), row(2)]


def counted(df: DataFrame) -> DataFrame:
    count = F.count("id").cast("string").alias("name")
    made = df.groupBy("dt").agg(count, F.max("ts").alias("ts"))
    return made.select(F.crc32("dt").alias("id"), "name", "ts", "dt")


@pytest.mark.parametrize("mode", ["complete", "update"])
def test_the_result_of_an_aggregation_follows_its_mode(stream: Stream, mode: str) -> None:
    stream.put([row(1), row(2, dt="y")], [row(3, ts=2)])
    query = stream.writer(counted(stream.rows())).outputMode(mode)
    ended(query.trigger(availableNow=True).start(stream.path))
    assert sorted((dt, name) for _, name, _, dt in stream.table()) == [("x", "2"), ("y", "1")]
    operations = [entry.operation for entry in pyhudi.history(stream.path)]
    second = "insert_overwrite_table" if mode == "complete" else "upsert"
    assert operations[1] == second


def test_complete_mode_deletes_nothing_by_its_operation(stream: Stream) -> None:
    stream.put([row(1)])
    total = stream.rows().groupBy("id", "name", "ts", "dt").count().drop("count")
    writer = stream.writer(total, **{OPERATION: "delete"}).outputMode("complete")
    query = writer.trigger(availableNow=True).start(stream.path)
    with pytest.raises(ConfigError, match="complete mode replaces all rows"):
        query.awaitTermination(LONG_S)


@pytest.mark.every_line
def test_an_idle_query_reports_no_batch_again(stream: Stream) -> None:
    stream.put([row(1), row(2)])
    interval = "spark.sql.streaming.noDataProgressEventInterval"
    stream.spark.conf.set(interval, "200")
    query = stream.writer().start(stream.path)
    try:
        query.processAllAvailable()
        eventually(lambda: len(query.recentProgress) > 2)
    finally:
        stream.spark.conf.unset(interval)
        query.stop()
    told = [progress["sink"].get("metrics") or {} for progress in query.recentProgress]
    assert [each["rowsInserted"] for each in told if each] == ["2"]


@pytest.mark.every_line
def test_a_write_beside_waits_for_no_batch_of_another_sink(stream: Stream) -> None:
    """Spark has the rows of a sink of the newer kind only when they are written."""
    stream.put([row(1)])
    written, go = stream.folder / "began", stream.folder / "go"

    def slow(key: int) -> int:
        written.touch()
        while not go.exists():
            time.sleep(0.05)
        return key

    waits = stream.rows().select(F.udf(slow, "long")("id").alias("id"))
    other = waits.writeStream.format("noop")
    query = other.option("checkpointLocation", str(stream.folder / "other")).start()
    try:
        eventually(written.exists)
        frame = stream.spark.createDataFrame([row(7)], DDL)
        frame.write.format("pyhudi").options(**OPTIONS).mode("append").save(stream.path)
        assert not query.recentProgress, "the other query still works on its batch"
        assert stream.table() == [row(7)]
    finally:
        go.touch()
        query.stop()


@pytest.mark.every_line
def test_each_batch_is_joined_with_the_newest_state_of_a_table(stream: Stream) -> None:
    """Also with the stream's own table: then it is a table of first rows."""
    names = stream.folder / "names"

    def name(text: str) -> None:
        frame = stream.spark.createDataFrame([(1, text, 1, "x"), (2, text, 1, "x")], DDL)
        frame.write.format("pyhudi").options(**OPTIONS).mode("append").save(str(names))

    name("first")
    static = stream.spark.read.format("pyhudi").load(str(names)).select("id", "name")
    old = stream.spark.read.format("pyhudi").option("as.of.instant", instant_of(names))
    fixed = old.load(str(names)).selectExpr("id", "name as then")
    stream.put([row(1)])
    joined = stream.rows().drop("name").join(static, "id").join(fixed, "id")
    query = stream.writer(joined.select("id", "name", "ts", "dt", "then")).start(stream.path)
    try:
        query.processAllAvailable()
        name("second")
        stream.put([row(2)])
        query.processAllAvailable()
    finally:
        query.stop()
    assert stream.table() == [row(1, "first"), row(2, "second")]
    found = stream.spark.read.format("pyhudi").load(stream.path)
    assert {r.then for r in found.collect()} == {"first"}


def test_rows_whose_keys_the_streams_own_table_has_are_left_out(stream: Stream) -> None:
    before = stream.spark.createDataFrame([row(1)], DDL)
    before.write.format("pyhudi").options(**OPTIONS).mode("append").save(stream.path)
    own = stream.spark.read.format("pyhudi").load(stream.path).select("id")
    stream.put([row(1, "late", 9), row(2)], [row(2, "late", 9), row(3)])
    stream.run(stream.rows().join(own, "id", "left_anti"))
    assert stream.table() == [row(1), row(2), row(3)]


def instant_of(path: Path) -> str:
    return str(pyhudi.history(str(path))[0].instant)


def test_complete_mode_replaces_all_rows_whatever_the_session_says(stream: Stream) -> None:
    stream.put([row(1, dt="x")], [row(2, dt="y")])
    count = F.count("id").cast("string").alias("name")
    newest = stream.rows().agg(count, F.max("ts").alias("ts"), F.max("dt").alias("dt"))
    total = newest.select(F.lit(0).cast("bigint").alias("id"), "name", "ts", "dt")
    mode = "spark.sql.sources.partitionOverwriteMode"
    stream.spark.conf.set(mode, "dynamic")
    try:
        query = stream.writer(total).outputMode("complete").trigger(availableNow=True)
        ended(query.start(stream.path))
    finally:
        stream.spark.conf.unset(mode)
    assert stream.table() == [row(0, "2", dt="y")], "nothing of the first batch is left"


@pytest.mark.every_line
def test_a_stream_writes_to_a_table_by_name(stream: Stream, name: str) -> None:
    stream.spark.sql(
        f"create table {name} ({DDL}) using pyhudi partitioned by (dt) "
        f"tblproperties (primaryKey = 'id', preCombineField = 'ts', '{NAME}' = 'named')"
    )
    stream.options = {}
    stream.put([row(1)], [row(1, "b", 2)])
    ended(stream.writer().trigger(availableNow=True).toTable(name))
    assert list(map(tuple, stream.spark.table(name).select("id", "name").collect())) == [(1, "b")]
    assert stream.told()["named"]["batch"] == 1


def test_a_stream_writes_to_a_table_by_its_path_in_sql(stream: Stream) -> None:
    stream.put([row(1)])
    stream.run()
    stream.put([row(2)])
    ended(stream.writer().trigger(availableNow=True).toTable(f"pyhudi.`{stream.path}`"))
    assert stream.table() == [row(1), row(2)]


def test_a_stream_that_adds_a_column_evolves_the_table_or_ends(stream: Stream) -> None:
    stream.put([row(1)])
    stream.run()
    stream.put([row(2)])
    wider = stream.rows().withColumn("size", F.lit(5))
    with pytest.raises(SchemaConflict, match="'size'"):
        stream.run(wider, **{EVOLVES: "false"})
    assert stream.table() == [row(1)]
    stream.run(wider, **{EVOLVES: "true"})
    assert stream.table() == [row(1), row(2)]
    sizes = stream.spark.read.format("pyhudi").load(stream.path).orderBy("id").select("size")
    assert [s for (s,) in sizes.collect()] == [None, 5]


def test_an_unknown_option_ends_the_stream_before_it_writes(stream: Stream) -> None:
    stream.put([row(1)])
    with pytest.raises(ConfigError, match="recordKeyy"):
        stream.run(recordKeyy="id")
    assert not Path(stream.path).exists()


def test_options_without_effect_are_told_once_in_a_run(
    stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    def told() -> int:
        return sum("have no effect" in record.getMessage() for record in caplog.records)

    stream.put([row(1)], [row(2)])
    with caplog.at_level(logging.WARNING, "pyhudi"):
        stream.run(hoodie__metrics__on="true")
        assert (stream.commits(), told()) == (2, 1)
        stream.put([row(3)])
        stream.run(hoodie__metrics__on="true")
    assert (stream.commits(), told()) == (3, 2)


def test_a_query_that_is_stopped_in_a_batch_has_no_error_and_goes_on(stream: Stream) -> None:
    stream.put([row(n) for n in range(8)])
    slow = F.udf(lambda name: time.sleep(1) or name)
    df = stream.rows().repartition(8).withColumn("name", slow("name"))
    query = stream.writer(df).start(stream.path)
    eventually(lambda: stream.spark.sparkContext.statusTracker().getActiveJobsIds())
    query.stop()
    assert query.exception() is None
    stream.run()
    assert stream.table() == [row(n) for n in range(8)]
    assert stream.commits() == 1


def appended(df: DataFrame, path: str) -> None:
    options = {**OPTIONS, OPERATION: "insert"}
    df.write.format("pyhudi").options(**options).mode("append").save(path)


def test_writes_after_a_stream_are_no_batches(stream: Stream) -> None:
    stream.put([row(1)])
    stream.run()
    appended(stream.spark.createDataFrame([row(2)], DDL), stream.path)
    assert stream.told()["default_single_writer"]["batch"] == 0
    assert stream.table() == [row(1), row(2)]
