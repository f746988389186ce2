"""The only calls from the driver's Python into the shim for the jobs of a write.

Spark's estimate decides whether an input is collected, but it is not a bound: a compressed file, an
``explode`` or a user's function may give more rows. So the tasks count what they return and stop at
a bound (``BoundedRows.scala``). An input that proves larger is handled like a large input: its plan
runs again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, Final

import pyarrow as pa
from pyspark import RDD
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from pyhudi.errors import SetupError
from pyhudi.writes.stage import job

#: its static method ``of`` is Java's ``String.hashCode``
TEXT_HASH = "io.pyhudi.KeyHash"
#: by this setting, which is on by default, Spark sets the variable for functions of DataFrames
SIMPLIFIED_KEY: Final = "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled"
SIMPLIFIED_TRACEBACK: Final = "SPARK_SIMPLIFIED_TRACEBACK"
_ENVIRONMENT_LOCK: Final = Lock()


def live(spark: SparkSession) -> Any:
    """The session's context in the JVM; ``SetupError`` if the session has been stopped."""
    context: Any = spark.sparkContext
    if context._jsc is None:
        raise SetupError(
            "The Spark session that pyhudi was attached to has been stopped. Call "
            "pyhudi.attach(spark) with the new session."
        )
    return context


class SparkJobs:
    """The jobs of an application (``application/jobs.py``)."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        #: the shim's classes: the JVM looks for a name in each of Spark's jars
        self._classes: dict[str, Any] = {}

    def install(self) -> None:
        """Make the shim listen to the attempts of tracked jobs, and to queries."""
        context = live(self._spark)
        self._tracker(context).install(context._jsc)
        self._class(context, "RunningReads").install(context._jsc)

    def estimated_bytes(self, rows: DataFrame) -> int:
        """Spark's estimate of the size; 0 if Spark cannot estimate it but can cut the rows off."""
        return int(self._of(rows, "BoundedRows").estimate(rows._jdf))

    def collect(self, rows: DataFrame, limit_bytes: int, description: str) -> pa.Table | None:
        """``rows`` as one Arrow table on the driver; None if they exceed the limit."""
        session = rows.sparkSession
        with job(session, description):
            bounded = self._of(rows, "BoundedRows").of(rows._jdf, limit_bytes)
            try:
                batches = DataFrame(bounded.frame(), session)._collect_as_arrow()
            finally:
                exceeded = bounded.exceeded()
                if not exceeded:
                    self._tell_observers(rows)
        if exceeded:
            return None
        if not batches:
            return pa.table({name: pa.array([], pa.string()) for name in rows.columns})
        return pa.Table.from_batches(batches).combine_chunks()

    def checkpointed(self, rows: DataFrame, description: str) -> DataFrame:
        """``rows``, which no task computes twice; their joins may run before this returns."""
        with job(rows.sparkSession, description):
            made = self._of(rows, "ObservedRows").checkpoint(rows._jdf)
        return DataFrame(made, rows.sparkSession)

    def collect_held(self, result: DataFrame) -> list[Row]:
        """All rows, from tasks whose attempts end only after their Python workers end."""
        held = self._of(result, "HeldAttempts").frame(result._jdf)
        try:
            return DataFrame(held, result.sparkSession).collect()
        finally:
            self._tell_observers(result)

    def held_tasks(self, tasks: RDD[Any]) -> RDD[Any]:
        """The same tasks, held like that and ``in_shared_workers``."""
        given: Any = self.in_shared_workers(tasks)
        attempts = self._class(given.context, "HeldAttempts")
        return RDD(attempts.rows(given._jrdd), given.context, given._jrdd_deserializer)

    def in_shared_workers(self, tasks: RDD[Any]) -> RDD[Any]:
        """``tasks``, run by the Python workers that the functions of DataFrames run in.

        Spark keeps workers apart by their environment, and those functions have one variable more.
        In workers of their own, the tasks would start a second daemon, and a process for each core,
        which import pyarrow again: 1.5 CPU seconds on two cores, and their memory.
        """
        if self._spark.conf.get(SIMPLIFIED_KEY, "true") != "true":
            return tasks
        given: Any = tasks
        context = given.context
        with _ENVIRONMENT_LOCK:
            # Another thread may be reading the dictionary, so it is never changed.
            before = context.environment
            context.environment = {**before, SIMPLIFIED_TRACEBACK: "1"}
            try:
                given._jrdd  # noqa: B018 - it keeps the environment of the moment
            finally:
                context.environment = before
        return tasks

    def text_hash(self, text: Column) -> Column:
        """Java's hash of a text, as an int (spec/keys.md K6)."""
        return F.call_function("java_method", F.lit(TEXT_HASH), F.lit("of"), text)

    def ended(self, key: str, timeout_s: float) -> bool:
        """Whether all attempts of the jobs of ``key`` ended within ``timeout_s``."""
        context = live(self._spark)
        return bool(self._tracker(context).awaitEnd(context._jsc, key, int(timeout_s * 1000)))

    def quiet(self, key: str, timeout_s: float) -> bool:
        """The same after a failure, with the jobs cancelled: also true if none ever began."""
        context = live(self._spark)
        return bool(self._tracker(context).cancelAndAwait(context._jsc, key, int(timeout_s * 1000)))

    def reading(self, seconds: float) -> list[str]:
        """The pins of the states that queries have been reading for so long."""
        context = live(self._spark)
        reads = self._class(context, "RunningReads")
        return str(reads.olderThan(context._jsc, int(seconds * 1000))).split()

    def forget(self, key: str) -> None:
        """Make the listener forget the jobs of ``key``."""
        self._tracker(self._spark.sparkContext).forget(key)

    def _tell_observers(self, frame: DataFrame) -> None:
        self._of(frame, "ObservedRows").tell(frame._jdf)

    def _tracker(self, context: Any) -> Any:
        return self._class(context, "AttemptTracker")

    def _of(self, rows: DataFrame, name: str) -> Any:
        return self._class(rows.sparkSession.sparkContext, name)

    def _class(self, context: Any, name: str) -> Any:
        found = self._classes.get(name)
        if found is None:
            found = getattr(_PLACES[name](context._jvm), name)
            self._classes[name] = found
        return found


_PLACES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "AttemptTracker": lambda jvm: jvm.io.pyhudi,
    "RunningReads": lambda jvm: jvm.io.pyhudi,
    "BoundedRows": lambda jvm: jvm.org.apache.spark.sql.pyhudi,
    "HeldAttempts": lambda jvm: jvm.org.apache.spark.sql.pyhudi,
    "ObservedRows": lambda jvm: jvm.org.apache.spark.sql.pyhudi,
}
