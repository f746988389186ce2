"""Locks of other programs, in a JVM of their own: Apache Hudi's providers, Amazon's lock client."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from integration.peers import maven
from tests.servers.dynamodb import CLASSPATH
from tests.servers.process import SMALL_JVM, SPARK_JARS

HUDI = maven.HUDI["1.2.0"]
LOCK_CLIENT = "com.amazonaws:dynamodb-lock-client:1.3.0"
COMMONS_LOGGING = "commons-logging:commons-logging:1.2"
_ANSWER = "answer "


@dataclass
class OtherLocks:
    """A running JVM; each lock in it has a name. One question at a time."""

    process: subprocess.Popen[str]
    log: Path

    def __post_init__(self) -> None:
        self._guard = threading.Lock()
        self._read()

    def open(self, name: str, provider: str, options: Mapping[str, str]) -> None:
        """Make a handle with ``options``, keys as in Hudi's configuration."""
        said = [f"{key}={value}" for key, value in options.items()]
        assert self._ask("open", name, provider, *said) == "opened"

    def take(self, name: str, wait_ms: int = 1_000) -> bool:
        """Whether the lock was ours within ``wait_ms``."""
        return self._ask("try", name, str(wait_ms)).startswith("true")

    def release(self, name: str) -> None:
        self._ask("unlock", name)

    def _ask(self, *words: str) -> str:
        with self._guard:
            stream = self.process.stdin
            assert stream is not None
            stream.write("\t".join(words) + "\n")
            stream.flush()
            answer = self._read()
        if answer.startswith("failed"):
            raise RuntimeError(f"{answer}\n{self.log.read_text()[-4_000:]}")
        return answer

    def _read(self) -> str:
        stream: IO[str] | None = self.process.stdout
        assert stream is not None
        for line in stream:
            if line.startswith(_ANSWER):
                return line.removeprefix(_ANSWER).rstrip("\n")
        raise RuntimeError(f"the JVM of the locks has ended:\n{self.log.read_text()[-4_000:]}")


@contextmanager
def hudi_locks(folder: Path) -> Iterator[OtherLocks]:
    """Apache Hudi 1.2.0's own lock providers; its log goes to ``folder``."""
    yield from _running("HudiLocks", f"{maven.jar(HUDI)}:{SPARK_JARS}/*", folder)


@contextmanager
def amazon_locks(folder: Path) -> Iterator[OtherLocks]:
    """Amazon's lock client for DynamoDB."""
    jars = [str(maven.jar(one)) for one in (LOCK_CLIENT, COMMONS_LOGGING)]
    yield from _running("AmazonLocks", ":".join([*jars, CLASSPATH.read_text().strip()]), folder)


def _running(source: str, classpath: str, folder: Path) -> Iterator[OtherLocks]:
    log = folder / f"{source}.log"
    program = Path(__file__).with_name(f"{source}.java")
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [*SMALL_JVM, "-cp", classpath, str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            yield OtherLocks(process, log)
        finally:
            process.kill()
