"""A lease that is kept while something slow is done under the lock."""

from __future__ import annotations

import threading

import pytest

from pyhudi.errors import WriterFenced
from pyhudi.locks.base import LockOwner
from pyhudi.locks.in_process import InProcessLock, InProcessLocks
from pyhudi.locks.renewal import kept
from tests.fakes import FakeClock

LEASE_S = 0.03  # of a clock that tests move; a third of it is the interval, in real time
OWNER = LockOwner("20240101000000001", "ann.example", 11)


class Told(InProcessLock):
    """A lock that tells of its renewals; ``fails`` are errors of the next of them."""

    def __init__(self, locks: InProcessLocks, clock: FakeClock, *fails: Exception) -> None:
        super().__init__(locks, "t", clock, LEASE_S)
        self.clock = clock
        self.fails = list(fails)
        self.asked = threading.Semaphore(0)
        self.renewed = threading.Semaphore(0)

    def renew(self) -> None:
        self.asked.release()
        if self.fails:
            raise self.fails.pop()
        super().renew()
        self.renewed.release()

    def be_slow(self) -> None:
        """Let twice the lease pass, a part at a time, each with a renewal."""
        for _ in range(4):
            self.clock.advance(LEASE_S / 2)
            while self.renewed.acquire(blocking=False):
                pass  # a slow machine renews before as well
            # One that had begun before does not count.
            for _ in range(2):
                assert self.renewed.acquire(timeout=30)


@pytest.fixture
def locks() -> InProcessLocks:
    return InProcessLocks()


def test_a_lease_outlasts_what_is_done_under_it_and_is_left_alone_after(
    locks: InProcessLocks,
) -> None:
    lock = Told(locks, FakeClock())
    lock.acquire(0, OWNER)
    with kept(lock):
        lock.be_slow()
        assert lock.held()

    assert [t.name for t in threading.enumerate() if t.name == "table lock"] == []
    lock.clock.advance(LEASE_S)
    with pytest.raises(WriterFenced):
        lock.check()


@pytest.mark.parametrize("error", [ConnectionError("reset"), ValueError("not of the storage")])
def test_no_error_of_a_renewal_ends_the_renewals(
    locks: InProcessLocks, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    lock = Told(locks, FakeClock(), error)
    lock.acquire(0, OWNER)
    with kept(lock):
        lock.be_slow()

    assert "was not renewed" in caplog.text
    assert lock.held()


def test_a_lost_lock_is_not_asked_for_again_and_its_next_check_tells(
    locks: InProcessLocks,
) -> None:
    lock = Told(locks, FakeClock())
    lock.acquire(0, OWNER)
    with kept(lock):
        lock.clock.advance(LEASE_S)
        assert lock.asked.acquire(timeout=30)
    assert not lock.asked.acquire(timeout=0)

    with pytest.raises(WriterFenced):
        lock.check()


def test_a_lock_that_is_lost_already_is_not_kept(locks: InProcessLocks) -> None:
    lock = Told(locks, FakeClock())
    with pytest.raises(WriterFenced), kept(lock):
        pytest.fail("nothing is done under a lock that is not ours")


def test_an_error_under_the_lock_ends_the_renewals(locks: InProcessLocks) -> None:
    lock = Told(locks, FakeClock())
    lock.acquire(0, OWNER)
    with pytest.raises(ZeroDivisionError), kept(lock):
        raise ZeroDivisionError

    assert [t.name for t in threading.enumerate() if t.name == "table lock"] == []
