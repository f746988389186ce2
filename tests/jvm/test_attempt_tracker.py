"""The tracker: when has every attempt of a write's tasks ended?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession

from pyhudi.rows.attempt import held

pytestmark = [pytest.mark.spark, pytest.mark.every_line]

Batches = Iterator[pa.RecordBatch]


class Gate:
    """Two named pipes at which a task and the test wait for each other, in any processes.

    Opening a pipe blocks until its other end is opened too: no clock is needed.
    """

    def __init__(self, folder: Path) -> None:
        self.arrival, self.release = str(folder / "arrival"), str(folder / "release")
        os.mkfifo(self.arrival)
        os.mkfifo(self.release)

    def pass_through(self) -> None:
        with open(self.arrival, "w"):
            pass
        with open(self.release):
            pass

    def await_arrival(self) -> None:
        with open(self.arrival):
            pass

    def open(self) -> None:
        with open(self.release, "w"):
            pass


# Workers do not import the tests: the class travels by value with the tasks that use it.
Gate.__module__ = "__main__"


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


@pytest.fixture
def tracker(spark: SparkSession) -> Any:
    tracker = spark.sparkContext._jvm.io.pyhudi.AttemptTracker
    tracker.install(spark.sparkContext._jsc)
    return tracker


@pytest.fixture
def key(spark: SparkSession, tracker: Any, request: pytest.FixtureRequest) -> Iterator[str]:
    name = request.node.name
    spark.sparkContext.setLocalProperty("pyhudi.write", name)
    yield name
    spark.sparkContext.setLocalProperty("pyhudi.write", None)
    tracker.forget(name)


def run(spark: SparkSession, work: Callable[[Any], Any], tasks: int = 2) -> None:
    spark.sparkContext.parallelize(range(tasks), tasks).foreach(work)


def test_a_finished_write_has_ended(spark: SparkSession, tracker: Any, key: str) -> None:
    run(spark, print)
    assert tracker.awaitEnd(spark.sparkContext._jsc, key, 10_000)


def test_a_write_that_was_never_seen_is_not_known_to_have_ended(
    spark: SparkSession, tracker: Any
) -> None:
    run(spark, print)
    assert not tracker.awaitEnd(spark.sparkContext._jsc, "never seen", 1_000)


def test_a_forgotten_write_is_not_known(spark: SparkSession, tracker: Any, key: str) -> None:
    run(spark, print)
    tracker.forget(key)
    assert not tracker.awaitEnd(spark.sparkContext._jsc, key, 1_000)


def test_a_write_without_tasks_has_ended(spark: SparkSession, tracker: Any, key: str) -> None:
    spark.sparkContext.emptyRDD().foreach(print)
    assert tracker.awaitEnd(spark.sparkContext._jsc, key, 10_000)


def test_no_end_of_a_job_is_lost_however_fast_its_events_come(
    spark: SparkSession, tracker: Any, key: str
) -> None:
    """Spark sends start and end of a job without tasks in one breath, before a listener wakes."""
    for _ in range(20):
        spark.sparkContext.emptyRDD().foreach(print)
    assert tracker.awaitEnd(spark.sparkContext._jsc, key, 10_000)


def test_a_write_has_ended_however_many_events_other_listeners_lose(
    spark: SparkSession, tracker: Any, key: str
) -> None:
    run(spark, print, 20)
    assert tracker.awaitEnd(spark.sparkContext._jsc, key, 10_000)
    assert tracker.cancelAndAwait(spark.sparkContext._jsc, key, 10_000)


def test_an_attempt_that_still_runs_is_waited_for(
    spark: SparkSession, tracker: Any, key: str, gate: Gate
) -> None:
    def work(_: int) -> None:
        gate.pass_through()

    thread = InheritableThread(target=lambda: run(spark, work, 1))
    thread.start()
    gate.await_arrival()
    assert not tracker.awaitEnd(spark.sparkContext._jsc, key, 300)
    assert tracker.cancelAndAwait(spark.sparkContext._jsc, "another write", 10_000)
    gate.open()
    assert tracker.awaitEnd(spark.sparkContext._jsc, key, 20_000)
    thread.join()


def test_the_jobs_of_a_failed_write_are_cancelled(
    spark: SparkSession, tracker: Any, key: str, gate: Gate
) -> None:
    """Whoever interrupted the write may have left its jobs alone, as Spark Connect 3.5 does."""
    failed: list[BaseException] = []

    def work(_: int) -> None:
        gate.pass_through()

    def write() -> None:
        try:
            run(spark, work, 1)
        except Exception as e:
            failed.append(e)

    thread = InheritableThread(target=write)
    thread.start()
    gate.await_arrival()
    assert not tracker.cancelAndAwait(spark.sparkContext._jsc, key, 2_000), "the attempt goes on"
    thread.join()
    assert "cancelled" in str(failed[0])
    gate.open()
    assert tracker.cancelAndAwait(spark.sparkContext._jsc, key, 20_000)


def test_the_jobs_of_a_cancelled_write_are_waited_for_on_its_interrupted_thread(
    spark: SparkSession, tracker: Any, key: str, gate: Gate
) -> None:
    """Spark cancels a statement by an interrupt of the thread on which Python then undoes it."""

    def write() -> None:
        with pytest.raises(Exception, match="cancelled"):
            run(spark, lambda _: gate.pass_through(), 1)

    thread = InheritableThread(target=write)
    thread.start()
    gate.await_arrival()
    own = spark.sparkContext._jvm.java.lang.Thread
    own.currentThread().interrupt()
    assert not tracker.cancelAndAwait(spark.sparkContext._jsc, key, 300), "the attempt goes on"
    assert own.currentThread().isInterrupted(), "the statement still has to end as cancelled"
    thread.join()
    gate.open()
    assert tracker.cancelAndAwait(spark.sparkContext._jsc, key, 20_000)
    assert own.interrupted()


def test_an_attempt_that_outlives_its_failed_job_is_waited_for(
    spark: SparkSession, tracker: Any, key: str, gate: Gate
) -> None:
    """One task fails the job while another one is still uploading."""

    def work(number: int) -> None:
        if number == 0:
            gate.await_arrival()
            raise ValueError("this task fails")
        gate.pass_through()

    with pytest.raises(Exception, match="this task fails"):
        run(spark, work)
    assert not tracker.awaitEnd(spark.sparkContext._jsc, key, 300)
    gate.open()
    assert tracker.awaitEnd(spark.sparkContext._jsc, key, 20_000)


class Gates:
    """A worker that writes, and the input of its attempt, which fails at the test's word."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("input", "writer"):
            (folder / name).mkdir()
        self.input, self.writer = Gate(folder / "input"), Gate(folder / "writer")

    def failing(self, batches: Batches) -> Batches:
        # In many small batches: the last ones wait in this worker's buffer for more to come.
        for batch in batches:
            for begin in range(0, batch.num_rows, 2_000):
                yield batch.slice(begin, 2_000)
        self.input.pass_through()
        raise ValueError("this input fails")

    def write(self, batches: Batches) -> Batches:
        self.writer.pass_through()
        for batch in batches:
            (self.folder / "written").touch()
            yield batch.slice(0, 1)


