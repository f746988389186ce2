"""Fixtures: one process per peer for the whole test session, started by its first user.

`make test` runs the cases with other engines and those without as two suites (``--peers``): each
case mostly waits for one process, so a single suite would leave a core idle.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import pyhudi
from integration.lake import Lake, hudi_by_name, open_lake
from integration.peers import HudiRs, SparkPeer, apache_hudi, iceberg, pyhudi_on_spark
from tests.conftest import plain_py4j, zookeeper
from tests.servers.hive_metastore import HiveMetastore, hive_metastore
from tests.servers.process import BRIEF_SPARK
from tests.sessions import local_session
from tests.spark_lines import ALL, NEWEST, python

os.environ.update(BRIEF_SPARK)
__all__ = ["plain_py4j", "zookeeper"]

REPO = Path(__file__).resolve().parents[1]
NEWEST_PYTHON = python(NEWEST)


def _pyhudi_on(line: str) -> SparkPeer:
    return pyhudi_on_spark(f"pyhudi-{line}", str(python(line)))


STARTERS: dict[str, Callable[[], SparkPeer]] = {
    "hudi-1.2.0": lambda: apache_hudi("1.2.0"),
    "hudi-0.15.0": lambda: apache_hudi("0.15.0"),
    "iceberg": iceberg,
    "pyhudi": pyhudi_on_spark,
    **{f"pyhudi-{line}": partial(_pyhudi_on, line) for line in ALL[1:]},
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--peers", choices=["with", "without"], help="only cases with other engines, or without"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    asked = config.getoption("--peers")
    if asked is None:
        return
    left = [item for item in items if _has_peers(item) != (asked == "with")]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if _has_peers(item) == (asked == "with")]


def _has_peers(item: pytest.Item) -> bool:
    assert isinstance(item, pytest.Function)
    return not {"peers", "named_hudi"}.isdisjoint(item.fixturenames)


@pytest.fixture(scope="session")
def peers() -> Iterator[Callable[[str], SparkPeer]]:
    """``peers(name)`` gives the running peer of that name and starts it when first asked."""
    running: dict[str, SparkPeer] = {}

    def get(name: str) -> SparkPeer:
        if name not in running:
            running[name] = STARTERS[name]()
        return running[name]

    yield get
    for peer in running.values():
        peer.close()


@pytest.fixture(scope="session")
def _session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    # Its tasks may fail twice before their job does.
    made = local_session(tmp_path_factory.mktemp("warehouse"), "local[2,3]")
    yield made
    made.stop()


@pytest.fixture
def spark(_session: SparkSession) -> SparkSession:
    """The one session in this process, with pyhudi attached."""
    return pyhudi.attach(_session)


@pytest.fixture(scope="session")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveMetastore]:
    """One for tables by name and for locks, which end soon after their holder."""
    with hive_metastore(tmp_path_factory.mktemp("metastore"), timeout_s=6) as server:
        yield server


@pytest.fixture(scope="session")
def named_hudi(metastore: HiveMetastore) -> Iterator[SparkPeer]:
    """Apache Hudi, whose tables are in the metastore."""
    with hudi_by_name(metastore) as peer:
        yield peer


@pytest.fixture(
    scope="session", params=["oldest", pytest.param("newest", marks=pytest.mark.matrix)]
)
def lake(
    request: pytest.FixtureRequest,
    named_hudi: SparkPeer,
    metastore: HiveMetastore,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Lake]:
    """A database of the metastore, for each line of Spark that pyhudi runs on there."""
    with open_lake(request.param, named_hudi, metastore, tmp_path_factory.mktemp("lake")) as made:
        yield made


@pytest.fixture(scope="session")
def hudi_rs() -> HudiRs:
    """The native reader, in this process."""
    return HudiRs()


@pytest.fixture(scope="session")
def golden_folder() -> Path:
    """Tables written by real Apache Hudi, one zip each, with the rows they must give."""
    return REPO / "tests" / "golden"
