"""``python -m benchmarks.key_state``: what the state in front of the index saves and costs.

Two tables of the same rows on local disk take turns, one written with the state, one without. Each
epoch is a write of its own by one application, as a stream's is. Then streams of Spark look up the
same keys in its state stores, and the state alone is asked. CPU is that of the whole process tree.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyhudi
from benchmarks.cpu import TreeClock
from pyhudi.rows.hashing import key_hashes
from pyhudi.spark.session import runtime_of
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import open_table

OPERATION = "hoodie.datasource.write.operation"
MOST = "hoodie.index.key.state.max.bytes"
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "key",
    "hoodie.datasource.write.precombine.field": "ts",
}
PROVIDERS = {
    "HDFS-backed": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "RocksDB": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}
NEW, KNOWN_OF_NEW = 5_000, 5
SPREAD = 50_000


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000, help="of each table; 5,000,000")
    parser.add_argument("--files", type=int, default=50, help="of each table; 50")
    parser.add_argument("--epochs", type=int, default=7, help="of each kind; 7")
    given = parser.parse_args(arguments)
    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", 4)
    builder = builder.config("spark.ui.enabled", "false").config("spark.driver.memory", "3g")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    with tempfile.TemporaryDirectory() as folder:
        builder = builder.config("spark.sql.warehouse.dir", f"{folder}/warehouse")
        spark = pyhudi.attach(pyhudi.configure(builder).getOrCreate())
        spark.sparkContext.setLogLevel("ERROR")
        Tables(spark, Path(folder), given.rows, given.files).compare(given.epochs)
        for name, provider in PROVIDERS.items():
            state_store(spark, Path(folder, name), provider, given.rows, given.epochs, name)


def rows(frame: DataFrame, version: int) -> DataFrame:
    """Rows of some columns for a frame of ``id``; the keys are 32 characters without order."""
    return frame.select(
        F.md5(F.col("id").cast("string")).alias("key"),
        F.lit(version).cast("long").alias("ts"),
        F.col("id"),
        (F.col("id") % 1000).alias("city"),
        F.rand(7).alias("price"),
        F.concat(F.lit("customer-"), F.col("id") % 50_000).alias("customer"),
    )


class Clock:
    """Wall and CPU seconds of this process and all that it has started."""

    _tree = TreeClock(os.getpid())

    def __init__(self) -> None:
        self.took: list[tuple[float, float]] = []

    def __call__(self, work: Callable[[], object]) -> None:
        wall, cpu = time.perf_counter(), self._tree.look()
        work()
        self.took.append((time.perf_counter() - wall, self._tree.look() - cpu))

    def told(self) -> str:
        """The medians, and of the CPU the smallest and the largest."""
        wall, cpu = [w for w, _ in self.took], [c for _, c in self.took]
        low, high = min(cpu), max(cpu)
        spread = f"{statistics.median(cpu):.2f} ({low:.2f} to {high:.2f})"
        return f"{spread} | {statistics.median(wall):.2f}"


class Tables:
    """The two tables."""

    def __init__(self, spark: SparkSession, folder: Path, count: int, files: int) -> None:
        self.spark, self.rows, self.next, self.version = spark, count, count, 1
        self.roots = {"without": str(folder / "without"), "with": str(folder / "with")}
        for root in self.roots.values():
            frame = rows(spark.range(0, count, 1, files), 0).write.format("pyhudi")
            frame.options(**OPTIONS).option(
                "hoodie.datasource.write.operation", "bulk_insert"
            ).save(root)

    def compare(self, epochs: int) -> None:
        """Print a table of both kinds of epochs, and the state's own figures."""
        print("| epoch | state | CPU s: median (range) | wall s: median |")
        print("| --- | --- | --- | --- |")
        kinds = {
            f"{NEW:,} new keys, {KNOWN_OF_NEW} known, the state is built": self.appends,
            f"{NEW:,} new keys, {KNOWN_OF_NEW} known": self.appends,
            f"{SPREAD:,} known keys, in all files": self.spread,
        }
        self.upsert("with", next(self.appends()))
        self.upsert("without", next(self.appends()))
        for title, kind in kinds.items():
            clocks = {name: Clock() for name in self.roots}
            batches = kind()
            for number in range(epochs):
                batch = next(batches)
                if "built" in title:
                    # It is remembered from the second lookup on.
                    self.forget()
                    for name in self.roots:
                        self.upsert(name, next(batches))
                for name in self.roots if number % 2 else reversed(list(self.roots)):
                    clocks[name](partial(self.upsert, name, batch))
            for name, clock in clocks.items():
                print(f"| {title} | {name} | {clock.told()} |", flush=True)
        self.alone()

    def forget(self) -> None:
        states = runtime_of(self.spark).key_states
        for root, _ in states.kept():
            states.forget(root)

    def upsert(self, name: str, batch: DataFrame) -> None:
        options = OPTIONS if name == "with" else {**OPTIONS, MOST: "0"}
        self.version += 1
        batch.write.format("pyhudi").options(**options).mode("append").save(self.roots[name])

    def appends(self) -> Iterator[DataFrame]:
        while True:
            new = self.spark.range(self.next, self.next + NEW, 1, 2)
            known = self.spark.range(self.version, self.version + KNOWN_OF_NEW, 1, 1)
            self.next += NEW
            yield rows(new.union(known), self.version)

    def spread(self) -> Iterator[DataFrame]:
        step = self.rows // SPREAD
        while True:
            yield rows(self.spark.range(self.version % step, self.rows, step, 2), self.version)

    def alone(self) -> None:
        """What the state takes, and what questions to it cost."""
        states = runtime_of(self.spark).key_states
        table = open_table(LocalStorage(self.roots["with"]))
        files = {file.path for file in table.view(table.timeline()).latest()}
        ((root, partition),) = states.kept()
        state = states.of(root, partition).of_view(files)
        assert set(state.files) == files
        held = len(state.entries)
        print(f"state: {states.nbytes / 1e6:.1f} MB, {states.nbytes / held:.1f} bytes a key")
        for count in (1_000, 100_000):
            keys = self.spark.range(0, 2 * self.rows, 2 * self.rows // count)
            texts = [row[0] for row in rows(keys, 0).select("key").collect()]
            hashes = key_hashes(pa.array(texts))
            best = min(cpu_of(lambda hashes=hashes: state.find(hashes)) for _ in range(5))  # type: ignore[misc]
            print(
                f"state alone: {1e6 * best / len(hashes):.2f} us of CPU a key, {len(hashes):,} keys"
            )


def cpu_of(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def state_store(
    spark: SparkSession, folder: Path, provider: str, count: int, epochs: int, name: str
) -> None:
    """The same keys through ``dropDuplicates`` of a stream, whose state holds ``count`` keys."""
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
    keys, seen = folder / "keys", folder / "checkpoint"
    keys.mkdir(parents=True)
    empty = rows(spark.range(1), 0).select("key")
    stream = (
        spark.readStream.schema(empty.schema).option("maxFilesPerTrigger", 1).parquet(str(keys))
    )
    query = (
        stream.dropDuplicates(["key"])
        .writeStream.format("noop")
        .option("checkpointLocation", str(seen))
        .start()
    )

    def epoch(frame: DataFrame) -> None:
        part = folder / "part"
        rows(frame, 0).select("key").coalesce(1).write.mode("overwrite").parquet(str(part))
        (file,) = part.glob("*.parquet")
        file.rename(keys / f"{time.time_ns()}.parquet")
        clock(query.processAllAvailable)

    clock = Clock()
    epoch(spark.range(count))
    print(f"{name}, {count:,} keys put at once: {clock.told()} (CPU s: median, range | wall s)")
    for size in (1_000, SPREAD):
        clock = Clock()
        step = count // size
        for number in range(epochs):
            epoch(spark.range(number, count, step))
        print(
            f"{name}, epoch of {size:,} known keys: {clock.told()} (CPU s: median, range | wall s)",
            flush=True,
        )
    progress = query.lastProgress
    assert progress is not None
    held = progress["stateOperators"][0]
    used = held["memoryUsedBytes"] / held["numRowsTotal"]
    print(f"{name}: {used:.0f} bytes of memory a key; {held['memoryUsedBytes'] / 1e6:.1f} MB")
    query.stop()


if __name__ == "__main__":
    main()
