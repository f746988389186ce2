"""Ctrl-C in a program that writes: the write is cancelled, undone, and the program goes on."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from pyhudi.spark.interrupts import Interrupts

PROGRAM = """
import json, os, signal, sys, threading, time
from pathlib import Path
import pyhudi
from pyspark.sql import SparkSession, functions as F
from pyhudi.clock import SystemClock
from pyhudi.locks.base import LockOwner
from pyhudi.locks.filesystem import FilesystemLock
from pyhudi.storage.open import open_storage

folder = Path(sys.argv[1])
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.warehouse.dir", str(folder))
spark = pyhudi.configure(builder).getOrCreate()
began = folder / "began"
key = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.table.name": "t"}

def slow(number):
    began.touch()
    time.sleep(3)
    return number

def is_there(holds, within_s=60):
    end = time.monotonic() + within_s
    while not holds() and time.monotonic() < end:
        time.sleep(0.05)

def interrupted(holds, call, then=lambda: None):
    began.unlink(missing_ok=True)
    def later():
        is_there(holds)
        os.kill(os.getpid(), signal.SIGINT)
        then()
    threading.Thread(target=later).start()
    start = time.monotonic()
    try:
        call()
        told = "no interrupt"
    except KeyboardInterrupt as stop:
        told = f"{type(stop).__name__}: {stop}"
    return told, time.monotonic() - start

late = F.udf(slow, "long")
path = str(folder / "t")
spark.range(3).write.format("pyhudi").options(**key).save(path)
spark.sql(f"create table named using pyhudi location '{path}'")
append = spark.range(0, 200, 1, 2).select(late("id").alias("id"))
write = append.write.format("pyhudi").mode("append")
found = [interrupted(began.exists, lambda: write.save(path))]
spark.udf.register("late", late)
update = "delete from named where late(id) < 100 and late(id + 1) > 0 and late(id + 2) > 0"
found.append(interrupted(began.exists, lambda: spark.sql(update)))

clock = SystemClock()
lock = FilesystemLock(open_storage(path, {}, clock), clock)
lock.acquire(20, LockOwner.this_process("20240501123005123"))
files = len(list(Path(path).glob("*.parquet")))
quick = spark.range(5, 7).write.format("pyhudi").mode("append")
written = lambda: len(list(Path(path).glob("*.parquet"))) > files
def release():
    time.sleep(2)
    lock.release()
found.append(interrupted(written, lambda: quick.save(path), then=release))
is_there(lambda: not lock.held())

found.append(spark.read.format("pyhudi").load(path).count())
pending = [e.instant for e in pyhudi.history(path) if e.state.value != "completed"]
print(json.dumps([*found, pending]))
quick.save(path)
print(spark.read.format("pyhudi").load(path).count())
print("it creates a table", file=sys.stderr, flush=True)
create = "create table made using pyhudi tblproperties (primaryKey = 'id') as "
select = "select late(id) as id from range(0, 200, 1, 2)"
print(interrupted(began.exists, lambda: spark.sql(create + select))[0])
print(spark.catalog.tableExists("made"))
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.every_line
def test_ctrl_c_cancels_a_write_wherever_it_is_and_leaves_a_program_that_works(
    tmp_path: Path,
) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True, text=True, env=environment, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, rows, created, is_there = done.stdout.splitlines()[-4:]
    *interrupts, left, pending = json.loads(first)
    # On a busy machine the last write may have its lock, and commit, before it is cancelled.
    late = interrupts[-1][0].startswith("KeyboardInterrupt: The write was committed as")
    for told, seconds in interrupts[:-1] if late else interrupts:
        assert told.startswith("KeyboardInterrupt: The statement was cancelled. Nothing"), told
        assert seconds < 240, "it waited for the rows"
    assert (left, pending) == (5 if late else 3, [])
    assert rows == "5"
    assert created.startswith("KeyboardInterrupt: The statement was cancelled. Nothing"), created
    assert is_there == "False"
    assert "Py4J" not in done.stderr
    assert "failed to abort" not in done.stderr
    # Of CREATE TABLE AS SELECT Spark shows all of its own calls.
    shown = done.stderr.partition("it creates a table")[0]
    assert len(shown.splitlines()) < 3 * 30, done.stderr


# -- without Spark: the handler of the signal

