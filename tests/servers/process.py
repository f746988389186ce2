"""Servers that tests start on loopback and stop again; a log says why one did not start."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark

#: Hive and ZooKeeper come with Spark
SPARK_JARS = Path(pyspark.__file__).parent / "jars"
#: for a JVM that lives for minutes: what C2 would compile hardly runs, and G1's threads wait; C1
#: alone gets 48 MB for its code, which Spark fills: what is thrown out of them is interpreted
BRIEF_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")
SMALL_JVM = ("java", "-Xmx256m", *BRIEF_JVM)
#: Spark's classes as the JVM keeps them in memory (``tests/spark_archive.py``), one for each line
ARCHIVE = "spark.jsa"


def brief_driver(environment: Path) -> tuple[str, ...]:
    """The options of a driver of the Spark in a Python environment, with its archive if it is made.

    A JVM that the archive does not fit, because of other jars or another Java, starts without a
    word and reads its classes from the jars.
    """
    archive = environment / ARCHIVE
    quiet = ("-Xlog:disable", "-Xlog:all=error:stderr")
    return (
        (*BRIEF_JVM, f"-XX:SharedArchiveFile={archive}", *quiet) if archive.exists() else BRIEF_JVM
    )


#: has Spark's scripts start its drivers, masters and workers so, in all processes below
BRIEF_SPARK = {
    "SPARK_SUBMIT_OPTS": " ".join(brief_driver(Path(sys.prefix))),
    "SPARK_DAEMON_JAVA_OPTS": " ".join(BRIEF_JVM),
    "SPARK_LAUNCHER_OPTS": " ".join(BRIEF_JVM),
}
#: for sessions of processes that can import ``tests``; nobody looks at the plans that Spark writes
#: down for its web pages, in full for each statement and each stage
BRIEF_TASKS = {
    "spark.python.daemon.module": "tests.worker_daemon",
    "spark.sql.ui.explainMode": "simple",
}
_STARTS_WITHIN_S = 300


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(command: Sequence[str], port: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The process of ``command``, once it answers on ``port``; its folder is that of ``log``."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=log.parent,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        )
    try:
        _wait_for(process, port, log)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    give_up = time.monotonic() + _STARTS_WITHIN_S
    while time.monotonic() < give_up and process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"{process.args!r} did not start:\n{log.read_text(errors='replace')}")
