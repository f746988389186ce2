"""The child side of a run: ``python -m benchmarks.worker ENGINE ROOT CONF-JSON``."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.data import COLUMNS
from benchmarks.engines import ENGINES, Engine
from benchmarks.engines.change_reads import ReadsChanges
from benchmarks.engines.streams import Streams, heap_megabytes
from integration.peers.process import claim_stdout, serve


class Worker:
    """Runs one named operation at a time and says how many seconds it took."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def create(self, table: str, source: str) -> dict[str, Any]:
        """Bulk insert."""
        return timed(lambda: self.engine.create(table, self._rows(source)))

    def append(self, table: str, source: str) -> dict[str, Any]:
        """Add a few rows."""
        return timed(lambda: self.engine.append(table, self._rows(source)))

    def insert(self, table: str, source: str) -> dict[str, Any]:
        """Add a few rows, by the operation that may fill small files."""
        return timed(lambda: self.engine.insert(table, self._rows(source)))

    def copy(self, table: str, original: str) -> dict[str, Any]:
        """Write the rows of another table afresh, with as many writers as a bulk insert has."""
        rows = self._frame(original).coalesce(self.engine.spark.sparkContext.defaultParallelism)
        return timed(lambda: self.engine.create(table, rows))

    def upsert(self, table: str, source: str) -> dict[str, Any]:
        """Update and insert."""
        return timed(lambda: self.engine.upsert(table, self._rows(source)))

    def delete(self, table: str, source: str) -> dict[str, Any]:
        """Delete by key."""
        return timed(lambda: self.engine.delete(table, self._rows(source)))

    def compact(self, table: str) -> dict[str, Any]:
        """Merge all logs into data files."""
        return timed(lambda: self.engine.compact(table))

    def merge(self, table: str, source: str) -> dict[str, Any]:
        """MERGE INTO with three clauses."""
        return timed(lambda: self.engine.merge(table, self._rows(source)))

    def full_read(self, table: str) -> dict[str, Any]:
        """Every column of every row, handed to Spark's sink that drops them."""
        return timed(lambda: self.engine.drain(self._frame(table)))

    def column_sum(self, table: str) -> dict[str, Any]:
        """One column of every row."""
        return timed(lambda: str(self._frame(table).agg(F.sum("amount")).collect()[0][0]))

    def lookup(self, table: str, keys: list[int]) -> dict[str, Any]:
        """Rows by key, one query for each."""
        return timed(
            lambda: [
                [row.note for row in self._frame(table).where(F.col("id") == key).collect()]
                for key in keys
            ],
            len(keys),
        )

    def range_filter(self, table: str, ranges: list[tuple[int, int]]) -> dict[str, Any]:
        """A sum over one per cent of the ids, one query for each range."""

        def one(low: int, high: int) -> str:
            part = self._frame(table).where((F.col("id") >= low) & (F.col("id") < high))
            return str(part.agg(F.sum("amount"), F.count("note")).first())

        return timed(lambda: [one(low, high) for low, high in ranges], len(ranges))

    def plan(self, table: str) -> dict[str, Any]:
        """From the table's name to Spark's partitions; no row is read."""

        def partitions() -> int:
            execution = self.engine.frame(table)._jdf.queryExecution()
            return int(execution.toRdd().getNumPartitions())

        # The number of partitions is an engine's own affair: not an answer to compare.
        return {"seconds": timed(partitions)["seconds"], "result": None}

    def race(self, table: str, sources: list[list[str]]) -> dict[str, Any]:
        """One writer a list, each upserting its inputs in turn; what became of every write."""
        self.engine.expect_other_writers()

        def write(inputs: list[str]) -> list[dict[str, Any]]:
            return [
                outcome(lambda source=source: self.engine.upsert(table, self._rows(source)))
                for source in inputs
            ]

        with ThreadPoolExecutor(len(sources)) as pool:
            return timed(lambda: [one for all_ in pool.map(write, sources) for one in all_])

    def count_up(self, table: str, writers: int, writes: int, size: int) -> dict[str, Any]:
        """Writers beside each other that each add one to the same rows by UPDATE, in turn.

        What became of every statement; ``counted`` is how many of them the rows show.
        """
        self.engine.expect_other_writers()
        name, where = self.engine.sql_name(table), F.col("id") < size

        def total() -> float:
            return float(self._frame(table).where(where).agg(F.sum("amount")).collect()[0][0])

        def write(_: int) -> list[dict[str, Any]]:
            statement = f"UPDATE {name} SET amount = amount + 1 WHERE id < {size}"
            return [outcome(lambda: self.engine.spark.sql(statement)) for _ in range(writes)]

        before = total()
        with ThreadPoolExecutor(writers) as pool:
            found = timed(lambda: [one for all_ in pool.map(write, range(writers)) for one in all_])
        return {**found, "counted": round((total() - before) / size)}

    def overtaken(self, table: str, sources: list[str]) -> list[dict[str, Any]]:
        """Writes alone and overtaken by another, see ``benchmarks.overtaken``."""
        from benchmarks.overtaken import overtaken  # pandas: no cost to the other measurements

        return overtaken(self.engine, table, sources)

    def changed(self, table: str) -> dict[str, Any]:
        """The rows that the last commit inserted or updated, into Spark's sink."""
        return timed(lambda: self._drained(self._feed.changed(table)))

    def changes(self, table: str) -> dict[str, Any]:
        """Every change of the last commit, with the rows before and after it."""
        return timed(lambda: self._drained(self._feed.changes(table)))

    def change_facts(self, table: str) -> list[str]:
        """What the changes are, to compare."""
        return self._feed.facts(table)

    def stream(self, table: str, source: str, checkpoint: str, kind: str) -> dict[str, Any]:
        """All epochs that wait in the folder ``source``; the milliseconds of each."""
        return timed(lambda: self._sink.stream(table, source, checkpoint, kind))

    def stream_facts(self, table: str) -> list[str]:
        """A checksum of the table."""
        return self._sink.facts(self.engine.frame(table))

    def source_facts(self, source: str) -> list[str]:
        """The same of plain Parquet."""
        return self._sink.facts(self._rows(source))

    def heap(self) -> float:
        """Megabytes of the heap that are in use."""
        return heap_megabytes(self.engine)

    @property
    def _sink(self) -> Streams:
        return self.engine  # type: ignore[return-value]

    @property
    def _feed(self) -> ReadsChanges:
        return self.engine  # type: ignore[return-value]

    def _drained(self, frame: DataFrame) -> None:
        frame.write.format("noop").mode("overwrite").save()

    def checksum(self, table: str) -> list[str]:
        """Number of rows and two sums over a hash of all columns."""
        hashed = self._frame(table).select(F.xxhash64(*COLUMNS).alias("h"))
        facts = hashed.agg(
            F.count("h"), F.expr("bit_xor(h)"), F.expr("sum(pmod(h, 1000003))")
        ).first()
        return [str(fact) for fact in facts or ()]

    def size(self, table: str) -> dict[str, int]:
        """Bytes and Parquet data files in the table's folder."""
        files = [f for f in self.engine.path(table).rglob("*") if f.is_file()]
        data = [f for f in files if f.suffix == ".parquet" and "checkpoint" not in f.name]
        return {"bytes": sum(f.stat().st_size for f in files), "files": len(data)}

    def drop(self, table: str) -> None:
        """Forget the table and its files."""
        self.engine.spark.catalog.clearCache()
        shutil.rmtree(self.engine.path(table), ignore_errors=True)

    def _rows(self, source: str) -> DataFrame:
        return self.engine.spark.read.parquet(source)

    def _frame(self, table: str) -> DataFrame:
        return self.engine.frame(table).select(*COLUMNS)


