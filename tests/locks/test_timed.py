"""A lock that knows how long it was waited for."""

from __future__ import annotations

import pytest

from pyhudi.errors import LockTimeout
from pyhudi.locks.base import LockHolder, LockOwner
from pyhudi.locks.timed import TimedLock
from tests.fakes import FakeClock

OWNER = LockOwner("20240101000000000", "here", 1)


class SlowLock:
    """Is had after two seconds, or not at all."""

    def __init__(self, clock: FakeClock, free: bool) -> None:
        self._clock, self._free = clock, free

    def acquire(self, timeout_s: float, owner: LockOwner) -> None:
        self._clock.sleep(2.0)
        if not self._free:
            raise LockTimeout("taken")

    def held(self) -> bool:
        return self._free

    def check(self, needed_s: float = 0.0) -> float:
        return 7.0

    def renew(self) -> None:
        pass

    def release(self) -> None:
        self._free = True

    def describe(self) -> LockHolder | None:
        return None


def test_waits_add_up_whether_the_lock_was_had_or_not() -> None:
    clock = FakeClock()
    lock = TimedLock(SlowLock(clock, free=False), clock)
    with pytest.raises(LockTimeout):
        lock.acquire(2.0, OWNER)
    lock.release()
    lock.acquire(2.0, OWNER)
    assert lock.waited_s == 4.0


def test_all_else_is_asked_of_the_lock_itself() -> None:
    clock = FakeClock()
    lock = TimedLock(SlowLock(clock, free=True), clock)
    assert lock.held()
    assert lock.check() == 7.0
    lock.renew()
    assert lock.describe() is None
