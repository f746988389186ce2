from __future__ import annotations

import pytest

from pyhudi.storage.patience import ATTEMPTS_UNANSWERED, Patience
from tests.fakes import FakeClock


def test_a_throttled_request_goes_on_until_its_time_is_up() -> None:
    clock = FakeClock()
    patience = Patience(clock, 60)

    while patience.again(throttled=True):
        pass

    assert 57 - 3 < patience.elapsed_s() < 60
    assert 20 < patience.attempts < 45
    assert str(patience) == f", after {patience.attempts} attempts in {patience.elapsed_s():.0f} s"


def test_a_request_without_an_answer_is_sent_five_times() -> None:
    patience = Patience(FakeClock(), 60)
    pauses = [patience.again(throttled=False) for _ in range(ATTEMPTS_UNANSWERED)]

    assert pauses == [True] * (ATTEMPTS_UNANSWERED - 1) + [False]


def test_being_told_to_slow_down_does_not_use_up_the_attempts() -> None:
    patience = Patience(FakeClock(), 60)

    assert [patience.again(throttled=n % 2 == 0) for n in range(8)] == [True] * 8


def test_no_attempt_begins_after_the_limit() -> None:
    clock = FakeClock()
    patience = Patience(clock, 10)
    clock.advance(9.999)

    assert not patience.again(throttled=True)
    assert clock.slept == []


@pytest.mark.parametrize("seed", range(3))
def test_pauses_double_up_to_three_seconds_and_half_of_each_is_chance(seed: int) -> None:
    clock = FakeClock(seed=seed)
    patience = Patience(clock, 1_000)
    for _ in range(8):
        patience.again(throttled=True)

    for pause, most in zip(clock.slept, [0.1, 0.2, 0.4, 0.8, 1.6, 3, 3, 3], strict=True):
        assert most / 2 < pause <= most
    assert len({round(p / m, 3) for p, m in zip(clock.slept[-3:], [3, 3, 3], strict=True)}) == 3
