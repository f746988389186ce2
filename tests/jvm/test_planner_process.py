"""The Python process that a JVM starts for itself: found, guarded, and gone with its owner."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.process_facts import answer_to, connected_ports, eventually, listens

pytestmark = [pytest.mark.spark, pytest.mark.every_line]


@pytest.fixture
def jvm(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm


def start(spark: SparkSession, python: str) -> Any:
    context: Any = spark.sparkContext
    return context._jvm.io.pyhudi.PlannerProcess.start(context._jsc.sc(), python)._1()


@pytest.fixture
def process(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    running = start(spark, sys.executable)
    yield running
    running.end()


@pytest.mark.parametrize(
    ("settings", "environment", "found"),
    [
        ({}, {}, "python3"),
        ({}, {"PYSPARK_PYTHON": "a"}, "a"),
        ({}, {"PYSPARK_PYTHON": "a", "PYSPARK_DRIVER_PYTHON": "b"}, "b"),
        ({"spark.pyspark.python": "c"}, {"PYSPARK_DRIVER_PYTHON": "b"}, "c"),
        ({"spark.pyspark.python": "c", "spark.pyspark.driver.python": "d"}, {}, "d"),
    ],
)
def test_python_is_found_as_spark_submit_finds_it(
    jvm: Any, settings: dict[str, str], environment: dict[str, str], found: str
) -> None:
    conf = jvm.org.apache.spark.SparkConf(False)
    for key, value in settings.items():
        conf.set(key, value)
    variables = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(environment)
    assert jvm.io.pyhudi.DriverPython.set(conf, variables) == found


def test_a_program_that_started_the_jvm_lends_its_own_python(jvm: Any) -> None:
    conf = jvm.org.apache.spark.SparkConf(False).set("spark.pyspark.python", "elsewhere")
    nothing = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap({})
    found = jvm.io.pyhudi.DriverPython.of(conf, nothing)
    assert Path(found).absolute() == Path(sys.executable).absolute()


def test_a_python_that_is_not_there_is_named(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="did not start with '/nowhere/python'") as error:
        start(spark, "/nowhere/python")
    assert "spark.pyspark.driver.python or PYSPARK_DRIVER_PYTHON" in str(error.value)


def test_what_a_python_without_pyhudi_says_is_passed_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'No module named pyhudi.' >&2\nexit 7\n")
    python.chmod(0o755)
    with pytest.raises(AnalysisException) as error:
        start(spark, str(python))
    assert "ended with exit code 7, and its last line was: No module named pyhudi. Install" in str(
        error.value
    )


def test_a_process_that_is_killed_tells_by_what(spark: SparkSession, process: Any) -> None:
    assert process.isAlive()
    os.kill(process.pid(), 9)
    assert process.obituary().startswith("signal 9 ended it")
    assert not process.isAlive()


def test_it_listens_on_the_loopback_alone_and_ends_when_it_is_told(process: Any) -> None:
    pid = process.pid()
    assert {host for host, _ in listens(pid)} == {"127.0.0.1"}
    process.end()
    assert eventually(lambda: not Path(f"/proc/{pid}").exists())


REMEMBER = "c\nz:java.lang.System\nsetProperty\nspyhudi.stranger\nswas here\ne\n"
FORGET_THE_PLANNER = "g\np0\ne\n"
ASK = 'c\np0\ncall\nsguess\nsexists\ns{"path": "/"}\ne\n'


@pytest.mark.parametrize("token", ["", "A\nguess\n", f"A\n{'x' * 43}\n"])
def test_a_stranger_without_the_token_gets_nothing_done(jvm: Any, process: Any, token: str) -> None:
    ours = {port for _, port in listens(process.pid())}
    java = connected_ports(process.pid()) & {port for _, port in listens(os_pid(jvm))}
    assert ours
    assert java
    for port in java:
        heard = answer_to(port, (token + REMEMBER).encode())
        assert not heard.startswith(b"!y"), heard
    assert jvm.java.lang.System.getProperty("pyhudi.stranger") is None
    for port in ours:
        for words in (FORGET_THE_PLANNER, ASK):
            heard = answer_to(port, (token + words).encode())
            assert b"!y" not in heard, heard
    assert process.isAlive()


def os_pid(jvm: Any) -> int:
    return int(jvm.java.lang.ProcessHandle.current().pid())


def test_no_word_of_the_token_is_in_the_command_or_the_environment(process: Any) -> None:
    folder = Path(f"/proc/{process.pid()}")
    command = (folder / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    assert command[1:] == [b"-m", b"pyhudi.spark.gateway"]
    assert b"PYSPARK_GATEWAY_SECRET" not in (folder / "environ").read_bytes()
