"""One Spark session with the shim of its line, and a fake planner in place of pyhudi."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.jvm.fake_planner import FakePlanner, struct
from tests.jvm.reading import IDS

JARS = Path(__file__).parents[2] / "python" / "pyhudi" / "jars"
LINE = ".".join(pyspark.__version__.split(".")[:2])


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    (jar,) = JARS.glob(f"pyhudi-spark-{LINE}_*.jar")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", str(jar))
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.python.task.killTimeout", "60s")
        # So few that Spark drops events, as it does in a busy application.
        .config("spark.scheduler.listenerbus.eventqueue.capacity", "1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.sql.catalog.spark_catalog", "io.pyhudi.HudiSessionCatalog")
        .config("spark.sql.catalog.pyhudi", "io.pyhudi.HudiPathCatalog")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def _callbacks(spark: SparkSession) -> None:
    from pyspark.java_gateway import ensure_callback_server_started

    ensure_callback_server_started(spark.sparkContext._gateway)


@pytest.fixture
def planner(spark: SparkSession, _callbacks: None) -> Iterator[FakePlanner]:
    planner = FakePlanner(spark, "a secret")
    bridge = spark.sparkContext._jvm.io.pyhudi.Bridge
    bridge.register(planner, "a secret")
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
