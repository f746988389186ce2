"""The Spark session that all test folders of a run share: PySpark has one per process.

Whichever folder comes first starts it, so it has what each of them needs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from py4j.java_gateway import JVMView
from pyspark.sql import SparkSession

import pyhudi
from tests.servers.process import BRIEF_TASKS

QUEUE: Final = "spark.scheduler.listenerbus.eventqueue"
OF_SPARK: Final = ("appStatus", "eventLog", "executorManagement", "shared", "streams")
SETTINGS: Final = {
    "spark.driver.memory": "1g",
    **BRIEF_TASKS,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.task.killTimeout": "60s",
    # A queue of events that does not say its length drops events, as in a busy application. Spark's
    # own say it: tests look at its status store, and a driver that does not know its executor's
    # heartbeats is ended after ten minutes.
    f"{QUEUE}.capacity": "1",
    **{f"{QUEUE}.{name}.capacity": "10000" for name in OF_SPARK},
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
    remember_names(session)
    return session


class _Names(JVMView):  # type: ignore[misc]
    """Java's names, each asked for once: the JVM looks for a name in each of Spark's jars.

    What a name stands for does not change, and PySpark asks for the same few in each call.
    """

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        self.__dict__[name] = found
        return found


def remember_names(session: SparkSession) -> None:
    """From now on PySpark asks the JVM of ``session`` once for each name in it."""
    session.sparkContext._jvm.__class__ = _Names


def interpret(session: SparkSession, on: bool) -> None:
    """Have Spark interpret the statements to come, or compile code for each as its users have it.

    Compiling takes a fifth of the time of a statement on a few rows. It also decides how Spark
    reads: only compiled plans get batches of columns.
    """
    session.conf.set("spark.sql.codegen.wholeStage", str(not on).lower())
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN" if on else "FALLBACK")
