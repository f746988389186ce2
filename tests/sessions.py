"""The Spark session that all test folders of a run share: PySpark has one per process.

Whichever folder comes first starts it, so it must have what each of them needs.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

import pyhudi


def local_session(warehouse: Path, master: str = "local[2]") -> SparkSession:
    """The running session, else a new one on two cores; pyhudi's jar is in, no planner yet."""
    builder = (
        SparkSession.builder.master(master)
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.python.task.killTimeout", "60s")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(warehouse))
    )
    session = pyhudi.configure(builder).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session
