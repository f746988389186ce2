"""``foreachBatch``: each write of its function is in the table once, whatever is repeated."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyhudi
from pyhudi.errors import HudiError
from pyhudi.format.stream_marks import STREAMS_KEY
from pyhudi.transactions.epoch_conflicts import REPLACES
from tests.spark.racing import overtaken
from tests.spark.test_stream_sink import LONG_S, OPTIONS, Stream, appended, ended, row

pytestmark = pytest.mark.spark

NAME = "hoodie.datasource.write.streaming.checkpoint.identifier"


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


def each_batch(stream: Stream, work: Callable[[DataFrame, int], None]) -> None:
    writer = stream.rows().writeStream.foreachBatch(work)
    checkpoint = str(stream.checkpoint)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    ended(query)


def test_each_write_of_a_repeated_batch_is_in_once(stream: Stream) -> None:
    failing = [True, False, False]

    def twice(df: DataFrame, batch: int) -> None:
        appended(df, stream.path)
        if batch == 1 and failing.pop(0):
            raise RuntimeError("the driver dies here")
        appended(df.withColumn("id", F.col("id") + 100), stream.path)

    stream.put([row(1)], [row(2)])
    with pytest.raises(StreamingQueryException, match="the driver dies here"):
        each_batch(stream, twice)
    each_batch(stream, twice)
    stream.forget(1)
    each_batch(stream, twice)
    assert stream.table() == [row(n) for n in (1, 2, 101, 102)]
    assert stream.commits() == 4


def test_a_repeated_batch_that_made_its_table_is_in_once(stream: Stream) -> None:
    def made(df: DataFrame, batch: int) -> None:
        path = f"{stream.path}-{batch}"
        df.write.format("pyhudi").options(**OPTIONS).mode("errorifexists").save(path)

    stream.put([row(1)], [row(2)])
    each_batch(stream, made)
    stream.forget(1)
    each_batch(stream, made)
    assert [len(pyhudi.history(f"{stream.path}-{batch}")) for batch in (0, 1)] == [1, 1]


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_repeated_batch_that_made_its_table_by_name_is_in_once(
    stream: Stream, name: str, mode: str
) -> None:
    """Spark asks for another statement if the table is there."""

    def made(df: DataFrame, batch: int) -> None:
        df.write.format("pyhudi").option("path", stream.path).mode(mode).saveAsTable(name)
        df.write.format("pyhudi").mode("append").saveAsTable(name)

    stream.put([row(1)])
    each_batch(stream, made)
    stream.forget(0)
    each_batch(stream, made)
    assert stream.table() == [row(1)] * 2
    assert stream.commits() == 2


@pytest.mark.every_line
def test_a_query_that_is_stopped_in_a_write_of_its_function_has_no_error(stream: Stream) -> None:
    began = Event()

    def without_end(df: DataFrame, batch: int) -> None:
        while True:
            appended(df, stream.path)
            began.set()

    stream.put([row(1)])
    writer = stream.rows().writeStream.foreachBatch(without_end)
    query = writer.option("checkpointLocation", str(stream.checkpoint)).start()
    assert began.wait(LONG_S)
    query.stop()
    assert query.exception() is None


@pytest.mark.every_line
@pytest.mark.parametrize("index", ["GLOBAL_SIMPLE", "SIMPLE"])
def test_a_statement_that_runs_again_keeps_the_settings_of_its_stream(
    stream: Stream, name: str, index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings of the function's session; the other program's session has none of them."""
    spark = stream.spark
    spark.sql(
        f"create table {name} (id bigint, name string, ts bigint, dt string) using pyhudi "
        f"partitioned by (dt) location '{stream.path}' tblproperties "
        f"(primaryKey = 'id', preCombineField = 'ts', 'hoodie.index.type' = '{index}')"
    )
    spark.sql(f"insert into {name} values (1, 'a', 1, 'x'), (2, 'a', 1, 'x')")

    def merged(df: DataFrame, batch: int) -> None:
        session = df.sparkSession
        session.conf.set(NAME, "mine")
        session.conf.set("hoodie.client.heartbeat.interval_in_ms", "500")  # the update waits for it
        df.createOrReplaceTempView("batch")
        session.sql(
            f"merge into {name} t using batch on t.id = batch.id "
            "when matched then update set ts = t.ts + 1"
        )

    stream.put([row(1)])
    update = f"update {name} set name = 'b' where id < 3"
    overtaken(monkeypatch, lambda: spark.sql(update))
    each_batch(stream, merged)
    last = pyhudi.last_commit(spark)
    assert last is not None
    assert list(json.loads(last.metadata[STREAMS_KEY])) == ["mine"]


@pytest.mark.every_line
def test_a_frame_of_the_batch_is_known_on_any_thread(stream: Stream) -> None:
    def aside(df: DataFrame, batch: int) -> None:
        thread = Thread(target=appended, args=(df.where("id > 0"), stream.path))
        thread.start()
        thread.join()

    stream.put([row(1)], [row(2)])
    each_batch(stream, aside)
    stream.forget(1)
    each_batch(stream, aside)
    assert stream.table() == [row(1), row(2)]


