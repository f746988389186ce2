"""The lock services that tests of several folders share: each starts once, at its first use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from py4j import java_gateway, protocol

from tests.servers.dynamodb import CREDENTIALS, DynamoDb, dynamodb_server
from tests.servers.hive_metastore import HiveMetastore, hive_metastore
from tests.servers.zookeeper import Zookeeper, zookeeper_server

_dynamodb_by: list[str] = []


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zookeeper]:
    with zookeeper_server(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture(scope="session")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveMetastore]:
    with hive_metastore(tmp_path_factory.mktemp("metastore")) as server:
        yield server


@pytest.fixture(scope="session")
def dynamodb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DynamoDb]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        with dynamodb_server(tmp_path_factory.mktemp("dynamodb")) as server:
            _dynamodb_by.append(server.kind)
            yield server


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what stood for DynamoDB: moto is an imitation, and a reader should know."""
    for kind in _dynamodb_by:
        hint = "" if kind == "DynamoDB Local" else " (run make dynamodb for DynamoDB Local)"
        terminalreporter.write_line(f"DynamoDB locks: ran on {kind}{hint}")


@pytest.fixture
def plain_py4j(monkeypatch: pytest.MonkeyPatch) -> None:
    """py4j without the hook of PySpark, which asks Spark's JVM about the errors of any other."""
    monkeypatch.setattr(java_gateway, "get_return_value", protocol.get_return_value)
