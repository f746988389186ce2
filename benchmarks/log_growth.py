"""``python -m benchmarks.log_growth``: what a read costs while upserts pile up beside data files.

One merge-on-read table gets upserts of known keys, spread over all files, and no compaction. After
each few of them a full read and key lookups are measured, in CPU seconds of the process tree. The
last column says how much of it each mebibyte of logs has added since the first read.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.data import orders, write_bulk, write_rows
from benchmarks.engine_process import EngineProcess
from benchmarks.merge_on_read import make_inputs, run_round
from benchmarks.results import Results

ENGINE, TABLE = "pyhudi-mor", "growing"
MIB = 1 << 20


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, run and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.log_growth", description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--upserts", type=int, default=100)
    parser.add_argument("--changed", type=int, default=20_000, help="rows of an upsert")
    parser.add_argument("--every", type=int, default=20, help="upserts between two reads")
    parser.add_argument("--samples", type=int, default=3, help="reads of each kind at a time")
    parser.add_argument("--work", type=Path, help="folder for the data; default: a temporary one")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="log-growth-", dir=given.work) as work:
        grow(Path(work), given)


def grow(work: Path, given: argparse.Namespace) -> None:
    """Write and read in turns, and print what each read cost."""
    draw = np.random.default_rng(given.rows)
    bulk = write_bulk(work / "bulk", given.rows)
    engine = EngineProcess(ENGINE, work / ENGINE, "2g")
    try:
        small = make_inputs(work / "warm-up", 100_000, 3, 100)
        run_round([engine], small, 0, 1, Results(0, 0, 0, 0))
        engine.ask("create", table=TABLE, source=str(bulk))
        print("| upserts | logs, MiB | an upsert | full read | key lookup | read per MiB of logs |")
        print("| --- | --- | --- | --- | --- | --- |")
        first, cpu = _reads(engine, given, draw), 0.0
        print(f"| 0 | 0 | | {first[0]:.2f} | {first[1]:.2f} | |", flush=True)
        for number in range(1, given.upserts + 1):
            ids = np.sort(draw.permutation(given.rows)[: given.changed])
            source = write_rows(work / f"upsert-{number}", "part-0", orders(ids, number))
            measured, _ = engine.measure(
                "upsert", number, "upsert", table=TABLE, source=str(source)
            )
            cpu += measured.cpu
            if number % given.every == 0:
                size = _log_bytes(work) / MIB
                full, lookup = _reads(engine, given, draw)
                each = (full - first[0]) * 1000 / size
                write = cpu / given.every
                print(
                    f"| {number} | {size:.1f} | {write:.2f} | {full:.2f} | {lookup:.2f} "
                    f"| {each:.1f} ms |",
                    flush=True,
                )
                cpu = 0.0
    finally:
        engine.close()


def _reads(
    engine: EngineProcess, given: argparse.Namespace, draw: np.random.Generator
) -> tuple[float, float]:
    """The median CPU seconds of a full read, and of a key lookup."""
    full, lookups = [], []
    for sample in range(given.samples):
        key = int(draw.integers(given.rows))
        read, _ = engine.measure("full read", sample, "full_read", table=TABLE)
        looked, _ = engine.measure("lookup", sample, "lookup", table=TABLE, keys=[key])
        full.append(read.cpu)
        lookups.append(looked.cpu)
    return statistics.median(full), statistics.median(lookups)


def _log_bytes(work: Path) -> int:
    """The size of all log files."""
    return sum(path.stat().st_size for path in (work / ENGINE).rglob(".*.log.*_*"))


if __name__ == "__main__":
    main()
