"""``python -m benchmarks.concurrency``: writers beside each other on one table, by engine.

The writers are threads of one Spark session, so that what is measured is the protocol and not the
start of processes. In the first race each writer upserts rows of a region of its own: nothing need
conflict. In the second all of them change the same rows: every write but the first of a moment has
lost a race, and what counts is how many land and how soon. An engine's own retries are on where it
has any (twenty); a write that still fails counts as failed. Everything that an engine acknowledged
is in the table afterwards, or the run fails.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import Ids, make_inputs, orders, region_of, write_rows
from benchmarks.engine_process import EngineProcess
from benchmarks.engines import ENGINES


def make_races(
    folder: Path, rows: int, writers: int, writes: int, size: int
) -> dict[str, list[list[str]]]:
    """Inputs by race, writer and turn: ``size`` rows each that are in the table already."""
    ids = np.arange(rows, dtype=np.int64)
    region = region_of(ids)

    def source(race: str, writer: int, turn: int, chosen: Ids) -> str:
        place = folder / f"{race}-{writer}-{turn}"
        # Each write carries a later version than those of the turns before it.
        return str(write_rows(place, "part-0", orders(chosen, 1 + turn * writers + writer)))

    apart = [ids[region == writer][:size] for writer in range(writers)]
    shared = ids[:size]
    return {
        "regions of their own": [
            [source("apart", w, t, apart[w]) for t in range(writes)] for w in range(writers)
        ],
        "the same rows": [
            [source("shared", w, t, shared) for t in range(writes)] for w in range(writers)
        ],
    }


def row(engine: str, race: str, answer: dict[str, Any]) -> str:
    """A line of the page's table."""
    found = answer["result"]
    landed = [one["seconds"] for one in found if not one["error"]]
    failed = [one["error"] for one in found if one["error"]]
    seconds = answer["seconds"]
    middle = f"{statistics.median(landed):.2f}" if landed else "none"
    worst = f"{max(landed):.2f}" if landed else "none"
    return (
        f"| {race} | {ENGINES[engine].label} | {len(landed)} | {len(failed)} | {seconds:.1f} | "
        f"{len(landed) / seconds:.2f} | {middle} (at most {worst}) |"
    )


def main() -> None:
    """Both races on a fresh table of each engine, in turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--writes", type=int, default=5)
    parser.add_argument("--size", type=int, default=1_000)
    parser.add_argument("--memory", default="2g")
    parser.add_argument("--engines", nargs="+", default=["pyhudi", "hudi", "delta", "iceberg"])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="concurrency-") as scratch:
        work = Path(scratch)
        inputs = make_inputs(work / "input", given.rows, 0, 1)
        races = make_races(work / "races", given.rows, given.writers, given.writes, given.size)
        engines = [EngineProcess(name, work / name, given.memory) for name in given.engines]
        for engine in engines:
            engine.ask("create", table="warm", source=str(inputs.bulk))
            engine.ask("upsert", table="warm", source=str(inputs.upsert))
        print("| writers change | engine | landed | failed | s | commits/s | s a write |")
        print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
        for number, (race, sources) in enumerate(races.items()):
            for engine in engines:
                table = f"race_{number}"
                engine.ask("create", table=table, source=str(inputs.bulk))
                answer = engine.ask("race", table=table, sources=sources)
                print(row(engine.name, race, answer), flush=True)
                for one in {o["error"] for o in answer["result"] if o["error"]}:
                    print(f"<!-- {engine.name}: {one} -->", flush=True)
                _check(engine, table, given.rows)
        for engine in engines:
            engine.close()


def _check(engine: EngineProcess, table: str, rows: int) -> None:
    count = int(engine.ask("checksum", table=table)[0])
    if count != rows:
        raise SystemExit(f"{engine.name} has {count} rows after {table}, and not {rows}")


if __name__ == "__main__":
    main()
