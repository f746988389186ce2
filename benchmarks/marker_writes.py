"""``python -m benchmarks.marker_writes``: a bulk insert of many small files, by kind of markers.

pyhudi and Apache Hudi 1.2.0, one after the other, write the same rows to tables on one MinIO
server through ``s3a://``, with direct markers and with those of a timeline server, in turns. The
server's audit log tells how many requests each of them made, and how many of those were for
markers. The share of markers is what tasks waited for them, of the time that the task slots had:
pyhudi's workers take the time of each request, Hudi logs it for each marker. Needs the binary of
``make minio`` and the jars of ``make peers``.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from benchmarks.store_audit import StoreAudit, by_kind, store_audit
from benchmarks.timed_worker import FOLDER, waited
from integration.peers import apache_hudi, pyhudi_on_spark
from tests.s3_server import S3Server, s3_server

KINDS = {"direct": "DIRECT", "timeline server": "TIMELINE_SERVER_BASED"}
PYHUDI, HUDI = "pyhudi", "Apache Hudi 1.2.0"
SLOTS = 2
LONGEST_S = 1_500.0
CONF = {
    # One task for each file of the input.
    "spark.sql.files.openCostInBytes": str(128 << 20),
    "spark.driver.memory": "2g",
    "spark.hadoop.fs.s3a.connection.maximum": "200",
    # Small files pass through memory, not through a disk that is busy with the store's data.
    "spark.hadoop.fs.s3a.fast.upload.buffer": "bytebuffer",
    "spark.hadoop.fs.s3a.multipart.size": "8M",
}
#: Hudi tells of each marker how long its task waited for it
HUDI_LOG = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{{1}}: %m%n
appender.markers.type = File
appender.markers.name = markers
appender.markers.fileName = {file}
appender.markers.layout.type = PatternLayout
appender.markers.layout.pattern = %m%n
logger.markers.name = org.apache.hudi.table.marker
logger.markers.level = debug
logger.markers.additivity = false
logger.markers.appenderRef.markers.ref = markers
"""
_HUDI_WAITED = re.compile(r"Created marker file .* in (\d+) ms$", re.MULTILINE)
OPTIONS = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.operation": "bulk_insert",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "day",
    "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
    "hoodie.metadata.enable": "false",
    # One open file at a time: Hudi needs more than this heap for fifty.
    "hoodie.bulkinsert.sort.mode": "PARTITION_SORT",
}


@dataclass(frozen=True, slots=True)
class Run:
    """One write: its seconds, files, requests for markers and others, what tasks waited."""

    seconds: float
    files: int
    markers: Counter[str]
    others: Counter[str]
    waits: int
    waited_s: float

    @property
    def share(self) -> float:
        """Of the time of all task slots, what was waited for markers."""
        return self.waited_s / (SLOTS * self.seconds)


class Engine:
    """A session that writes, and what it tells of its markers."""

    def __init__(self, name: str, server: S3Server, folder: Path) -> None:
        """``folder`` takes what is noted on the way."""
        self.name, self._notes, self._log = name, folder / "notes", folder / "markers.log"
        self._heard = 0
        self._notes.mkdir(exist_ok=True)
        if name == PYHUDI:
            os.environ[FOLDER] = str(self._notes)
            self._peer = pyhudi_on_spark(s3=server, conf=CONF, module="benchmarks.timed_worker")
        else:
            logging = folder / "log4j2.properties"
            logging.write_text(HUDI_LOG.format(file=self._log))
            java = f"-Duser.timezone=UTC -Dlog4j2.configurationFile={logging.as_uri()}"
            conf = {**CONF, "spark.driver.extraJavaOptions": java}
            self._peer = apache_hudi("1.2.0", server, conf)

    def write(self, uri: str, source: Path, options: dict[str, str]) -> None:
        """Bulk insert the Parquet files of ``source`` into a new table."""
        given = {"path": uri, "parquet": str(source), "options": options, "mode": "overwrite"}
        self._peer.call("write", timeout=LONGEST_S, **given)

    def waited(self) -> tuple[int, float]:
        """How often tasks waited for markers since the last time, and for how many seconds."""
        if self.name == PYHUDI:
            return waited(self._notes)
        with self._log.open(encoding="utf-8") as log:
            log.seek(self._heard)
            found = _HUDI_WAITED.findall(log.read())
            self._heard = log.tell()
        return len(found), sum(map(int, found)) / 1_000

    def close(self) -> None:
        """End the process."""
        self._peer.close()


