"""pyhudi's functions run in one pool of Python workers, whatever form their job has."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pyhudi.spark.jobs import SparkJobs

pytestmark = pytest.mark.spark


def test_jobs_over_rdds_and_data_frames_share_their_workers(spark: SparkSession) -> None:
    """A pool is a daemon; its workers are the daemon's children."""

    def of_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"daemon": [os.getppid()]})

    def of_objects(_: Iterator[int]) -> list[int]:
        return [os.getppid()]

    context = spark.sparkContext
    before = dict(context.environment)
    frames = {row.daemon for row in spark.range(1).mapInArrow(of_rows, "daemon long").collect()}
    tasks = SparkJobs(spark).in_shared_workers(
        context.parallelize([0], 1).mapPartitions(of_objects)
    )

    assert set(tasks.collect()) == frames
    assert context.environment == before
