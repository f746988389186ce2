"""A write whose first attempt at a partition leaves its Python worker standing still.

``python -m integration.overtaken_writer TABLE MARKERS HOW`` bulk-inserts on two hosts, with
speculation. The worker that is to write partition 1 is stopped by SIGSTOP before it has ended its
file. Then its attempt is ``overtaken`` by another one, or it ``fails`` upstream of the worker.
When the write has been acknowledged, the worker may go on and do its harm.
Prints how many workers stood still at the acknowledgement.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import pyhudi
from integration.chaos import DAEMON, tree
from integration.cluster import Cluster, standalone
from integration.killed_writer import OPTIONS, module
from tests.servers.process import BRIEF_JVM

CONF = {
    "spark.ui.enabled": "false",
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.executor.memory": "700m",
    "spark.executor.extraJavaOptions": " ".join(BRIEF_JVM),
    "spark.driver.host": "127.0.0.1",
}


def slow(batches: Iterator[pa.RecordBatch], fails: bool) -> Iterator[pa.RecordBatch]:
    """Hand the rows on; in partition 1's first attempt, stop who writes them, before the end."""
    from pyspark import TaskContext

    context = TaskContext.get()
    yield from batches
    if context is None or context.partitionId() != 1 or context.attemptNumber() > 0:
        return
    # A worker that writes names itself in its attempt's file; other workers may only be idle.
    folder = os.environ["SPARK_LOCAL_DIRS"].split(",")[0]
    attempt = Path(folder, f"pyhudi-attempt-{context.taskAttemptId()}")
    until = time.monotonic() + 60
    while not (writer := attempt.read_text()):
        if time.monotonic() > until:
            raise RuntimeError("nobody came to write this attempt's rows")
        time.sleep(0.01)
    time.sleep(0.2)  # it names itself just before it locks
    os.kill(int(writer), signal.SIGSTOP)
    if fails:
        raise RuntimeError("this attempt was to fail")


def stopped(cluster: Cluster) -> list[int]:
    """The cluster's Python workers that stand still."""
    found = []
    for pid, (_, line) in tree(cluster.pids).items():
        if DAEMON in line:
            stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            found += [pid] if stat[0] == "T" else []
    return found


def main() -> None:
    """Write, let the overtaken worker go on, and give it time."""
    with tempfile.TemporaryDirectory() as folder, standalone(Path(folder)) as cluster:
        write(cluster)


def write(cluster: Cluster) -> None:
    """The same on a running cluster."""
    builder = SparkSession.builder.master(cluster.master)
    for key, value in CONF.items():
        builder = builder.config(key, value)
    spark = pyhudi.attach(pyhudi.configure(builder).getOrCreate())
    spark.sparkContext.setLogLevel("OFF")
    # The stage is to write the rows: few rows would be fetched, and written by the driver.
    module("pyhudi.writes.single_pass").HERE_BYTES = -1
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 1000)
    frame = spark.range(0, 40_000, 1, 2).selectExpr(
        "id", "concat('only', id) name", "1L ts", "concat('2024-01-0', id % 3 + 1) dt"
    )
    work = partial(slow, fails=sys.argv[3] == "fails")
    slowed = frame.mapInArrow(work, frame.schema)  # type: ignore[arg-type]
    more = {
        "hoodie.datasource.write.operation": "bulk_insert",
        "hoodie.write.markers.type": sys.argv[2],
    }
    slowed.write.format("pyhudi").options(**OPTIONS, **more).save(sys.argv[1])
    late = stopped(cluster)
    for pid in late:
        os.kill(pid, signal.SIGCONT)
    if late:
        time.sleep(5)
    print(f"stood still: {len(late)}")
    spark.stop()


if __name__ == "__main__":
    main()
