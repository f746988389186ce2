"""MERGE WITH SCHEMA EVOLUTION: no column of the source is lost without a word."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

from tests.spark.test_alter import filled
from tests.spark.test_sql import table

pytestmark = [pytest.mark.spark, pytest.mark.every_line]

ROWS = "2L as id, 'B' as name, 5L as ts, 'y' as dt"
MERGE = """merge with schema evolution into {} t using (select {}) s on t.id = s.id
when matched then update set * when not matched then insert *"""


def test_a_merge_that_would_add_columns_names_the_statement_that_does(
    spark: SparkSession, name: str
) -> None:
    filled(spark, name)
    before = table(spark, name)
    if spark.version < "4":
        with pytest.raises(ParseException):
            spark.sql(MERGE.format(name, ROWS))
        return
    with pytest.raises(AnalysisException, match=r"ADD COLUMNS \(tip DOUBLE, note STRING\)"):
        spark.sql(MERGE.format(name, f"{ROWS}, 0.5D as tip, 'n' as note"))
    assert table(spark, name) == before

    spark.sql(MERGE.format(name, ROWS))
    assert table(spark, name) == [(1, "a", 1, "x"), (2, "B", 5, "y")]
