"""Python callers catch pyhudi's own classes; Spark's class catches them as before."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from pyhudi.errors import ConfigError, TableNotFound

pytestmark = [pytest.mark.spark, pytest.mark.every_line]


def test_an_error_is_caught_by_its_own_class_and_by_sparks(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(TableNotFound) as caught:
        spark.read.format("pyhudi").load(str(tmp_path / "nothing"))
    assert isinstance(caught.value, AnalysisException)
    assert str(caught.value).startswith("[TABLE_NOT_FOUND] ")
    assert caught.value.path == str(tmp_path / "nothing")


def test_the_facts_of_a_misspelt_option_are_attributes(spark: SparkSession, tmp_path: Path) -> None:
    writer = spark.range(1).write.format("pyhudi").option("hoodie.tabel.name", "t")
    with pytest.raises(ConfigError) as caught:
        writer.save(str(tmp_path / "t"))
    assert caught.value.nearest == "hoodie.table.name"


def test_sparks_own_errors_stay_as_they_are(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException) as caught:
        spark.sql("select nothing from nowhere").collect()
    assert type(caught.value) is not ConfigError
    assert "nowhere" in str(caught.value)
