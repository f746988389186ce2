"""Writes whose rows were read from the table that they write: no commit in between is lost.

What others commit comes at a known point: after the write was asked for and before it begins, or
between the making of a DataFrame and its write.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyhudi
from pyhudi.reads import pins
from pyhudi.spark import write_handlers
from tests.spark.tables import KEY, OPERATION, PARTITION, VERSION
from tests.spark.test_sql import folder_of

pytestmark = [pytest.mark.spark, pytest.mark.compiled]

RETRIES = "hoodie.write.num.retries.on.conflict.failures"
DDL = "id long, v long, dt string"
START = [(1, 10, "x"), (2, 20, "x"), (3, 30, "y")]
#: what others commit, and what is right after it if each ``v`` becomes ``v + 1``
THEIRS = (1, 100, "x")
RIGHT = [(1, 101, "x"), (2, 21, "x"), (3, 31, "y")]


class Counters:
    """A table in the catalog, whose rows are counters."""

    def __init__(self, spark: SparkSession, name: str, version: str = "9") -> None:
        self.spark, self.name = spark, name
        spark.sql(
            f"create table {name} ({DDL}) using pyhudi partitioned by (dt) tblproperties "
            f"(type = 'cow', primaryKey = 'id', '{VERSION}' = '{version}')"
        )
        self.path = str(folder_of(spark, name))
        self.commit(*START)

    def commit(self, *rows: tuple[Any, ...]) -> None:
        """Upsert rows, which are read from nowhere."""
        self.save(self.spark.createDataFrame(list(rows), DDL).coalesce(1))

    def save(self, df: DataFrame, mode: str = "append", **options: str) -> None:
        given = {OPERATION: "upsert"} if mode == "append" else {}
        df.write.format("pyhudi").options(**given, **options).mode(mode).save(self.path)

    def by_path(self, **options: str) -> DataFrame:
        return self.spark.read.format("pyhudi").options(**options).load(self.path)

    def by_name(self) -> DataFrame:
        return self.spark.table(self.name)

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(map(tuple, self.by_name().collect()))


def plus(df: DataFrame, by: int = 1) -> DataFrame:
    return df.withColumn("v", F.col("v") + by)


@pytest.fixture
def counters(spark: SparkSession, name: str) -> Counters:
    return Counters(spark, name)


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Has others act once a write was asked for, before it begins: an action for each time."""

    def acts(*actions: Callable[[], object]) -> None:
        left = list(actions)

        def after(write: Callable[..., Any]) -> Callable[..., Any]:
            def late(*arguments: Any) -> Any:
                if left:
                    # On a thread of its own: a stream's thread would make it a part of the batch.
                    with ThreadPoolExecutor(1) as others:
                        others.submit(left.pop(0)).result()
                return write(*arguments)

            return late

        for name in ("write_table", "write_changes"):
            monkeypatch.setattr(write_handlers, name, after(getattr(write_handlers, name)))

    return acts


@pytest.fixture
def view(spark: SparkSession) -> Iterator[str]:
    yield "own_rows"
    spark.catalog.dropTempView("own_rows")


def by_sql(statement: str) -> Callable[[Counters], object]:
    return lambda t: t.spark.sql(statement.format(t=t.name, path=f"pyhudi.`{t.path}`"))


def from_view(t: Counters, statement: str) -> None:
    t.by_path().createOrReplaceTempView("own_rows")
    by_sql(statement)(t)


def cached(t: Counters) -> None:
    rows = plus(t.by_path()).cache()
    assert rows.count() == 3
    t.save(rows)
    rows.unpersist()


