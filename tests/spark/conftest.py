"""One Spark session for all tests of this folder, with pyhudi attached to it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import pyhudi
from pyhudi.planner import collected
from tests.spark.tables import WAYS, Lake


@pytest.fixture(scope="session")
def _session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
    )
    session = pyhudi.configure(builder).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def spark(_session: SparkSession) -> SparkSession:
    """The shared session; attaching again costs nothing and survives tests that detach."""
    return pyhudi.attach(_session)


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
