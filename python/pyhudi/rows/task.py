"""Which Spark task this is, and how its failures reach the driver.

Spark hands the driver the text of a worker's error, not the error. So a worker adds a line with the
error's facts as JSON, which ``telling`` writes and bounds; ``error_from_text`` finds our ``[CODE]
message`` and that line, and makes the error again. Nothing that comes from a worker is unpickled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, TypeVar

import pyarrow as pa

from pyhudi import errors
from pyhudi.errors import HudiError, StorageError, WriteFailed

Batches = Iterator[pa.RecordBatch]

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")

#: begins the line below a worker's message that holds the error's facts as JSON
FACTS: Final = "pyhudi-facts "
MOST_FACTS: Final = 2_000  # characters of that line
#: what crosses, by the type that a field of an error declares: plain values, nothing else
_PLAIN: Final = {"str | None": str, "int | None": int, "bool": bool}

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


def telling(work: Callable[[_Given], Iterator[_Made]]) -> Callable[[_Given], Iterator[_Made]]:
    """``work`` whose errors of ours say their facts in their text, where a Spark worker raises."""

    @wraps(work)
    def run(given: _Given) -> Iterator[_Made]:
        try:
            yield from work(given)
        except HudiError as error:
            if _context() is not None:
                error.args = (text_with_facts(error),)
            raise

    return run


def text_with_facts(error: HudiError) -> str:
    """The message of ``error`` and, on a line of their own, those of its plain facts that fit."""
    told: dict[str, object] = {}
    for name, value in error.facts.items():
        more = {**told, name: value}
        if _is_plain(type(error), name, value) and len(json.dumps(more)) <= MOST_FACTS:
            told = more
    return f"{error}\n{FACTS}{json.dumps(told)}" if told else str(error)


def _facts_in(line: str, cls: type[HudiError]) -> dict[str, Any]:
    """The facts of an error of ``cls`` that ``line``, below its message, tells."""
    if not line.startswith(FACTS) or len(line) > len(FACTS) + MOST_FACTS:
        return {}
    try:
        told = json.loads(line.removeprefix(FACTS))
    except (ValueError, RecursionError):
        return {}
    if not isinstance(told, dict):
        return {}
    return {name: value for name, value in told.items() if _is_plain(cls, name, value)}


def _is_plain(cls: type[HudiError], name: str, value: object) -> bool:
    """Whether ``value`` may cross as the field ``name`` of an error of ``cls``."""
    declared = cls.__dataclass_fields__.get(name)
    return declared is not None and type(value) is _PLAIN.get(str(declared.type))


def reporting(work: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """``work`` whose I/O and Arrow errors leave as one of ours, on one line, with their text."""

    @wraps(work)
    def reported(batches: Batches) -> Batches:
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

    return telling(reported)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".")


def error_from_text(text: str) -> HudiError | None:
    """The ``HudiError`` that a worker's failure text carries, ``None`` if there is none.

    A worker tells its plain facts (``telling``), Spark's own readers the ``path`` of a data file.
    """
    for found in _CODED.finditer(text):
        for cls in vars(errors).values():
            if isinstance(cls, type) and issubclass(cls, HudiError) and cls.code() == found[1]:
                message = found[2].strip()
                below = text[found.end() :].removeprefix("\n").partition("\n")[0]
                facts = _facts_in(below, cls)
                if (file := _DATA_FILE.match(message)) and "path" in cls.__dataclass_fields__:
                    facts.setdefault("path", file[1])
                return cls(message, **facts)
    return None
