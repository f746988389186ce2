"""Which Spark task this is, and how its failures reach the driver.

Spark hands the driver the text of a worker's error, not the error: ``error_from_text`` finds our
``[CODE] message`` in it and makes the class again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any

import pyarrow as pa

from pyhudi import errors
from pyhudi.errors import HudiError, StorageError, WriteFailed

Batches = Iterator[pa.RecordBatch]

_CODED = re.compile(r"\[([A-Z][A-Z_]*)\] (.*)")
#: how every message about a data file begins, of workers and of Spark's own readers
_DATA_FILE = re.compile(r"The data file (\S.*?\.parquet) ")


@dataclass(frozen=True, slots=True)
class Task:
    """The running task: its partition number, and an attempt id unique in the application."""

    partition: int
    attempt: int

    def write_token(self, nonce: int) -> str:
        """The attempt's part of a file name: no two attempts of any write share one."""
        return f"{self.partition}-{nonce}-{self.attempt}"


def current_task() -> Task:
    """The Spark task that this worker serves; outside of Spark, task 0."""
    context = _context()
    return Task(0, 0) if context is None else Task(context.partitionId(), context.taskAttemptId())


def _context() -> Any:
    try:
        from pyspark import TaskContext
    except ImportError:
        return None
    return TaskContext.get()


def _settle_in() -> None:
    """Set pyarrow up for a Spark worker; a driver that writes few rows itself stays as it is."""
    if _context() is None:
        return
    # The executor's cores belong to its tasks: each of them computes on one thread.
    pa.set_cpu_count(1)
    # Arrow's own pool returns memory at once and takes it again, page by page: for the
    # short-lived columns of this work that costs up to a third of the CPU time.
    pa.set_memory_pool(pa.system_memory_pool())


def reporting(work: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """``work`` whose I/O and Arrow errors leave as one of ours, on one line, with their text."""

    @wraps(work)
    def run(batches: Batches) -> Batches:
        _settle_in()
        try:
            yield from work(batches)
        except HudiError:
            raise
        except OSError as error:
            raise StorageError(
                f"A data file could not be read or written: {_one_line(error)}. "
                "The write was given up; try again once the storage answers."
            ) from error
        except (pa.ArrowException, ValueError) as error:
            raise WriteFailed(f"Rows could not be encoded: {_one_line(error)}.") from error

    return run


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".")


def error_from_text(text: str) -> HudiError | None:
    """The ``HudiError`` that a worker's failure text carries, ``None`` if there is none.

    Of its facts the text tells one: ``path``, of a data file.
    """
    for found in _CODED.finditer(text):
        for cls in vars(errors).values():
            if isinstance(cls, type) and issubclass(cls, HudiError) and cls.code() == found[1]:
                message = found[2].strip()
                file = _DATA_FILE.match(message)
                return cls(message, **({"path": file[1]} if file else {}))
    return None