Gates.__module__ = "__main__"


@pytest.fixture
def gates(tmp_path: Path) -> Gates:
    return Gates(tmp_path)


def write_held(spark: SparkSession, gates: Gates) -> None:
    """What a write stage does, in one task whose input fails."""
    # More than the buffers between workers, which pass nothing on before they are full.
    rows = spark.range(0, 100_000, 1, 1)
    stage = rows.mapInArrow(gates.failing, rows.schema).mapInArrow(held(gates.write), rows.schema)
    attempts = spark.sparkContext._jvm.org.apache.spark.sql.pyhudi.HeldAttempts
    DataFrame(attempts.frame(stage._jdf), spark).collect()


def test_an_attempt_whose_input_fails_is_waited_for_while_its_worker_runs(
    spark: SparkSession, tracker: Any, key: str, gates: Gates
) -> None:
    """Spark 4 would end it at once; the worker then takes the end of its input for that of the
    rows, and finishes its file."""
    failures: list[Exception] = []

    def run_stage() -> None:
        try:
            write_held(spark, gates)
        except Exception as e:
            failures.append(e)

    thread = InheritableThread(target=run_stage)
    thread.start()
    gates.writer.await_arrival()
    gates.input.await_arrival()
    gates.input.open()
    assert not tracker.awaitEnd(spark.sparkContext._jsc, key, 2_000)
    gates.writer.open()
    assert tracker.awaitEnd(spark.sparkContext._jsc, key, 20_000)
    thread.join()
    assert "this input fails" in str(failures[0])


def test_an_attempt_that_has_ended_leaves_no_file_to_hold_it_by(
    spark: SparkSession, tracker: Any, key: str
) -> None:
    def path(batches: Batches) -> Batches:
        folder = os.environ["SPARK_LOCAL_DIRS"].split(",")[0]
        names = [n for n in os.listdir(folder) if n.startswith("pyhudi-attempt-")]
        yield pa.RecordBatch.from_pydict({"name": [f"{folder}/{n}" for n in names]})
        yield from (b for b in batches if b.num_columns == 0)

    stage = spark.range(0, 1, 1, 1).mapInArrow(held(path), "name string")
    attempts = spark.sparkContext._jvm.org.apache.spark.sql.pyhudi.HeldAttempts
    (held_by,) = DataFrame(attempts.frame(stage._jdf), spark).collect()

    assert tracker.awaitEnd(spark.sparkContext._jsc, key, 10_000)
    assert not Path(held_by.name).exists()