@pytest.mark.every_line
def test_a_statement_that_reads_the_batch_is_known_on_any_thread(stream: Stream, name: str) -> None:
    spark = stream.spark
    spark.sql(f"create table {name} (id long, n long) using pyhudi tblproperties (primaryKey='id')")
    spark.sql(f"insert into {name} values (1, 0), (2, 0)")
    spark.sql(
        f"create table {name}_p (id long, n long, p string) using pyhudi partitioned by (p) "
        "tblproperties (primaryKey = 'id', 'hoodie.datasource.overwrite.mode' = 'dynamic')"
    )
    spark.sql(f"insert into {name}_p values (9, 0, 'p')")
    counted = "(select 9L id, count(*) n from given)"
    statements = [
        f"merge into {name} t using given s on t.id = s.id when matched then update set n = n + 1",
        f"update {name} set n = n + 10 where id in (select id from given)",
        f"delete from {name} where id in (select id + 1 from given)",
        f"insert overwrite {name}_p select t.id, g.n + t.n + 1, 'p' from {counted} g, {name}_p t",
    ]
    failed: list[BaseException] = []

    def run(session: SparkSession) -> None:
        try:
            for statement in statements:
                session.sql(statement)
        except BaseException as error:
            failed.append(error)

    def aside(df: DataFrame, batch: int) -> None:
        df.createOrReplaceTempView("given")
        thread = Thread(target=run, args=(df.sparkSession,))
        thread.start()
        thread.join()

    stream.put([row(1)])
    each_batch(stream, aside)
    stream.forget(0)
    each_batch(stream, aside)
    assert not failed
    assert list(map(tuple, spark.table(name).collect())) == [(1, 11)]
    assert list(map(tuple, spark.table(f"{name}_p").select("id", "n").collect())) == [(9, 2)]


def test_statements_of_a_repeated_batch_change_rows_once(stream: Stream, name: str) -> None:
    spark = stream.spark
    spark.sql(f"create table {name} (id long, n long) using pyhudi tblproperties (primaryKey='id')")
    spark.sql(f"insert into {name} values (1, 0), (2, 0)")

    def count(df: DataFrame, batch: int) -> None:
        session = df.sparkSession
        df.createOrReplaceTempView("given")
        session.sql(f"delete from {name} where id = 99")
        session.sql(
            f"merge into {name} t using given s on t.id = s.id "
            "when matched then update set n = t.n + 1 when not matched then insert (id, n) "
            "values (s.id, 0)"
        )
        session.sql(f"update {name} set n = n + 10 where id = 2")
        session.sql(f"insert into {name} select id + 50, 0 from given")

    stream.put([row(1), row(3)])
    each_batch(stream, count)
    stream.forget(0)
    each_batch(stream, count)
    found = sorted(map(tuple, spark.table(name).select("id", "n").collect()))
    assert found == [(1, 1), (2, 10), (3, 0), (51, 0), (53, 0)]


def test_a_write_that_its_function_makes_again_is_counted_once(stream: Stream) -> None:
    troubles = ["the write fails", "the driver dies here"]

    def retried(df: DataFrame, batch: int) -> None:
        wrong = df.withColumn("name", F.raise_error(F.lit(troubles[0]))) if troubles else df
        try:
            appended(wrong, stream.path)
        except HudiError:
            troubles.pop(0)
            appended(df, stream.path)
        if troubles:
            raise RuntimeError(troubles.pop())
        appended(df.withColumn("id", F.col("id") + 100), stream.path)

    stream.put([row(1)])
    with pytest.raises(StreamingQueryException, match="the driver dies here"):
        each_batch(stream, retried)
    assert stream.table() == [row(1)]
    each_batch(stream, retried)
    assert stream.table() == [row(1), row(101)]
    assert stream.commits() == 2


@pytest.mark.parametrize("dies", [True, False], ids=["the driver dies", "it ends"])
def test_a_function_that_makes_other_writes_when_it_is_repeated_is_told(
    stream: Stream, name: str, dies: bool
) -> None:
    """Spark leaves out the DROP of a partition that is not there."""
    spark, dying = stream.spark, [dies]
    spark.sql(
        f"create table {name} (id long, dt string) using pyhudi partitioned by (dt) "
        f"location '{stream.path}'"
    )
    if dies:
        spark.sql(f"insert into {name} values (9, 'x')")

    def reload(df: DataFrame, batch: int) -> None:
        df.createOrReplaceTempView("given")
        df.sparkSession.sql(f"alter table {name} drop if exists partition (dt = 'x')")
        if dying and dying.pop():
            raise RuntimeError("the driver dies here")
        df.sparkSession.sql(f"insert into {name} select id, dt from given")

    def rows() -> list[int]:
        return [n for (n,) in spark.table(name).select("id").collect()]

    stream.put([row(1)])
    if dies:
        with pytest.raises(StreamingQueryException, match="the driver dies here"):
            each_batch(stream, reload)
    else:
        each_batch(stream, reload)
        stream.forget(0)
    before = rows(), stream.commits()
    with pytest.raises(StreamingQueryException, match="made other writes than before") as told:
        each_batch(stream, reload)
    assert (rows(), stream.commits()) == before
    query = re.findall(f"set {REPLACES} to ([-0-9a-f]+) for one run", str(told.value))[0]
    spark.conf.set(REPLACES, query)
    try:
        each_batch(stream, reload)
    finally:
        spark.conf.unset(REPLACES)
    assert rows() == [1]
