from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import pyhudi
from tests.sessions import local_session


@pytest.fixture
def spark(tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """The run's Spark session with pyhudi attached."""
    return pyhudi.attach(local_session(tmp_path_factory.mktemp("warehouse")))
