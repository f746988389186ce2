"""``python -m benchmarks.changes``: what it costs to read what one commit of one per cent changed.

Each engine makes the same table, then changes one per cent of its rows: by an upsert whose rows are
spread over all files, by one whose rows are in one of ten partitions, and by a delete. After each
commit the engines take turns to read the rows that it left, and its change data with the images
before and after. The facts of the change data must be equal, or the run fails.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.data import KEY, ORDERING, PARTITION, orders, region_of, write_bulk, write_rows
from benchmarks.engine_process import EngineProcess
from benchmarks.engines import ENGINES
from benchmarks.results import Measurement
from benchmarks.run import agree, tell

COMMITS = (("spread", "upsert"), ("one partition", "upsert"), ("delete", "delete"))
READS = (("rows", "changed"), ("changes", "changes"))
DEFAULT = ["pyhudi-logs", "pyhudi-changes", "delta-feed", "iceberg-changelog"]


def make_inputs(folder: Path, rows: int) -> dict[str, Path]:
    """The bulk and the input of each commit: four of five rows are updates, one is new."""
    draw = np.random.default_rng(rows)
    found = {"bulk": write_bulk(folder / "bulk", rows)}
    touched, updates = draw.permutation(rows).astype(np.int64), rows * 8 // 1000
    news = np.arange(rows, rows + rows * 20 // 1000, dtype=np.int64)
    spread = np.concatenate([touched[:updates], news[: rows // 500]])
    inside, others = touched[updates:], news[rows // 500 :]
    near = np.concatenate([
        inside[region_of(inside) == 3][:updates], others[region_of(others) == 3][: rows // 500]
    ])  # fmt: skip
    gone = np.setdiff1d(touched[-rows // 50 :], near)[: rows // 100]
    for (name, operation), keys in zip(COMMITS, (spread, near, gone), strict=True):
        table = orders(np.sort(keys), 1)
        wanted = [KEY, PARTITION, ORDERING] if operation == "delete" else table.column_names
        found[name] = write_rows(folder / name.replace(" ", "-"), "part-0", table.select(wanted))
    return found


def run_round(
    engines: Sequence[EngineProcess], inputs: dict[str, Path], number: int, samples: int
) -> list[Measurement]:
    """All commits on a fresh table, and the reads after each."""
    table, found = f"orders_{number}", []
    for engine in engines:
        engine.ask("create", table=table, source=str(inputs["bulk"]))
    for commit, operation in COMMITS:
        for engine in engines:
            engine.ask(operation, table=table, source=str(inputs[commit]))
        agree(commit, {e.name: e.ask("change_facts", table=table) for e in engines})
        for name, method in READS:
            for sample in range(samples):
                cut = (number + sample) % len(engines)
                for engine in [*engines[cut:], *engines[:cut]]:
                    label = f"{commit}: {name}"
                    measured, _ = engine.measure(label, number, method, table=table)
                    found.append(measured)
                    tell(measured)
    for engine in engines:
        engine.ask("drop", table=table)
    return found


def table_of(measured: Sequence[Measurement], engines: Sequence[str]) -> str:
    """Markdown: medians with their spread, and their ratios to those of the first engine."""
    lines = []
    for title, value in (("CPU seconds", "cpu"), ("wall seconds", "seconds")):
        lines += [
            f"| {title} | " + " | ".join(ENGINES[e].label for e in engines) + " |",
            "| --- " * (len(engines) + 1) + "|",
        ]
        for operation in dict.fromkeys(m.operation for m in measured):
            cells, first = [], 0.0
            for engine in engines:
                values = [
                    getattr(m, value)
                    for m in measured
                    if (m.operation, m.engine) == (operation, engine)
                ]
                middle = statistics.median(values)
                cell = f"{middle:.2f} ({min(values):.2f} to {max(values):.2f})"
                if engine == engines[0]:
                    first = middle
                else:
                    cell += f" **{middle / first:.2f}x**"
                cells.append(cell)
            lines.append(f"| {operation} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, run the rounds, print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.changes", description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--samples", type=int, default=3, help="reads of each kind in a round")
    parser.add_argument("--engines", nargs="+", choices=list(ENGINES), default=DEFAULT)
    parser.add_argument("--memory", default="2g", help="heap of each engine's JVM")
    options = parser.parse_args(arguments)
    work = Path(tempfile.mkdtemp(prefix="benchmarks-"))
    engines: list[EngineProcess] = []
    measured: list[Measurement] = []
    try:
        small = make_inputs(work / "warm-up", max(50_000, options.rows // 20))
        inputs = make_inputs(work / "input", options.rows)
        for name in options.engines:
            engines.append(EngineProcess(name, work / name, options.memory))
        run_round(engines, small, 0, options.samples)
        for number in range(options.rounds):
            measured += run_round(engines, inputs, number + 1, options.samples)
            print(f"round {number + 1} of {options.rounds}", flush=True)
    finally:
        for engine in engines:
            engine.close()
        shutil.rmtree(work, ignore_errors=True)
    print(table_of(measured, options.engines))


if __name__ == "__main__":
    main()
