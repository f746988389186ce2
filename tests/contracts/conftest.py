"""The implementations that the contract suites run against."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyhudi.storage.base import Storage
from pyhudi.storage.faults import FaultyStorage
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.open import open_storage
from pyhudi.storage.slow import OverRate, Pace, SlowStorage
from tests.fakes import FakeClock
from tests.hadoop_jvm import HadoopJvm, hadoop_jvm
from tests.s3_server import S3Server, s3_server

_served_by: list[str] = []


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """One S3 endpoint for the whole run, with one bucket."""
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        _served_by.append(server.kind)
        yield server


@pytest.fixture(scope="session")
def hadoop() -> Iterator[HadoopJvm]:
    """Hadoop's client, of the version that comes with the Spark at hand."""
    with hadoop_jvm() as running:
        yield running


# Spark's lines bring different Hadoop clients, so that one runs on each of them.
HADOOP = pytest.param("hadoop", marks=[pytest.mark.spark, pytest.mark.every_line])


@pytest.fixture(params=["memory", "local", "s3", HADOOP, "faulty", "slow", "strict"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """An empty table on each storage in turn, those of the test kit included."""
    if request.param == "memory":
        return MemoryStorage()
    if request.param == "faulty":
        return FaultyStorage(MemoryStorage())
    if request.param == "slow":
        return SlowStorage(MemoryStorage(), clock=FakeClock())
    if request.param == "strict":
        pace = Pace(puts_a_second=5_000, over=OverRate.REFUSE)
        return SlowStorage(LocalStorage(str(tmp_path / "t")), pace, FakeClock())
    if request.param == "local":
        return LocalStorage(str(tmp_path / "a table=50% ö"))
    if request.param == "hadoop":
        running: HadoopJvm = request.getfixturevalue("hadoop")
        request.getfixturevalue("plain_py4j")
        return running.storage(f"raw://{tmp_path}/a table=50% ö")
    server: S3Server = request.getfixturevalue("s3")
    return open_storage(server.new_table("t =50%"), server.hadoop_options)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which server stood for S3: moto is an imitation, and a reader should know."""
    for kind in _served_by:
        hint = "" if kind == "MinIO" else " (no MinIO binary: set PYHUDI_MINIO or run make minio)"
        terminalreporter.write_line(f"S3 storage contract: ran on {kind}{hint}")
