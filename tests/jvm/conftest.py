"""One Spark session with the shim of its line, and a fake planner in place of pyhudi."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pyhudi.spark.protocol import VERSION
from tests.jvm.fake_planner import FakePlanner, struct
from tests.jvm.reading import IDS


@pytest.fixture(scope="session")
def spark(spark_session: SparkSession) -> SparkSession:
    """The run's session without pyhudi's planner."""
    return spark_session


@pytest.fixture(scope="session")
def _callbacks(spark: SparkSession) -> None:
    from pyspark.java_gateway import ensure_callback_server_started

    ensure_callback_server_started(spark.sparkContext._gateway)


@pytest.fixture
def planner(spark: SparkSession, _callbacks: None) -> Iterator[FakePlanner]:
    planner = FakePlanner(spark, "a secret")
    bridge = spark.sparkContext._jvm.io.pyhudi.Bridge
    bridge.register(planner, "a secret", VERSION)
    yield planner
    bridge.unregister()


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where a test's table goes: a folder name that must survive URI handling."""
    return str(tmp_path / "a table=1%2F")


@pytest.fixture
def people(planner: FakePlanner, path: str) -> str:
    """Three people in two files, the last one without a name."""
    planner.create(path, struct(IDS), [])
    planner.add(path, pa.table({"id": [1, 2], "name": ["ann", "bob"]}), IDS)
    planner.add(path, pa.table({"id": [3], "name": pa.array([None], pa.string())}), IDS)
    return path
