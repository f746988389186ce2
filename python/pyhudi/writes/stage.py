"""The write stage: one Spark job whose result is the write statistics.

The job carries its write's key as a local property, by which the shim knows when every attempt of
the stage has ended (ARCHITECTURE.md, "One commit, end to end").
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from pyhudi.application.jobs import Jobs
from pyhudi.errors import HudiError, SetupError, WriteFailed
from pyhudi.format.commit_metadata import WriteStat
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import InstantTime
from pyhudi.rows.attempt import held
from pyhudi.rows.spec import STAT_DDL
from pyhudi.rows.task import error_from_text
from pyhudi.services.written_files import stat_of
from pyhudi.transactions.conflicts.comparison import Group

TRACKED = "pyhudi.write"
#: what Spark says of a worker that ended without a word; its cause is a broken connection
WORKER_LOST: Final = "Python worker exited unexpectedly"

Batches = Iterator[pa.RecordBatch]
Work = Callable[[Batches], Batches]


def tracked_key(root: str, instant: InstantTime) -> str:
    """The key of a write in its application, whose tables may have equal instants."""
    return f"{instant} {root}"


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a write stage; ``staged``: Spark tasks did it, and they must end before the
    commit. ``leaning`` are the groups whose logs need their base file to stay: it has a key more
    than once, and positions alone tell its rows apart. ``forced``: some of its deletes in logs win
    in any case, by event time. ``outdated`` rows lost against rows of base files, and are in no
    file; the ``untouched`` groups have got no file, as each row for them lost."""

    files: tuple[WriteStat, ...] = ()
    staged: bool = False
    leaning: frozenset[Group] = frozenset()
    forced: bool = False
    outdated: int = 0
    untouched: frozenset[Group] = frozenset()

    @classmethod
    def of(cls, rows: Sequence[dict[str, Any]], staged: bool) -> Written:
        """From the workers' rows of ``STAT_SCHEMA``."""
        leaning = {(r["partition_path"], FileId(r["file_id"])) for r in rows if r["copies"]}
        files = tuple(stat_of(row) for row in rows if row["path"])
        forced = any(row["forced"] for row in rows)
        outdated = sum(row["outdated"] or 0 for row in rows)
        groups = ((r["partition_path"], FileId(r["file_id"])) for r in rows if not r["path"])
        return cls(files, staged, frozenset(leaning), forced, outdated, frozenset(groups))


@dataclass(frozen=True, slots=True)
class Stage:
    """A write stage yet to run, tracked under ``key``.

    A failure of its job is a known failure of the write: the worker's own ``HudiError``, otherwise
    ``WriteFailed`` with Spark's message.
    """

    jobs: Jobs
    spark: SparkSession
    key: str
    description: str

    def run(self, rows: DataFrame, work: Work) -> Written:
        """``work`` over the partitions of ``rows``, and its statistics."""

        def collect() -> list[dict[str, Any]]:
            result = rows.mapInArrow(held(work), STAT_DDL)  # type: ignore[arg-type]
            return [row.asDict() for row in self.jobs.collect_held(result)]

        return self._collected(collect)

    def run_blobs(self, blobs: Sequence[bytes], work: Work) -> Written:
        """``run`` over rows that the driver holds: one Arrow stream, and one task, a blob."""
        holding = held(work)

        def run(streams: Iterator[bytes]) -> Iterator[dict[str, Any]]:
            import pyarrow

            for stream in streams:
                with pyarrow.ipc.open_stream(stream) as reader:
                    for batch in holding(iter(reader)):
                        yield from batch.to_pylist()

        def collect() -> list[dict[str, Any]]:
            spread: Any = self.spark.sparkContext.parallelize(blobs, len(blobs))
            return self.jobs.held_tasks(spread.mapPartitions(run)).collect()

        return self._collected(collect)

    def _collected(self, collect: Callable[[], list[dict[str, Any]]]) -> Written:
        with job(self.spark, self.description, self.key):
            try:
                found = collect()
            except Exception as e:
                raise worker_error(e, self.description) from e
        return Written.of(found, staged=True)


def run_here(work: Work, rows: pa.Table) -> Written:
    """A write stage in this process, for so little work that a Spark job would take longer."""
    threads = pa.cpu_count()
    try:
        found = [row for batch in work(iter(rows.to_batches())) for row in batch.to_pylist()]
        return Written.of(found, staged=False)
    finally:
        # Workers compute on one thread, but the driver's process must not stay like that.
        pa.set_cpu_count(threads)


