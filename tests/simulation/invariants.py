"""The published table: which invariant holds in which configuration, made by running them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.simulation.checkers import CHECKERS
from tests.simulation.explore import Explored
from tests.simulation.guards import Case
from tests.simulation.residuals import RESIDUALS
from tests.simulation.scenarios import Row

PAGE = Path(__file__).parents[2] / "docs" / "invariants.md"
INVARIANTS = tuple(checker.__name__.replace("_", " ") for checker in CHECKERS)

HEAD = """\
<!-- Made by `make simulate`, which runs what the table tells. -->

# What holds, and where

The transaction code is run under a scheduler that tries the orders of its calls of storage, lock
and clock: small worlds exhaustively within a bound, larger ones by seed, with crashes anywhere,
lost requests and replies, requests that land late, stops longer than the lease, clocks apart,
instant times that collide and locks that expire (`tests/simulation`). Five things must hold in
each run:
"""
MEANINGS = {
    "nothing live is deleted": "every file that a completed commit names is there",
    "a key has one home": "no reader finds a key in two file groups",
    "nothing committed is lost": "what a writer was told to be committed is in the rows",
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
) -> str:
    """The page as Markdown."""
    parts = [HEAD, *(f"* **{name}**: {MEANINGS[name]};" for name in INVARIANTS), ""]
    parts += _table(("configuration", *INVARIANTS, "schedules"), [_line(*one) for one in searched])
    reasons = [f"* {row.name}: {row.because}." for row, _ in searched if row.because]
    parts += ["", "*holds*: never found broken in so many runs by seed. A search for what cannot"]
    parts += ["hold ends where all of it is found:", "", *reasons]
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


def _line(row: Row, explored: Explored) -> tuple[str, ...]:
    return (row.name, *cells(row), f"{explored.schedules:,}")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]
