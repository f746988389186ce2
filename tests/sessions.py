"""The Spark session that all test folders of a run share: PySpark has one per process.

Whichever folder comes first starts it, so it has what each of them needs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

import pyhudi

QUEUE: Final = "spark.scheduler.listenerbus.eventqueue"
SETTINGS: Final = {
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.task.killTimeout": "60s",
    # So few that Spark drops events, as it does in a busy application; tests look at jobs and
    # statements in its status store, which keeps its own.
    f"{QUEUE}.capacity": "1",
    f"{QUEUE}.appStatus.capacity": "10000",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}


def local_session(warehouse: Path, master: str = "local[2]") -> SparkSession:
    """The running session, else a new one on two cores; pyhudi's jar is in, no planner yet."""
    builder = SparkSession.builder.master(master)
    for key, value in {**SETTINGS, "spark.sql.warehouse.dir": str(warehouse)}.items():
        builder = builder.config(key, value)
    session = pyhudi.configure(builder).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session
