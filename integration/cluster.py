"""A standalone Spark cluster on this machine, whose workers pass for machines of their own.

Spark starts no second attempt of a task on the host of the first, and in ``local-cluster`` mode all
executors share one: there it never speculates. Here each worker has a loopback address of its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

START_S = 300.0
_MASTER = re.compile(r"spark://127\.0\.0\.1:\d+")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster: its URL, and the processes of which the executors descend."""

    master: str
    pids: tuple[int, ...]


@contextmanager
def standalone(
    folder: Path, workers: int = 2, cores: int = 1, memory: str = "1g"
) -> Iterator[Cluster]:
    """A cluster while the block lasts, with its files in ``folder``."""
    running: list[subprocess.Popen[bytes]] = []
    try:
        master = folder / "master.log"
        places = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        running.append(_start("master.Master", places, master))
        url = _told(master, _MASTER)
        for number in range(workers):
            log = folder / f"worker-{number}.log"
            places = ["--host", f"127.0.0.{number + 2}", "--port", "0", "--webui-port", "0"]
            size = ["--cores", str(cores), "--memory", memory, "--work-dir", str(folder / "work")]
            running.append(_start("worker.Worker", [*places, *size, url], log))
        for number in range(workers):
            _told(folder / f"worker-{number}.log", re.compile("Successfully registered"))
        yield Cluster(url, tuple(process.pid for process in running))
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            process.wait()


def _start(name: str, arguments: list[str], log: Path) -> subprocess.Popen[bytes]:
    home = Path(pyspark.__file__).parent
    env = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    env |= {"SPARK_DAEMON_MEMORY": "256m", "SPARK_NO_DAEMONIZE": "1"}
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    with log.open("wb") as noise:
        return subprocess.Popen(command, env=env, stdout=noise, stderr=subprocess.STDOUT)


def _told(log: Path, wanted: re.Pattern[str]) -> str:
    """Wait until a log says it."""
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        if found := wanted.search(log.read_text(errors="replace")):
            return found[0]
        threading.Event().wait(0.1)
    raise AssertionError(f"the cluster has not started: {log.read_text(errors='replace')[-2000:]}")
