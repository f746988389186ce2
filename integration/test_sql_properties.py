"""Every tenth of the random sequences of SQL statements, as Apache Hudi and hudi-rs read it.

Once columns were renamed, dropped or moved, Apache Hudi reads the table with its schema history,
and hudi-rs not at all: it knows columns by their names alone (FORMAT.md 9).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import pyhudi
from integration.peers import HudiRs, SparkPeer
from integration.peers.canonical import Answer, plain, sort_rows
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import open_table
from tests.sessions import local_session
from tests.sql_model import Model
from tests.sql_replay import replay
from tests.sql_sequences import story

#: a sample for `make test`: a table of version 8 that gets a schema history at last
SAMPLE = (50,)
FIRST, END = map(int, os.environ.get("PYHUDI_SEQUENCES", "0:100").split(":"))
TENTHS = [n for n in range(FIRST, END) if n % 10 == 0 and n not in SAMPLE]
ON_READ = {"hoodie.schema.on.read.enable": "true"}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    made = local_session(tmp_path_factory.mktemp("warehouse"))
    yield pyhudi.attach(made)
    made.stop()


def rows_of(answer: Answer, model: Model) -> list[dict[str, object]]:
    """The rows, once the columns are the model's."""
    assert {name for name, _ in answer.schema} == set(model.names)
    return sort_rows(answer.rows)


def wanted(model: Model) -> list[dict[str, object]]:
    return sort_rows(
        {name: plain(value) for name, value in zip(model.names, row, strict=True)}
        for row in model.rows
    )


@pytest.mark.parametrize(
    "number", [*SAMPLE, *(pytest.param(n, marks=pytest.mark.matrix) for n in TENTHS)]
)
def test_the_peers_read_what_a_random_sequence_leaves(
    spark: SparkSession,
    peers: Callable[[str], SparkPeer],
    hudi_rs: HudiRs,
    tmp_path: Path,
    number: int,
) -> None:
    hudi = peers("hudi-1.2.0")

    def look(folder: Path, model: Model) -> None:
        if not open_table(LocalStorage(str(folder))).timeline().commits:
            return  # Apache Hudi has no schema for a table that nothing was written to
        options = ON_READ if model.by_ids else {}
        found = hudi.read(folder, options).without_meta()
        assert rows_of(found, model) == wanted(model), "read by Apache Hudi"
        if not model.by_ids:
            found = hudi_rs.read(folder).without_meta()
            assert rows_of(found, model) == wanted(model), "read by hudi-rs"

    replay(spark, story(number), f"read_{number}", tmp_path / "t", look)