def worker_error(error: Exception, description: str) -> HudiError:
    """What a failed Spark job means for the caller."""
    return job_error(str(error), description)


def job_error(text: str, description: str) -> HudiError:
    """The same, by Spark's text with stack traces."""
    ours = error_from_text(text)
    if ours is not None:
        return ours
    missing = _MISSING.search(text)
    if missing is not None:
        python = _python_of_workers()
        return SetupError(
            f"{description} failed: the Python of Spark's workers, {python}, has no "
            f"{(missing[1] or missing[2]).lower()}. Nothing of it is visible. Install it on each "
            f"machine: {python} -m pip install pyarrow pandas. Or name a Python that has it by "
            "spark.pyspark.python or PYSPARK_PYTHON, and start the application again."
        )
    cause = innermost_cause(text)
    return WriteFailed(
        f"{description} failed in Spark: {cause.rstrip('.')}. Nothing of it is visible. "
        f"{_advice(cause)}",
        reason=cause,
    )


def _advice(cause: str) -> str:
    """What to do about ``cause``."""
    for said, advice in _ADVICE.items():
        if said in cause:
            return advice
    return "See the executors' logs; run it again when the cause is fixed."


_ADVICE: Final = {
    "MERGE_CARDINALITY_VIOLATION": (
        "Leave one row of the source for each row of the table, for example by GROUP BY or "
        "row_number() on the columns of ON."
    ),
    "No space left on device": (
        "Make room on that disk, or name a larger one by spark.local.dir; then run it again."
    ),
    WORKER_LOST: (
        "The machine may have killed it for lack of memory: see the executors' logs, and give "
        "the workers more by spark.executor.memoryOverhead."
    ),
}


def _python_of_workers() -> str:
    context: Any = SparkContext._active_spark_context
    return str(context.pythonExec if context else os.environ.get("PYSPARK_PYTHON", "python3"))


#: what a worker says whose Python lacks a package that tasks need, or has too old a version
_MISSING = re.compile(
    r"ModuleNotFoundError: No module named '(pyarrow|pandas|numpy)\b"
    r"|\b(PyArrow|Pandas) >= \S+ must be installed"
)
#: what introduces the failure of a task, and the lines of a stack trace that follow it
_TASK_FAILED = re.compile(r".*most recent failure: Lost task [^\n]*?\): ", re.DOTALL)
_STACK = re.compile(r"\n\s*(at |\.\.\. \d+ more|Driver stacktrace)")
_PYTHON_STACK = "Traceback (most recent call last):"
_CLASS = re.compile(r"(?:[a-z_]\w*\.)+([A-Z]\w*): ")
CAUSE_CHARACTERS = 400


def innermost_cause(text: str) -> str:
    """The line with the cause, from Spark's text with stack traces about a failed job."""
    last = text.rsplit("\nCaused by: ", 1)[-1]
    if WORKER_LOST in text and "EOFException" in last:
        return f"{WORKER_LOST} (crashed)"
    if _PYTHON_STACK in last:
        lines = last.rsplit(_PYTHON_STACK, 1)[-1].splitlines()
        last = next((line for line in lines[1:] if line[:1].strip()), last)
    last = _STACK.split(_TASK_FAILED.sub("", last), maxsplit=1)[0]
    last = last.rsplit("An error occurred while calling", 1)[-1].rsplit("\n: ", 1)[-1]
    line = re.sub(r"\s+", " ", _CLASS.sub(r"\1: ", last, count=1)).strip()
    line = re.sub(r"^\w+: (?=\[[A-Z_.]+\])", "", line)
    return line if len(line) <= CAUSE_CHARACTERS else line[: CAUSE_CHARACTERS - 3] + "..."


class job:  # noqa: N801 - reads as a statement
    """Names Spark jobs started inside and marks them for the attempt listener."""

    def __init__(self, spark: SparkSession, description: str, key: str | None = None) -> None:
        self._context = spark.sparkContext
        self._new = {"spark.job.description": description, TRACKED: key}
        self._old: dict[str, str | None] = {}

    def __enter__(self) -> None:
        for name, value in self._new.items():
            self._old[name] = self._context.getLocalProperty(name)
            self._context.setLocalProperty(name, value)  # type: ignore[arg-type]

    def __exit__(self, *_: object) -> None:
        for name, value in self._old.items():
            self._context.setLocalProperty(name, value)  # type: ignore[arg-type]
