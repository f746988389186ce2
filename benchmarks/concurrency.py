"""``python -m benchmarks.concurrency``: writers beside each other on one table, by engine.

The writers are threads of one Spark session, so that what is measured is the protocol and not the
start of processes. In the first race each writer upserts rows of a region of its own: nothing need
conflict. In the second all of them change the same rows: every write but the first of a moment has
lost a race, and what counts is how many land and how soon. Then single writes are overtaken on
purpose (``benchmarks.overtaken``). At the end UPDATE statements add to the same rows. An engine's
own retries are on where it has any (twenty); a write of a race that still fails counts as failed.
No row may be lost or doubled, or the run fails.

The findings go to ``benchmarks/results/concurrency/`` and from there to the page.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import Ids, make_inputs, orders, region_of, write_rows
from benchmarks.engine_process import EngineProcess
from benchmarks.engines import ENGINES

RESULTS = Path(__file__).with_name("results") / "concurrency" / "findings.json"
PAGE = Path(__file__).parents[1] / "docs" / "concurrency_benchmark.md"
APART, SHARED = "regions of their own", "the same rows"


@dataclass(slots=True)
class Findings:
    """What a run measured; ``note`` says what a reader must know of the machine meanwhile."""

    rows: int
    writers: int
    writes: int
    size: int
    rounds: int
    note: str = ""
    #: lines of the page's tables
    races: list[tuple[str, ...]] = field(default_factory=list)
    overtaken: list[tuple[str, ...]] = field(default_factory=list)
    counted: list[tuple[str, ...]] = field(default_factory=list)
    #: of the run that made the last table
    count_note: str = ""


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
        APART: [[source("apart", w, t, apart[w]) for t in range(writes)] for w in range(writers)],
        SHARED: [[source("shared", w, t, shared) for t in range(writes)] for w in range(writers)],
    }


def make_overtakings(folder: Path, size: int, rounds: int) -> list[str]:
    """Three inputs a round, all of the same rows, each in a later version."""
    ids = np.arange(size, dtype=np.int64)
    return [
        str(write_rows(folder / f"held-{turn}", "part-0", orders(ids, 1 + turn)))
        for turn in range(3 * rounds)
    ]


def row(race: str, engine: str, answer: dict[str, Any]) -> tuple[str, ...]:
    """A line of the table of races, from what ``benchmarks.worker`` says of one."""
    landed = [one["seconds"] for one in answer["result"] if not one["error"]]
    failed = sum(bool(one["error"]) for one in answer["result"])
    seconds = answer["seconds"]
    each = f"{statistics.median(landed):.2f} (at most {max(landed):.2f})" if landed else "none"
    return (
        race,
        ENGINES[engine].label,
        str(len(landed)),
        str(failed),
        f"{seconds:.1f}",
        f"{len(landed) / seconds:.2f}",
        each,
    )


def heal_row(engine: str, rounds: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """A line of the table of overtaken writes."""
    alone, lost = ([one[kind]["seconds"] for one in rounds] for kind in ("alone", "overtaken"))
    errors = [one["overtaken"]["errors"] for one in rounds]
    own = "itself" if not any(errors) else f"the user, {sum(errors)} times in {len(errors)} writes"
    healing = statistics.median(lost) - statistics.median(alone)
    return (ENGINES[engine].label, _spread(alone), _spread(lost), f"{healing:.2f}", own)


def count_row(engine: str, answer: dict[str, Any]) -> tuple[str, ...]:
    """A line of the table of counters, from what ``benchmarks.worker`` says of the statements."""
    landed, failed, seconds, _, each = row("", engine, answer)[2:]
    lost = int(landed) - answer["counted"]
    return (ENGINES[engine].label, landed, failed, str(lost), seconds, each)


def page(found: Findings) -> str:
    """``docs/concurrency_benchmark.md``."""
    return f"""# Writers beside each other

`python -m benchmarks.concurrency` writes this page (`--help` for sizes and engines). Each engine
has a table of {found.rows:,} rows in ten regions, copy-on-write, on local disk; a write upserts
{found.size:,} rows that are there. Writers are threads of one Spark 3.5 session with two cores, so
that the protocol is measured and not the start of processes. Apache Hudi and pyhudi have optimistic
concurrency on and try a lost race again up to twenty times; Apache Hudi has its in-process lock,
pyhudi its default, the lock file. Delta and Iceberg are as they come: neither tries a MERGE again
whose files another one has changed. Their MERGE is on id and region and names no region as a
constant, so neither can tell beforehand that it reads no other one. After each race no row was lost
and none double.
{found.note and chr(10) + found.note + chr(10)}
## {found.writers} writers, {found.writes} writes each

{_table(RACE_HEAD, found.races)}

*failed* are writes that ended with an error of the engine after its own retries. *commits/s* are
committed writes by the time from the first to the last; *s a write* is the median of those that
landed, waits and retries included.

