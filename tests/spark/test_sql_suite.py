"""The statements of ``tests/sql`` through ``spark.sql``: each gives what its file says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests import sql_suite

pytestmark = [pytest.mark.spark, pytest.mark.every_line]


@pytest.fixture
def database(spark: SparkSession) -> Iterator[str]:
    """A database of its own, the current one meanwhile, and no view of another test over it."""
    for table in spark.catalog.listTables():
        if table.isTemporary:
            spark.catalog.dropTempView(table.name)
    spark.sql("create database suite")
    spark.sql("use suite")
    yield "suite"
    spark.sql("use default")
    spark.sql("drop database suite cascade")


@pytest.mark.parametrize("file", sql_suite.files(), ids=lambda file: file.stem)
def test_statements_give_what_their_file_says(
    spark: SparkSession, database: str, tmp_path: Path, file: Path
) -> None:
    def run(statement: str) -> sql_suite.Texts:
        return sql_suite.texts_of(spark.sql(statement).collect())

    statements = sql_suite.parse(file.read_text())
    wrong = sql_suite.failures(statements, run, {"folder": str(tmp_path)})
    assert not wrong, f"{len(wrong)} of {len(statements)}:\n" + "\n".join(wrong)
