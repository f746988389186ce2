"""`make simulate`: explore far, print what was found, and publish docs/invariants.md.

``python -m tests.simulation --seeds N`` sets how many seeds each configuration gets, ``--near``
explores no further than `make test` does, ``--own`` explores pyhudi's own services alone and
renews their sections of the page, ``--streams`` does so with streams, ``--logs`` with merge-on-read
tables, and ``--shared`` with writers without coordination alone. The page's parts are explored in
``--jobs`` processes, one part in one; what is printed and published is the same whatever their
number. Ends with 1 where anything was found that the table does not tell; its schedule is printed,
and runs again by ``explore.judge``.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from typing import Final, TextIO

from tests.simulation.compaction_guards import COMPACTION_CASES, COMPACTION_GUARDS
from tests.simulation.explore import Bound, Explored, Finding, explore, shrink
from tests.simulation.guards import CASES, GUARDS, Case, off
from tests.simulation.hand_over_guards import ALL_STREAM_CASES, ALL_STREAM_GUARDS
from tests.simulation.hand_over_scenarios import ALL_STREAM_ROWS
from tests.simulation.history import history, report
from tests.simulation.invariants import (
    PAGE,
    log_part,
    page,
    shared_part,
    stream_part,
    with_log_part,
    with_own_part,
    with_shared_part,
    with_stream_part,
)
from tests.simulation.log_compaction_guards import LOG_COMPACTION_CASES, LOG_COMPACTION_GUARDS
from tests.simulation.log_guards import LOG_CASES, LOG_GUARDS
from tests.simulation.log_scenarios import LOG_ROWS
from tests.simulation.own_scenarios import OWN_ROWS
from tests.simulation.own_worlds import ALL_OWN_CASES, ALL_OWN_GUARDS
from tests.simulation.rows import Row
from tests.simulation.scenarios import FAR, NEAR, ROWS
from tests.simulation.service_guards import SERVICE_CASES, SERVICE_GUARDS
from tests.simulation.service_scenarios import SERVICE_ROWS
from tests.simulation.shared_guards import SHARED_CASES, SHARED_GUARDS
from tests.simulation.shared_scenarios import SHARED_ROWS
from tests.simulation.world import Scenario

ALL_GUARDS: Final = (
    GUARDS
    | SERVICE_GUARDS
    | ALL_OWN_GUARDS
    | ALL_STREAM_GUARDS
    | LOG_GUARDS
    | COMPACTION_GUARDS
    | LOG_COMPACTION_GUARDS
    | SHARED_GUARDS
)
ALL_LOG_CASES: Final = (*LOG_CASES, *COMPACTION_CASES, *LOG_COMPACTION_CASES)
ALL_CASES: Final = (*CASES, *SERVICE_CASES, *ALL_OWN_CASES)


@dataclass(frozen=True, slots=True)
class Told:
    """What came of one part, as one process tells it to another."""

    explored: Explored
    said: str
    history: str = ""
    wrong: tuple[str, ...] = ()


Part = Callable[[], Told]
#: what the processes share: they are forked once it is filled
PARTS: Final[list[Part]] = []


def without(case: Case) -> Told:
    """Look for the anomaly of a guard that is switched off."""
    with off(case.guard, ALL_GUARDS):
        explored = case.search()
        told = history(shrink(explored.findings[-1], case.broken), case.broken)
    return _told(explored, f"without '{case.guard}': {explored}\n{told}\n", told)


def exhausted(name: str, scenario: Scenario, bound: Bound) -> Told:
    """Every schedule within the bound."""
    explored = explore(scenario, bound)
    said = f"2 writers, 2 keys, {name}: {explored}"
    return _told(explored, said, wrong=[(f, f.broken) for f in explored.findings])


def searched(row: Row, seeds: range) -> Told:
    """As many runs as there are seeds."""
    explored = row.search(seeds)
    said = f"{row.name}: {explored.schedules} schedules"
    return _told(explored, said, wrong=[(f, f.broken - row.broken) for f in explored.findings])


def _told(
    explored: Explored,
    said: str,
    told: str = "",
    wrong: list[tuple[Finding, frozenset[str]]] | None = None,
) -> Told:
    """Findings stay in the process that found them: only their stories are told."""
    stories = [
        f"WRONG: {', '.join(sorted(beyond))}\n{said}\n{report(finding, min(beyond))}"
        for finding, beyond in wrong or ()
        if beyond
    ]
    return Told(replace(explored, findings=[]), said, told, tuple(stories))


def run(parts: Sequence[Part], jobs: int) -> list[Told]:
    """What each of the parts tells, said in their order; how long each took is an aside."""
    found = []
    PARTS[:] = parts
    with ProcessPoolExecutor(jobs, get_context("fork")) as pool:
        for told in pool.map(_run, range(len(parts))):
            say(told.said)
            say(f"{told.explored.seconds:.0f} s CPU", sys.stderr)
            found.append(told)
    return found


def _run(number: int) -> Told:
    return PARTS[number]()


def say(text: str, to: TextIO | None = None) -> None:
    to = to or sys.stdout
    to.write(f"{text}\n")
    to.flush()


def main() -> int:
    given = argparse.ArgumentParser(prog="python -m tests.simulation")
    given.add_argument("--seeds", type=int, default=3_000)
    given.add_argument("--near", action="store_true")
    given.add_argument("--own", action="store_true")
    given.add_argument("--streams", action="store_true")
    given.add_argument("--logs", action="store_true")
    given.add_argument("--shared", action="store_true")
    given.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = given.parse_args()
    logging.disable(logging.CRITICAL)
    seeds, bounds = range(options.seeds), NEAR if options.near else FAR
    if options.own:
        return own_alone(seeds, options.jobs)
    if options.streams:
        return streams_alone(seeds, options.jobs)
    if options.logs:
        return logs_alone(seeds, options.jobs)
    if options.shared:
        return shared_alone(seeds, options.jobs)
    # What takes longest comes first, so that all processes end at about the same time.
    parts: list[Part] = [partial(exhausted, *bound) for bound in reversed(bounds)]
    parts += [partial(searched, row, seeds) for row in (*ROWS, *SERVICE_ROWS, *OWN_ROWS)]
    parts += [partial(without, case) for case in ALL_CASES]
    parts += log_parts(seeds)
    parts += stream_parts(seeds)
    found = run(parts, options.jobs)
    told = iter(found)
    whole = [(bound[0], next(told).explored) for bound in reversed(bounds)][::-1]
    by_seed = [(row, next(told).explored) for row in ROWS]
    beside = [(row, next(told).explored) for row in SERVICE_ROWS]
    own = [(row, next(told).explored) for row in OWN_ROWS]
    off_in_turn = [(case, one.explored, one.history) for case in ALL_CASES for one in [next(told)]]
    logs = log_lines([next(told) for _ in log_parts(seeds)])
    lines = stream_lines(list(told))
    text = page(by_seed, whole, off_in_turn, beside, own, ALL_OWN_CASES, lines, logs)
    return publish(text, found)


def own_alone(seeds: range, jobs: int) -> int:
    """Explore pyhudi's own services, and renew what the page says of them."""
    parts: list[Part] = [partial(searched, row, seeds) for row in OWN_ROWS]
    parts += [partial(without, case) for case in ALL_OWN_CASES]
    found = run(parts, jobs)
    told = iter(found)
    own = [(row, next(told).explored) for row in OWN_ROWS]
    guards = [(c, each.explored, each.history) for c, each in zip(ALL_OWN_CASES, told, strict=True)]
    return publish(with_own_part(PAGE.read_text(encoding="utf-8"), own, guards), found)


