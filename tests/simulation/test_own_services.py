"""pyhudi's own services beside writers and readers: each guard, on and switched off."""

from __future__ import annotations

import pytest

from tests.simulation.explore import Bound, explore
from tests.simulation.guards import ONE_ROW, Case, off
from tests.simulation.history import report
from tests.simulation.own_guards import AT_ONCE, ONE_WRITE, OWN_CASES, OWN_GUARDS
from tests.simulation.own_services import OwnRestore, OwnSavepoint, OwnService
from tests.simulation.scheduler import FaultKind
from tests.simulation.world import Scenario

pytestmark = pytest.mark.long


@pytest.mark.parametrize("case", OWN_CASES, ids=lambda case: case.guard)
def test_without_a_guard_of_our_services_its_anomaly_is_found(case: Case) -> None:
    with off(case.guard, OWN_GUARDS):
        explored = case.search()
    assert any(case.is_it(finding) for finding in explored.findings), explored


@pytest.mark.parametrize(
    "beside", [OwnRestore(nth=1), OwnSavepoint(nth=1)], ids=["restore", "save"]
)
def test_a_cleaner_that_stops_anywhere_takes_no_file_that_is_kept(beside: OwnService) -> None:
    programs = {**ONE_WRITE, "clean": AT_ONCE, "beside": beside}
    stop = Bound(0, 1, (FaultKind.PAUSE,), struck=frozenset({"clean"}))
    explored = explore(Scenario(programs, ONE_ROW), stop)
    assert not explored.findings, report(explored.findings[0])
