"""``python -m benchmarks.planning``: how long the driver takes to plan a scan of a large table.

The table is real in all that planning looks at (properties, commits, a name for every file) and
its data files are holes. Cold is a process's first look at the table; warm a later one; after an
append one commit has been added meanwhile, and once more the table is what it was. Seconds of
wall and CPU time, without Spark.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pyhudi.application.runtime import Runtime
from pyhudi.clock import SystemClock
from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata, WriteStat, render_commit
from pyhudi.format.filenames import BaseFileName, FileId
from pyhudi.format.instants import Action, Instant, InstantTime, State, instant_file_name
from pyhudi.format.new_table import new_table_properties
from pyhudi.format.properties import render_properties
from pyhudi.format.schemas import canonical_json, spark_to_avro
from pyhudi.format.table_config import KeyGenerator, MergeMode
from pyhudi.reads.conditions import Compare, Comparison, Filter, Text
from pyhudi.reads.pins import Pinned, PinnedQueries
from pyhudi.reads.scan import describe, open_query
from pyhudi.reads.scan_plan import plan_scan
from pyhudi.rows.spec import FileSystemSpec
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import PROPERTIES
from pyhudi.timeline.view import VIEWS

SIZE_BYTES = 1 << 20
SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": "id", "type": "long", "nullable": True, "metadata": {}},
        {"name": "dt", "type": "string", "nullable": True, "metadata": {}},
    ],
}


def make_table(root: Path, files: int, partitions: int, commits: int) -> None:
    """A version 9 table whose files are spread evenly over partitions and commits."""
    storage = LocalStorage(str(root))
    properties = new_table_properties(
        name="large", version=9, record_key_fields=["id"], partition_fields=["dt"],
        ordering_fields=[], merge_mode=MergeMode.COMMIT_TIME_ORDERING,
        key_generator=KeyGenerator.SIMPLE,
    )  # fmt: skip
    storage.put_if_absent(PROPERTIES, render_properties(properties))
    for number in range(partitions):
        (root / f"d{number:05d}").mkdir(parents=True)
    clock = SystemClock()
    each = files // commits
    for number in range(commits):
        add_commit(storage, clock, root, number, [f"d{k % partitions:05d}" for k in range(each)])


def add_commit(
    storage: LocalStorage, clock: SystemClock, root: Path, number: int, partitions: list[str]
) -> None:
    """One commit with a new file in each of ``partitions``."""
    # One after the other: of writes at once the footers of files may have to be read.
    instant, completion = (InstantTime(f"202401010000{2 * number + k:05d}") for k in range(2))
    stats = []
    for partition in partitions:
        file_id = FileId(f"{clock.uuid()}-0")
        name = BaseFileName(file_id, "0-0-0", instant, ".parquet").render()
        (root / partition / name).touch()
        os.truncate(root / partition / name, SIZE_BYTES)
        stats.append(
            WriteStat(file_id, f"{partition}/{name}", partition, None, 1000, 1000,
                      file_size_bytes=SIZE_BYTES)
        )  # fmt: skip
    extra = {SCHEMA_KEY: canonical_json(spark_to_avro(SCHEMA, "large"))}
    done = Instant(instant, Action.COMMIT, State.COMPLETED, completion)
    data = render_commit(CommitMetadata("BULK_INSERT", tuple(stats), extra), 2)
    storage.put_if_absent(f".hoodie/timeline/{instant_file_name(done, 2)}", data)


def runtime() -> Runtime:
    """What planning needs of its surroundings; what only writes need is not there."""
    return Runtime(
        clock=SystemClock(),
        storage=LocalStorage,
        filesystem=lambda path: (FileSystemSpec("local"), path),
        lock=None,  # type: ignore[arg-type]
        jobs=None,  # type: ignore[arg-type]
    )


def plan(pins: PinnedQueries, root: Path, filters: Sequence[Filter]) -> int:
    """Plan one scan by the shim's two questions; gives the number of files."""
    query = open_query(pins.runtime, str(root), {}, {})
    asked = Pinned(pins.pin(query), str(root), {}, {}, describe(query).instant)
    answer = pins.ask(asked, lambda pinned: plan_scan(pinned, filters))
    if answer.arrow_file is not None:
        Path(answer.arrow_file).unlink()
        return -1
    return len(answer.files)


def timed(what: str, work: Callable[[], object]) -> None:
    """Print wall and CPU seconds of ``work``."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    print(
        f"{what:34s} {time.perf_counter() - wall:7.3f} s wall "
        f"{time.process_time() - cpu:7.3f} s CPU"
    )


def main() -> None:
    """Make the table and plan it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--partitions", type=int, default=1_000)
    parser.add_argument("--commits", type=int, default=100)
    given = parser.parse_args()
    one = [Compare(Comparison.EQUAL, "dt", Text("d00007"))]
    pins = PinnedQueries(runtime())
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "large"
        make_table(root, given.files, given.partitions, given.commits)
        print(f"{given.files} files, {given.partitions} partitions, {given.commits} commits")
        timed("cold, all files", lambda: plan(pins, root, []))
        for again in ("warm", "warm once more"):
            timed(f"{again}, all files", lambda: plan(pins, root, []))
            timed(f"{again}, one partition", lambda: plan(pins, root, one))
        storage = LocalStorage(str(root))
        add_commit(storage, SystemClock(), root, given.commits, ["d00001"])
        timed("after an append, one partition", lambda: plan(pins, root, one))
        VIEWS.forget(storage)
        pins = PinnedQueries(runtime())
        timed("listed again, one partition", lambda: plan(pins, root, one))


if __name__ == "__main__":
    main()
