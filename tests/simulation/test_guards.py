"""Each guard switched off in turn: the explorer finds the anomaly that the guard is there for."""

from __future__ import annotations

import sys

import pytest

from tests.simulation.explore import shrink
from tests.simulation.guards import CASES, Case, off
from tests.simulation.history import MOST_LINES, history


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.guard)
def test_without_a_guard_its_anomaly_is_found(case: Case) -> None:
    with off(case.guard):
        explored = case.search()
        found = [f for f in explored.findings if case.is_it(f)]
        assert found, explored
        told = history(shrink(found[0], case.broken), case.broken)
    sys.stdout.write(f"\n{case.guard}: {explored}\n{told}\n")
    assert len(told.splitlines()) <= MOST_LINES
    assert case.broken in told
