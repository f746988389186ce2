"""Budgets: a service stops after so much work, and never before its first part."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.clock import cpu_seconds
from pyhudi.errors import ConfigError
from pyhudi.services.budget import NO_BUDGET, Allowance, Budget
from tests.fakes import FakeClock

BOUNDS = st.none() | st.integers(1, 50)


@given(st.lists(st.integers(0, 20), max_size=30), BOUNDS, BOUNDS)
def test_files_are_taken_until_one_of_the_bounds_is_reached(
    sizes: list[int], most: int | None, size: int | None
) -> None:
    budget = Budget(most, size)
    taken = budget.first_of(sizes)
    assert taken >= min(1, len(sizes))
    assert most is None or taken <= most
    assert size is None or taken <= 1 or sum(sizes[: taken - 1]) < size
    if taken < len(sizes):
        assert budget.rest(taken, sum(sizes[:taken])) is None


@given(st.lists(st.integers(0, 20), max_size=30), BOUNDS, BOUNDS, st.integers(1, 7))
def test_in_steps_as_many_files_are_taken_as_at_once(
    sizes: list[int], most: int | None, size: int | None, step: int
) -> None:
    rest: Budget | None = Budget(most, size)
    taken = 0
    while rest is not None and taken < len(sizes):
        part = rest.at_most(step).first_of(sizes[taken:])
        rest = rest.rest(part, sum(sizes[taken : taken + part]))
        taken += part
    assert taken == Budget(most, size).first_of(sizes)


def test_without_bounds_all_is_taken_and_nothing_is_over() -> None:
    assert NO_BUDGET.first_of([1] * 9) == 9
    assert not NO_BUDGET.is_bounded
    unbounded = Allowance(FakeClock())
    assert not unbounded.is_bounded
    assert not unbounded.is_over(1e9)


def test_time_is_over_by_the_clock_or_by_the_cpu_of_here_and_elsewhere() -> None:
    clock, used = FakeClock(), [100.0]
    seconds = Allowance(clock, budget_s=5)
    cpu = Allowance(clock, max_cpu_minutes=0.5, cpu_s=lambda: used[0])
    clock.advance(4)
    assert not seconds.is_over()
    clock.advance(1)
    assert seconds.is_over()
    used[0] += 20
    assert not cpu.is_over()
    assert not cpu.is_over(9.9)
    assert cpu.is_over(10)


def test_cpu_seconds_grow_with_work() -> None:
    before = cpu_seconds()
    while cpu_seconds() == before:
        sum(range(1000))
    assert cpu_seconds() > before


@pytest.mark.parametrize("name", ["max_files", "max_bytes"])
def test_a_bound_below_one_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"'{name}' is 0"):
        Budget(**{name: 0})


@pytest.mark.parametrize("name", ["budget_s", "max_cpu_minutes"])
def test_a_time_that_is_not_above_zero_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"'{name}' is nan"):
        Allowance(FakeClock(), **{name: float("nan")})
