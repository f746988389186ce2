"""`make simulate`: explore far, print what was found, and publish docs/invariants.md.

``python -m tests.simulation --seeds N`` sets how many seeds each configuration gets, ``--near``
explores no further than `make test` does. Ends with 1 where anything was found that the table
does not tell; its schedule is printed, and runs again by ``explore.judge``.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator, Sequence

from tests.simulation.explore import Explored, explore, shrink
from tests.simulation.guards import CASES, GUARDS, Case, off
from tests.simulation.history import history, report
from tests.simulation.invariants import PAGE, page
from tests.simulation.rows import Row
from tests.simulation.scenarios import FAR, NEAR, ROWS
from tests.simulation.service_guards import SERVICE_CASES, SERVICE_GUARDS
from tests.simulation.service_scenarios import SERVICE_ROWS


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def guards() -> Iterator[tuple[Case, Explored, str]]:
    for case in (*CASES, *SERVICE_CASES):
        with off(case.guard, GUARDS | SERVICE_GUARDS):
            explored = case.search()
            told = history(shrink(explored.findings[-1], case.broken), case.broken)
        say(f"\nwithout '{case.guard}': {explored}\n{told}")
        yield case, explored, told


def exhausted(near: bool) -> Iterator[tuple[str, Explored]]:
    for name, scenario, bound in NEAR if near else FAR:
        explored = explore(scenario, bound)
        say(f"2 writers, 2 keys, {name}: {explored}")
        yield name, explored


def searched(rows: Sequence[Row], seeds: range) -> Iterator[tuple[Row, Explored]]:
    for row in rows:
        explored = row.search(seeds)
        rate = explored.schedules / max(explored.seconds, 0.001)
        say(f"{row.name}: {explored.schedules} schedules, {rate:.0f}/s")
        yield row, explored


def main() -> int:
    given = argparse.ArgumentParser(prog="python -m tests.simulation")
    given.add_argument("--seeds", type=int, default=3_000)
    given.add_argument("--near", action="store_true")
    options = given.parse_args()
    logging.disable(logging.CRITICAL)
    without = list(guards())
    by_seed = list(searched(ROWS, range(options.seeds)))
    beside = list(searched(SERVICE_ROWS, range(options.seeds)))
    whole = list(exhausted(options.near))
    wrong = [(f, f.broken - row.broken) for row, e in by_seed + beside for f in e.findings]
    wrong += [(f, f.broken) for _, e in whole for f in e.findings]
    wrong = [(finding, beyond) for finding, beyond in wrong if beyond]
    for finding, beyond in wrong:
        say(f"\nWRONG: {', '.join(beyond)}\n{report(finding, min(beyond))}")
    if not wrong:
        PAGE.write_text(page(by_seed, whole, without, beside), encoding="utf-8")
        say(f"{PAGE.name} is written")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