def streamed(t: Counters) -> None:
    """A stream of keys, whose counters each batch reads from the table."""
    with tempfile.TemporaryDirectory() as folder:
        t.by_name().select("id").write.mode("overwrite").parquet(f"{folder}/in")
        keys = t.spark.readStream.schema("id long").parquet(f"{folder}/in")
        (
            keys.writeStream.foreachBatch(
                lambda batch, _: t.save(plus(t.by_path().join(batch, "id")))
            )
            .option("checkpointLocation", f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )


UPSERT = {OPERATION: "upsert"}
more = pytest.mark.matrix
#: each adds one to every counter, with rows that it reads from the table
WAYS: dict[str, Callable[[Counters], object]] = {
    "save": lambda t: t.save(plus(t.by_path())),
    "save of what was read with a schema": lambda t: t.save(
        plus(t.spark.read.format("pyhudi").schema(DDL).load(t.path))
    ),
    "save of cached rows": cached,
    "save as overwrite": lambda t: t.save(plus(t.by_name()), "overwrite"),
    "writeTo": lambda t: plus(t.by_path()).writeTo(t.name).options(**UPSERT).append(),
    "writeTo overwritePartitions": (
        lambda t: plus(t.by_path()).writeTo(t.name).overwritePartitions()
    ),
    "createOrReplace": (
        lambda t: plus(t.by_name()).writeTo(t.name).using("pyhudi").createOrReplace()
    ),
    "insert overwrite": by_sql("insert overwrite {t} select id, v + 1, dt from {path}"),
    "merge of a view": lambda t: from_view(
        t,
        "merge into {t} t using own_rows s on t.id = s.id when matched then update set v = s.v + 1",
    ),
}
#: the same by further routes, of which most ends in one of the above
FURTHER: dict[str, Callable[[Counters], object]] = {
    "save of what was read by name": lambda t: t.save(plus(t.by_name())),
    "saveAsTable": lambda t: (
        plus(t.by_path())
        .write.format("pyhudi")
        .options(**UPSERT)
        .mode("append")
        .saveAsTable(t.name)
    ),
    "writeTo overwrite": lambda t: plus(t.by_name()).writeTo(t.name).overwrite(F.lit(True)),
    "insertInto": lambda t: plus(t.by_path()).write.insertInto(t.name, overwrite=True),
    "a subquery": by_sql(
        "insert overwrite {t} select id, if(id = 1, (select max(v) from {t}), v) + 1, dt "
        "from values (1L, 0L, 'x'), (2L, 20L, 'x'), (3L, 30L, 'y') as rows(id, v, dt)"
    ),
    "a batch of a stream": streamed,
}


@pytest.mark.parametrize("way", [*WAYS, *(pytest.param(way, marks=more) for way in FURTHER)])
def test_rows_that_were_read_before_a_commit_are_read_again_after_it(
    counters: Counters, meanwhile: Callable[..., None], view: str, way: str
) -> None:
    meanwhile(lambda: counters.commit(THEIRS))
    (WAYS | FURTHER)[way](counters)

    assert counters.rows() == RIGHT
    last = pyhudi.last_commit(counters.spark)
    assert last is not None
    assert last.conflicts_retried == 1


@pytest.mark.parametrize(
    "version", ["9", pytest.param("8", marks=more), pytest.param("6", marks=more)]
)
def test_a_frame_that_was_made_before_a_commit_is_no_older_than_it_once_it_is_written(
    spark: SparkSession, name: str, version: str
) -> None:
    counters = Counters(spark, name, version)
    frame, kept = plus(counters.by_path()), plus(counters.by_path()).cache()
    assert kept.count() == 3
    counters.commit(THEIRS)

    counters.save(frame)
    assert counters.rows() == RIGHT
    counters.save(kept)
    assert counters.rows() == [(1, 102, "x"), (2, 22, "x"), (3, 32, "y")]
    kept.unpersist()


def test_without_retries_the_error_says_to_read_the_table_again(counters: Counters) -> None:
    frame = plus(counters.by_path())
    counters.commit(THEIRS)

    with pytest.raises(AnalysisException, match="read the table again") as failed:
        counters.save(frame, **{RETRIES: "0"})
    assert str(failed.value).startswith("[COMMIT_CONFLICT] ")
    assert counters.rows() == [THEIRS, *START[1:]]
    counters.save(plus(counters.by_path()), **{RETRIES: "0"})
    assert counters.rows() == RIGHT


def test_rows_of_a_table_whose_columns_changed_meanwhile_are_not_written(
    counters: Counters, meanwhile: Callable[..., None]
) -> None:
    frame = plus(counters.by_path())
    wider = counters.spark.createDataFrame([(*THEIRS, 1.5)], f"{DDL}, tip double")
    counters.save(wider)
    tries: list[None] = []
    meanwhile(*[lambda: tries.append(None)] * 9)

    with pytest.raises(AnalysisException, match=r"\[COMMIT_CONFLICT\]"):
        counters.save(frame)
    *theirs, partition = THEIRS
    assert counters.rows()[0] == (*theirs, 1.5, partition)
    assert len(tries) == 1


def test_a_commit_elsewhere_after_the_read_is_no_conflict(
    counters: Counters, meanwhile: Callable[..., None]
) -> None:
    meanwhile(lambda: counters.commit((3, 300, "y")))
    counters.save(plus(counters.by_path().where("dt = 'x'")))

    assert counters.rows() == [(1, 11, "x"), (2, 21, "x"), (3, 300, "y")]
    last = pyhudi.last_commit(counters.spark)
    assert last is not None
    assert last.conflicts_retried == 0


def test_frames_and_statements_at_once_lose_no_update_whatever_pins_are_gone(
    counters: Counters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pins.PinnedQueries, "_too_many", lambda self: True)
    counters.spark.sql(f"alter table {counters.name} set tblproperties ('{RETRIES}' = '20')")

    def count(number: int) -> None:
        if number % 2:
            counters.spark.sql(f"update {counters.name} set v = v + 1 where dt = 'x'")
        else:
            counters.save(plus(counters.by_path().where("dt = 'x'")), **{RETRIES: "20"})

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(count, range(6)))

    assert counters.rows() == [(1, 16, "x"), (2, 26, "x"), (3, 30, "y")]


@pytest.mark.parametrize("named", [False, True], ids=["by path", "by name"])
def test_rows_of_a_named_point_in_time_are_written_as_they_were(
    counters: Counters, meanwhile: Callable[..., None], named: bool
) -> None:
    """A user who names the instant wants its rows back, without later commits."""
    first = pyhudi.history(counters.path)[-1].instant
    reader = counters.spark.read.format("pyhudi").option("as.of.instant", first)
    past = reader.table(counters.name) if named else reader.load(counters.path)
    meanwhile(lambda: counters.commit(THEIRS))

    counters.save(past.where("id = 1"), **{RETRIES: "0"})
    assert counters.rows() == START


def test_rows_of_another_table_are_judged_from_the_begin_of_the_write(
    counters: Counters, tmp_path: Path
) -> None:
    other = str(tmp_path / "other")
    options = {KEY: "id", PARTITION: "dt", "hoodie.table.name": "other"}
    frame = counters.by_path()
    frame.write.format("pyhudi").options(**options).save(other)
    rows = counters.spark.read.format("pyhudi").load(other).where("id = 1")
    counters.commit(THEIRS)

    counters.save(rows, **{RETRIES: "0"})
    assert counters.rows() == START
