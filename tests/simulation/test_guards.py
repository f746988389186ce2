"""Each guard switched off in turn: the explorer finds the anomaly that the guard is there for."""

from __future__ import annotations

import sys

import pytest

from tests.simulation.explore import Weather, search_seeds, shrink
from tests.simulation.guards import CASES, GUARDS, Case, off
from tests.simulation.history import MOST_LINES, history, report
from tests.simulation.service_guards import SERVICE_CASES, SERVICE_GUARDS

pytestmark = pytest.mark.long

#: runs beside each service with its guard on; `make simulate` runs many more
SEEDS = range(40)


@pytest.mark.parametrize("case", [*CASES, *SERVICE_CASES], ids=lambda case: case.guard)
def test_without_a_guard_its_anomaly_is_found(case: Case) -> None:
    with off(case.guard, GUARDS | SERVICE_GUARDS):
        explored = case.search()
        found = [f for f in explored.findings if case.is_it(f)]
        assert found, explored
        told = history(shrink(found[0], case.broken), case.broken)
    sys.stdout.write(f"\n{case.guard}: {explored}\n{told}\n")
    assert len(told.splitlines()) <= MOST_LINES
    assert case.broken in told


@pytest.mark.parametrize("case", SERVICE_CASES, ids=lambda case: case.guard)
def test_with_its_guard_a_service_does_no_harm_as_far_as_was_looked(case: Case) -> None:
    weather = Weather(case.bound.kinds, case.bound.faults, case.bound.residuals)
    explored = search_seeds(case.scenario, SEEDS, weather, case.is_it)

    found = [f for f in explored.findings if case.is_it(f)]
    assert not found, report(found[0], case.broken)
