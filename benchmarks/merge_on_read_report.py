"""The section "Merge-on-read" of the result page, from what ``benchmarks.merge_on_read`` found."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.engines import ENGINES
from benchmarks.results import Results, load
from benchmarks.tables import Value, cpu, operations, sizes, table, wall

FOLDER = "merge_on_read"
UPSERTS = ("upsert 1", "upsert 2", "upsert 3")
DELETE = "delete"
AFRESH = ", written afresh"
IN_TURNS = " in turns with it"
COMPACTION = "compaction"
BULK_INSERT = "bulk insert"
TINY = ("tiny insert", "tiny upsert")
READS = ("full read", "key lookup", "range filter")
OURS, COPIES = "pyhudi-mor", "pyhudi"
#: who compacts: Apache Hudi plans none before its fifth delta commit
LOGGED = (OURS,)
ICEBERG = "iceberg-mor"

INTRO = """## Merge-on-read

`python -m benchmarks.merge_on_read` has the engines take turns on the rows of the other operations,
on tables whose changes go beside the data files, with pyhudi's copy-on-write next to them. An
upsert is 5 % of the rows, of which four of five are known and drawn from the whole table, and one
is new; the delete is of 1 %. Then the rows are written to a table of their own, *written afresh*,
and the table is read *in turns with it*, as reads get faster the longer a JVM lives.
Only after that pyhudi compacts its table. Tiny writes are of a small table.
After each change the checksums of the tables were equal, and so was each answer. Ratios in cells
are to pyhudi's merge-on-read."""


def section(folder: Path) -> str:
    """The section, or "" without findings."""
    runs = sorted((load(file) for file in folder.glob("*.json")), key=lambda run: run.rows)
    if not runs:
        return ""
    names = list(dict.fromkeys(name for run in runs for name in run.engines()))
    notes = table(("engine", "set up"), ([ENGINES[e].label, ENGINES[e].notes] for e in names))
    return "\n\n".join([INTRO, notes, *(part for run in runs for part in _run(run))])


def _run(run: Results) -> Iterable[str]:
    yield f"### {run.rows / 1e6:g} M rows beside logs: what is to be reached"
    yield f"Rounds: {run.rounds}; tiny writes: {run.appends} of {run.append_rows} rows."
    yield table(("", "CPU", "wall", "to reach"), goals(run))
    if run.note:
        yield run.note
    yield "CPU seconds of the process tree:\n\n" + operations(run, cpu, OURS)
    yield "Wall seconds:\n\n" + operations(run, wall, OURS)
    if run.sizes:
        yield "Size after the bulk insert:\n\n" + sizes(run)


def goals(run: Results) -> list[tuple[str, str, str, str]]:
    """Name, ratios of CPU and wall time, and the ratio to reach; of engines that took part."""
    engines = run.engines()
    peers = [e for e in engines if e not in (OURS, COPIES)]
    copies, iceberg = ([e for e in engines if e == name] for name in (COPIES, ICEBERG))
    asked: list[tuple[str, Sequence[str], Sequence[str], Sequence[str], float]] = []
    for name, each in (("three upserts", UPSERTS), (DELETE, (DELETE,))):
        asked.append((f"{name}, of the best peer", each, each, peers, 0.2))
        asked.append((f"{name}, of copy-on-write", each, each, copies, 0.3))
    for read, most in zip(READS, (1.15, 1.1, 1.1), strict=True):
        name = f"{read} after all changes, of the same written afresh"
        asked.append((name, [f"{read}{IN_TURNS}"], [f"{read}{AFRESH}"], [OURS], most))
    after = [f"{READS[0]} after {DELETE}"]
    asked.append((f"{READS[0]} after all changes, of the best peer's", after, after, peers, 1))
    asked.append((f"{COMPACTION}, of our bulk insert", [COMPACTION], [BULK_INSERT], [OURS], 1))
    asked.append((f"{TINY[0]}, of Iceberg", TINY[:1], TINY[:1], iceberg, 0.7))
    found = []
    for name, ours, theirs, others, most in asked:
        known = others and OURS in engines and all(run.of(each, OURS) for each in (*ours, *theirs))
        if known:
            by_cpu, by_wall = (_ratio(run, ours, theirs, others, value) for value in (cpu, wall))
            found.append((name, f"{by_cpu:.2f}x", f"{by_wall:.2f}x", f"{most:g}x"))
    return found


def _ratio(
    run: Results, ours: Sequence[str], theirs: Sequence[str], others: Sequence[str], value: Value
) -> float:
    """Our median, summed over operations, to the least of the ``others``."""

    def total(names: Sequence[str], engine: str) -> float:
        return sum(statistics.median(map(value, run.of(name, engine))) for name in names)

    return total(ours, OURS) / min(total(theirs, engine) for engine in others)
