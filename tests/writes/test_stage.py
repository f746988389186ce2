"""What a failed Spark job tells the caller: one line, out of pages of stack traces."""

from __future__ import annotations

import pytest

from pyhudi.errors import InvalidRecord, SetupError, WriteFailed
from pyhudi.writes.stage import CAUSE_CHARACTERS, innermost_cause, worker_error

STACK = "\n\tat org.apache.spark.A.f(A.scala:1)\n\tat org.apache.spark.B.g(B.scala:2)"
LOST = "Lost task 0.0 in stage 3.0 (TID 5) (host.name executor driver): "
ABORTED = (
    "An error occurred while calling o177.collectAsArrowToPython.\n: org.apache.spark."
    "SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most "
    f"recent failure: {LOST}"
)


BOOM = f"java.lang.RuntimeException: boom{STACK}"
DRIVER = f"\n\nDriver stacktrace:{STACK}"
DIVIDED = (
    "An error occurred while calling o1.collect.\n: a.b.Outer: x\n\tat a.B.c(B.java:1)\nCaused by: "
    "org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero. Use it.\n"
    "== SQL (line 1) ==\nid / 0"
)
TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "a.py", line 1, in f\n    raise ValueError("x")\nValueError: bad row 7\n'
)
CAST = "[CAST_INVALID_INPUT] The value 'x' cannot be cast."


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (f"{ABORTED}{BOOM}{DRIVER}\nCaused by: {BOOM}\n\t... 1 more\n", "RuntimeException: boom"),
        (f"{ABORTED}{BOOM}{DRIVER}", "RuntimeException: boom"),
        (
            DIVIDED + STACK,
            "[DIVIDE_BY_ZERO] Division by zero. Use it. == SQL (line 1) == id / 0",
        ),
        (f"{ABORTED}o.a.s.PythonException: {TRACEBACK}{STACK}", "ValueError: bad row 7"),
        (f"\n  From the Python worker.\n{TRACEBACK}", "ValueError: bad row 7"),
        (CAST, CAST),
        ("plain words", "plain words"),
    ],
)
def test_the_innermost_cause_is_one_line(text: str, cause: str) -> None:
    assert innermost_cause(text) == cause


def test_a_cause_is_cut_where_it_is_long() -> None:
    assert len(innermost_cause("word " * 1000)) == CAUSE_CHARACTERS


def test_a_failure_that_is_not_ours_is_told_briefly() -> None:
    error = worker_error(RuntimeError(f"{ABORTED}a.b.Boom: no.{STACK * 50}"), "pyhudi insert t")
    assert type(error) is WriteFailed
    assert str(error).startswith("[WRITE_FAILED] pyhudi insert t failed in Spark: Boom: no. Noth")
    assert len(str(error)) < 250


@pytest.mark.parametrize(
    ("says", "package"),
    [
        ("ModuleNotFoundError: No module named 'pyarrow'", "pyarrow"),
        ("ModuleNotFoundError: No module named 'pyarrow.parquet'", "pyarrow"),
        ("[PACKAGE_NOT_INSTALLED] PyArrow >= 4.0.0 must be installed; however, it was", "pyarrow"),
        ("ImportError: Pandas >= 1.0.5 must be installed; however", "pandas"),
    ],
)
def test_workers_without_a_package_are_a_matter_of_set_up(says: str, package: str) -> None:
    lines = "".join(f"  File 'x.py', line {n}, in f\n" for n in range(30))
    told = (
        f"{ABORTED}o.a.s.PythonException: Traceback (most recent call last):\n{lines}{says}{STACK}"
    )
    error = worker_error(RuntimeError(told), "pyhudi upsert trips")
    assert type(error) is SetupError
    text = str(error)
    assert text.startswith(
        "[SETUP_ERROR] pyhudi upsert trips failed: the Python of Spark's workers"
    )
    assert f"has no {package}. Nothing of it is visible." in text
    assert "-m pip install pyarrow pandas" in text
    assert "\n" not in text


def test_a_package_that_only_the_users_function_lacks_is_its_own_failure() -> None:
    told = f"{ABORTED}o.a.s.PythonException: ModuleNotFoundError: No module named 'mine'{STACK}"
    assert type(worker_error(RuntimeError(told), "d")) is WriteFailed


@pytest.mark.parametrize(
    ("says", "told", "advice"),
    [
        (
            (
                "o.a.s.SparkRuntimeException: [MERGE_CARDINALITY_VIOLATION] The ON search "
                "condition of the MERGE statement matched a single row with multiple rows."
            ),
            "[MERGE_CARDINALITY_VIOLATION] The ON search condition",
            "Leave one row of the source",
        ),
        (
            (
                "o.a.s.SparkException: Python worker exited unexpectedly (crashed)"
                f"{STACK}\nCaused by: java.io.EOFException"
            ),
            "failed in Spark: Python worker exited unexpectedly (crashed). Nothing",
            "memoryOverhead",
        ),
        (
            "java.io.IOException: No space left on device",
            "IOException: No space left on device. Nothing",
            "Make room on that disk",
        ),
    ],
)
def test_a_known_failure_is_told_with_what_to_do(says: str, told: str, advice: str) -> None:
    error = worker_error(RuntimeError(f"{ABORTED}{says}{STACK}{DRIVER}"), "pyhudi merge t")
    assert type(error) is WriteFailed
    assert told in str(error)
    assert advice in str(error)
    assert "\n" not in str(error)


def test_an_error_of_ours_is_found_among_the_stacks() -> None:
    told = (
        f"{ABORTED}x.PythonException: pyhudi.errors.InvalidRecord: [INVALID_RECORD] 3 rows{STACK}"
    )
    assert type(worker_error(RuntimeError(told), "d")) is InvalidRecord
