"""``python -m benchmarks.marker_writes``: a bulk insert of many small files, by kind of markers.

pyhudi and Apache Hudi 1.2.0 write the same rows to tables on one MinIO server through ``s3a://``,
with direct markers and with those of a timeline server, in turns. The server's audit log tells how
many requests each of them made, and how many of those were for markers. The share of pyhudi's
markers is what its tasks waited for them, of the time that its two task slots had. Needs the
binary of ``make minio`` and the jars of ``make peers``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from benchmarks.store_audit import StoreAudit, by_kind, store_audit
from benchmarks.timed_worker import FOLDER, waited
from integration.peers import SparkPeer, apache_hudi, pyhudi_on_spark
from tests.s3_server import S3Server, s3_server

KINDS = {"direct": "DIRECT", "timeline server": "TIMELINE_SERVER_BASED"}
SLOTS = 2
CONF = {
    # One task for each file of the input.
    "spark.sql.files.openCostInBytes": str(128 << 20),
    "spark.hadoop.fs.s3a.connection.maximum": "200",
    # The wait until a failed upload is tried again is no part of what is measured.
    "spark.hadoop.fs.s3a.fast.upload.buffer": "bytebuffer",
}
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
    """One write: wall seconds, its marker requests and all its requests, marker seconds waited."""

    seconds: float
    files: int
    markers: Counter[str]
    others: Counter[str]
    waited_s: float | None


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


def write(
    peer: SparkPeer, kind: str, server: S3Server, source: Path, audit: StoreAudit, notes: Path
) -> Run:
    """One write into a new table, and what the server says about it."""
    uri = server.new_table()
    audit.take()
    tasks = str(len(list(source.iterdir())))
    options = {
        **OPTIONS,
        "hoodie.bulkinsert.shuffle.parallelism": tasks,
        "hoodie.write.markers.type": KINDS[kind],
    }
    begin = time.perf_counter()
    peer.call("write", path=uri, parquet=str(source), options=options, mode="overwrite")
    seconds = time.perf_counter() - begin
    markers, others = by_kind(audit.take())
    asked, waited_s = waited(notes)
    below = fs.FileSelector(uri.removeprefix("s3a://"), recursive=True)
    files = server.filesystem().get_file_info(below)
    return Run(
        seconds,
        sum(f.path.endswith(".parquet") for f in files),
        markers,
        others,
        waited_s if asked else None,
    )


@contextmanager
def engines(server: S3Server, notes: Path) -> Iterator[dict[str, SparkPeer]]:
    """Both engines, each in a process of its own."""
    os.environ[FOLDER] = str(notes)
    peers = {
        "pyhudi": pyhudi_on_spark(s3=server, conf=CONF, module="benchmarks.timed_worker"),
        "Apache Hudi 1.2.0": apache_hudi("1.2.0", server, CONF),
    }
    try:
        yield peers
    finally:
        for peer in peers.values():
            peer.close()


def report(runs: dict[tuple[str, str], list[Run]]) -> str:
    """The rows of the page's table; times are medians with smallest and largest."""
    lines = [
        "| engine | markers | files | write s | waiting | marker requests | all requests |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (engine, kind), found in runs.items():
        seconds = sorted(run.seconds for run in found)
        last = found[-1]
        share = "not known"
        if all(run.waited_s is not None for run in found):
            shares = [(run.waited_s or 0) / (SLOTS * run.seconds) for run in found]
            share = f"{statistics.median(shares):.1%}"
        marked = sum(last.markers.values())
        lines.append(
            f"| {engine} | {kind} | {last.files:,} | {statistics.median(seconds):.1f} "
            f"({seconds[0]:.1f} to {seconds[-1]:.1f}) | {share} | {marked:,} | "
            f"{marked + sum(last.others.values()):,} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Warm up with few files, then all of them in turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=50, help="files of a task")
    parser.add_argument("--rows", type=int, default=20, help="rows of a file")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="marker-writes-") as scratch, store_audit() as audit:
        folder = Path(scratch)
        notes = folder / "notes"
        notes.mkdir()
        make_input(folder / "small", 4, 10, given.rows)
        make_input(folder / "all", given.tasks, given.partitions, given.rows)
        with s3_server(folder, audit.url) as server, engines(server, notes) as peers:
            runs: dict[tuple[str, str], list[Run]] = {}
            cells = [(engine, kind) for engine in peers for kind in KINDS]
            for number in range(given.rounds + 1):
                source = folder / ("all" if number else "small")
                for engine, kind in cells[number % 4 :] + cells[: number % 4]:
                    run = write(peers[engine], kind, server, source, audit, notes)
                    print(f"{number} {engine:18s} {kind:16s} {run}", flush=True)
                    if number:
                        runs.setdefault((engine, kind), []).append(run)
            print(report(dict(sorted(runs.items(), reverse=True))))


if __name__ == "__main__":
    main()
