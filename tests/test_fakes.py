from __future__ import annotations

from tests.fakes import FakeClock


def test_equal_seeds_draw_the_same_lots_and_different_seeds_do_not() -> None:
    def lots(seed: int) -> list[object]:
        clock = FakeClock(seed=seed)
        return [clock.uuid(), clock.random_int(10**9), clock.uuid()]

    assert lots(1) == lots(1)
    assert lots(1) != lots(2)
    assert len({FakeClock().uuid(), *lots(0)[::2]}) == 2


def test_sleeping_moves_both_clocks_and_a_skew_only_the_wall_clock() -> None:
    clock = FakeClock(now_ms=5_000)
    start = clock.monotonic()

    clock.sleep(1.5)
    clock.skew(-3)

    assert clock.now_ms() == 3_500
    assert clock.monotonic() - start == 1.5
    assert clock.slept == [1.5]
