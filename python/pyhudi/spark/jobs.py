"""What the driver's Python calls in the shim for the jobs of a write, and nothing else does.

Spark's estimate decides whether an input is collected, and bounds nothing: a compressed file, an
``explode`` or a user's function make more of it. So the tasks count what they hand out and stop at
a bound (``BoundedRows.scala``). An input that proves larger goes the way of large ones, which runs
its plan again.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark import RDD
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pyhudi.errors import SetupError
from pyhudi.writes.stage import job

#: has the static method ``of``: ``String.hashCode`` of Java
TEXT_HASH = "io.pyhudi.KeyHash"


def live(spark: SparkSession) -> Any:
    """The session's context in the JVM; ``SetupError`` where the session has been stopped."""
    context: Any = spark.sparkContext
    if context._jsc is None:
        raise SetupError(
            "The Spark session that pyhudi was attached to has been stopped. Call "
            "pyhudi.attach(spark) with the session that is there now."
        )
    return context


class SparkJobs:
    """The jobs of an application, as the planner asks of them (``application/jobs.py``)."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def install(self) -> None:
        """Have the shim listen to the attempts of tracked jobs."""
        context = live(self._spark)
        self._tracker(context).install(context._jsc)

    def estimated_bytes(self, rows: DataFrame) -> int:
        """Spark's estimate of a size; 0 for sources it knows nothing of but can cut."""
        return int(self._shim(rows).BoundedRows.estimate(rows._jdf))

    def collect(self, rows: DataFrame, limit_bytes: int, description: str) -> pa.Table | None:
        """``rows`` as one Arrow table on the driver; None where they are more than the limit."""
        session = rows.sparkSession
        with job(session, description):
            bounded = self._shim(rows).BoundedRows.of(rows._jdf, limit_bytes)
            batches = DataFrame(bounded.frame(), session)._collect_as_arrow()
        if bounded.exceeded():
            return None
        if not batches:
            return pa.table({name: pa.array([], pa.string()) for name in rows.columns})
        return pa.Table.from_batches(batches).combine_chunks()

    def held(self, result: DataFrame) -> DataFrame:
        """The same rows, in tasks whose attempts end once their Python workers let go of them."""
        return DataFrame(self._shim(result).HeldAttempts.frame(result._jdf), result.sparkSession)

    def held_tasks(self, tasks: RDD[Any]) -> RDD[Any]:
        """``held`` for an RDD of Python's."""
        given: Any = tasks
        attempts = given.context._jvm.org.apache.spark.sql.pyhudi.HeldAttempts
        return RDD(attempts.rows(given._jrdd), given.context, given._jrdd_deserializer)

    def text_hash(self, text: Column) -> Column:
        """Java's hash of a text, an int (spec/keys.md K6)."""
        return F.call_function("java_method", F.lit(TEXT_HASH), F.lit("of"), text)

    def ended(self, key: str, timeout_s: float) -> bool:
        """Whether every attempt of the jobs of ``key`` ended within the time."""
        context = live(self._spark)
        return bool(self._tracker(context).awaitEnd(context._jsc, key, int(timeout_s * 1000)))

    def quiet(self, key: str, timeout_s: float) -> bool:
        """The same after a failure: true as well where no job of ``key`` ever began."""
        context = live(self._spark)
        return bool(self._tracker(context).awaitQuiet(context._jsc, key, int(timeout_s * 1000)))

    def forget(self, key: str) -> None:
        """Drop what the listener knows of ``key``."""
        self._tracker(self._spark.sparkContext).forget(key)

    @staticmethod
    def _tracker(context: Any) -> Any:
        return context._jvm.io.pyhudi.AttemptTracker

    @staticmethod
    def _shim(rows: DataFrame) -> Any:
        context: Any = rows.sparkSession.sparkContext
        return context._jvm.org.apache.spark.sql.pyhudi
