"""The published table: which invariant holds in which configuration, made by running them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.simulation.checkers import CHECKERS
from tests.simulation.explore import Explored
from tests.simulation.guards import Case
from tests.simulation.residuals import RESIDUALS
from tests.simulation.rows import Row

PAGE = Path(__file__).parents[2] / "docs" / "invariants.md"
INVARIANTS = tuple(checker.__name__.replace("_", " ") for checker in CHECKERS)

HEAD = """\
<!-- Made by `make simulate`, which runs what the table tells. -->

# What holds, and where

The transaction code is run under a scheduler that tries the orders of its calls of storage, lock
and clock: small worlds exhaustively within a bound, larger ones by seed, with crashes anywhere,
lost requests and replies, requests that land late, stops longer than the lease, clocks apart,
instant times that collide and locks that expire (`tests/simulation`). UPDATEs compute their rows
from a state that the planner has forgotten by the time of their commit: it was restarted, or other
queries pushed the pin out. An application with two tables writes both at once, in two threads that
share its caches and its service of markers.

`make simulate` made this page: it runs as many seeds as the tables say, and every schedule within
the bounds. `make test` spends its schedules where something must be found: each guard is switched
off and each *broken* is found again. Where nothing may be found it runs 40 seeds of each
configuration, 30 beside each service of Apache Hudi's, 40 with each guard against them on, 200
beside each gap that no guard covers, and the schedules within three of the bounds.

Six things must hold in each run:
"""
SERVICES = """\
## Beside Apache Hudi's services

The same writers, and readers that list the timeline and then the files, while programs do on the
timeline and among the files what Apache Hudi 1.2.0's services do, in its order and under its lock
(`tests/simulation/hudi_services.py`, `hudi_archive.py`, `hudi_compact.py`). They crash and lose
requests and replies like all others; a service that died is run again. A reader or writer that
finds its files cleaned away ends with an error and no row.

A compaction that was planned, or died on its way, is on the timeline of a table that we write: no
writer rolls it back, and its files are no rows. Where a compaction completes, on a merge-on-read
table, there are readers only, as pyhudi writes no such table. A clustering is planned under the
lock, and other services run beside it; in its rows nothing crashes or is lost.
""".rstrip().split("\n")
MEANINGS = {
    "nothing live is deleted": "every file that a completed commit names is there",
    "a key has one home": "no reader finds a key in two file groups",
    "nothing committed is lost": "what a writer was told to be committed is in the rows, unless a "
    "restore or rollback that came later undid it",
    "what was undone stays undone": "no row of a commit that a restore or rollback undid returns",
    "every read is serial": "there is one order of the commits of which each read shows a prefix",
    "every instant settles": "one settling after the last writer leaves nothing half done: no "
    "pending instant, file, marker or heartbeat",
}


def cells(row: Row) -> list[str]:
    """What the table says of a configuration, by invariant."""
    return ["broken" if name in row.broken else "holds" for name in INVARIANTS]


def page(
    searched: Sequence[tuple[Row, Explored]],
    exhausted: Sequence[tuple[str, Explored]],
    guards: Sequence[tuple[Case, Explored, str]],
    beside: Sequence[tuple[Row, Explored]] = (),
) -> str:
    """The page as Markdown; ``beside`` are the runs beside Apache Hudi's services."""
    parts = [HEAD, *(f"* **{name}**: {MEANINGS[name]};" for name in INVARIANTS), ""]
    parts += _table(("configuration", *INVARIANTS, "schedules"), [_line(*one) for one in searched])
    parts += ["", "*holds*: never found broken in so many runs by seed. A search for what cannot"]
    parts += ["hold ends where all of it is found:", *_reasons([row for row, _ in searched])]
    parts += ["", *SERVICES, ""]
    parts += _table(("beside", *INVARIANTS, "schedules"), [_line(*one) for one in beside])
    parts += _reasons([row for row, _ in beside])
    parts += ["", "## What no guard covers", ""]
    parts += ["Found wherever it may happen, and nothing else is:", ""]
    parts += [f"* {r.name}: then it does not hold that {r.breaks}." for r in RESIDUALS]
    parts += ["", "## Every schedule within a bound", ""]
    parts += ["Two writers that change two keys of one file group, all guards on:", ""]
    parts += _table(
        ("at most", "schedules", "to their end", "states", "steps", "wrong"),
        [
            (n, f"{e.schedules:,}", f"{e.whole:,}", f"{e.states:,}", f"{e.steps:,}", "none")
            for n, e in exhausted
        ],
    )
    parts += ["", "Schedules that end early come to a state that has been explored before.", ""]
    parts += ["## Each guard switched off", ""]
    for case, explored, told in guards:
        parts += [f"### {case.guard}", "", f"Found after {explored.schedules} schedules:", ""]
        parts += ["```text", told, "```", ""]
    return "\n".join(parts).rstrip() + "\n"


def _reasons(rows: Sequence[Row]) -> list[str]:
    told = [f"* {row.name}: {row.because}." for row in rows if row.because]
    return ["", *told] if told else []


def _line(row: Row, explored: Explored) -> tuple[str, ...]:
    return (row.name, *cells(row), f"{explored.schedules:,}")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]
