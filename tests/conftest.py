"""What tests of several folders share: the Spark session, lock services, and the line.

Each is started at its first use.

``--one-line`` is what `make test` runs each line's suite with: see ``tests/spark_lines.py``.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import hypothesis
import pyspark
import pytest
from py4j import java_gateway, protocol
from pyspark.sql import SparkSession

import pyhudi
from tests.servers.dynamodb import CREDENTIALS, DynamoDb, dynamodb_server
from tests.servers.hive_metastore import HiveMetastore, hive_metastore
from tests.servers.process import BRIEF_SPARK
from tests.servers.zookeeper import Zookeeper, zookeeper_server
from tests.sessions import interpret, local_session
from tests.spark_lines import COMPILED, runs_on

_dynamodb_by: list[str] = []


os.environ.update(BRIEF_SPARK)
# A program in the background inherits that Ctrl-C is ignored.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# A busy machine makes no example wrong.
hypothesis.settings.register_profile(
    "busy", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("busy")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--one-line", action="store_true", help="leave out what the suite of another line runs"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--one-line"):
        return
    line = ".".join(pyspark.__version__.split(".")[:2])
    here: list[pytest.Item] = []
    elsewhere: list[pytest.Item] = []
    for item in items:
        marks = [mark.name for mark in item.iter_markers()]
        (here if runs_on(line, item.nodeid, marks) else elsewhere).append(item)
    config.hook.pytest_deselected(items=elsewhere)
    items[:] = here


@pytest.fixture(scope="session")
def spark_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one session of the process, as pyhudi's users configure theirs; no planner yet."""
    session = local_session(tmp_path_factory.mktemp("warehouse"))
    yield session
    session.stop()


@pytest.fixture
def spark(spark_session: SparkSession) -> SparkSession:
    """The session with pyhudi attached; attaching again costs nothing and survives a detach."""
    return pyhudi.attach(spark_session)


@pytest.fixture(autouse=True)
def _interpreted(request: pytest.FixtureRequest) -> None:
    """Spark interprets a test's statements, unless it is marked ``compiled`` or ``every_line``."""
    if "spark_session" in request.fixturenames:
        assert request.node.get_closest_marker("spark"), "a test with a session is marked spark"
        compiled = any(map(request.node.get_closest_marker, COMPILED))
        interpret(request.getfixturevalue("spark_session"), not compiled)


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
