"""Programs that start in the JVM, by the commands that docs/guide.md shows, in a Python-less JVM.

Each runs in a folder of its own with settings in a ``spark-defaults.conf``; whatever it starts has
a mark in its environment, by which what is left behind is found.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import signal
import socket
import subprocess
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from integration.peers import maven
from tests.process_facts import eventually, marked
from tests.servers.process import BRIEF_JVM, BRIEF_SPARK, free_port
from tests.spark_lines import environment_of

REPO = Path(__file__).resolve().parents[1]
PLANNER = "-m pyhudi.spark.gateway"
ANSWER_S = 300
# From Spark 4.1 on the shell tells the time of each statement on stderr, even with -S.
TIMES = re.compile(r"^Time taken: .*\n", re.MULTILINE)
# What the shell shows of its own: it asks for a statement, and for each further line of one.
PROMPTS = re.compile(r"^(?:spark-sql \(\w+\)> | +> )+")

SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.catalogImplementation": "in-memory",
}


def shown(begins: str) -> str:
    """The command of the guide that begins with these words."""
    text = (REPO / "docs" / "guide.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```shell\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    (found,) = (line for line in lines if line.startswith(begins))
    return found


@dataclass
class Place:
    """A folder, an installed Spark line with pyhudi, and a mark for what runs there."""

    folder: Path
    line: str
    settings: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    mark: str = field(default_factory=lambda: f"PYHUDI_TEST_MARK={uuid.uuid4().hex}")

    @property
    def bin(self) -> Path:
        return environment_of(self.line) / "bin"

    @property
    def spark_jars(self) -> Path:
        (jars,) = (environment_of(self.line) / "lib").glob("python3*/site-packages/pyspark/jars")
        return jars

    def environment(self) -> dict[str, str]:
        conf = self.folder / "conf"
        conf.mkdir(exist_ok=True)
        chosen = {**SETTINGS, "spark.sql.warehouse.dir": f"{self.folder}/lake", **self.settings}
        (conf / "spark-defaults.conf").write_text(
            "".join(f"{key} {value}\n" for key, value in chosen.items())
        )
        (conf / "log4j2.properties").write_text(
            "rootLogger.level = error\nrootLogger.appenderRef.out.ref = console\n"
            "appender.console.type = Console\nappender.console.name = console\n"
            "appender.console.target = SYSTEM_ERR\nappender.console.layout.type = PatternLayout\n"
            # Spark 4 says there, of each join, that it has no filter for a scan at last.
            "logger.pruning.name = org.apache.spark.sql.execution.datasources.v2"
            ".DataSourceV2Strategy\nlogger.pruning.level = off\n"
        )
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "SPARK_"))}
        name, _, value = self.mark.partition("=")
        return {
            **kept,
            **BRIEF_SPARK,
            name: value,
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "PYTHONPATH": str(REPO / "python"),
            "PYSPARK_PYTHON": str(self.bin / "python"),
            "SPARK_CONF_DIR": str(conf),
            "SPARK_LOCAL_IP": "127.0.0.1",
            # A terminal would have what is typed among the rows, broken at its width.
            "SPARK_SUBMIT_OPTS": " ".join(
                [*BRIEF_JVM, "-Djline.terminal=jline.UnsupportedTerminal"]
            ),
            **self.variables,
        }

    def planners(self) -> list[int]:
        """The Python processes that JVMs of this place have started."""
        return [pid for pid, command in marked(self.mark).items() if PLANNER in command]

    def jvm(self) -> int:
        """The process id of the one JVM that runs here."""
        (found,) = (
            pid
            for pid, command in marked(self.mark).items()
            if "java" in command.split(" ")[0] and "org.apache.spark" in command
        )
        return found

    def is_deserted(self) -> bool:
        """Whether everything that was started here ends, and soon."""
        return eventually(lambda: not marked(self.mark))


@contextmanager
def started(place: Place, command: str, log: str = "log") -> Iterator[subprocess.Popen[str]]:
    """A command of the shell; stdout and stdin are pipes, stderr is a file of the place."""
    with (place.folder / log).open("ab") as noise:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"], cwd=place.folder,
            env=place.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=noise, text=True, bufsize=1,
        )  # fmt: skip
    try:
        yield process
    finally:
        _end_all(place)
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def _end_all(place: Place) -> None:
    for pid in marked(place.mark):
        _end(pid)


def _end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class SparkSql:
    """``spark-sql``, one statement at a time."""

    def __init__(self, place: Place, process: subprocess.Popen[str]) -> None:
        self._place = place
        self._process = process
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._ends = 0
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def send(self, statement: str) -> None:
        """Begin a statement, and have its end told."""
        self._ends += 1
        assert self._process.stdin is not None
        self._process.stdin.write(f"{statement};\nselect 'end', {self._ends};\n")
        self._process.stdin.flush()

    def answer(self) -> list[str]:
        """What the statement that was sent has shown; ``AssertionError`` where it never ends."""
        rows: list[str] = []
        end = f"end\t{self._ends}"
        while True:
            line = self._lines.get(timeout=ANSWER_S)
            if line == end:
                return rows
            rows.append(line)

    def run(self, statement: str) -> list[str]:
        self.send(statement)
        return self.answer()

    def texts(self, statement: str) -> list[list[str]]:
        """The cells of its rows; ``RuntimeError`` with what the shell said where it failed."""
        before = self._log.stat().st_size
        shown = self.run(statement)
        told = self._told_since(before)
        if told:
            raise RuntimeError(told)
        padded = statement.startswith("DESCRIBE")
        return [[cell.rstrip() if padded else cell for cell in line.split("\t")] for line in shown]

    def error(self, statement: str) -> str:
        """The error that a statement ends with."""
        before = self._log.stat().st_size
        self.send(statement)
        return self.error_since(before)

    def error_since(self, position: int) -> str:
        shown = self.answer()
        text = self._told_since(position)
        assert text, f"no error, but {shown}"
        return text

    @property
    def _log(self) -> Path:
        return self._place.folder / "log"

    def _told_since(self, position: int) -> str:
        with self._log.open("rb") as file:
            file.seek(position)
            return TIMES.sub("", file.read().decode())

    def heard_out(self) -> None:
        """Wait until all that it said is read: its output is closed after that."""
        self._listener.join()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            text = PROMPTS.sub("", line.rstrip("\n"))
            if text:
                self._lines.put(text)


@contextmanager
def spark_sql(place: Place) -> Iterator[SparkSql]:
    with started(place, shown("spark-sql") + " -S") as process:
        shell = SparkSql(place, process)
        try:
            yield shell
        finally:
            _end_all(place)
            shell.heard_out()


@contextmanager
def connect_server(folder: Path, line: str) -> Iterator[tuple[Place, ConnectClient]]:
    """A Spark Connect server, and its client; nothing of it is left behind."""
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
    }
    if line == "3.5":  # its PySpark comes without the server
        settings["spark.driver.extraClassPath"] = str(maven.jar(maven.CONNECT))
    here = Place(folder, line, settings)
    main = "org.apache.spark.sql.connect.service.SparkConnectServer"
    with server(here, main, port) as running:
        yield running, ConnectClient(running, f"sc://127.0.0.1:{port}")
        os.kill(running.jvm(), signal.SIGTERM)
        assert running.is_deserted()


@contextmanager
def thrift_server(folder: Path, line: str) -> Iterator[tuple[Place, str]]:
    """A Thrift server, and the address for JDBC clients; nothing of it is left behind."""
    port = free_port()
    variables = {"HIVE_SERVER2_THRIFT_PORT": str(port)}
    variables["HIVE_SERVER2_THRIFT_BIND_HOST"] = "127.0.0.1"
    here = Place(folder, line, variables=variables)
    main = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
    with server(here, main, port) as running:
        yield running, f"jdbc:hive2://127.0.0.1:{port}"
        os.kill(running.jvm(), signal.SIGTERM)
        assert running.is_deserted()


@contextmanager
def server(place: Place, main: str, port: int) -> Iterator[Place]:
    """The server whose main class is ``main``, once it answers on ``port``."""
    command = shown(f"spark-submit --class {main}")
    with started(place, command) as process:

        def answers() -> bool:
            assert process.poll() is None, (place.folder / "log").read_text()
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return True
            return False

        assert eventually(answers, ANSWER_S), (place.folder / "log").read_text()
        yield place


class ConnectClient:
    """A remote session in a process whose Python has all but pyhudi: see connect_client.py."""

    def __init__(self, place: Place, url: str) -> None:
        self._place = place
        self._url = url
        self._packages = place.folder / "packages"
        if not self._packages.exists():
            self._packages.mkdir()
            for entry in place.spark_jars.parents[1].iterdir():
                if "pyhudi" not in entry.name.lower() and not entry.name.endswith(".pth"):
                    (self._packages / entry.name).symlink_to(entry)

    def start(self, what: str, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [
                str(self._place.bin / "python"), "-S", str(REPO / "integration/connect_client.py"),
                self._url, str(self._place.folder), what, *arguments,
            ],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{self._packages}:{REPO}"},
            cwd=self._place.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, what: str, *arguments: str) -> Any:
        return self.answer(self.start(what, *arguments))

    def answer(self, process: subprocess.Popen[str], line: str = "") -> Any:
        """What a session found, once it has been sent ``line``."""
        shown, noise = process.communicate(line, timeout=ANSWER_S)
        assert process.returncode == 0, noise
        return json.loads(shown.splitlines()[-1])


def compiled(place: Place, source: Path) -> Path:
    """The jar of one Java class, compiled against the place's Spark."""
    classes = place.folder / "classes"
    jar = place.folder / f"{source.stem.lower()}.jar"
    subprocess.run(
        ["javac", "-cp", f"{place.spark_jars}/*", "-d", str(classes), str(source)], check=True
    )
    subprocess.run(["jar", "cf", str(jar), "-C", str(classes), "."], check=True)
    return jar


def run_to_its_end(place: Place, command: str) -> list[str]:
    """The lines that a command shows; ``AssertionError`` with its log where it fails."""
    done = subprocess.run(
        ["bash", "-c", command], cwd=place.folder, env=place.environment(),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=ANSWER_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()
