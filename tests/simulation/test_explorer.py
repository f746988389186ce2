"""The real transaction code under every schedule within a small bound, and under many by seed.

`make test` spends its schedules where something must be found; where nothing may be, it looks at a
fixed small number. `make simulate` looks far, and runs the cells that are marked ``matrix`` here.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace

import pytest

from tests.simulation.explore import (
    Bound,
    Seeded,
    Weather,
    explore,
    judge,
    run_seed,
    search_seeds,
    shrink,
)
from tests.simulation.guards import CASES, LIVE, UNDONE_AMID, off
from tests.simulation.history import MOST_LINES, history, report
from tests.simulation.invariants import PAGE, cells
from tests.simulation.programs import Upsert
from tests.simulation.residuals import RESIDUALS
from tests.simulation.rows import Row
from tests.simulation.scenarios import GAPS, NEAR, ROWS, TWO_BY_TWO, TWO_PESSIMISTS, Gap
from tests.simulation.scheduler import FaultKind
from tests.simulation.world import LEASE_S, SETTLER, Scenario, World

pytestmark = pytest.mark.long

far = pytest.mark.matrix
#: of three writers, a cleaner and a reader, in each configuration where nothing may be found
SEEDS = range(40)
#: where something must be found, which ends the search
UNTIL_FOUND = range(200)


@pytest.mark.parametrize(("name", "scenario", "bound"), NEAR, ids=[name for name, _, _ in NEAR])
def test_every_schedule_of_two_writers_and_two_keys_is_right(
    name: str, scenario: Scenario, bound: Bound
) -> None:
    explored = explore(scenario, bound)
    sys.stdout.write(f"\n2 writers, 2 keys, {name}: {explored}\n")

    assert not explored.findings, report(explored.findings[0])
    assert explored.whole > 20


@pytest.mark.parametrize(
    "bound",
    [
        pytest.param(Bound(1), id="one preemption"),
        pytest.param(Bound(0, 1, (FaultKind.PAUSE,)), id="one stop", marks=far),
    ],
)
def test_the_locks_of_file_groups_keep_writers_apart_without_any_conflict_check(
    bound: Bound,
) -> None:
    with off("conflict check"):
        assert explore(TWO_BY_TWO, replace(bound, preemptions=1)).findings != []
        explored = explore(TWO_PESSIMISTS, bound)

    assert not explored.findings, report(explored.findings[0])
    assert explored.whole > 20


@pytest.mark.parametrize("lock", ["file", "service"])
def test_a_comparison_that_takes_longer_than_the_lease_ends_in_a_commit(lock: str) -> None:
    slow = Upsert(("k2",), retries=0, comparing_s=3 * LEASE_S)
    scenario = Scenario({"w1": Upsert(("k1",)), "w2": slow}, (("k1",), ("k2",)), lock=lock)
    compared = 0
    for seed in range(40):
        pilot = Seeded(seed, Weather(faults=0))
        world = pilot.world = World(scenario, pilot)
        run = world.run()
        assert run.outcomes == {"w1": None, "w2": None, SETTLER: None}
        compared += any(e.op.what == f"sleeps {3 * LEASE_S:.3g} s" for e in run.events)

    assert compared
    assert explore(scenario, Bound(1)).findings == []


def test_what_apache_hudi_undoes_without_a_lock_beside_the_final_put_is_not_acknowledged() -> None:
    """A reader may meet the commit in the moment before it is taken back, and fails then."""
    explored = explore(UNDONE_AMID, Bound(1), lambda _: False)

    assert {name for f in explored.findings for name in f.broken} == {LIVE}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_seeded_schedules_break_what_the_published_table_says_and_no_more(row: Row) -> None:
    explored = row.search(UNTIL_FOUND if row.broken else SEEDS)

    for finding in explored.findings:
        beyond = finding.broken - row.broken
        assert not beyond, report(finding, min(beyond))
    found = {invariant for finding in explored.findings for invariant in finding.broken}
    assert found == row.broken


def test_the_published_table_has_each_configuration_with_what_breaks_there() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for row in ROWS:
        line = next(line for line in page.splitlines() if line.startswith(f"| {row.name} |"))
        assert line.split(" | ")[1:-1] == cells(row)
    for residual in RESIDUALS:
        assert residual.name in re.sub(r"\s+", " ", page)


gaps = pytest.mark.parametrize("gap", GAPS, ids=lambda gap: gap.residual.breaks)


@gaps
def test_a_named_residual_is_found_where_it_may_happen(gap: Gap) -> None:
    allowed = explore(gap.scenario, gap.bound, lambda f: gap.residual.breaks in f.broken)
    assert any(gap.residual.breaks in f.broken for f in allowed.findings), allowed


@gaps
def test_nothing_is_found_by_seed_where_a_named_residual_may_not_happen(gap: Gap) -> None:
    weather = Weather(gap.bound.kinds, gap.bound.faults)
    assert search_seeds(gap.scenario, UNTIL_FOUND, weather).findings == []


@far
@gaps
def test_nothing_is_found_at_all_where_a_named_residual_may_not_happen(gap: Gap) -> None:
    assert explore(gap.scenario, replace(gap.bound, residuals=())).findings == []


def test_a_seed_gives_the_same_run_again_and_so_does_its_schedule() -> None:
    case = next(c for c in CASES if c.guard == "conflict check")
    with off(case.guard):
        weather = Weather(kinds=(FaultKind.CRASH,))
        seed = next(s for s in range(100) if run_seed(case.scenario, s, weather) is not None)
        first = run_seed(case.scenario, seed, weather)
        again = run_seed(case.scenario, seed, weather)
        assert first is not None
        assert again is not None
        replayed = judge(case.scenario, first.schedule)
        assert replayed is not None
        told = [history(f) for f in (first, again, replayed)]
        steps = [[(e.who, e.op, e.now) for e in f.run.events] for f in (first, again, replayed)]
    assert told[0] == told[1] == told[2]
    assert steps[0] == steps[1] == steps[2]


def test_a_shrunk_schedule_still_breaks_the_same_and_is_short() -> None:
    case = next(c for c in CASES if c.guard == "conflict check")
    with off(case.guard):
        long = max(
            (f for s in range(60) if (f := run_seed(case.scenario, s, Weather(faults=0)))),
            key=lambda f: len(f.schedule.decisions),
        )
        short = shrink(long, case.broken)
    assert case.broken in short.broken
    assert len(short.schedule.decisions) <= 3 < len(long.schedule.decisions)
    assert len(history(short, case.broken).splitlines()) <= MOST_LINES


def test_the_order_of_the_bound_is_the_order_of_what_is_found() -> None:
    """Without a preemption two writers come one after the other, and no guard is missed."""
    case = next(c for c in CASES if c.guard == "conflict check")
    with off(case.guard):
        assert explore(TWO_BY_TWO, Bound(0)).findings == []
        assert explore(TWO_BY_TWO, Bound(1)).findings != []
