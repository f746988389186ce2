"""A MERGE that kills its whole process group: nothing of the driver, JVM or Python, can clean up.

``python -m integration.killed_merge TABLE POINT`` dies with SIGKILL at ``spool``, as soon as a task
has opened its file of changed rows, at ``merge``, as soon as a task has begun a new base file, or
at ``log``, as soon as one has begun a log.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from pyspark.sql import SparkSession

import pyhudi
from tests.sessions import local_session

#: what the driver's session says of hearts, so that the dead are taken for dead soon
HEARTS = {
    "hoodie.client.heartbeat.interval_in_ms": "500",
    "hoodie.client.heartbeat.tolerable.misses": "1",
}
#: new rows go to file groups of their own, so changed ones go to logs in a merge-on-read table
NEW_GROUPS = {"hoodie.parquet.small.file.limit": "0"}
NEW_ROWS = 100_000


def merge(spark: SparkSession, table: Path) -> None:
    """Delete ids below 50, rename those below 100, and bring ``NEW_ROWS`` from 1000 on."""
    for key, value in {**HEARTS, **NEW_GROUPS}.items():
        spark.conf.set(key, value)
    rows = spark.range(0, 100).union(spark.range(1000, 1000 + NEW_ROWS))
    rows.selectExpr(
        "id", "concat('merged', id) name", "5L ts", "concat('2024-01-0', id % 3 + 1) dt"
    ).createOrReplaceTempView("news")
    spark.sql(
        f"merge into pyhudi.`{table}` t using news s on t.id = s.id "
        "when matched and t.id < 50 then delete when matched then update set * "
        "when not matched then insert *"
    )


def new_files(table: Path, point: str) -> set[Path]:
    """Files of changed rows, logs, or base files."""
    if point == "log":
        return set(table.glob("*/.*.log.*"))
    if point == "spool":
        return set(table.glob(".hoodie/.temp/.spool-*/*.parquet"))
    return set(table.glob("dt=*/*.parquet")) | set(table.glob("2024*/*.parquet"))


def die_at(table: Path, point: str) -> None:
    """Kill this process group once there is a file that was not there before."""
    before = new_files(table, point)

    def watch() -> None:
        while not new_files(table, point) - before:
            threading.Event().wait(0.001)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """Merge until killed; exit code 3 tells that the statement went through."""
    table, point = Path(sys.argv[1]), sys.argv[2]
    spark = local_session(table.parent / "warehouse")
    pyhudi.attach(spark)
    die_at(table, point)
    merge(spark, table)
    os._exit(3)


if __name__ == "__main__":
    main()