def outcome(work: Callable[[], Any]) -> dict[str, Any]:
    """Seconds of one write of a race, and its error, "" where it landed."""
    begin, error = time.perf_counter(), ""
    try:
        work()
    except Exception as e:
        error = " ".join(str(e).split())[:300]
    return {"seconds": time.perf_counter() - begin, "error": error}


def timed(work: Callable[[], Any], times: int = 1) -> dict[str, Any]:
    """Seconds per operation where ``work`` does ``times`` of them, and what it returned."""
    start = time.perf_counter()
    result = work()
    return {"seconds": (time.perf_counter() - start) / times, "result": result}


def main() -> None:
    """Start the engine and serve until stdin ends."""
    answers = claim_stdout()
    kind = ENGINES[sys.argv[1]]
    builder = SparkSession.builder
    for key, value in json.loads(sys.argv[3]).items():
        builder = builder.config(key, value)
    spark = kind.session(builder)
    spark.sparkContext.setLogLevel("ERROR")
    worker = Worker(kind(spark, Path(sys.argv[2])))
    names = [
        "create", "append", "insert", "copy", "upsert", "delete", "merge", "compact", "full_read",
        "column_sum", "lookup", "range_filter", "plan", "race", "count_up", "overtaken",
        "checksum", "size", "drop", "changed", "changes", "change_facts", "stream",
        "stream_facts", "source_facts", "heap",
    ]  # fmt: skip
    serve(answers, {name: getattr(worker, name) for name in names})


if __name__ == "__main__":
    main()
