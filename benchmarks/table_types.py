"""``python -m benchmarks.table_types``: copy-on-write beside merge-on-read, by what writes change.

Both tables begin with the same rows in one file for each of ten partitions. For each share of rows
a fresh copy of each table takes some upserts of rows that are there, drawn from all files or from
as few partitions as hold them. Copies are made outside of the time. The rows of both tables have
the same checksum in the end, and once more after the compaction. CPU seconds are those of the
whole process tree.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyhudi
from benchmarks.cpu import TreeClock
from benchmarks.data import (
    COLUMNS,
    KEY,
    ORDERING,
    PARTITION,
    REGIONS,
    Ids,
    orders,
    region_of,
    write_bulk,
    write_rows,
)
from benchmarks.table_types_report import (
    CLUSTERED,
    COPIES,
    LOGS,
    PAGE,
    RESULTS,
    SPREAD,
    Cell,
    Findings,
    page,
)

SHARES = (0.001, 0.01, 0.05, 0.2, 0.5)
OPTIONS = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.recordkey.field": KEY,
    "hoodie.datasource.write.partitionpath.field": PARTITION,
    "hoodie.table.ordering.fields": ORDERING,
    "hoodie.clean.automatic": "false",
    "hoodie.compact.inline": "false",
}
TYPES = {COPIES: "COPY_ON_WRITE", LOGS: "MERGE_ON_READ"}
READ_OPTIMIZED = {"hoodie.datasource.query.type": "read_optimized"}
LOOKUPS = 3


class Bench:
    """One session, its folder, and the tables as they are before the writes of a cell."""

    def __init__(self, spark: SparkSession, folder: Path, rows: int, writes: int) -> None:
        self.spark, self.folder, self.rows, self.writes = spark, folder, rows, writes
        self.draw = np.random.default_rng(rows)
        bulk = write_bulk(folder / "bulk", rows)
        for name, kind in TYPES.items():
            options = OPTIONS | {
                "hoodie.datasource.write.table.type": kind,
                "hoodie.datasource.write.operation": "bulk_insert",
            }
            # One writer for each partition, and so one file.
            frame = spark.read.parquet(str(bulk)).repartition(PARTITION)
            frame.write.format("pyhudi").options(**options).save(str(self.fresh(name)))
        shutil.rmtree(bulk)

    def fresh(self, name: str) -> Path:
        """The table of a type, as it is after the bulk insert."""
        return self.folder / f"{name}-fresh"

    def cells(self, share: float, where: str, turn: int) -> list[Cell]:
        """The figures of both types for one share; ``turn`` says which comes first."""
        sources = [
            write_rows(self.folder / f"change-{n}", "part-0", orders(self.ids(share, where), n + 1))
            for n in range(self.writes)
        ]
        names = list(TYPES) if turn % 2 else list(TYPES)[::-1]
        found = {name: self.cell(name, share, where, sources) for name in names}
        tables = {name: self.folder / f"{name}-table" for name in TYPES}
        before = {name: checksum(self.frame(table)) for name, table in tables.items()}
        compacted = found[LOGS]
        compacted.compaction_bytes = self.grown(
            tables[LOGS],
            lambda: compacted.add("compaction", timed(lambda: compact(tables[LOGS], self.spark))),
        )
        after = checksum(self.frame(tables[LOGS]))
        if len({*before.values(), after}) != 1:
            raise SystemExit(f"the tables differ: {before}, and {after} after the compaction")
        for path in (*tables.values(), *sources):
            shutil.rmtree(path)
        return [found[name] for name in TYPES]

    def ids(self, share: float, where: str) -> Ids:
        """The keys of the rows that one write changes."""
        count = max(1, round(share * self.rows))
        every = np.arange(self.rows, dtype=np.int64)
        if where == CLUSTERED:
            first = int(self.draw.integers(REGIONS))
            wanted = math.ceil(share * REGIONS)
            every = every[(region_of(every) - first) % REGIONS < wanted]
        return np.sort(self.draw.permutation(every)[:count])

    def cell(self, name: str, share: float, where: str, sources: Sequence[Path]) -> Cell:
        """All writes of a type, and the reads after the first and after the last."""
        table = self.folder / f"{name}-table"
        shutil.copytree(self.fresh(name), table)
        cell = Cell(name, where, share)
        for number, source in enumerate(sources):
            cell.written.append(
                self.grown(
                    table,
                    lambda source=source: cell.add(
                        "write", timed(lambda: self.upsert(name, table, source))
                    ),
                )
            )
            if number in (0, len(sources) - 1):
                self.read(cell, table, "first" if number == 0 else "last")
        if name == LOGS:
            frame = self.frame(table, READ_OPTIMIZED)
            cell.add("read-optimized read", timed(lambda: drain(frame)))
        return cell

    def read(self, cell: Cell, table: Path, when: str) -> None:
        """Full reads and key lookups."""
        for _ in range(2):
            cell.add(f"full read, {when}", timed(lambda: drain(self.frame(table))))
        for key in self.draw.integers(0, self.rows, LOOKUPS):
            found = self.frame(table).where(F.col(KEY) == int(key))
            cell.add(f"key lookup, {when}", timed(lambda found=found: len(found.collect())))

    def upsert(self, name: str, table: Path, source: Path) -> None:
        options = OPTIONS | {
            "hoodie.datasource.write.table.type": TYPES[name],
            "hoodie.datasource.write.operation": "upsert",
        }
        rows = self.spark.read.parquet(str(source)).write.format("pyhudi")
        rows.options(**options).mode("append").save(str(table))

    def frame(self, table: Path, options: dict[str, str] | None = None) -> DataFrame:
        reader = self.spark.read.format("pyhudi").options(**(options or {}))
        return reader.load(str(table)).select(*COLUMNS)

    def grown(self, table: Path, work: Callable[[], object]) -> int:
        """The bytes of the data files that ``work`` adds."""
        before = sizes(table)
        work()
        return sum(size for path, size in sizes(table).items() if path not in before)


def sizes(table: Path) -> dict[Path, int]:
    """The data files, base files and logs."""
    files = (path for path in table.rglob("*") if ".hoodie" not in path.parts and path.is_file())
    return {p: p.stat().st_size for p in files if p.suffix == ".parquet" or ".log." in p.name}


def compact(table: Path, spark: SparkSession) -> None:
    done = pyhudi.compact(str(table), spark=spark)
    # Of a large share a write leaves no logs: it rewrites the base files.
    assert {each.fate.value for each in done} <= {"compacted"}


def drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def checksum(frame: DataFrame) -> tuple[str, ...]:
    hashed = frame.select(F.xxhash64(*COLUMNS).alias("h"))
    facts = hashed.agg(F.count("h"), F.expr("bit_xor(h)"), F.expr("sum(pmod(h, 1000003))")).first()
    return tuple(str(fact) for fact in facts or ())


def timed(work: Callable[[], object]) -> float:
    """CPU seconds of ``work``; of a process that is lost meanwhile those before."""
    clock = TreeClock(os.getpid())
    before = clock.look()
    work()
    return clock.look() - before


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, keep the findings, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.table_types", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--writes", type=int, default=5, help="before a compaction; 5")
    parser.add_argument("--shares", type=float, nargs="+", default=SHARES)
    parser.add_argument("--warm-up-rows", type=int, default=50_000)
    parser.add_argument("--note", default="", help="what a reader must know of the machine")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        spark = session()
        warm_up = Bench(spark, Path(folder, "warm-up"), given.warm_up_rows, given.writes)
        for turn, where in enumerate((SPREAD, CLUSTERED)):
            warm_up.cells(0.05, where, turn)
        bench = Bench(spark, Path(folder, "run"), given.rows, given.writes)
        found = Findings(given.rows, given.writes, note=given.note)
        for turn, share in enumerate(given.shares):
            for where in (SPREAD, CLUSTERED):
                found.cells += bench.cells(share, where, turn)
                print(*(told(cell) for cell in found.cells[-2:]), sep="\n", flush=True)
                found.save(given.results)
        spark.stop()
    given.page.write_text(page(found), encoding="utf-8")
    print(f"written: {given.page}")


def session() -> SparkSession:
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "2g")
    for key in ("spark.ui.showConsoleProgress", "spark.ui.enabled"):
        builder = builder.config(key, "false")
    spark = pyhudi.configure(builder.config("spark.sql.shuffle.partitions", "4")).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return pyhudi.attach(spark)


def told(cell: Cell) -> str:
    medians = (f"{what} {statistics.median(cpus):.2f}" for what, cpus in cell.cpu.items())
    return f"{cell.share:.1%} {cell.where} {cell.type}: {', '.join(medians)}"


if __name__ == "__main__":
    main()
