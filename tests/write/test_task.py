"""How a worker's failures reach the driver."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from pyhudi.errors import (
    CommitConflict,
    HudiError,
    InvalidRecord,
    StorageError,
    TableCorrupt,
    WriteFailed,
)
from pyhudi.write.damage import damaged
from pyhudi.write.task import Task, current_task, error_from_text, reporting

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


def test_a_fault_of_our_own_code_is_not_disguised() -> None:
    with pytest.raises(ZeroDivisionError):
        failing(ZeroDivisionError("bug"))


def test_a_write_token_is_three_integers_with_the_writes_own_in_the_middle() -> None:
    assert Task(3, 17).write_token(4711) == "3-4711-17"
    assert current_task() == Task(0, 0)
