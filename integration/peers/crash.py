"""Apache Hudi killed in the midst of a write: ``python -m integration.peers.crash ORDER-JSON``.

The child starts a Spark session with Hudi, writes, and watches the table while it does. At the
chosen moment it sends SIGKILL to its JVM and to itself, so nothing of Hudi can clean up.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from integration.peers import maven
from integration.peers.spark import HUDI_CONF, SPARK_CONF, child_environment
from integration.peers.tables import table_facts, writer_options
from pyhudi.format.log_blocks import MAGIC
from tests.servers.process import BRIEF_TASKS

WROTE_THROUGH = 3
LOCK = "hoodie.write.lock.provider"
#: a writer beside others: it commits under the lock, and beats while it works
GUARDED = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    LOCK: "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    "hoodie.client.heartbeat.interval_in_ms": "1000",
}


class Moment(str, Enum):
    """When the writer is killed."""

    #: one data file is whole, others are not
    AMID_TASKS = "amid-tasks"
    #: every data file is whole, and the writer waits for the lock to commit
    BEFORE_COMMIT = "before-commit"
    #: its rollback of an earlier write has begun
    AMID_ROLLBACK = "amid-rollback"


def timeline_folder(table: Path) -> Path:
    """Where the table keeps its instants."""
    return table / ".hoodie" / ("timeline" if table_facts(table).version > 6 else "")


def crash(
    version: str,
    table: Path,
    rows: pa.Table,
    moment: Moment,
    operation: str = "upsert",
    more: Mapping[str, str] | None = None,
) -> None:
    """Have Apache Hudi ``version`` write ``rows`` into ``table`` and die at ``moment``.

    ``AssertionError`` where it was not killed, or had committed before.
    """
    guard = GUARDED if moment is Moment.BEFORE_COMMIT else {}
    with tempfile.TemporaryDirectory(prefix="crash-") as scratch:
        parquet = Path(scratch) / "rows.parquet"
        pq.write_table(rows, parquet)
        order = {
            "table": str(table),
            "parquet": str(parquet),
            "moment": moment.value,
            "options": {**writer_options(table, operation), **guard, **(more or {})},
            "conf": {
                **SPARK_CONF,
                **BRIEF_TASKS,
                **HUDI_CONF,
                # One task at a time: the first file is whole long before the last one is begun.
                "spark.master": "local[1]",
                "spark.driver.memory": "1g",
                "spark.jars": str(maven.jar(maven.HUDI[version])),
                "spark.local.dir": scratch,
            },
        }
        command = [sys.executable, "-m", "integration.peers.crash", json.dumps(order)]
        ran = subprocess.run(
            command, env=child_environment(sys.executable), check=False, timeout=900,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
    if moment is Moment.BEFORE_COMMIT:
        (table / ".hoodie" / "lock").unlink()
    assert ran.returncode == -signal.SIGKILL, f"exit code {ran.returncode}: {ran.stdout[-3000:]}"


class Watch:
    """Looks at a table until a moment has come."""

    def __init__(self, table: Path, moment: Moment, partitions: int) -> None:
        """``partitions``: how many data files the write makes, one in each."""
        self._table, self._moment, self._partitions = table, moment, partitions
        self._timeline = timeline_folder(table)
        self._before = self._instants()
        self._logs = set(self._table.glob("*/.*.log.*"))
        self._holds_lock = False

    def has_come(self) -> bool:
        """Whether it is time; takes the table's lock in front of a writer that needs it."""
        if self._moment is Moment.AMID_ROLLBACK:
            return bool(list(self._timeline.glob("*.rollback.inflight")))
        new = [time for time in self._new() if not self._completed(time)]
        if not new:
            return False
        if self._moment is Moment.BEFORE_COMMIT and not self._take_lock():
            return False
        logs = set(self._table.glob("*/.*.log.*")) - self._logs
        whole = [f for f in self._table.glob(f"*/*_{new[0]}.parquet") if is_whole(f)]
        whole += [f for f in logs if f.suffix != ".crc" and is_whole_log(f)]
        return len(whole) >= (1 if self._moment is Moment.AMID_TASKS else self._partitions)

    def _instants(self) -> set[str]:
        return {file.name for file in self._timeline.iterdir()}

    def _new(self) -> list[str]:
        fresh = self._instants() - self._before
        # What Hudi's metadata table does is on a timeline of its own.
        found = (name.partition(".") for name in fresh)
        return [time for time, _, end in found if end in ("inflight", "deltacommit.inflight")]

    def _completed(self, time: str) -> bool:
        return any(self._timeline.glob(f"{time}*commit"))

    def _take_lock(self) -> bool:
        """Hold the lock, as another writer would, from the time when the write is inflight."""
        if not self._holds_lock:
            try:
                (self._table / ".hoodie" / "lock").touch(exist_ok=False)
                self._holds_lock = True
            except FileExistsError:
                return False
        return True


def is_whole(file: Path) -> bool:
    """Whether a Parquet file has its footer."""
    try:
        with file.open("rb") as data:
            data.seek(-4, os.SEEK_END)
            return data.read() == b"PAR1"
    except OSError:
        return False


def is_whole_log(file: Path) -> bool:
    """Whether a log of one block has all of it."""
    try:
        data = file.read_bytes()
    except OSError:
        return False
    start = len(MAGIC) + 8
    return len(data) >= start and len(data) == start + int.from_bytes(data[len(MAGIC) : start])


def kill_when(watch: Watch, jvm: int) -> None:
    """Kill the JVM and this process at the moment, from a thread of its own."""

    def look() -> None:
        while not watch.has_come():
            threading.Event().wait(0.001)
        os.kill(jvm, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=look, daemon=True).start()


def main() -> None:
    """Write until killed; exit code 3 tells that the write went through."""
    from integration.peers.worker import session

    order: dict[str, Any] = json.loads(sys.argv[1])
    spark = session("hudi", order["conf"])
    frame = spark.read.parquet(order["parquet"])
    partitions = frame.select("dt").distinct().count()
    context: Any = spark.sparkContext
    watch = Watch(Path(order["table"]), Moment(order["moment"]), partitions)
    kill_when(watch, context._gateway.proc.pid)
    frame.write.format("hudi").options(**order["options"]).mode("append").save(order["table"])
    os._exit(WROTE_THROUGH)


if __name__ == "__main__":
    main()
