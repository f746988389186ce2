"""A table lock that remembers how long its writer waited for it."""

from __future__ import annotations

from pyhudi.clock import Clock
from pyhudi.locks.base import LockHolder, LockOwner, TableLock


class TimedLock:
    """``lock``, with the time that ``acquire`` took, in ``waited_s``; refused tries count too."""

    def __init__(self, lock: TableLock, clock: Clock) -> None:
        self._lock, self._clock = lock, clock
        self.waited_s = 0.0

    def acquire(self, timeout_s: float, owner: LockOwner) -> None:
        began = self._clock.monotonic()
        try:
            self._lock.acquire(timeout_s, owner)
        finally:
            self.waited_s += self._clock.monotonic() - began

    def held(self) -> bool:
        return self._lock.held()

    def check(self, needed_s: float = 0.0) -> float:
        return self._lock.check(needed_s)

    def renew(self) -> None:
        self._lock.renew()

    def release(self) -> None:
        self._lock.release()

    def describe(self) -> LockHolder | None:
        return self._lock.describe()
