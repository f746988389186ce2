"""Workers hold their attempt while they may write; whoever comes too late writes nothing."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyspark
import pytest

from pyhudi.rows.attempt import held

Batches = Iterator[pa.RecordBatch]

IS_LOCKED = """
import fcntl, sys
with open(sys.argv[1], "r+") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        print("locked by", file.read())
"""


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the running attempt, number 7, as the shim makes it."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},elsewhere")
    monkeypatch.setattr(
        pyspark.TaskContext, "get", lambda: SimpleNamespace(taskAttemptId=lambda: 7)
    )
    file = tmp_path / "pyhudi-attempt-7"
    file.touch()
    return file


def is_locked(file: Path) -> bool:
    """Whether another process cannot lock it, for this one holds it and says so.

    The file is not opened here: closing it would give this process's lock away.
    """
    told = subprocess.run([sys.executable, "-c", IS_LOCKED, file], capture_output=True, check=True)
    assert told.stdout.decode().strip() in ("", f"locked by {os.getpid()}")
    return told.stdout != b""


def test_a_worker_locks_its_attempt_while_it_works_and_says_who_it_is(attempt: Path) -> None:
    def work(batches: Batches) -> Batches:
        assert is_locked(attempt)
        yield from batches

    batch = pa.RecordBatch.from_pydict({"a": [1]})
    run = held(work)(iter([batch]))
    assert next(run) == batch
    assert is_locked(attempt)
    assert list(run) == []
    assert not is_locked(attempt)


def test_a_worker_that_fails_lets_go(attempt: Path) -> None:
    def work(batches: Batches) -> Batches:
        yield from batches
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        list(held(work)(iter([])))
    assert not is_locked(attempt)


def never(batches: Batches) -> Batches:
    yield from batches
    pytest.fail("an attempt that has ended writes nothing")


def test_a_worker_whose_attempt_has_ended_before_it_began_writes_nothing(attempt: Path) -> None:
    attempt.unlink()
    with pytest.raises(RuntimeError, match="ended before"):
        list(held(never)(iter([])))


def test_a_worker_whose_attempt_ends_while_it_begins_writes_nothing(
    attempt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.lockf

    def lock_late(descriptor: int, how: int) -> None:
        attempt.unlink()
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "lockf", lock_late)
    with pytest.raises(RuntimeError, match="ended while"):
        list(held(never)(iter([])))
