"""Writers without coordination, and each of their guards, on and switched off."""

from __future__ import annotations

import sys

import pytest

from tests.mutants.table import MUTANTS
from tests.simulation.explore import explore, search_seeds, shrink
from tests.simulation.guards import Case, off
from tests.simulation.history import MOST_LINES, history, report
from tests.simulation.invariants import SHARED_INVARIANTS
from tests.simulation.published import check_published
from tests.simulation.rows import Row
from tests.simulation.shared_guards import SHARED_CASES, SHARED_GUARDS
from tests.simulation.shared_scenarios import SHARED_ROWS

pytestmark = pytest.mark.long

far = pytest.mark.matrix

#: of each configuration; `make simulate` runs many more
SEEDS = range(8)


def test_each_guard_of_shared_buckets_names_a_mutant_that_there_is() -> None:
    known = {mutant.what for mutant in MUTANTS}
    assert {case.mutant for case in SHARED_CASES if case.mutant} <= known


def test_the_published_page_has_each_configuration_and_each_guard() -> None:
    check_published(SHARED_ROWS, lambda _: ["holds"] * len(SHARED_INVARIANTS), SHARED_CASES)


@pytest.mark.parametrize("case", SHARED_CASES, ids=lambda case: case.guard)
def test_without_a_guard_of_shared_buckets_its_anomaly_is_found(case: Case) -> None:
    with off(case.guard, SHARED_GUARDS):
        explored = case.search()
        found = [finding for finding in explored.findings if case.is_it(finding)]
        assert found, explored
        told = history(shrink(found[0], case.broken), case.broken)
    sys.stdout.write(f"\n{case.guard}: {explored}\n{told}\n")
    assert len(told.splitlines()) <= MOST_LINES


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.guard, marks=() if not case.bound.preemptions else far)
        for case in SHARED_CASES
        if SHARED_GUARDS[case.guard] and not case.seeds
    ],
)
def test_with_all_guards_every_schedule_within_the_bound_is_right(case: Case) -> None:
    explored = explore(case.scenario, case.bound)
    assert not explored.findings, report(explored.findings[0])
    assert explored.whole


@pytest.mark.parametrize("row", SHARED_ROWS, ids=lambda row: row.name)
def test_every_order_gives_the_same_rows_as_far_as_was_looked(row: Row) -> None:
    explored = row.search(SEEDS)
    assert not explored.findings, report(explored.findings[0])


@far
@pytest.mark.parametrize("row", SHARED_ROWS, ids=lambda row: row.name)
def test_every_order_gives_the_same_rows_in_many_runs(row: Row) -> None:
    explored = search_seeds(row.scenario, range(1_000, 1_400), row.weather)
    assert not explored.findings, report(explored.findings[0])
