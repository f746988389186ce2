"""``python -m benchmarks.clustering``: a clustering beside Spark's sort of the same plain Parquet.

The same rows lie in the same number of small files: as plain Parquet, partitioned by region, and as
a pyhudi table. In turns Spark sorts the plain files by region and customer and writes them again,
and pyhudi clusters a fresh copy of its table, sorted by customer. Both use one session. Copies are
made outside of the time. CPU seconds are those of the whole process tree.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession

import pyhudi
from benchmarks.cpu import tree_seconds
from benchmarks.data import KEY, ORDERING, PARTITION, orders, write_rows

COLUMN = "customer"
OPTIONS = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.recordkey.field": KEY,
    "hoodie.datasource.write.partitionpath.field": PARTITION,
    "hoodie.table.ordering.fields": ORDERING,
    "hoodie.datasource.write.operation": "bulk_insert",
}
CLUSTERING = {
    "hoodie.clustering.plan.strategy.class": "ALL",
    "hoodie.clustering.plan.strategy.sort.columns": COLUMN,
    "hoodie.clustering.plan.strategy.max.num.groups": "1000",
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--commits", type=int, default=5, help="that wrote the small files; 5")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "4g")
        builder = builder.config("spark.ui.showConsoleProgress", "false").config(
            "spark.ui.enabled", "false"
        )
        spark = pyhudi.configure(builder).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        compare(spark, Path(folder), given.rows, given.commits, given.rounds)
        spark.stop()


def compare(spark: SparkSession, folder: Path, rows: int, commits: int, rounds: int) -> None:
    """Make both tables, take turns, and print the figures."""
    plain, table = folder / "plain", folder / "table"
    for number, ids in enumerate(np.array_split(np.arange(rows, dtype=np.int64), commits)):
        source = write_rows(folder / f"rows-{number}", "part-0", orders(ids, 0))
        frame = spark.read.parquet(str(source)).repartition(2)
        frame.write.mode("append").partitionBy(PARTITION).parquet(str(plain))
        frame.write.format("pyhudi").options(**OPTIONS).mode("append").save(str(table))
        shutil.rmtree(source)
    for name, root in (("plain Parquet", plain), ("pyhudi", table)):
        print(f"{name}: {len(list(root.rglob('*.parquet')))} files, {size_mb(root):.0f} MB")
    took: dict[str, list[tuple[float, float]]] = {"sort": [], "cluster": []}
    for number in range(rounds):
        out, copy = folder / f"out-{number}", folder / f"copy-{number}"

        def sort(out: Path = out) -> None:
            ordered = spark.read.parquet(str(plain)).orderBy(PARTITION, COLUMN)
            ordered.write.partitionBy(PARTITION).parquet(str(out))

        def cluster(copy: Path = copy) -> None:
            done = pyhudi.cluster(str(copy), spark=spark, options=CLUSTERING)
            assert {each.fate.value for each in done} == {"clustered"}

        shutil.copytree(table, copy)
        turns = [("sort", sort), ("cluster", cluster)]
        for name, work in turns if number % 2 else reversed(turns):
            took[name].append(timed(work))
        assert spark.read.format("pyhudi").load(str(copy)).count() == rows
        shutil.rmtree(out)
        shutil.rmtree(copy)
    print("| | wall s: median (range) | CPU s: median (range) |\n| --- | --- | --- |")
    for name, found in took.items():
        walls, cpus = zip(*found, strict=True)
        print(f"| {name} | {spread(walls)} | {spread(cpus)} |")
    for index, name in enumerate(("wall", "CPU")):
        ours, theirs = (statistics.median(t[index] for t in took[k]) for k in ("cluster", "sort"))
        print(f"{name}: {ours / theirs:.2f}x of the sort")


def timed(work: Callable[[], None]) -> tuple[float, float]:
    """Wall and CPU seconds of ``work``."""
    cpu, wall = tree_seconds(os.getpid()), time.perf_counter()
    work()
    return time.perf_counter() - wall, tree_seconds(os.getpid()) - cpu


def spread(found: Sequence[float]) -> str:
    return f"{statistics.median(found):.1f} ({min(found):.1f} to {max(found):.1f})"


def size_mb(root: Path) -> float:
    return sum(file.stat().st_size for file in root.rglob("*.parquet")) / 1e6


if __name__ == "__main__":
    main()