def make_input(folder: Path, tasks: int, partitions: int, rows: int) -> None:
    """``tasks`` Parquet files, each with ``rows`` rows of each of ``partitions`` days in order."""
    folder.mkdir(parents=True)
    days = [f"2024-{n // 28 + 1:02d}-{n % 28 + 1:02d}" for n in range(partitions)]
    for task in range(tasks):
        count = partitions * rows
        table = pa.table(
            {
                "id": pa.array(range(task * count, (task + 1) * count), pa.int64()),
                "day": [day for day in days for _ in range(rows)],
                "fare": [float(n % 97) for n in range(count)],
                "note": [f"trip {task}-{n}" for n in range(count)],
            }
        )
        pq.write_table(table, folder / f"part-{task:05d}.parquet")


def write(engine: Engine, kind: str, server: S3Server, source: Path, audit: StoreAudit) -> Run:
    """One write into a new table, and what the server says about it."""
    uri = server.new_table()
    audit.take()
    engine.waited()
    options = {
        **OPTIONS,
        "hoodie.bulkinsert.shuffle.parallelism": str(len(list(source.iterdir()))),
        "hoodie.write.markers.type": KINDS[kind],
    }
    begin = time.perf_counter()
    engine.write(uri, source, options)
    seconds = time.perf_counter() - begin
    markers, others = by_kind(audit.take())
    below = fs.FileSelector(uri.removeprefix("s3a://"), recursive=True)
    files = server.filesystem().get_file_info(below)
    data = sum(f.path.endswith(".parquet") for f in files)
    return Run(seconds, data, markers, others, *engine.waited())


def report(runs: dict[tuple[str, str], list[Run]]) -> str:
    """The rows of the page's table; times are medians with smallest and largest."""
    lines = [
        "| engine | markers | files | write s | waiting | marker requests | all requests |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (engine, kind), found in runs.items():
        seconds = sorted(run.seconds for run in found)
        last = found[-1]
        share = f"{statistics.median(run.share for run in found):.1%}"
        marked = sum(last.markers.values())
        lines.append(
            f"| {engine} | {kind} | {last.files:,} | {statistics.median(seconds):.1f} "
            f"({seconds[0]:.1f} to {seconds[-1]:.1f}) | {share} | {marked:,} | "
            f"{marked + sum(last.others.values()):,} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Each engine warms up with few files, then writes all of them, kind by kind in turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=50, help="files of a task")
    parser.add_argument("--rows", type=int, default=20, help="rows of a file")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--engines", nargs="+", default=[PYHUDI, HUDI], choices=[PYHUDI, HUDI])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="marker-writes-") as scratch, store_audit() as audit:
        folder = Path(scratch)
        make_input(folder / "small", 4, 10, given.rows)
        make_input(folder / "all", given.tasks, given.partitions, given.rows)
        runs: dict[tuple[str, str], list[Run]] = {}
        with s3_server(folder, audit.url) as server:
            for name in given.engines:
                engine = Engine(name, server, folder)
                for number in range(given.rounds + 1):
                    source = folder / ("all" if number else "small")
                    for kind in [*KINDS][:: 1 if number % 2 else -1]:
                        run = write(engine, kind, server, source, audit)
                        print(f"{number} {name:18s} {kind:16s} {run}", flush=True)
                        if number:
                            runs.setdefault((name, kind), []).append(run)
                engine.close()
        print(report(runs))


if __name__ == "__main__":
    main()
