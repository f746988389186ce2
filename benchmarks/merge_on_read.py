"""``python -m benchmarks.merge_on_read``: tables whose changes go beside the data files.

The machinery is that of ``benchmarks.run``: the engines take turns, and their tables have the same
checksum after each change, or the run fails. On one table come a bulk insert, three upserts and a
delete, with reads after each. In the end its rows are written to a table of their own, and both are
read in turns, which tells what the changes cost a reader: reads get faster the longer a JVM lives.
A small table gets tiny inserts and tiny upserts.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.data import KEY, ORDERING, PARTITION, orders, write_bulk, write_rows
from benchmarks.engine_process import EngineProcess
from benchmarks.engines import ENGINES
from benchmarks.merge_on_read_report import (
    AFRESH,
    BULK_INSERT,
    COMPACTION,
    DELETE,
    FOLDER,
    IN_TURNS,
    LOGGED,
    TINY,
    UPSERTS,
)
from benchmarks.report import write_page
from benchmarks.results import Results
from benchmarks.run import PROGRESS, REPO, Step, agree, change, rotated, run_steps

DEFAULT = ["pyhudi", "pyhudi-mor", "hudi-mor", "delta-dv", "iceberg-mor", "iceberg-v3"]
#: of a round, each as many times as a sample has
LOOKUPS = 3
RANGES = 2


@dataclass(frozen=True, slots=True)
class Inputs:
    """Folders of Parquet files, and what the queries ask for."""

    rows: int
    bulk: Path
    upserts: tuple[Path, ...]
    delete: Path
    tiny_inserts: tuple[Path, ...]
    tiny_upserts: tuple[Path, ...]
    lookups: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...]


def make_inputs(folder: Path, rows: int, tiny: int, tiny_rows: int) -> Inputs:
    """Write all inputs. A later change has later times; four of five rows of an upsert are known.

    Changed keys are drawn from all that the table has then, so some rows change more than once.
    """
    draw = np.random.default_rng(rows)
    bulk, known, upserts = write_bulk(folder / "bulk", rows), rows, []
    for version in range(1, len(UPSERTS) + 1):
        updates = draw.permutation(known)[: rows * 4 // 100]
        ids = np.sort(np.concatenate([updates, np.arange(known, known + rows // 100)]))
        known += rows // 100
        upserts.append(write_rows(folder / f"upsert-{version}", "part-0", orders(ids, version)))
    drawn = draw.permutation(known)
    gone = orders(np.sort(drawn[: rows // 100]), len(UPSERTS) + 1)
    starts = [int(k) for k in draw.integers(0, rows * 99 // 100, RANGES)]
    inserts, changes = _tiny(folder, tiny, tiny_rows)
    return Inputs(
        rows,
        bulk,
        tuple(upserts),
        write_rows(folder / "delete", "part-0", gone.select([KEY, PARTITION, ORDERING])),
        inserts,
        changes,
        # One of them has an update for sure, and perhaps is deleted.
        (int(updates[0]), *(int(k) for k in drawn[1 - LOOKUPS :])),
        tuple((start, start + rows // 100) for start in starts),
    )


def _tiny(folder: Path, number: int, rows: int) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """One input more of inserts, which makes the table, and as many upserts."""
    draw, inserts, upserts = np.random.default_rng(rows), [], []
    for at in range(number + 1):
        ids = np.arange(at * rows, (at + 1) * rows, dtype=np.int64)
        inserts.append(write_rows(folder / f"tiny-insert-{at}", "part-0", orders(ids, 0)))
    for at in range(number):
        known, news = (number + 1) * rows + at * (rows // 5), rows // 5
        old = draw.permutation(known)[: rows - news]
        ids = np.sort(np.concatenate([old, np.arange(known, known + news)]))
        upserts.append(write_rows(folder / f"tiny-upsert-{at}", "part-0", orders(ids, at + 1)))
    return tuple(inserts), tuple(upserts)


def steps_of(inputs: Inputs, table: str, samples: int) -> list[Step]:
    """A round."""

    def reads(after: str, where: str = table, samples: int = samples) -> list[Step]:
        keys, ranges = inputs.lookups, inputs.ranges
        asked = {"keys": list(keys), "table": where}
        between = {"ranges": list(ranges), "table": where}
        return [
            Step(f"full read{after}", "full_read", {"table": where}, samples=samples),
            Step(f"key lookup{after}", "lookup", asked, len(keys), samples=samples),
            Step(f"range filter{after}", "range_filter", between, len(ranges), samples=samples),
        ]

    changes = [
        change(BULK_INSERT, "create", inputs.bulk),
        *(change(n, "upsert", s) for n, s in zip(UPSERTS, inputs.upserts, strict=True)),
        change(DELETE, "delete", inputs.delete),
    ]
    steps = [s for each in changes for s in (each, *reads(f" after {each.operation}"))]
    copy = {"table": fresh(table), "original": table}
    steps.append(Step("write afresh", "copy", copy))
    both = zip(reads(IN_TURNS, table, 1), reads(AFRESH, fresh(table), 1), strict=True)
    steps += [step for pair in both for step in pair] * samples
    compaction = Step(COMPACTION, "compact", changes=True)
    return steps + [replace(s, only=LOGGED) for s in (compaction, *reads(f" after {COMPACTION}"))]


def fresh(table: str) -> str:
    """The name of the table with the same rows that no change has met."""
    return f"{table}_fresh"


def run_round(
    engines: Sequence[EngineProcess], inputs: Inputs, number: int, samples: int, results: Results
) -> None:
    """All steps once, on a fresh table of each engine."""
    table = f"orders_{inputs.rows}_{number}"
    run_steps(engines, table, steps_of(inputs, table, samples), number, results)
    for engine in engines:
        engine.ask("drop", table=fresh(table))


def run_tiny(engines: Sequence[EngineProcess], inputs: Inputs, results: Results) -> None:
    """Tiny writes one after the other: first inserts, then upserts."""
    table, first = "tiny", inputs.tiny_inserts[0]
    for engine in engines:
        engine.ask("create", table=table, source=str(first))
    for name, sources in zip(TINY, (inputs.tiny_inserts[1:], inputs.tiny_upserts), strict=True):
        for number, source in enumerate(sources):
            for engine in rotated(engines, number):
                measured, _ = engine.measure(
                    name, number, name.split()[-1], table=table, source=str(source)
                )
                results.measurements.append(measured)
            if number % PROGRESS == PROGRESS - 1:
                print(f"{number + 1} of {name}", flush=True)
        agree(name, {e.name: e.ask("checksum", table=table) for e in engines})
    for engine in engines:
        engine.ask("drop", table=table)


def run(given: argparse.Namespace, work: Path) -> Results:
    """Warm up, then all rounds and the tiny writes; kept after each of them."""
    results = Results(given.rows, given.rounds, given.tiny, given.tiny_rows, note=given.note)
    inputs = make_inputs(work / "input", given.rows, given.tiny, given.tiny_rows)
    small = make_inputs(work / "warm-up", given.warm_up_rows, 3, given.tiny_rows)
    engines: list[EngineProcess] = []
    try:
        for name in given.engines:
            engines.append(EngineProcess(name, work / name, given.memory))
        print("warm-up, not reported", flush=True)
        unused = Results(0, 0, 0, 0)
        for number in range(given.warm_ups):
            run_round(engines, small, number, 1, unused)
            run_tiny(engines, small, unused)
        print(f"{given.rows} rows", flush=True)
        for number in range(given.rounds):
            run_round(engines, inputs, number, given.samples, results)
            results.save(given.results / FOLDER)
        run_tiny(engines, inputs, results)
        results.save(given.results / FOLDER)
    finally:
        for engine in engines:
            engine.close()
    return results


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, run, keep the results and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.merge_on_read", description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--samples", type=int, default=3, help="reads of each kind after a change")
    parser.add_argument("--warm-ups", type=int, default=1, help="rounds that are not reported")
    parser.add_argument("--warm-up-rows", type=int, default=100_000)
    parser.add_argument("--tiny", type=int, default=30, help="inserts, and as many upserts")
    parser.add_argument("--tiny-rows", type=int, default=100)
    parser.add_argument("--engines", nargs="+", choices=list(ENGINES), default=DEFAULT)
    parser.add_argument("--memory", default="2g", help="heap of each engine's JVM")
    parser.add_argument("--work", type=Path, help="folder for the data; default: a temporary one")
    parser.add_argument("--note", default="", help="what a reader must know of the machine")
    parser.add_argument("--results", type=Path, default=REPO / "benchmarks" / "results")
    parser.add_argument("--page", type=Path, default=REPO / "docs" / "benchmarks.md")
    given = parser.parse_args(arguments)
    work = Path(tempfile.mkdtemp(prefix="merge-on-read-", dir=given.work))
    try:
        run(given, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    write_page(given.results, given.page)
    print(f"written: {given.page}")


if __name__ == "__main__":
    main()
