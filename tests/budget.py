"""What each suite of `make test` may cost: told at its end beside what it did cost, never asserted.

The Makefile starts a suite with ``-p tests.budget --suite NAME``. Time is CPU time of pytest and
all that it started, JVMs included: five suites share two cores, so the seconds that pass say
little about a suite. The budgets together are what `make test` may take on two cores.

With ``--until`` a suite also has an end. On a machine that is too slow for it, a suite that falls
behind runs one case of each test function, spread over all files, and none after its end. It says
how many it left out: none of them failed, and none of them was shown.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from benchmarks.cpu import TreeClock

MINUTES, CORES = 25, 2  # for the whole of `make test`, after the set-up
#: CPU seconds
BUDGETS: Final = {"peers": 800, "programs": 320, "spark3.5": 580, "spark4.3": 690, "plain": 480}
SHOWN: Final = 20
STALE: Final = 0.5  # a look at the process tree takes milliseconds: quick tests share one
#: the share of its time that a suite may lose to costly cases at its beginning
HEAD_START: Final = 0.25


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--suite", choices=sorted(BUDGETS), help="tell the suite's cost beside its budget"
    )
    parser.addoption(
        "--until", type=float, help="when the suite has to end, in seconds since the epoch"
    )


def pytest_configure(config: pytest.Config) -> None:
    if suite := config.getoption("--suite"):
        config.pluginmanager.register(Costs(suite))
    if until := config.getoption("--until"):
        config.pluginmanager.register(Pace(time.time(), until))


class Pace:
    """Leaves cases out where the suite would end too late."""

    def __init__(self, begin: float, end: float, now: Callable[[], float] = time.time) -> None:
        self.begin, self.end, self.now = begin, end, now
        self.done = self.all = self.left_out = 0
        self.seen: set[str] = set()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.all = len(session.items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        function = item.nodeid.partition("[")[0]
        reason = self.reason(function)
        self.done += 1
        if reason:
            self.left_out += 1
            pytest.skip(reason)
        self.seen.add(function)

    def reason(self, function: str) -> str:
        """Why the next case, one of this function, is left out; empty where it runs."""
        now = self.now()
        if now >= self.end:
            return "the time of `make test` is over"
        gone = (now - self.begin) / (self.end - self.begin)
        behind = gone > HEAD_START + (1 - HEAD_START) * self.done / max(self.all, 1)
        return (
            "`make test` is late, and another case ran" if behind and function in self.seen else ""
        )

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.left_out:
            terminalreporter.write_line(
                f"NOT SHOWN: {self.left_out} of {self.all} cases: this machine is too slow for "
                "the time of `make test`, and `make test-all` takes the time it needs"
            )


class Costs:
    """Looks at the process tree before and after each test that takes long enough to matter."""

    def __init__(self, suite: str) -> None:
        self.suite = suite
        self.began = self.looked = time.perf_counter()
        self.clock, self.spent = TreeClock(os.getpid()), 0.0
        self.cases: list[tuple[float, float, str]] = []

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._look()
        started, spent = time.perf_counter(), self.spent
        yield
        self._look()
        self.cases.append((self.spent - spent, time.perf_counter() - started, item.nodeid))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        costly = sorted(self.cases, reverse=True)[:SHOWN]
        terminalreporter.section(f"the {SHOWN} tests of most CPU time")
        for cpu, wall, case in costly:
            terminalreporter.write_line(f"{cpu:7.1f} s CPU {wall:7.1f} s {case}")
        wall = time.perf_counter() - self.began
        terminalreporter.write_line(line(self.suite, len(self.cases), wall, self.clock.look()))

    def _look(self) -> None:
        now = time.perf_counter()
        if now - self.looked >= STALE:
            self.spent = self.clock.look()
            self.looked = time.perf_counter()


def line(suite: str, cases: int, wall: float, cpu: float) -> str:
    """One suite's line of the summary."""
    budget = BUDGETS[suite]
    over = f", {cpu - budget:.0f} s over it" if cpu > budget else ""
    return (
        f"{suite}: {cases} cases, {wall:.0f} s wall, {cpu:.0f} s CPU, budget {budget} s CPU{over}"
    )
