"""pyhudi's own services beside writers and readers: each guard, on and switched off."""

from __future__ import annotations

import pytest

from tests.mutants.table import MUTANTS
from tests.simulation.explore import Bound, explore
from tests.simulation.guards import ONE_ROW, Case, off
from tests.simulation.history import report
from tests.simulation.invariants import cells
from tests.simulation.own_guards import AT_ONCE, ONE_WRITE
from tests.simulation.own_scenarios import OWN_ROWS
from tests.simulation.own_services import OwnClean, OwnRestore, OwnSavepoint, OwnService, ReadLong
from tests.simulation.own_worlds import ALL_OWN_CASES, ALL_OWN_GUARDS
from tests.simulation.published import check_published
from tests.simulation.residuals import LOCK
from tests.simulation.rows import Row
from tests.simulation.scheduler import FaultKind, Kind, Task
from tests.simulation.world import Scenario

pytestmark = pytest.mark.long

TIMELINE = ".hoodie/timeline"
#: of each configuration; `make simulate` runs many more
SEEDS = range(25)


@pytest.mark.parametrize("case", ALL_OWN_CASES, ids=lambda case: case.guard)
def test_without_a_guard_of_our_services_its_anomaly_is_found(case: Case) -> None:
    with off(case.guard, ALL_OWN_GUARDS):
        explored = case.search_again()
    assert any(case.is_it(finding) for finding in explored.findings), explored


@pytest.mark.parametrize("row", OWN_ROWS, ids=lambda row: row.name)
def test_our_services_break_nothing_as_far_as_was_looked(row: Row) -> None:
    explored = row.search(SEEDS)
    assert not explored.findings, report(explored.findings[0])


def _decides(task: Task) -> bool:
    """Whether the next step changes something, or looks at what such a step relies on."""
    return task.op.kind is Kind.WRITE or task.op.paths in (LOCK, (TIMELINE,))


@pytest.mark.parametrize(
    "beside", [OwnRestore(nth=1), OwnSavepoint(nth=1)], ids=["restore", "save"]
)
def test_a_cleaner_that_stops_anywhere_takes_no_file_that_is_kept(beside: OwnService) -> None:
    programs = {**ONE_WRITE, "clean": AT_ONCE, "beside": beside}
    stop = Bound(0, 1, (FaultKind.PAUSE,), struck=frozenset({"clean"}), amid=_decides)
    explored = explore(Scenario(programs, ONE_ROW), stop)
    assert not explored.findings, report(explored.findings[0])


def test_a_cleaner_that_stops_anywhere_takes_no_file_of_a_query_with_a_lease() -> None:
    """What a plan names became old before the moment in which a query gets its lease.

    So a plan knows the leases of all queries that list such a file, however long it takes.
    """
    cleans = {"clean": OwnClean(pause_s=0.5, times=2), "clean-2": OwnClean(pause_s=1.5, times=2)}
    programs = {"reader": ReadLong(lasts_s=9.0, late_s=0.9), **ONE_WRITE, **cleans}
    stop = Bound(0, 1, (FaultKind.PAUSE,), struck=frozenset(cleans), amid=_decides)
    explored = explore(Scenario(programs, ONE_ROW), stop)
    assert not explored.findings, report(explored.findings[0])


def test_the_published_page_has_our_services_and_each_of_their_guards() -> None:
    check_published(OWN_ROWS, cells, ALL_OWN_CASES)


def test_each_guard_of_our_services_names_a_mutant_that_there_is() -> None:
    known = {mutant.what for mutant in MUTANTS}
    assert {case.mutant for case in ALL_OWN_CASES} <= known
