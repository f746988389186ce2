"""Tables by path and by name, and both ways of a grouped write."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyhudi.writes import collected
from tests.spark.tables import WAYS, Lake


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    """Tables by path, each test's in a folder of its own."""
    return Lake(spark, tmp_path)


_numbers = itertools.count()


@pytest.fixture
def name(spark: SparkSession) -> Iterator[str]:
    """The name of a catalog table that is dropped afterwards."""
    found = f"t{next(_numbers)}"
    yield found
    spark.sql(f"drop table if exists {found}")


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of a grouped write: rows collected to the driver, and rows shuffled by Spark."""
    # Spark knows no size of rows that a test makes from a list: it takes them for immense.
    most = 0 if request.param == "distributed" else (1 << 63) - 1
    monkeypatch.setattr(collected, "COLLECT_BYTES", most)
    return str(request.param)
