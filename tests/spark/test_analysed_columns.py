"""Statements whose table is altered after Spark's analysis and before their write begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from pyhudi.spark import write_handlers
from pyhudi.writes import truncate
from tests.spark.test_sql import KEYED, create, table

pytestmark = pytest.mark.spark

Between = Callable[[str], None]

ROWS = "(1, 'a', 1, 'x'), (2, 'b', 1, 'y')"
MERGE = "merge into {t} t using (select 3 id) s on t.id = s.id when not matched then insert "
NEW = (3, "c", 1, None, "x")
OLD = [(1, "a", 1, None, "x"), (2, "b", 1, None, "y")]
#: a statement, the mode of overwrites, and the rows that it leaves if a column is added meanwhile
STATEMENTS = [
    ("insert into {t} values (3, 'c', 1, 'x')", "static", [*OLD, NEW]),
    ("insert overwrite {t} values (3, 'c', 1, 'x')", "static", [NEW]),
    ("insert overwrite {t} values (3, 'c', 1, 'x')", "dynamic", [OLD[1], NEW]),
    ("insert overwrite {t} partition (dt = 'x') values (3, 'c', 1)", "static", [OLD[1], NEW]),
    (MERGE + "(id, name, ts, dt) values (s.id, 'c', 1, 'x')", "static", [*OLD, NEW]),
    ("truncate table {t}", "static", []),
    ("delete from {t} where dt = 'x'", "static", [OLD[1]]),
]


@pytest.fixture
def between(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Between:
    """Has a statement run once the next one has been analysed."""
    todo: list[str] = []

    def after(write: Callable[..., Any]) -> Callable[..., Any]:
        def late(*given: Any, **named: Any) -> Any:
            while todo:
                spark.sql(todo.pop())
            return write(*given, **named)

        return late

    for module, name in (
        (write_handlers, "write_table"),
        (write_handlers, "write_changes"),
        (truncate, "write_table"),
    ):
        monkeypatch.setattr(module, name, after(getattr(module, name)))
    return todo.append


@pytest.mark.parametrize(("statement", "mode", "rows"), STATEMENTS)
def test_a_column_added_after_the_analysis_is_null(
    spark: SparkSession, name: str, between: Between, statement: str, mode: str, rows: list[object]
) -> None:
    create(spark, name)
    spark.sql(f"insert into {name} values {ROWS}")
    between(f"alter table {name} add columns (tip struct<a: int>)")
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", mode)
    try:
        spark.sql(statement.format(t=name))
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")

    assert table(spark, name) == rows


@pytest.mark.parametrize(
    ("change", "gone", "row"),
    [
        ("drop column name", "name", (1, 1, (1, 2), "x")),
        ("rename column name to title", "name", (1, "a", 1, (1, 2), "x")),
        ("drop column s.b", "s.b", (1, "a", 1, (1,), "x")),
    ],
)
@pytest.mark.parametrize(
    "statement",
    [
        "insert into {t} values (3, 'c', 1, {s}, 'x')",
        "insert overwrite {t} values (3, 'c', 1, {s}, 'x')",
        MERGE + "(id, name, ts, s, dt) values (s.id, 'c', 1, {s}, 'x')",
        "truncate table {t}",
    ],
)
def test_a_column_that_has_gone_since_the_analysis_does_not_come_back(
    spark: SparkSession,
    name: str,
    between: Between,
    statement: str,
    change: str,
    gone: str,
    row: object,
) -> None:
    create(spark, name)
    spark.sql(f"alter table {name} add columns (s struct<a: int, b: int>)")
    struct = "named_struct('a', 1, 'b', 2)"
    spark.sql(f"insert into {name} values (1, 'a', 1, {struct}, 'x')")
    between(f"alter table {name} {change}")

    with pytest.raises(AnalysisException, match=f"SCHEMA_CONFLICT.*'{gone}'.*run it again"):
        spark.sql(statement.format(t=name, s=struct))

    assert table(spark, name) == [row]


def test_rows_of_an_older_state_may_fill_a_column_that_it_had_not(
    spark: SparkSession, name: str
) -> None:
    spark.sql(f"create table {name} (id bigint, ts int) using pyhudi {KEYED}")
    spark.sql(f"insert into {name} values (1, 1), (2, 2)")
    spark.table(name).createOrReplaceTempView("older")
    spark.sql(f"alter table {name} add columns (tip int)")

    spark.sql(f"insert into {name} select id + 2, ts, 5 from older")

    assert table(spark, name) == [(1, 1, None), (2, 2, None), (3, 1, 5), (4, 2, 5)]


@pytest.mark.parametrize(
    ("change", "columns"),
    [("rename column name to title", "name, ts"), ("drop column name", "ts")],
)
def test_rows_of_an_older_state_are_refused_if_its_columns_have_changed(
    spark: SparkSession, name: str, change: str, columns: str
) -> None:
    create(spark, name)
    spark.sql(f"insert into {name} values {ROWS}")
    spark.table(name).createOrReplaceTempView("older")
    spark.sql(f"alter table {name} {change}")
    before = table(spark, name)

    # Spark 4.3 refuses the view itself.
    told = "SCHEMA_CONFLICT.*since this write began|INCOMPATIBLE_COLUMN_CHANGES_AFTER_VIEW"
    with pytest.raises(AnalysisException, match=told):
        spark.sql(f"insert into {name} select id + 2, {columns}, dt from older")

    assert table(spark, name) == before
