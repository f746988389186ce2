"""A wait for another writer ends when the client cancels the write; an undoing does not."""

from __future__ import annotations

import pytest

from pyhudi.clock import SystemClock
from pyhudi.errors import WriteFailed
from pyhudi.locks.base import LockOwner
from pyhudi.locks.cancelling import CancellableClock, pause, to_its_end
from pyhudi.locks.in_process import InProcessLock, InProcessLocks
from tests.fakes import FakeClock

OWNER = LockOwner("20240501123005111", "host", 1)


def test_a_cancelled_write_does_not_wait_for_a_lock() -> None:
    locks = InProcessLocks()
    InProcessLock(locks, "t", SystemClock()).acquire(0, OWNER)
    waiting = InProcessLock(locks, "t", CancellableClock(lambda: True))
    with pytest.raises(WriteFailed, match="cancelled by its client while it waited"):
        waiting.acquire(60, OWNER)


def test_a_free_lock_is_taken_though_the_write_was_cancelled() -> None:
    lock = InProcessLock(InProcessLocks(), "t", CancellableClock(lambda: True))
    lock.acquire(0, OWNER)
    assert lock.held()


def test_what_undoes_a_cancelled_write_waits_to_its_end() -> None:
    clock = CancellableClock(lambda: True)
    with to_its_end():
        with to_its_end():
            pause(clock, 0.001)
        pause(clock, 0.001)
    with pytest.raises(WriteFailed):
        pause(clock, 0.001)


def test_a_clock_that_knows_no_clients_sleeps() -> None:
    clock = FakeClock()
    before = clock.monotonic()
    pause(clock, 5)
    assert clock.monotonic() == before + 5
