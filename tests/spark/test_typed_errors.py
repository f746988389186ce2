"""Python callers catch pyhudi's own classes; Spark's class catches them as before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from pyhudi.errors import CommitConflict, ConfigError, TableCorrupt, TableNotFound
from pyhudi.spark import typed_errors
from pyhudi.spark.endpoint import LAST_ERROR
from pyhudi.spark.typed_errors import DEEPEST, OURS


class Thrown:
    """An exception of the JVM, as py4j shows it."""

    def __init__(self, kind: str, message: str, cause: Thrown | None = None) -> None:
        self.kind, self.message, self.cause = kind, message, cause

    def getCause(self) -> Thrown | None:  # noqa: N802 - Java's name
        return self.cause

    def getClass(self) -> Thrown:  # noqa: N802 - Java's name
        return self

    def getName(self) -> str:  # noqa: N802 - Java's name
        return self.kind


class Converted(Exception):
    """What PySpark makes of it."""

    def __init__(self, thrown: Thrown) -> None:
        super().__init__(thrown.message)
        self.thrown = thrown


@pytest.fixture
def convert(monkeypatch: pytest.MonkeyPatch) -> Callable[[Thrown], Any]:
    """PySpark's conversion as pyhudi wraps it; the real one needs a JVM."""
    monkeypatch.setattr(typed_errors, "_spark_converts", Converted)
    return typed_errors._convert


def failed_job(cause: Thrown | None, depth: int) -> Thrown:
    for _ in range(depth):
        cause = Thrown("org.apache.spark.SparkException", "Job aborted", cause)
    assert cause is not None
    return cause


LOST = "[TABLE_CORRUPT] The data file s3a://b/t/p 1/g_0-0-0_1.parquet is not there."


@pytest.mark.parametrize("depth", [0, 1, 2, DEEPEST])
def test_an_error_of_a_task_arrives_as_itself_and_not_as_that_of_its_job(
    convert: Callable[[Thrown], Any], depth: int
) -> None:
    task = Thrown(OURS, LOST)
    found = convert(failed_job(task, depth))
    assert isinstance(found, TableCorrupt)
    assert isinstance(found, Converted)
    assert found.thrown is task
    assert found.args == (LOST,)
    assert found.path == "s3a://b/t/p 1/g_0-0-0_1.parquet"


def test_an_error_of_the_driver_arrives_with_all_of_its_facts(
    convert: Callable[[Thrown], Any],
) -> None:
    LAST_ERROR.keep(CommitConflict("Both changed a/1 here.", overlap=("a/1",)))
    thrown = Thrown("AnalysisException", "[COMMIT_CONFLICT] Both changed a/1 here. line 1 pos 2")
    found = convert(thrown)
    assert isinstance(found, CommitConflict)
    assert (found.overlap, found.thrown) == (("a/1",), thrown)
    assert type(convert(thrown)) is type(found), "one class for all of them"


@pytest.mark.parametrize("kind", ["org.apache.spark.SparkException", OURS])
def test_an_error_that_names_none_of_ours_stays_as_it_is(
    convert: Callable[[Thrown], Any], kind: str
) -> None:
    found = convert(failed_job(Thrown(kind, "no code of ours"), 2))
    assert type(found) is Converted


def test_causes_that_lead_round_in_a_circle_end(convert: Callable[[Thrown], Any]) -> None:
    thrown = Thrown("org.apache.spark.SparkException", "Job aborted")
    thrown.cause = thrown
    assert type(convert(thrown)) is Converted


# -- with a session


@pytest.mark.spark
@pytest.mark.every_line
def test_an_error_is_caught_by_its_own_class_and_by_sparks(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(TableNotFound) as caught:
        spark.read.format("pyhudi").load(str(tmp_path / "nothing"))
    assert isinstance(caught.value, AnalysisException)
    assert str(caught.value).startswith("[TABLE_NOT_FOUND] ")
    assert caught.value.path == str(tmp_path / "nothing")


@pytest.mark.spark
@pytest.mark.every_line
def test_the_facts_of_a_misspelt_option_are_attributes(spark: SparkSession, tmp_path: Path) -> None:
    writer = spark.range(1).write.format("pyhudi").option("hoodie.tabel.name", "t")
    with pytest.raises(ConfigError) as caught:
        writer.save(str(tmp_path / "t"))
    assert caught.value.nearest == "hoodie.table.name"


@pytest.mark.spark
@pytest.mark.every_line
def test_sparks_own_errors_stay_as_they_are(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException) as caught:
        spark.sql("select nothing from nowhere").collect()
    assert type(caught.value) is not ConfigError
    assert "nowhere" in str(caught.value)
