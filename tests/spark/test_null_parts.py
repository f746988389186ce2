"""Parts of values that a table declares NOT NULL, from frames whose types allow nulls.

Spark declares so what ``array``, ``split`` and ``collect_list`` give; what it reads from files or
JSON may always be null.
"""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyhudi.errors import HudiError, InvalidRecord, WriteFailed
from tests.spark.tables import TYPE, Lake

pytestmark = [pytest.mark.spark, pytest.mark.compiled]

STRICT = "array(id) items", "map('k', id) pairs", "named_struct('a', id, 'in', array(id)) place"
LOOSE = (
    "from_json('[{0}]', 'array<bigint>') items",
    "from_json('{{\"k\": {0}}}', 'map<string, bigint>') pairs",
    "from_json('{{\"a\": {0}, \"in\": [{0}]}}', 'a bigint, `in` array<bigint>') place",
)


def rows(spark: SparkSession, *columns: str) -> DataFrame:
    return spark.range(1, 3).selectExpr("id", "id ts", "'d' dt", *columns)


@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert"])
def test_values_without_nulls_are_written_whatever_their_types_allow(
    spark: SparkSession, lake: Lake, operation: str
) -> None:
    table = lake.table()
    table.write(rows(spark, *STRICT), "upsert")
    declared = table.df().schema
    more = rows(spark, *(each.format(7) for each in LOOSE)).withColumn("id", F.expr("id + 10"))
    table.write(more, operation)
    found = table.df().selectExpr("id", "items", "pairs['k']", "place.a", "place.in")
    assert [tuple(row) for row in found.orderBy("id").collect()] == [
        (1, [1], 1, 1, [1]),
        (2, [2], 2, 2, [2]),
        (11, [7], 7, 7, [7]),
        (12, [7], 7, 7, [7]),
    ]
    assert table.df().schema == declared


@pytest.mark.parametrize(
    ("column", "error"), list(enumerate([InvalidRecord, WriteFailed, WriteFailed]))
)
@pytest.mark.parametrize("operation", ["upsert", "bulk_insert"])
def test_a_null_where_the_table_declares_none_is_refused(
    spark: SparkSession, lake: Lake, column: int, error: type[HudiError], operation: str
) -> None:
    table = lake.table()
    table.write(rows(spark, *STRICT), "upsert")
    before = sorted(map(repr, table.df().collect()))
    faulty = list(STRICT)
    faulty[column] = LOOSE[column].format("null")
    name = faulty[column].split()[-1]
    with pytest.raises(error, match=f"column '{name}'"):
        table.write(rows(spark, *faulty), operation)
    assert sorted(map(repr, table.df().collect())) == before


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("way", ["collected", "distributed"], indirect=True)
def test_a_delete_asks_nothing_of_columns_that_place_no_row(
    spark: SparkSession, lake: Lake, kind: str, way: str
) -> None:
    table = lake.table(**{TYPE: kind})
    table.write(rows(spark, *STRICT), "upsert")
    table.write(rows(spark, *(each.format("null") for each in LOOSE)).where("id = 1"), "delete")
    assert [row.id for row in table.df().collect()] == [2]
    table.write(rows(spark).select("id", "dt"), "delete")
    assert table.df().collect() == []
