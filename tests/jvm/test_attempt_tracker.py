"""The tracker: when has every attempt of a write's tasks ended?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import InheritableThread
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


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


def test_an_attempt_that_still_runs_is_waited_for(
    spark: SparkSession, tracker: Any, key: str, gate: Gate
) -> None:
    def work(_: int) -> None:
        gate.pass_through()

    thread = InheritableThread(target=lambda: run(spark, work, 1))
    thread.start()
    gate.await_arrival()
    assert not tracker.awaitEnd(spark.sparkContext._jsc, key, 300)
    gate.open()
    assert tracker.awaitEnd(spark.sparkContext._jsc, key, 20_000)
    thread.join()


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
