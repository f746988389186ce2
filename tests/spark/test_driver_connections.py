"""Threads of Spark that ask the driver's Python: what a question opens for its thread is closed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyhudi.errors import ConfigError
from tests.process_facts import eventually
from tests.spark.test_stream_sink import Stream, ended, row

pytestmark = pytest.mark.spark


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


def threads() -> set[str]:
    """Those that serve connections: py4j gives them no names."""
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("Thread-")}


@pytest.mark.every_line
def test_runs_of_a_stream_leave_no_thread_in_python(stream: Stream) -> None:
    stream.put([row(0)])
    stream.run()
    before = threads()
    for number in range(1, 4):
        stream.put([row(number)])
        stream.run()
        rows = stream.spark.readStream.format("pyhudi").load(stream.path)
        writer = rows.writeStream.format("noop").option(
            "checkpointLocation", str(stream.folder / f"read-{number}")
        )
        ended(writer.trigger(availableNow=True).start())
    stream.put([row(4)])
    with pytest.raises(ConfigError, match="recordKeyy"):
        stream.run(recordKeyy="id")
    assert stream.table() == [row(number) for number in range(4)]
    assert eventually(lambda: threads() <= before)
