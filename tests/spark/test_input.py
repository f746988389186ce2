"""Inputs whose size Spark misjudges: tried on the driver, and given up at the bound."""

from __future__ import annotations

import pytest

from pyhudi.writes import collected, grouped, single_pass
from tests.spark.tables import KEY, Lake

pytestmark = pytest.mark.spark

DDL = "id long, text string"


def exploded(rows: int) -> str:
    """A query that Spark takes for one row of a few bytes."""
    return f"select explode(sequence(1L, {rows}L)) id, repeat('x', 200) text"


@pytest.mark.parametrize("operation", ["upsert", "bulk_insert"])
def test_an_input_larger_than_its_estimate_goes_the_way_of_large_ones(
    lake: Lake, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collected, "COLLECT_BYTES", 1 << 20)
    monkeypatch.setattr(single_pass, "HERE_BYTES", 1 << 20)
    monkeypatch.setattr(collected.Collected, "of", refused)
    monkeypatch.setattr(single_pass, "run_here", refused)
    table = lake.table(options={KEY: "id"}, ddl=DDL)

    table.write(lake.spark.sql(exploded(30_000)), operation)

    found = table.df().selectExpr("count(1)", "count(distinct id)", "sum(length(text))").first()
    assert found is not None
    assert tuple(found) == (30_000, 30_000, 6_000_000)


def refused(*args: object) -> object:
    raise AssertionError("the driver held more than its bound")


def test_rows_of_a_list_are_few_until_they_prove_many(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grouped.Grouped, "of", refused)
    table = lake.table(options={KEY: "id"}, ddl=DDL)
    rows = lake.spark.createDataFrame([(1, "a"), (2, "b")], DDL)

    table.write(rows, "upsert")

    assert {row.id for row in table.df().collect()} == {1, 2}
