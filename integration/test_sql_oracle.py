"""Statements of the SQL suite on Iceberg: what the files expect is what another engine gives.

``tests/spark/test_sql_suite.py`` holds pyhudi to the same files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from integration.peers import SparkPeer
from tests import sql_suite

#: files that say what any table must do, not what Hudi makes of keys, times and layouts
SAMPLE = "merge"
FILES = ("delete", "filters", SAMPLE, "queries", "update")


@pytest.fixture
def oracle(peers: Callable[[str], SparkPeer]) -> Iterator[SparkPeer]:
    """Iceberg, in an empty database."""
    peer = peers("iceberg")
    peer.texts("create database suite")
    peer.texts("use suite")
    yield peer
    for name in (row[1] for row in peer.texts("show tables")):
        peer.texts(f"drop table {name}")
    peer.texts("drop database suite")


@pytest.mark.parametrize(
    "name", [pytest.param(f, marks=() if f == SAMPLE else pytest.mark.matrix) for f in FILES]
)
def test_another_engine_gives_what_the_suite_expects(name: str, oracle: SparkPeer) -> None:
    statements = sql_suite.parse((sql_suite.FOLDER / f"{name}.sql").read_text())
    shared = sql_suite.for_engine(statements, "iceberg")
    wrong = sql_suite.failures(shared, oracle.texts, {})
    assert not wrong, f"{len(wrong)} of {len(shared)}:\n" + "\n".join(wrong)
