"""The running Spark task, and how its failures reach the driver.

Spark gives the driver the text of a worker's error, not the error itself. So a worker adds a line
with the error's facts as JSON; ``telling`` writes and bounds this line. ``error_from_text`` finds
the ``[CODE] message`` and the line, and makes the error again. Nothing from a worker is unpickled.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, TypeVar

import pyarrow as pa

from pyhudi import errors
from pyhudi.errors import HudiError, StorageError, WriteFailed
from pyhudi.rows.worker_process import settle_in, spare_later_tasks

Batches = Iterator[pa.RecordBatch]

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")

#: the beginning of the line below a worker's message that has the error's facts as JSON
FACTS: Final = "pyhudi-facts "
MOST_FACTS: Final = 2_000  # the longest such line, in characters
#: the facts that are sent, by the declared type of their field: only plain values
_PLAIN: Final = {"str | None": str, "int | None": int, "bool": bool}

#: a code, and the message behind it, which may have a code of its own: Spark 4 puts one before ours
_CODED = re.compile(r"\[([A-Z][A-Z_]*)\] (?=(.*))")
_SQL_STATE = re.compile(r" SQLSTATE: \w{5}$")
#: the beginning of each message about a data file, from workers and from Spark's readers
_DATA_FILE = re.compile(r"The data file (\S.*?\.parquet) ")


@dataclass(frozen=True, slots=True)
class Task:
    """The running task: its partition number, and an attempt id unique in the application."""

    partition: int
    attempt: int

    def write_token(self, nonce: int) -> str:
        """The attempt's part of a file name: unique among all attempts of all writes."""
        return f"{self.partition}-{nonce}-{self.attempt}"


def current_task() -> Task:
    """The Spark task of this worker; outside Spark task 0."""
    context = _context()
    return Task(0, 0) if context is None else Task(context.partitionId(), context.taskAttemptId())


def _context() -> Any:
    try:
        from pyspark import TaskContext
    except ImportError:
        return None
    return TaskContext.get()


def telling(work: Callable[[_Given], Iterator[_Made]]) -> Callable[[_Given], Iterator[_Made]]:
    """``work`` in a process that is set up for it; the text of a ``HudiError`` has its facts.

    Outside of Spark, where a driver writes a few rows itself, it is ``work`` and nothing else.
    """

    @wraps(work)
    def run(given: _Given) -> Iterator[_Made]:
        if _context() is None:
            yield from work(given)
            return
        settle_in()
        try:
            yield from work(given)
        except HudiError as error:
            error.args = (text_with_facts(error),)
            raise
        finally:
            spare_later_tasks()

    return run


def text_with_facts(error: HudiError) -> str:
    """The message of ``error`` and, on a second line, its plain facts, as many as fit."""
    told: dict[str, object] = {}
    for name, value in error.facts.items():
        more = {**told, name: value}
        if _is_plain(type(error), name, value) and len(json.dumps(more)) <= MOST_FACTS:
            told = more
    return f"{error}\n{FACTS}{json.dumps(told)}" if told else str(error)


def _facts_in(line: str, cls: type[HudiError]) -> dict[str, Any]:
    """The facts of an error of ``cls`` in ``line``, the line below its message."""
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
    """Whether ``value`` may be sent as the field ``name`` of an error of ``cls``."""
    declared = cls.__dataclass_fields__.get(name)
    return declared is not None and type(value) is _PLAIN.get(str(declared.type))


def reporting(work: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """``work``, but I/O and Arrow errors become a ``HudiError`` with their text on one line."""

    @wraps(work)
    def reported(batches: Batches) -> Batches:
        try:
            yield from work(batches)
        except HudiError:
            raise
        except OSError as error:
            raise StorageError(
                f"A data file could not be read or written: {_one_line(error)}. "
                f"The write was given up; {_what_now(error)}."
            ) from error
        except (pa.ArrowException, ValueError) as error:
            raise WriteFailed(f"Rows could not be encoded: {_one_line(error)}.") from error

    return telling(reported)


def _what_now(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT) or "No space left on device" in str(error):
        return "make room on that disk, then run it again"
    return "try again when the storage answers"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".")


def error_from_text(text: str) -> HudiError | None:
    """The ``HudiError`` in the text of a worker's failure, ``None`` if there is none.

    A worker sends its plain facts (``telling``), Spark's own readers the ``path`` of a data file.
    """
    for found in _CODED.finditer(text):
        for cls in vars(errors).values():
            if isinstance(cls, type) and issubclass(cls, HudiError) and cls.code() == found[1]:
                message = _SQL_STATE.sub("", found[2].strip())
                below = text[found.end(2) :].removeprefix("\n").partition("\n")[0]
                facts = _facts_in(below, cls)
                if (file := _DATA_FILE.match(message)) and "path" in cls.__dataclass_fields__:
                    facts.setdefault("path", file[1])
                return cls(message, **facts)
    return None