_FRAMES: dict[str, Any] = {}
exec(compile("def call(it): return it()", "/lib/py4j/clientserver.py", "exec"), _FRAMES)
in_py4j: Callable[[Callable[[], Any]], Any] = _FRAMES["call"]
DONE = '{"ok": null}'
COMMITTED = '{"ok": {"instant": "20240501123005123", "shown": null}}'
FAILED = '{"error": {"kind": "WriteFailed", "message": "[WRITE_FAILED] x", "again_in_ms": null}}'
UNKNOWN = '{"error": {"kind": "CommitUnknown", "message": "[COMMIT_UNKNOWN]", "again_in_ms": null}}'


def nothing() -> None:
    """What happens after a statement that could not be cancelled, in most tests."""


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def ends(answer: str, *, times: int = 1) -> tuple[str, KeyboardInterrupt | None]:
    """What the JVM hears, and what the program gets, of a write that was interrupted."""
    interrupts = Interrupts(nothing)

    def conversation() -> str:
        interrupts.begin("write")
        for _ in range(times):
            interrupt()
        assert interrupts.told()
        return interrupts.end("write", answer)

    before = signal.getsignal(signal.SIGINT)
    try:
        return in_py4j(conversation), interrupts.take()
    finally:
        assert signal.getsignal(signal.SIGINT) is before


def test_a_write_that_was_interrupted_ends_as_an_interrupt() -> None:
    heard, raised = ends(FAILED)
    assert "[INTERRUPTED]" in heard
    assert "Nothing of it is visible" in str(raised)


def test_an_interrupt_that_came_too_late_names_the_commit() -> None:
    heard, raised = ends(COMMITTED)
    assert "[INTERRUPTED]" in heard
    assert "was committed as 20240501123005123 before" in str(raised)


def test_an_unknown_outcome_is_not_hidden_by_an_interrupt() -> None:
    assert ends(UNKNOWN) == (UNKNOWN, None)


def test_the_third_interrupt_leaves_the_write_as_it_is() -> None:
    with pytest.raises(KeyboardInterrupt):
        ends(FAILED, times=3)


def test_no_garbage_is_collected_while_all_threads_are_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    collects: list[bool] = []
    looked, plain = threading.Event(), sys._current_frames

    def noted() -> dict[int, FrameType]:
        collects.append(gc.isenabled())
        looked.set()
        return plain()

    monkeypatch.setattr(sys, "_current_frames", noted)
    ends(FAILED)
    assert looked.wait(60)
    assert not any(collects)
    assert any(gc.isenabled() or time.sleep(0.01) for _ in range(6000)), "it is on again"


@pytest.mark.parametrize(
    ("method", "done"),
    [
        ("drop_table", DONE), ("create_table", DONE), ("rename_table", DONE),
        ("delete_where", DONE),
        ("describe", COMMITTED), ("plan_scan", COMMITTED), ("describe", DONE),
    ],
)  # fmt: skip
def test_what_is_done_without_a_commit_is_not_told_as_cancelled(method: str, done: str) -> None:
    """Nor is the commit that a look has found told as the statement's."""
    late = threading.Event()
    interrupts, before = Interrupts(late.set), signal.getsignal(signal.SIGINT)

    def statement() -> str:
        interrupts.begin(method)
        interrupt()
        return interrupts.end(method, done)

    assert in_py4j(statement) == done
    assert late.wait(60), "the program is interrupted after it"
    assert signal.getsignal(signal.SIGINT) is before


def test_a_statement_that_was_interrupted_while_it_looked_is_cancelled_when_it_writes() -> None:
    interrupts, before = Interrupts(nothing), signal.getsignal(signal.SIGINT)

    def statement() -> str:
        interrupts.begin("describe")
        interrupt()
        assert interrupts.end("describe", COMMITTED) == COMMITTED
        interrupts.begin("insert")
        assert interrupts.told()
        return interrupts.end("insert", FAILED)

    assert "[INTERRUPTED]" in in_py4j(statement)
    assert "Nothing of it is visible" in str(interrupts.take())
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_is_told_though_the_table_of_the_statement_is_removed_first() -> None:
    interrupts, before = Interrupts(nothing), signal.getsignal(signal.SIGINT)

    def statement() -> str:
        interrupts.begin("insert")
        interrupt()
        interrupts.end("insert", FAILED)
        interrupts.begin("discard_table")
        assert not interrupts.told(), "nothing stops what tidies up"
        return interrupts.end("discard_table", '{"ok": true}')

    assert in_py4j(statement) == '{"ok": true}'
    assert "Nothing of it is visible" in str(interrupts.take())
    assert interrupts.take() is None
    assert signal.getsignal(signal.SIGINT) is before


