"""The driver of a streaming query: a Spark application that may kill itself at a chosen step.

``python -m integration.stream_driver SPEC-JSON`` writes all files of a folder into a table, one
file a batch, and ends. With the same checkpoint it goes on where its forerunner died. Exit code 4:
the query ended with an error of pyhudi, which stderr has; its user would start it again.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import pyhudi
from integration.chaos import Odds, troubled
from integration.killed_writer import module
from integration.storm_writer import shorten_leases
from integration.stream_kills import (
    ANSWERED,
    IN_A_TASK,
    Storages,
    answering,
    die_in_a_task,
    dies_when,
    troubles_of,
)
from integration.stream_source import SCHEMA
from pyhudi.errors import HudiError
from pyhudi.storage.open import open_storage
from tests.sessions import SETTINGS

FAILED = 4


@dataclass(frozen=True, slots=True)
class DriverSpec:
    """One life of a driver.

    ``staged``: tasks write the files. ``troubled``: a seed by which tasks of the input fail and
    lose their workers. ``dying_s``: how long the tasks of a killed forerunner may have gone on.
    """

    root: str
    source: str
    checkpoint: str
    deaths: str
    options: dict[str, str]
    troubles: list[dict[str, Any]] = field(default_factory=list)
    lease_s: float = 8.0
    dying_s: float = 1.0
    master: str = "local[2,4]"
    conf: dict[str, str] = field(default_factory=dict)
    staged: bool = False
    troubled: str = ""


def session(spec: DriverSpec) -> SparkSession:
    """A new session with pyhudi's jar; no planner yet."""
    builder = SparkSession.builder.master(spec.master)
    warehouse = {"spark.sql.warehouse.dir": f"{spec.checkpoint}-warehouse"}
    for key, value in {**SETTINGS, **warehouse, **spec.conf}.items():
        builder = builder.config(key, value)
    spark = pyhudi.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def arm(spec: DriverSpec) -> None:
    """Have this process die where it is told to; before the planner is made."""
    troubles = troubles_of(spec.troubles)
    shorten_leases(spec.lease_s)
    module("pyhudi.transactions.recovery.settle").DYING_S = spec.dying_s
    module("pyhudi.spark.session").open_storage = Storages(open_storage, troubles, spec.deaths)
    if spec.staged:
        for name in ("collected", "single_pass"):
            module(f"pyhudi.writes.{name}").HERE_BYTES = -1
    if answer := dies_when(troubles, ANSWERED):
        handlers = module("pyhudi.spark.write_handlers").WriteHandlers
        handlers.write_batch = answering(handlers.write_batch, answer.at, spec.deaths)
    if dies_when(troubles, IN_A_TASK):
        die_in_a_task(Path(spec.root), spec.deaths)


def stream(spark: SparkSession, spec: DriverSpec) -> None:
    """Write all files that are not in yet."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    frame = reader.json(spec.source)
    if spec.troubled:
        frame = frame.mapInArrow(troubled(spec.troubled, Odds()), frame.schema)  # type: ignore[arg-type]
    writer = frame.writeStream.format("pyhudi").options(**spec.options)
    writer = writer.option("checkpointLocation", spec.checkpoint).trigger(availableNow=True)
    writer.start(spec.root).awaitTermination()


def main() -> None:
    """Stream until all is in, an error ends it, or it is killed."""
    spec = DriverSpec(**json.loads(sys.argv[1]))
    arm(spec)
    spark = pyhudi.attach(session(spec))
    try:
        stream(spark, spec)
    except (StreamingQueryException, HudiError):
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(FAILED)
    spark.stop()


if __name__ == "__main__":
    main()
