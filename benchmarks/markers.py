"""``python -m benchmarks.markers``: what the two kinds of markers cost on an object store.

Many clients ask for a marker each time they begin a file. Directly, each marker is a put of its
own; by the marker server, a client asks for those of one task together, and the server puts what
all clients asked for into at most twenty files. The store is simulated, for figures that repeat:
every request takes a latency, and a prefix serves so many puts and gets a second, a batched delete
counting once for each of its keys; who comes too soon waits his turn. With ``--minio`` a real
server keeps the files, behind the same delays.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.pool import Pool
from pathlib import Path

from pyhudi.clock import SystemClock
from pyhudi.format.instants import InstantTime
from pyhudi.format.markers import marker_folder
from pyhudi.rows.announce import MarkerAddress
from pyhudi.storage.base import Storage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.s3 import S3Storage
from pyhudi.storage.slow import Pace, SlowStorage
from pyhudi.transactions.markers.marker_log import Batching
from pyhudi.transactions.markers.marker_server import MarkerServer, new_token
from pyhudi.transactions.markers.marker_service import MarkerService
from pyhudi.transactions.markers.markers import delete_markers, marked_files
from tests.s3_server import BUCKET, s3_server

PROCESSES = 2


def names(task: int, instant: str, files: int) -> list[str]:
    """The markers of one task: its files in a hundred partitions."""
    return [
        f"dt=2024-01-{n % 100:03d}/{task:06d}-{n:06d}-4b1c-8d9e-000000000000-0_{task}-7-9_{instant}"
        ".parquet.marker.CREATE"
        for n in range(files)
    ]


def run_client(address: MarkerAddress, instant: str, tasks: Sequence[int], shape: Shape) -> None:
    """One process's share of the tasks, each on a connection of its own, as on executors."""

    def run(task: int) -> None:
        markers = address.open()
        wanted = names(task, instant, shape.files)
        for begin in range(0, len(wanted), shape.together):
            markers.expect(wanted[begin : begin + shape.together])
        markers.close()

    with ThreadPoolExecutor(max(1, shape.clients // PROCESSES)) as pool:
        [*pool.map(run, tasks)]


class Shape:
    """How many markers, by how many clients at a time, how many to a task and to a request."""

    def __init__(self, markers: int, clients: int, files: int, together: int) -> None:
        self.markers, self.clients, self.files, self.together = markers, clients, files, together

    @property
    def tasks(self) -> range:
        return range(math.ceil(self.markers / self.files))


def run_direct(storage: Storage, instant: InstantTime, shape: Shape) -> None:
    """Each marker a put, as many at a time as there are clients."""

    def run(task: int) -> None:
        for name in names(task, instant, shape.files):
            storage.replace(f"{marker_folder(instant)}/{name}", b"")

    with ThreadPoolExecutor(shape.clients) as pool:
        [*pool.map(run, shape.tasks)]


def run_served(storage: Storage, instant: InstantTime, shape: Shape, pool: Pool) -> None:
    """The same markers asked of a server in this process, by clients in others."""
    service, token = MarkerService(SystemClock()), new_token(SystemClock())
    server = MarkerServer(service, token)
    opened = service.open(storage, instant, Batching())
    address = MarkerAddress("127.0.0.1", server.start(), opened.key, token)
    work = [(address, instant, shape.tasks[n::PROCESSES], shape) for n in range(PROCESSES)]
    pool.starmap(run_client, work)
    opened.seal(60)
    opened.drop()
    server.stop()


def measure(kind: str, storage: Storage, shape: Shape, pool: Pool) -> None:
    """Make the markers, count them, delete them, and print a row."""
    number = 1 if kind == "direct" else shape.together + 1
    instant = InstantTime(f"20240101{number:09d}")
    begin = time.perf_counter()
    if kind == "direct":
        run_direct(storage, instant, shape)
    else:
        run_served(storage, instant, shape, pool)
    made = time.perf_counter()
    requests = getattr(storage, "requests", 0)
    files = sum("MARKERS.type" not in f.path for f in storage.walk(marker_folder(instant)))
    known = len(marked_files(storage, instant) or ())
    assert known == len(shape.tasks) * shape.files, f"{known} markers are there"
    looked = time.perf_counter()
    delete_markers(storage, instant)
    gone = time.perf_counter()
    print(
        f"{kind:32s} {known:8d} {files:8d} {requests:9d} {made - begin:9.1f} "
        f"{known / (made - begin):10.0f} {gone - looked:9.1f}",
        flush=True,
    )


def main() -> None:
    """Both kinds, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markers", type=int, default=165_000)
    parser.add_argument("--clients", type=int, default=64, help="at a time, in two processes")
    parser.add_argument("--files", type=int, default=100, help="files of a task")
    parser.add_argument("--latency-ms", type=float, default=20.0)
    parser.add_argument("--kinds", default="direct,server,single")
    parser.add_argument("--minio", action="store_true", help="on a MinIO server, so delayed")
    given = parser.parse_args()
    pool = multiprocessing.get_context("fork").Pool(PROCESSES)
    print(f"{'kind':32s} {'markers':>8s} {'files':>8s} {'requests':>9s} {'create s':>9s} "
          f"{'markers/s':>10s} {'delete s':>9s}")  # fmt: skip
    pace = Pace(latency_ms=given.latency_ms)
    with store(given.minio) as inner:
        for kind in given.kinds.split(","):
            together = 1 if kind == "single" else given.files
            shape = Shape(given.markers, given.clients, given.files, together)
            title = kind if kind == "direct" else f"server, {together} to a request"
            measure(title, SlowStorage(inner, pace), shape, pool)
    pool.terminate()


@contextmanager
def store(real: bool) -> Iterator[Storage]:
    """What answers behind the delay: memory, or a MinIO server of this machine."""
    if not real:
        yield MemoryStorage()
        return
    with tempfile.TemporaryDirectory(prefix="markers-") as folder, s3_server(Path(folder)) as s3:
        yield S3Storage(BUCKET, "markers", s3.hadoop_options)


if __name__ == "__main__":
    main()
