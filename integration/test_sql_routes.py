"""The SQL suite where the JVM starts first: through spark-sql, and from a remote Connect session.

``tests/spark/test_sql_suite.py`` holds ``spark.sql`` of a Python program to the same files.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.jvm_first import ConnectClient, Place, SparkSql, connect_server, spark_sql
from tests import sql_suite
from tests.spark_lines import LINES

SAMPLE = (LINES[0], "show")  # where the shell prints other texts than elsewhere
CASES = [
    pytest.param(
        line,
        file,
        id=f"{line}-{file.stem}",
        marks=() if (line, file.stem) == SAMPLE else pytest.mark.matrix,
    )
    for line in LINES
    for file in sql_suite.files()
]


@pytest.fixture(scope="module")
def _shell(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSql]:
    """One ``spark-sql`` for all files."""
    here = Place(tmp_path_factory.mktemp("shell"), request.param)
    with spark_sql(here) as sql:
        sql.run("select 'started'")
        yield sql


@pytest.fixture
def shell(_shell: SparkSql) -> Iterator[SparkSql]:
    """The shell, with a database of its own as the current one."""
    _shell.texts("create database suite")
    _shell.texts("use suite")
    yield _shell
    _shell.texts("use default")
    _shell.texts("drop database suite cascade")


@pytest.mark.parametrize(("_shell", "file"), CASES, indirect=["_shell"])
def test_spark_sql_gives_what_the_suite_expects(
    shell: SparkSql, tmp_path: Path, file: Path
) -> None:
    statements = sql_suite.for_shell(sql_suite.parse(file.read_text(encoding="utf-8")))
    wrong = sql_suite.failures(statements, shell.texts, {"folder": str(tmp_path)})
    assert not wrong, f"{len(wrong)} of {len(statements)}:\n" + "\n".join(wrong)


@pytest.fixture(scope="module", params=LINES)
def client(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConnectClient]:
    """A remote client, which has no pyhudi, of a server that started in the JVM."""
    with connect_server(tmp_path_factory.mktemp("connect"), request.param) as (_, found):
        yield found


@pytest.mark.matrix
@pytest.mark.parametrize("file", sql_suite.files(), ids=lambda file: file.stem)
def test_a_remote_client_gives_what_the_suite_expects(client: ConnectClient, file: Path) -> None:
    wrong = client.run("suite", str(file))
    assert not wrong, "\n".join(wrong)
