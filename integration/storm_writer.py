"""One writer of a storm: a process that upserts again and again and reports each outcome.

``python -m integration.storm_writer SPEC-JSON`` reports in JSON lines on stdout, and begins when it
gets a line on stdin. It announces the rows of an upsert before it begins, so that the reader knows
the rows of a commit whose writer was killed. Sixteen processes with a JVM each are too much for
one machine, so a writer goes without Spark: it is the product's own ``write_table``, whose input
is an Arrow table, and the three steps that ask Spark about a DataFrame are answered from that.
With ``spark`` it is a Spark application like any other.
"""

from __future__ import annotations

import json
import logging
import random
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TextIO, cast

import pyarrow as pa

from integration.killed_writer import module
from integration.peers import maven
from integration.peers.process import claim_stdout
from integration.storm_puts import LatePuts
from pyhudi.application.application_markers import Addresses, ApplicationMarkers
from pyhudi.application.runtime import Runtime
from pyhudi.clock import SystemClock
from pyhudi.config import WriteOptions, resolve_write
from pyhudi.errors import CommitUnknown, HudiError
from pyhudi.format.spark_schema import Column, SparkSchema
from pyhudi.locks.base import LockHolder, LockOwner, TableLock
from pyhudi.locks.open import LockOpener
from pyhudi.rows.spec import FileSystemSpec
from pyhudi.rows.task import error_from_text
from pyhudi.services.compaction import SlicesHere
from pyhudi.storage.base import Storage
from pyhudi.storage.open import bucket_of, open_storage
from pyhudi.storage.s3_settings import arrow_options, s3_settings
from pyhudi.tables.create import create_table, new_table_config
from pyhudi.timeline.table import Table
from pyhudi.writes.intent import Intent, Route
from pyhudi.writes.keys.expressions import PARTITION_PATH, RECORD_KEY
from pyhudi.writes.prepare import Prepared
from pyhudi.writes.write import write_table

SEEDER = -1
TAG = "_storm"
PARTITIONS = 3
SHARED_GROUPS = 2  # of each partition
KEYS = 20  # of each file group at the beginning
FIELDS = ("key", "dt", "writer", "number")
SCHEMA = SparkSchema(tuple(map(Column, FIELDS, ("string", "string", "long", "long"))))

