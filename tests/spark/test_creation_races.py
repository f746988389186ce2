"""Of two first writes one makes the table; the other decides again what it does to it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from pyhudi.errors import InvalidRecord, TableExists
from pyhudi.spark.session import spark_runtime
from pyhudi.writes.intent import Intent, save_intent
from pyhudi.writes.write import write_table
from tests.spark.tables import KEY, OPTIONS, HudiTable, Lake

pytestmark = pytest.mark.spark


def beaten(table: HudiTable, mode: str, other: Callable[[], None]) -> Callable[[bool], Intent]:
    """The intent of a write that finds no table, whereupon ``other`` makes one."""

    def intent(exists: bool) -> Intent:
        if not exists:
            other()
        found = save_intent(mode, exists, table.path)
        assert found is not None
        return found

    return intent


def test_errorifexists_refuses_a_table_that_appeared_meanwhile(
    spark: SparkSession, lake: Lake
) -> None:
    table = lake.table()
    intent = beaten(table, "error", lambda: table.write([(9, "theirs", 1, "p")]))
    rows = table.frame([(1, "mine", 1, "p")])
    with pytest.raises(TableExists):
        write_table(spark_runtime(spark), rows, table.path, OPTIONS, {}, intent)
    assert table.rows() == {9: (9, "theirs", 1, "p")}


def test_a_table_that_appeared_meanwhile_is_written_by_its_own_rules(
    spark: SparkSession, lake: Lake
) -> None:
    table = lake.table()
    intent = beaten(table, "append", lambda: table.write([(9, "theirs", 5, "p")]))
    rows = table.frame([(1, "mine", 1, "p"), (9, "older", 1, "p")])
    write_table(spark_runtime(spark), rows, table.path, {KEY: "id"}, {}, intent)
    assert table.rows() == {1: (1, "mine", 1, "p"), 9: (9, "theirs", 5, "p")}


def test_a_failed_write_leaves_a_table_that_another_made(
    spark: SparkSession, lake: Lake, name: str
) -> None:
    table = lake.table(options={KEY: "id"}, ddl="id long, name string")
    intent = beaten(
        table,
        "append",
        lambda: spark.sql(
            f"create table {name} (id long, name string) using pyhudi "
            f"tblproperties ('{KEY}' = 'id') location '{table.path}'"
        ),
    )
    rows = table.frame([(None, "x")])
    with pytest.raises(InvalidRecord):
        write_table(spark_runtime(spark), rows, table.path, {KEY: "id"}, {}, intent)
    assert spark.sql(f"select * from {name}").collect() == []
