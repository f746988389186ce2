"""Tables with a schema history: columns are told by their ids, whatever files call them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests import golden_tables

pytestmark = pytest.mark.spark

#: of the table by Apache Hudi 0.15.0: name became title, then extra was dropped
RENAMED, DROPPED = "20261121053358575", "20261121053404474"


def test_a_renamed_column_of_hudis_is_found_in_older_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = golden_tables.BY_NAME["h0150_v6-cow_evolve"].unzip(tmp_path)

    def at(instant: str) -> tuple[list[str], list[tuple[object, ...]]]:
        df = spark.read.format("pyhudi").option("as.of.instant", instant).load(str(root))
        return df.columns, sorted(tuple(row) for row in df.collect())

    names, rows = at(RENAMED)
    assert names == ["id", "title", "price", "qty", "ts", "extra"]
    assert rows == [(1, "a", 1.5, 10, 1, None), (2, "b", 2.5, 20, 1, None)]
    names, rows = at(DROPPED)
    assert names == ["id", "title", "price", "qty", "ts"]
    assert rows[2] == (3, "c", 3.5, 5_000_000_000, 1)
    df = spark.read.format("pyhudi").option("as.of.instant", RENAMED).load(str(root))
    assert [row.id for row in df.where("title = 'b' and price > 1").collect()] == [2]
    assert df.where("title is null or extra is not null").count() == 0