## A write that is overtaken

A write has begun and waits for its input. Another one commits changes of the same rows. Then the
input comes, and the clock runs until the rows are in the table. If an engine does not try again by
itself, a loop does, as its users would. *alone* is the same write without another writer; the
difference of the two is the cost of the conflict. {found.rounds} rounds each: median, smallest and
largest.

{_table(HEAL_HEAD, found.overtaken)}

## Statements that count

Each writer adds one to the same rows by `UPDATE ... SET amount = amount + 1`, again and again. If
another statement has changed the rows meanwhile, an engine must compute the statement again or
refuse it. *lost* are statements that succeeded but that the rows do not show. pyhudi evaluates a
statement again after a lost race; users of the other engines must run a refused statement again.
Apache Hudi has its retries on, as in the races above; by default they are off.
{found.count_note and chr(10) + found.count_note + chr(10)}
{_table(COUNT_HEAD, found.counted)}
"""


RACE_HEAD = ("writers change", "engine", "landed", "failed", "s", "commits/s", "s a write")
COUNT_HEAD = ("engine", "landed", "failed", "lost", "s", "s a statement")
HEAL_HEAD = ("engine", "alone, s", "overtaken, s", "cost of the conflict, s", "tried again by")


def _spread(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *rows))


def main() -> None:
    """Races, overtaken writes and counters on a fresh table of each engine, in turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--writes", type=int, default=5)
    parser.add_argument("--size", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", default="2g")
    parser.add_argument("--note", default="")
    parser.add_argument("--engines", nargs="+", default=["pyhudi", "hudi", "delta", "iceberg"])
    parser.add_argument(
        "--counters", action="store_true", help="these alone, beside the findings that are there"
    )
    given = parser.parse_args()
    found = Findings(given.rows, given.writers, given.writes, given.size, given.rounds, given.note)
    if given.counters:
        found = Findings(**json.loads(RESULTS.read_text(encoding="utf-8")))
        found.counted, found.count_note = [], given.note
    with tempfile.TemporaryDirectory(prefix="concurrency-") as scratch:
        work = Path(scratch)
        engines = [EngineProcess(name, work / name, given.memory) for name in given.engines]
        try:
            _warm_up(found, engines, work)
            if not given.counters:
                _measure(found, engines, work)
            _count_up(found, engines, work)
        finally:
            for engine in engines:
                engine.close()


def _publish(found: Findings) -> None:
    """Write down what there is so far."""
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(asdict(found), indent=1) + "\n")
    PAGE.write_text(page(found))


def _warm_up(found: Findings, engines: Sequence[EngineProcess], work: Path) -> None:
    inputs = make_inputs(work / "input", found.rows, 0, 1)
    for engine in engines:
        engine.ask("create", table="warm", source=str(inputs.bulk))
        engine.ask("upsert", table="warm", source=str(inputs.upsert))


def _measure(found: Findings, engines: Sequence[EngineProcess], work: Path) -> None:
    races = make_races(work / "races", found.rows, found.writers, found.writes, found.size)
    held = make_overtakings(work / "held", found.size, found.rounds)
    for number, (race, sources) in enumerate(races.items()):
        for engine in engines:
            table = f"race_{number}"
            _create(engine, table, work)
            answer = engine.ask("race", table=table, sources=sources)
            found.races.append(row(race, engine.name, answer))
            print(found.races[-1], flush=True)
            _told(engine, answer)
            _check(engine, table, found.rows)
            _publish(found)
    for engine in engines:
        _create(engine, "held", work)
        rounds = engine.ask("overtaken", table="held", sources=held)
        found.overtaken.append(heal_row(engine.name, rounds))
        print(found.overtaken[-1], flush=True)
        _check(engine, "held", found.rows)
        _publish(found)


def _count_up(found: Findings, engines: Sequence[EngineProcess], work: Path) -> None:
    for engine in engines:
        _create(engine, "counted", work)
        sizes = {"writers": found.writers, "writes": found.writes, "size": found.size}
        answer = engine.ask("count_up", table="counted", **sizes)
        found.counted.append(count_row(engine.name, answer))
        print(found.counted[-1], flush=True)
        _told(engine, answer)
        _check(engine, "counted", found.rows)
        _publish(found)


def _create(engine: EngineProcess, table: str, work: Path) -> None:
    engine.ask("create", table=table, source=str(work / "input" / "bulk"))


def _told(engine: EngineProcess, answer: dict[str, Any]) -> None:
    for error in {one["error"] for one in answer["result"] if one["error"]}:
        print(f"  {engine.name}: {error}", flush=True)


def _check(engine: EngineProcess, table: str, rows: int) -> None:
    count = int(engine.ask("checksum", table=table)[0])
    if count != rows:
        raise SystemExit(f"{engine.name} has {count} rows after {table}, and not {rows}")


if __name__ == "__main__":
    main()
