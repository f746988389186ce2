"""Writers of logs, compactions, and each of their guards, on and switched off."""

from __future__ import annotations

import sys

import pytest

from tests.mutants.table import MUTANTS
from tests.simulation.compaction_guards import COMPACTION_CASES, COMPACTION_GUARDS
from tests.simulation.explore import Bound, explore, search_seeds, shrink
from tests.simulation.guards import Case, off
from tests.simulation.history import MOST_LINES, history, report
from tests.simulation.invariants import LOG_INVARIANTS
from tests.simulation.log_compaction_guards import LOG_COMPACTION_CASES, LOG_COMPACTION_GUARDS
from tests.simulation.log_guards import BOTH, COMPACT, LOG_CASES, LOG_GUARDS, ONE, world
from tests.simulation.log_scenarios import LOG_ROWS
from tests.simulation.published import check_published
from tests.simulation.rows import Row
from tests.simulation.scheduler import FaultKind
from tests.simulation.world import Scenario

pytestmark = pytest.mark.long

far = pytest.mark.matrix
CASES = (*LOG_CASES, *COMPACTION_CASES, *LOG_COMPACTION_CASES)
GUARDS = LOG_GUARDS | COMPACTION_GUARDS | LOG_COMPACTION_GUARDS
#: of each configuration; `make simulate` runs many more
SEEDS = range(20)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.guard)
def test_without_a_guard_of_logs_its_anomaly_is_found(case: Case) -> None:
    with off(case.guard, GUARDS):
        explored = case.search_again()
        found = [finding for finding in explored.findings if case.is_it(finding)]
        assert found, explored
        told = history(shrink(found[0], case.broken), case.broken)
    sys.stdout.write(f"\n{case.guard}: {explored}\n{told}\n")
    assert len(told.splitlines()) <= MOST_LINES


@pytest.mark.parametrize("row", LOG_ROWS, ids=lambda row: row.name)
def test_logs_and_compactions_break_nothing_as_far_as_was_looked(row: Row) -> None:
    explored = row.search(SEEDS)
    assert not explored.findings, report(explored.findings[0])


@pytest.mark.parametrize(
    ("scenario", "bound"),
    [
        pytest.param(world(BOTH), Bound(0, 1, (FaultKind.CRASH,)), id="writers, one crash"),
        pytest.param(
            world({**ONE, **COMPACT}, 6), Bound(1), id="compaction, one preemption, version 6"
        ),
        pytest.param(
            world({**ONE, **COMPACT}), Bound(1), id="compaction, one preemption", marks=far
        ),
        pytest.param(
            world({**ONE, **COMPACT}),
            Bound(1, 1, (FaultKind.CRASH,)),
            id="compaction, one preemption, one crash",
            marks=far,
        ),
        pytest.param(
            world({**ONE, **COMPACT}, 6),
            Bound(0, 1, (FaultKind.PAUSE,)),
            # One stop is a residual (``WITHDRAWAL``); test_explorer.py finds it where it may be.
            id="compaction, one stop, version 6",
            marks=far,
        ),
    ],
)
def test_every_schedule_of_a_writer_of_logs_is_right(scenario: Scenario, bound: Bound) -> None:
    explored = explore(scenario, bound)
    sys.stdout.write(f"\n{explored}\n")
    assert not explored.findings, report(explored.findings[0])
    assert explored.whole > 10


@far
@pytest.mark.parametrize("row", LOG_ROWS, ids=lambda row: row.name)
def test_logs_and_compactions_break_nothing_in_many_runs(row: Row) -> None:
    explored = search_seeds(row.scenario, range(1_000, 1_400), row.weather)
    assert not explored.findings, report(explored.findings[0])


def test_the_published_page_has_each_configuration_of_logs_and_each_guard() -> None:
    check_published(LOG_ROWS, lambda _: ["holds"] * (1 + len(LOG_INVARIANTS)), CASES)


def test_each_guard_of_logs_names_a_mutant_that_there_is() -> None:
    known = {mutant.what for mutant in MUTANTS}
    assert {case.mutant for case in CASES if case.mutant} <= known
