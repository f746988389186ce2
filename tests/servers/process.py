"""Servers that tests start on loopback and stop again; a log says why one did not start."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark

#: Hive and ZooKeeper come with Spark
SPARK_JARS = Path(pyspark.__file__).parent / "jars"
#: for a JVM that lives for minutes: what C2 would compile hardly runs, and G1's threads wait
BRIEF_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
SMALL_JVM = ("java", "-Xmx256m", *BRIEF_JVM)
#: has Spark's scripts start its drivers, masters and workers so, in all processes below
BRIEF_SPARK = dict.fromkeys(
    ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS", "SPARK_LAUNCHER_OPTS"), " ".join(BRIEF_JVM)
)
#: for sessions of processes that can import ``tests``
BRIEF_TASKS = {"spark.python.daemon.module": "tests.worker_daemon"}
_STARTS_WITHIN_S = 180


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
