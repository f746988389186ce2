"""``hudi_table_changes``, Hudi's incremental read in SQL."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.tables import refused
from tests.spark.test_incremental import named

pytestmark = pytest.mark.spark


@pytest.fixture
def two(spark: SparkSession, name: str) -> tuple[str, list[str]]:
    return name, named(spark, name, ["(1, 'a'), (2, 'a')", "(2, 'b'), (3, 'b')"])


def ids(spark: SparkSession, query: str) -> list[int]:
    return sorted(row[0] for row in spark.sql(query).collect())


def test_a_table_is_named_as_elsewhere_or_by_its_path(
    spark: SparkSession, two: tuple[str, list[str]]
) -> None:
    name, (first, last) = two
    detail = spark.sql(f"describe extended {name}").where("col_name = 'Location'")
    path = str(detail.first()[1])  # type: ignore[index]
    call = "select id from hudi_table_changes"
    for table in (name, f"default.{name}", f"spark_catalog.default.{name}", path):
        assert ids(spark, f"{call}('{table}', 'latest_state', 'earliest')") == [1, 2, 3], table
        assert ids(spark, f"{call}('{table}', 'latest_state', '{last}', '{last}')") == []
    # Version 9 ranges over completion times, which are later than the instants of this table.
    assert ids(spark, f"{call}('{name}', 'latest_state', '{last}')") == [2, 3]
    assert ids(spark, f"{call}('{name}', 'latest_state', '000', '{last}')") == [1, 2]
    times = spark.sql(f"select _hoodie_commit_time from hudi_table_changes('{name}', "
                      f"'latest_state', '{last}')")  # fmt: skip
    assert {row[0] for row in times.collect()} == {last}
    assert first < last


def test_a_table_and_its_changes_are_two_tables_in_one_query(
    spark: SparkSession, two: tuple[str, list[str]]
) -> None:
    name, (_, last) = two
    changes = f"hudi_table_changes('{name}', 'latest_state', '{last}')"
    assert ids(spark, f"select t.id from {name} t join {changes} c on t.id = c.id") == [2, 3]
    assert ids(spark, f"select t.id from {changes} t left anti join {name} c on t.id = c.id") == []
    assert ids(spark, f"select id from {name} where id not in (select id from {changes})") == [1]
    assert spark.sql(f"select count(*) from {changes}").first() == (2,)
    assert ids(spark, f"select count(*) from {name}") == [3]


def test_a_merge_takes_changes_as_its_source(
    spark: SparkSession, two: tuple[str, list[str]]
) -> None:
    name, (_, last) = two
    changes = f"hudi_table_changes('{name}', 'latest_state', '{last}')"
    source = f"(select * from {changes}) s"
    spark.sql(f"merge into {name} t using {source} on t.id = s.id when matched then delete")
    assert ids(spark, f"select id from {name}") == [1]


def test_a_call_that_means_nothing_is_refused(
    spark: SparkSession, two: tuple[str, list[str]], tmp_path: Path
) -> None:
    name, _ = two
    spark.range(1).createOrReplaceTempView("other")
    calls = {
        f"('{name}', 'latest_state')": "it has 2 arguments",
        f"('{name}', 'all', 'earliest')": "latest_state",
        f"('{name}', 'latest_state', null)": "no constant",
        f"('{name}', 'latest_state', 'soon')": "'soon' is not a point in time",
        "('other', 'latest_state', 'earliest')": "not a table of pyhudi",
    }
    for call, said in calls.items():
        with refused("CONFIG_ERROR", tmp_path, said):
            spark.sql(f"select * from hudi_table_changes{call}").collect()
