"""The driver of a streaming query: a Spark application that may kill itself at a chosen step.

``python -m integration.stream_driver SPEC-JSON`` writes all files of a folder into a table, one
file a batch, or all that another table of pyhudi's has, and ends. With the same checkpoint it goes
on where its forerunner died. Exit code 4: the query ended with an error of pyhudi, which stderr
has; its user would start it again.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

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
    ``follows``: ``source`` is a table of pyhudi's, which is read with these options. ``parts``: the
    plain writer writes each batch, in so many writes; 0 for the sink.
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
    follows: dict[str, str] | None = None
    parts: int = 0


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
        name = "write" if spec.parts else "write_batch"
        setattr(handlers, name, answering(getattr(handlers, name), answer.at, spec.deaths))
    if dies_when(troubles, IN_A_TASK):
        die_in_a_task(Path(spec.root), spec.deaths)


def rows_of(spark: SparkSession, spec: DriverSpec) -> DataFrame:
    """The stream of what is to be written."""
    if spec.follows is not None:
        return spark.readStream.format("pyhudi").options(**spec.follows).load(spec.source)
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(spec.source)


def in_parts(spec: DriverSpec) -> Callable[[DataFrame, int], None]:
    """Writes a batch by ``df.write``, in ``parts`` writes of which some may have no rows."""

    def write(rows: DataFrame, number: int) -> None:
        for part in range(spec.parts):
            own = rows.where(f"pmod(hash(k), {spec.parts}) = {part}") if spec.parts > 1 else rows
            own.write.format("pyhudi").options(**spec.options).mode("append").save(spec.root)

    return write


def stream(spark: SparkSession, spec: DriverSpec) -> None:
    """Write all that is not in yet."""
    frame = rows_of(spark, spec)
    if spec.troubled:
        frame = frame.mapInArrow(troubled(spec.troubled, Odds()), frame.schema)  # type: ignore[arg-type]
    writer = frame.writeStream.option("checkpointLocation", spec.checkpoint)
    writer = writer.trigger(availableNow=True)
    if spec.parts:
        query = writer.foreachBatch(in_parts(spec)).start()
    else:
        query = writer.format("pyhudi").options(**spec.options).start(spec.root)
    query.awaitTermination()


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