def test_the_handler_of_every_spark_line_is_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGINT)
    for module in ("pyspark.context", "pyspark.core.context"):
        called: list[int] = []

        def handler(number: int, frame: object, called: list[int] = called) -> None:
            called.append(number)

        handler.__module__ = module
        signal.signal(signal.SIGINT, handler)
        interrupts = Interrupts(nothing)
        interrupts.install(nothing, nothing)
        try:
            assert signal.getsignal(signal.SIGINT) == interrupts._signalled
            with pytest.raises(KeyboardInterrupt):
                interrupt()
            assert called == [signal.SIGINT]
        finally:
            signal.signal(signal.SIGINT, before)


def test_a_statement_that_ended_without_a_word_leaves_the_programs_handler() -> None:
    interrupts, before = Interrupts(nothing), signal.getsignal(signal.SIGINT)
    called: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: called.append(number))
    own = signal.getsignal(signal.SIGINT)

    def explained() -> None:
        interrupts.begin("check_row_changes")
        interrupts.end("check_row_changes", DONE)

    def described() -> None:
        interrupts.begin("describe")
        interrupts.end("describe", DONE)

    try:
        in_py4j(explained)
        with pytest.raises(KeyboardInterrupt):
            interrupt()
        assert called == [signal.SIGINT], "the program's own handler came first"
        assert signal.getsignal(signal.SIGINT) is own
        in_py4j(explained)
        in_py4j(described)
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_statement_stays_cancellable_while_spark_spools_its_rows() -> None:
    interrupts, before = Interrupts(nothing), signal.getsignal(signal.SIGINT)

    def statement() -> str:
        interrupts.begin("spool_begin")
        interrupts.end("spool_begin", '{"ok": "folder"}')
        interrupt()
        interrupts.begin("spool_abort")
        return interrupts.end("spool_abort", DONE)

    assert in_py4j(statement) == DONE, "the abort itself succeeds"
    assert "Nothing of it is visible" in str(interrupts.take())
    assert interrupts.take() is None
    assert signal.getsignal(signal.SIGINT) is before


def test_at_the_prompt_an_interrupt_is_what_it_always_was() -> None:
    interrupts = Interrupts(nothing)
    interrupts.begin("spool_begin")
    interrupts.end("spool_begin", '{"ok": "folder"}')
    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert not interrupts.told()
    assert interrupts.take() is None


def test_an_interrupt_of_one_statement_does_not_cancel_the_next() -> None:
    interrupts, before = Interrupts(nothing), signal.getsignal(signal.SIGINT)
    ended = []

    def first() -> None:
        interrupts.begin("check_row_changes")
        interrupts.end("check_row_changes", DONE)
        interrupt()

    def second() -> None:
        interrupts.begin("write")
        ended.append((interrupts.told(), interrupts.end("write", COMMITTED)))

    in_py4j(first)
    in_py4j(second)
    assert ended == [(False, COMMITTED)]
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_that_ended_no_statement_comes_though_the_next_one_runs() -> None:
    late = threading.Event()
    interrupts, before = Interrupts(late.set), signal.getsignal(signal.SIGINT)

    def first() -> None:
        interrupts.begin("check_row_changes")
        interrupts.end("check_row_changes", DONE)
        interrupt()

    def second() -> str:
        interrupts.begin("write")
        answer = interrupts.end("write", COMMITTED)
        assert late.wait(60)
        return answer

    in_py4j(first)
    assert in_py4j(second) == COMMITTED
    signal.signal(signal.SIGINT, before)


def test_a_program_that_waits_for_streams_is_interrupted_at_once() -> None:
    interrupts, before = Interrupts(nothing), signal.getsignal(signal.SIGINT)
    frames: dict[str, Any] = {}
    code = "def awaitTermination(it): return it()"
    exec(compile(code, "/lib/pyspark/sql/streaming/query.py", "exec"), frames)

    def waiting() -> None:
        interrupts.begin("describe")
        interrupts.end("describe", DONE)
        signal.signal(signal.SIGINT, interrupts._signalled)
        interrupt()

    try:
        with pytest.raises(KeyboardInterrupt):
            frames["awaitTermination"](lambda: in_py4j(waiting))
        assert not interrupts.told()
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_statement_that_ended_as_if_nothing_was_still_interrupts_the_program() -> None:
    late = threading.Event()
    interrupts, before = Interrupts(late.set), signal.getsignal(signal.SIGINT)

    def statement() -> None:
        interrupts.begin("check_row_changes")
        interrupts.end("check_row_changes", DONE)
        interrupt()

    in_py4j(statement)
    assert late.wait(60)
    signal.signal(signal.SIGINT, before)