#: a record key and its partition
Key = tuple[str, str]
Tell = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Spec:
    """What one writer does. ``lease_s`` is the lease of locks that have no option for it."""

    root: str
    options: dict[str, str]
    hadoop: dict[str, str]
    lease_s: float
    seed: str
    writer: int
    writers: int
    first: int
    upserts: int
    spark: bool = False
    new_keys: bool = False
    #: the longest rest between two upserts
    pace_s: float = 0.0
    #: what a put may take on the store, and how many of a thousand puts do; 0 for a quick store
    put_s: float = 0.0
    late: int = 0
    #: go on, though all is done, until this file is there
    until: str = ""

    def partition(self, number: int) -> str:
        return f"p{number % PARTITIONS}"

    @property
    def private_groups(self) -> int:
        """File groups of each partition that one writer alone updates."""
        return -(-self.writers // PARTITIONS)

    def batches(self) -> Iterator[tuple[int, list[Key]]]:
        """Numbers and keys of the upserts that are to be done."""
        if self.writer == SEEDER:
            for group in range(self.private_groups + SHARED_GROUPS):
                places = [self.partition(p) for p in range(PARTITIONS)]
                yield group, [k for place in places for k in group_keys(place, group)]
            return
        for number in count(self.first):
            if number >= self.upserts and (not self.until or Path(self.until).exists()):
                return
            yield number, self._batch(number, random.Random(f"{self.seed}/{self.writer}/{number}"))

    def _batch(self, number: int, lots: random.Random) -> list[Key]:
        """Keys of a group of one's own, often of one that all share, and new ones."""
        home = self.partition(self.writer)
        found = lots.sample(group_keys(home, self.writer // PARTITIONS), 4)
        if lots.random() < 0.5:
            place = self.partition(lots.randrange(PARTITIONS))
            group = self.private_groups + lots.randrange(SHARED_GROUPS)
            found += lots.sample(group_keys(place, group), 4)
        brought = [number] + ([lots.randrange(number)] if number and lots.random() < 0.5 else [])
        found += [(f"w{self.writer}n{each}", home) for each in brought]
        if self.new_keys:
            # Everybody brings this one: the check of keys must leave one of it.
            found.append((f"all{number}", self.partition(0)))
        return found


def group_keys(place: str, group: int) -> list[Key]:
    """The keys that a file group has from the beginning."""
    return [(f"{place}g{group}k{each}", place) for each in range(KEYS)]


class Told:
    """A table lock that tells when it is taken and when it is given up."""

    def __init__(self, inner: TableLock, tell: Tell) -> None:
        self._inner, self._tell = inner, tell

    def acquire(self, timeout_s: float, owner: LockOwner) -> None:
        self._inner.acquire(timeout_s, owner)
        self._tell("locked", instant=owner.instant)

    def held(self) -> bool:
        return self._inner.held()

    def check(self, needed_s: float = 0.0) -> float:
        return self._inner.check(needed_s)

    def renew(self) -> None:
        self._inner.renew()

    def release(self) -> None:
        self._inner.release()

    def describe(self) -> LockHolder | None:
        return self._inner.describe()


class NoSpark:
    """Where no Spark task ever runs, all of them have ended, and rows are a table already."""

    def estimated_bytes(self, rows: Any) -> int:
        return int(rows.nbytes)

    def collect(self, rows: Any, limit_bytes: int, description: str) -> pa.Table:
        return cast(pa.Table, rows)

    def ended(self, key: str, timeout_s: float) -> bool:
        return True

    def quiet(self, key: str, timeout_s: float) -> bool:
        return True

    def forget(self, key: str) -> None:
        """Nothing is known."""


class Retries(logging.Handler):
    """Tells of the conflicts after which the product tries again by itself."""

    def __init__(self, tell: Tell) -> None:
        super().__init__(logging.WARNING)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        if "Retry %d" in str(record.msg):
            error = cast(Any, record.args)[0]
            self._tell("retry", cause=type(error).__name__, text=str(error))


def shorten_leases(lease_s: float) -> None:
    """Locks whose lease is a constant let go after ``lease_s``, or after what they need."""
    module("pyhudi.locks.filesystem")._LEAST_LEASE_S = lease_s
    module("pyhudi.locks.numbered").LEAST_LEASE_S = lease_s
    module("pyhudi.locks.open").DYNAMODB_LEASE_S = lease_s


def runtime_without_spark(spec: Spec, tell: Tell) -> Runtime:
    """The planner's surroundings as ``spark.session`` makes them, without a JVM."""
    clock = SystemClock()
    opened: dict[str, Storage] = {}

    def storage(root: str) -> Storage:
        if root not in opened:
            found = open_storage(root, spec.hadoop, clock)
            lots = f"{spec.seed}/{spec.writer}/{spec.first}/puts"
            opened[root] = (
                LatePuts(found, spec.put_s, spec.late, lots, tell) if spec.late else found
            )
        return opened[root]

    locks = LockOpener(clock, storage)

    def lock(table: Table, options: WriteOptions) -> TableLock:
        return Told(locks.open(options.lock, table.config.name, table.storage), tell)

    def group_lock(table: Table, options: WriteOptions) -> Callable[[str], TableLock]:
        return locks.groups(options.lock, table.config.name, table.storage)

    def filesystem(root: str) -> tuple[FileSystemSpec, str]:
        if root.startswith("/"):
            return FileSystemSpec("local"), root
        settings = s3_settings(bucket_of(root), spec.hadoop)
        return FileSystemSpec("s3", arrow_options(settings)), root.removeprefix("s3a://")

    markers = ApplicationMarkers(clock, Addresses(), lambda host, port, token: False)
    return Runtime(clock, storage, filesystem, lock, NoSpark(), markers, group_lock=group_lock)


def do_without_spark() -> None:
    """Answer from an Arrow table what the planner asks of a DataFrame."""

    def prepare(rows: pa.Table, *_: object) -> Prepared:
        keyed = rows.append_column(RECORD_KEY, rows["key"]).append_column(
            PARTITION_PATH, rows["dt"]
        )
        return Prepared(cast(Any, keyed), SCHEMA, SCHEMA.arrow(), FIELDS, False)

    module("pyhudi.writes.write").prepare = prepare
    for each in ("key_lookup", "collected"):
        module(f"pyhudi.writes.{each}").HERE_BASE_BYTES = 1 << 40
    compact_without_spark()


def compact_without_spark() -> None:
    """Have compactions of writers merge their slices in this process."""
    module("pyhudi.writes.write")._spark_tasks = lambda *_: SlicesHere()


def upserts_without_spark(spec: Spec, tell: Tell) -> Callable[[pa.Table, str], dict[str, Any]]:
    """A function that writes rows under a tag; makes the table where there is none."""
    do_without_spark()
    runtime = runtime_without_spark(spec, tell)
    if spec.writer == SEEDER:
        options = resolve_write(spec.options, None, {})
        config = new_table_config(spec.root, options, SCHEMA, record_schema=False)
        create_table(runtime, runtime.storage(spec.root), config, options)

    def upsert(rows: pa.Table, tag: str) -> dict[str, Any]:
        options = {**spec.options, TAG: tag}
        if spec.writer == SEEDER:
            options["hoodie.datasource.write.operation"] = "insert"
        done = write_table(
            runtime, cast(Any, rows), spec.root, options, {}, lambda exists: Intent(Route.SAVE)
        )
        assert done is not None
        return {"instant": done.instant, "completion": done.completion_time}

    return upsert


def upserts_by_spark(spec: Spec) -> Callable[[pa.Table, str], dict[str, Any]]:
    """The same by ``df.write``; the commit's instant is found by its tag afterwards."""
    from pyspark.sql import SparkSession

    import pyhudi

    builder = SparkSession.builder.master("local[1]").config("spark.driver.memory", "600m")
    builder = builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", 1)
    if spec.hadoop:
        builder = builder.config("spark.jars", ",".join(str(maven.jar(j)) for j in maven.S3A))
    for key, value in spec.hadoop.items():
        builder = builder.config(f"spark.hadoop.{key}", value)
    spark = pyhudi.attach(pyhudi.configure(builder).getOrCreate())
    spark.sparkContext.setLogLevel("OFF")

    def upsert(rows: pa.Table, tag: str) -> dict[str, Any]:
        frame = spark.createDataFrame(
            [tuple(row.values()) for row in rows.to_pylist()],
            "key string, dt string, writer long, number long",
        )
        options = {**spec.options, TAG: tag}
        frame.write.format("pyhudi").options(**options).mode("append").save(spec.root)
        return {}

    return upsert


def run(spec: Spec, answers: TextIO) -> None:
    """Upsert, once a line on stdin says so, until all is done or this process is killed."""
    current = -1

    def tell(event: str, **more: Any) -> None:
        answers.write(json.dumps({"event": event, "number": current, **more}) + "\n")
        answers.flush()

    shorten_leases(spec.lease_s)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    for noisy in ("kazoo", "botocore", "boto3", "urllib3", "py4j"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    logging.getLogger("pyhudi.writes.retries").addHandler(Retries(tell))
    upsert = upserts_by_spark(spec) if spec.spark else upserts_without_spark(spec, tell)
    tell("ready")
    sys.stdin.readline()
    rests = random.Random(f"{spec.seed}/{spec.writer}/{spec.first}/rests")
    for current, keys in spec.batches():
        SystemClock().sleep((0.4 + 0.2 * rests.random()) * spec.pace_s)
        rows = pa.table(
            {
                "key": [key for key, _ in keys],
                "dt": [place for _, place in keys],
                "writer": pa.array([spec.writer] * len(keys), pa.int64()),
                "number": pa.array([current] * len(keys), pa.int64()),
            }
        )
        tell("begin", keys=keys)
        try:
            tell("committed", **upsert(rows, f"{spec.writer}/{current}"))
        except Exception as error:
            ours = error if isinstance(error, HudiError) else error_from_text(str(error))
            kind = type(ours or error).__name__
            outcome = "unknown" if isinstance(ours, CommitUnknown) else "failed"
            outcome = outcome if ours is not None else "broken"
            tell(outcome, kind=kind, text=str(ours or traceback.format_exc()))
    tell("end")


if __name__ == "__main__":
    run(Spec(**json.loads(sys.argv[1])), claim_stdout())
