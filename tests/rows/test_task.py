"""How a worker's failures reach the driver."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pyarrow as pa
import pytest

from pyhudi.errors import (
    CommitConflict,
    HudiError,
    InvalidRecord,
    StorageError,
    TableCorrupt,
    UnsupportedTable,
    WriteFailed,
)
from pyhudi.rows.damage import damaged
from pyhudi.rows.task import (
    FACTS,
    MOST_FACTS,
    Task,
    current_task,
    error_from_text,
    reporting,
    text_with_facts,
)

TRACEBACK = """Job aborted due to stage failure: Task 3 in stage 7.0 failed 4 times
pyspark.errors.exceptions.base.PythonException: Traceback (most recent call last):
  File "/spark/python/pyspark/worker.py", line 1830, in main
    process()
pyhudi.errors.InvalidRecord: [INVALID_RECORD] 3 row(s) have a null record key (column 'id').

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handle(PythonRunner.scala:572)
"""


def failing(error: Exception) -> list[pa.RecordBatch]:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        raise error

    return list(reporting(work)(iter([])))


def test_the_error_in_a_workers_traceback_is_found_with_its_class_and_text() -> None:
    error = error_from_text(TRACEBACK)
    assert type(error) is InvalidRecord
    assert str(error) == "[INVALID_RECORD] 3 row(s) have a null record key (column 'id')."


@pytest.mark.parametrize("path", ["p 1/g_0-0-0_1.parquet", "file:/data/t/p=1/g_0-0-0_1.parquet"])
def test_the_path_of_a_data_file_is_a_fact_of_its_error_again(path: str) -> None:
    error = error_from_text(f"a task: {damaged(path, 'is not there')}\n\tat x")
    assert isinstance(error, TableCorrupt)
    assert error.facts == {"path": path}


@pytest.mark.parametrize(
    ("error", "facts"),
    [
        (InvalidRecord("a row", column="Zeit 'ü'\n\"x\""), {"column": "Zeit 'ü'\n\"x\""}),
        (TableCorrupt("p", path="a/b", rule="D2"), {"path": "a/b", "rule": "D2"}),
        (
            CommitConflict("late", before_data=True, again_in_ms=7),
            {"before_data": True, "again_in_ms": 7},
        ),
        (CommitConflict("late", ours="1", overlap=(("a", "1"),)), {"ours": "1"}),
        (StorageError("refused", had_no_effect=True), {"had_no_effect": True}),
        (WriteFailed("why"), {}),
    ],
    ids=str,
)
def test_the_plain_facts_of_a_workers_error_survive_the_way_to_the_driver(
    error: HudiError, facts: dict[str, object]
) -> None:
    told = f"Traceback:\n  File x\npyhudi.errors.X: {text_with_facts(error)}\n\n\tat scala.X"

    found = error_from_text(told)

    assert type(found) is type(error)
    assert str(found) == str(error)
    assert found is not None
    assert found.facts == facts


def test_facts_that_are_too_long_are_left_behind_and_the_others_are_not() -> None:
    error = TableCorrupt("p", path="x" * MOST_FACTS, rule="D2")
    text = text_with_facts(error)
    assert len(text) < MOST_FACTS
    found = error_from_text(text)
    assert isinstance(found, TableCorrupt)
    assert (found.path, found.rule) == (None, "D2")


@pytest.mark.parametrize(
    "line",
    [
        f"{FACTS}{{",
        f"{FACTS}[1]",
        f"{FACTS}{'[' * 1900}",
        f'{FACTS}{{"column": 1, "colour": "red", "facts": "x", "args": "y", "message": "z"}}',
        f'{FACTS}{{"column": "{"x" * MOST_FACTS}"}}',
        f'between\n{FACTS}{{"column": "x"}}',
    ],
    ids=lambda line: line[:30],
)
def test_a_line_that_says_no_facts_of_the_error_says_nothing(line: str) -> None:
    found = error_from_text(f"[INVALID_RECORD] a row\n{line}\n")
    assert isinstance(found, InvalidRecord)
    assert found.facts == {}
    assert str(found) == "[INVALID_RECORD] a row"


@pytest.mark.parametrize(
    "text", ["", "plain failure", "[1, 2] [SQL] x", "[DIVIDE_BY_ZERO] Division by zero."]
)
def test_other_failures_are_not_ours(text: str) -> None:
    assert error_from_text(text) is None


@pytest.mark.parametrize("cls", [CommitConflict, TableCorrupt, StorageError, WriteFailed])
def test_each_class_is_made_again(cls: type[HudiError]) -> None:
    assert repr(error_from_text(f"boom: {cls('what, why, what now')}\n\tat x")) == repr(
        cls("what, why, what now")
    )


@pytest.mark.parametrize(
    ("error", "cls"),
    [
        (OSError("disk\nfull"), StorageError),
        (FileNotFoundError("gone"), StorageError),
        (pa.ArrowInvalid("bad\n\nrows"), WriteFailed),
        (InvalidRecord("a row"), InvalidRecord),
    ],
)
def test_a_workers_failure_is_one_of_ours_on_one_line(
    error: Exception, cls: type[HudiError]
) -> None:
    with pytest.raises(cls) as caught:
        failing(error)
    assert "\n" not in str(caught.value)
    assert str(error).split()[0] in str(caught.value)


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (OSError(errno.ENOSPC, "Detail: No space left on device"), "make room on that disk"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "make room on that disk"),
        (OSError(errno.EIO, "Input/output error"), "try again when the storage answers"),
    ],
)
def test_a_full_disk_is_told_with_what_to_do(error: Exception, advice: str) -> None:
    with pytest.raises(StorageError, match=advice):
        failing(error)


def test_a_fault_of_our_own_code_is_not_disguised() -> None:
    with pytest.raises(ZeroDivisionError):
        failing(ZeroDivisionError("bug"))


def test_a_write_token_is_three_integers_with_the_writes_own_in_the_middle() -> None:
    assert Task(3, 17).write_token(4711) == "3-4711-17"
    assert current_task() == Task(0, 0)


def test_a_code_of_spark_before_ours_is_passed_over() -> None:
    text = "[USER_RAISED_EXCEPTION] [UNSUPPORTED_TABLE] Rows would move. SQLSTATE: P0001\n\tat x"
    found = error_from_text(text)
    assert type(found) is UnsupportedTable
    assert str(found) == "[UNSUPPORTED_TABLE] Rows would move."