def log_parts(seeds: range) -> list[Part]:
    """What is explored of logs: each configuration, and each guard switched off."""
    parts: list[Part] = [partial(searched, row, seeds) for row in LOG_ROWS]
    parts += [partial(without, case) for case in ALL_LOG_CASES]
    return parts + shared_parts(seeds)


def log_lines(found: Sequence[Told]) -> list[str]:
    """What the page says of them."""
    told = iter(found)
    rows = [(row, next(told).explored) for row in LOG_ROWS]
    guards = [(c, one.explored, one.history) for c in ALL_LOG_CASES for one in [next(told)]]
    return [*log_part(rows, guards), "", *shared_lines(list(told))]


def shared_parts(seeds: range) -> list[Part]:
    """What is explored of writers without coordination."""
    parts: list[Part] = [partial(searched, row, seeds) for row in SHARED_ROWS]
    return parts + [partial(without, case) for case in SHARED_CASES]


def shared_lines(found: Sequence[Told]) -> list[str]:
    """What the page says of them."""
    told = iter(found)
    rows = [(row, next(told).explored) for row in SHARED_ROWS]
    guards = [(c, each.explored, each.history) for c, each in zip(SHARED_CASES, told, strict=True)]
    return shared_part(rows, guards)


def shared_alone(seeds: range, jobs: int) -> int:
    """Explore writers without coordination, and renew what the page says of them."""
    found = run(shared_parts(seeds), jobs)
    known = PAGE.read_text(encoding="utf-8")
    return publish(with_shared_part(known, shared_lines(found)), found)


def logs_alone(seeds: range, jobs: int) -> int:
    """Explore merge-on-read tables, and renew what the page says of them."""
    found = run(log_parts(seeds), jobs)
    return publish(with_log_part(PAGE.read_text(encoding="utf-8"), log_lines(found)), found)


def stream_parts(seeds: range) -> list[Part]:
    """What is explored of streams: each configuration, and each guard switched off."""
    parts: list[Part] = [partial(searched, row, seeds) for row in ALL_STREAM_ROWS]
    return parts + [partial(without, case) for case in ALL_STREAM_CASES]


def stream_lines(found: Sequence[Told]) -> list[str]:
    """What the page says of them."""
    told = iter(found)
    rows = [(row, next(told).explored) for row in ALL_STREAM_ROWS]
    guards = [
        (c, each.explored, each.history) for c, each in zip(ALL_STREAM_CASES, told, strict=True)
    ]
    return stream_part(rows, guards)


def streams_alone(seeds: range, jobs: int) -> int:
    """Explore streams, and renew what the page says of them."""
    found = run(stream_parts(seeds), jobs)
    known = PAGE.read_text(encoding="utf-8")
    return publish(with_stream_part(known, stream_lines(found)), found)


def publish(text: str, found: Sequence[Told]) -> int:
    """Say what is wrong; write the page if nothing is. Returns the exit code."""
    wrong = [story for each in found for story in each.wrong]
    for story in wrong:
        say(f"\n{story}")
    if not wrong:
        PAGE.write_text(text, encoding="utf-8")
        say(f"{PAGE.name} is written")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
