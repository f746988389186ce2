"""Streams that are driven as Spark drives them: each guard of epochs, on and switched off."""

from __future__ import annotations

import sys

import pytest

from tests.mutants.table import MUTANTS
from tests.simulation.checkers import anomalies
from tests.simulation.explore import Bound, explore, replay, search_seeds, shrink
from tests.simulation.guards import ONE_ROW, Case, off
from tests.simulation.hand_over_guards import ALL_STREAM_CASES, ALL_STREAM_GUARDS
from tests.simulation.hand_over_scenarios import ALL_STREAM_ROWS
from tests.simulation.history import MOST_LINES, history, report
from tests.simulation.invariants import STREAM_INVARIANTS
from tests.simulation.published import check_published
from tests.simulation.rows import Row
from tests.simulation.scheduler import Fault, FaultKind
from tests.simulation.schedules import Decision, Schedule
from tests.simulation.stream_guards import AGAIN
from tests.simulation.streams import CHECKPOINTS
from tests.simulation.world import Scenario

pytestmark = pytest.mark.long

far = pytest.mark.matrix
#: of each configuration; `make simulate` runs many more
SEEDS = range(20)


@pytest.mark.parametrize("case", ALL_STREAM_CASES, ids=lambda case: case.guard)
def test_without_a_guard_of_streams_its_anomaly_is_found(case: Case) -> None:
    with off(case.guard, ALL_STREAM_GUARDS):
        explored = case.search()
        found = [finding for finding in explored.findings if case.is_it(finding)]
        assert found, explored
        told = history(shrink(found[0], case.broken), case.broken)
    sys.stdout.write(f"\n{case.guard}: {explored}\n{told}\n")
    assert len(told.splitlines()) <= MOST_LINES


@pytest.mark.parametrize("row", ALL_STREAM_ROWS, ids=lambda row: row.name)
def test_streams_break_nothing_as_far_as_was_looked(row: Row) -> None:
    explored = row.search(SEEDS)
    assert not explored.findings, report(explored.findings[0])


@pytest.mark.parametrize(
    "bound",
    [
        pytest.param(Bound(0, 1, (FaultKind.CRASH,)), id="one crash"),
        pytest.param(Bound(1), id="one preemption", marks=far),
        pytest.param(Bound(1, 1, (FaultKind.CRASH,)), id="one preemption, one crash", marks=far),
        pytest.param(Bound(0, 1, (FaultKind.PAUSE,)), id="one stop", marks=far),
    ],
)
def test_every_schedule_of_a_driver_that_is_started_again_is_right(bound: Bound) -> None:
    explored = explore(Scenario(AGAIN, ONE_ROW), bound)
    sys.stdout.write(f"\na driver that is started again: {explored}\n")
    assert not explored.findings, report(explored.findings[0])
    assert explored.whole > 20


def test_a_batch_whose_end_was_not_logged_is_repeated_without_an_instant() -> None:
    """The judgement before the write saves the work: under the lock it would be thrown away."""
    scenario = Scenario(AGAIN, ONE_ROW)
    run = replay(scenario, Schedule())
    end = f"{CHECKPOINTS}/a/commits/0"
    puts = [e for e in run.events if e.who == "a" and e.op.paths]
    before = next(n for n, e in enumerate(puts) if e.op.paths == (end,))
    steps = sum(e.who == "a" for e in run.events[: run.events.index(puts[before])])
    run = replay(scenario, _crash_at(scenario, "a", end, steps))
    assert anomalies(run) == []
    assert [f.writer for f in run.truth.published.values()].count("a#0.0") == 1
    requested = [p for e in run.events if e.who == "a-2" for p in e.op.paths if "requested" in p]
    assert requested == []


def _crash_at(scenario: Scenario, who: str, path: str, about: int) -> Schedule:
    """The schedule that lets a process die before it puts ``path``; steps count clocks too."""
    for steps in range(about, 2 * about + 50):
        crash = Decision(who, steps, fault=Fault(FaultKind.CRASH))
        struck = [e for e in replay(scenario, Schedule((crash,))).events if e.fault is not None]
        if struck and struck[0].op.paths == (path,):
            return Schedule((crash,))
    raise AssertionError(f"{who} never puts {path}")


@far
@pytest.mark.parametrize("row", ALL_STREAM_ROWS, ids=lambda row: row.name)
def test_streams_break_nothing_in_many_runs(row: Row) -> None:
    explored = search_seeds(row.scenario, range(1_000, 1_400), row.weather)
    assert not explored.findings, report(explored.findings[0])


def test_the_published_page_has_each_stream_and_each_guard() -> None:
    check_published(
        ALL_STREAM_ROWS, lambda _: ["holds"] * (1 + len(STREAM_INVARIANTS)), ALL_STREAM_CASES
    )


def test_each_guard_of_streams_names_a_mutant_that_there_is() -> None:
    known = {mutant.what for mutant in MUTANTS}
    assert {case.mutant for case in ALL_STREAM_CASES} <= known
