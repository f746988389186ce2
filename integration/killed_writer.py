"""A writer that kills itself: a process of its own, so that nothing of it can clean up.

``python -m integration.killed_writer TABLE METHOD PATTERN STAGED [KEY=VALUE ...]`` upserts two
hundred rows, with further options of the write, and sends itself SIGKILL right before the first
storage call ``METHOD`` whose path fits ``PATTERN``. With ``STAGED`` yes, Spark tasks write the
files; ``PATTERN`` ``(task)`` then kills in their midst.
"""

from __future__ import annotations

import fnmatch
import importlib
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pyhudi
from pyhudi.storage.base import Storage
from pyhudi.storage.faults import Call, FaultyStorage
from pyhudi.storage.open import open_storage
from tests.sessions import local_session

IN_A_TASK = "(task)"
OPTIONS = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "dt",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.client.heartbeat.interval_in_ms": "500",
    "hoodie.client.heartbeat.tolerable.misses": "1",
}
#: with these, known keys go to logs and new ones to new base files
LOGS = {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.parquet.small.file.limit": "0",
}


def module(name: str) -> Any:
    """A module of pyhudi whose names this process replaces."""
    return importlib.import_module(name)


def die() -> None:
    """What the kernel does to a process that is out of memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def arm(method: str, pattern: str) -> None:
    """Have every storage that the session opens kill this process at the chosen call."""

    def before(call: Call) -> None:
        fits = any(fnmatch.fnmatchcase(path, pattern) for path in call.paths)
        if call.method == method and fits:
            die()

    def opened(root: str, options: dict[str, str], *_: object) -> Storage:
        return FaultyStorage(open_storage(root, options), before=before)

    module("pyhudi.spark.session").open_storage = opened


def die_when_marked(table: Path) -> None:
    """Die as soon as a task has announced a data file."""

    def watch() -> None:
        temp = table / ".hoodie" / ".temp"
        while not [*temp.glob("*/*/*.marker.*"), *temp.glob("*/MARKERS0")]:
            threading.Event().wait(0.001)
        die()

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """Write until killed; exit code 3 tells that the write went through."""
    table, method, pattern, staged, *more = sys.argv[1:]
    options = {**OPTIONS, **dict(each.split("=", 1) for each in more)}
    spark = local_session(Path(table).parent / "warehouse")
    if pattern != IN_A_TASK:
        arm(method, pattern)
    pyhudi.attach(spark)
    if staged == "yes":
        for name in ("collected", "single_pass"):
            module(f"pyhudi.writes.{name}").HERE_BYTES = -1
    if pattern == IN_A_TASK:
        die_when_marked(Path(table))
    rows = spark.range(100, 300).selectExpr(
        "id", "concat('killed', id) name", "2L ts", "concat('2024-01-0', id % 3 + 1) dt"
    )
    rows.write.format("pyhudi").options(**options).mode("append").save(table)
    os._exit(3)


if __name__ == "__main__":
    main()
