"""RFC-22's numbered lock files: their names, who may put which, and what a slow put can do."""

from __future__ import annotations

import json
import logging

import pytest

from pyhudi.errors import ConfigError, LockTimeout, StorageError, WriterFenced
from pyhudi.locks.base import LockOwner
from pyhudi.locks.leased import LeasedLock
from pyhudi.locks.numbered import FOLDER, NumberedFiles
from pyhudi.storage.base import Storage
from pyhudi.storage.faults import Call, Effect, Fault, FaultyStorage
from pyhudi.storage.memory import MemoryStorage
from tests.fakes import FakeClock

ANN = LockOwner("20240101000000001", "ann.example", 11)
BOB = LockOwner("20240101000000002", "bob.example", 22)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def storage(clock: FakeClock) -> MemoryStorage:
    return MemoryStorage(clock=clock)


def handle(storage: Storage, clock: FakeClock) -> LeasedLock:
    return LeasedLock(NumberedFiles(storage, clock, lease_s=60, margin_s=2), clock)


def names(storage: Storage) -> list[str]:
    return sorted(file.name for file in storage.list(FOLDER))


def test_the_numbers_go_up_and_the_file_holds_the_instant(
    storage: MemoryStorage, clock: FakeClock
) -> None:
    ann, bob = handle(storage, clock), handle(storage, clock)
    ann.acquire(0, ANN)
    assert names(storage) == ["lock1.acquired"]
    assert json.loads(storage.read(f"{FOLDER}/lock1.acquired"))["instant"] == ANN.instant
    ann.release()
    assert names(storage) == ["lock1.acquired", "lock1.released"]

    bob.acquire(0, BOB)
    assert names(storage) == ["lock1.acquired", "lock1.released", "lock2.acquired"]
    assert json.loads(storage.read(f"{FOLDER}/lock2.acquired"))["instant"] == BOB.instant


def test_old_numbers_are_tidied_away(storage: MemoryStorage, clock: FakeClock) -> None:
    lock = handle(storage, clock)
    for _ in range(12):
        lock.acquire(0, ANN)
        lock.renew()
        lock.release()

    numbers = {int(name.split(".")[0].removeprefix("lock")) for name in names(storage)}
    assert numbers == {8, 9, 10, 11, 12}


def test_whoever_finds_a_dead_holder_releases_its_lock_and_takes_the_next(
    storage: MemoryStorage, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    dead, heir = handle(storage, clock), handle(storage, clock)
    dead.acquire(0, ANN)
    heir.acquire(70, BOB)

    assert names(storage) == ["lock1.acquired", "lock1.released", "lock2.acquired"]
    assert "its holder is dead" in caplog.text
    with pytest.raises(WriterFenced, match=r"bob\.example"):
        dead.check()


def test_a_renewal_leaves_the_acquired_file_as_it_was(
    storage: MemoryStorage, clock: FakeClock
) -> None:
    lock = handle(storage, clock)
    lock.acquire(0, ANN)
    before = storage.read(f"{FOLDER}/lock1.acquired")
    lock.renew()
    lock.renew()

    assert storage.read(f"{FOLDER}/lock1.acquired") == before
    assert storage.read(f"{FOLDER}/lock1.heartbeat") == b"2"


def test_a_renewal_that_might_land_after_the_lease_is_not_sent(
    storage: MemoryStorage, clock: FakeClock
) -> None:
    lock = handle(storage, clock)
    lock.acquire(0, ANN)
    clock.advance(58.5)

    with pytest.raises(WriterFenced):
        lock.renew()
    assert names(storage) == ["lock1.acquired"]


def test_a_renewal_amid_which_the_process_stood_still_does_not_count(
    storage: MemoryStorage, clock: FakeClock
) -> None:
    """Somebody may have called us dead before the beat landed, and say so right after our look."""

    def stand_still(call: Call) -> None:
        if call.method == "replace":
            clock.advance(60)

    lock = handle(FaultyStorage(storage, before=stand_still), clock)
    lock.acquire(0, ANN)

    with pytest.raises(WriterFenced):
        lock.renew()
    assert not lock.held()


def test_a_released_file_that_another_put_fences_the_holder(
    storage: MemoryStorage, clock: FakeClock
) -> None:
    lock = handle(storage, clock)
    lock.acquire(0, ANN)
    storage.put_if_absent(f"{FOLDER}/lock1.released", b"")

    with pytest.raises(WriterFenced, match="nobody holds it now"):
        lock.check()


def test_a_number_that_was_tidied_away_is_not_taken_again(
    storage: MemoryStorage, clock: FakeClock
) -> None:
    """A writer slept between its look and its put, and its number has been used and deleted."""
    others = handle(storage, clock)
    others.acquire(0, ANN)
    others.release()
    slept: list[Call] = []

    def sleep(call: Call) -> None:
        if call.method == "put_if_absent" and not slept:
            slept.append(call)
            for _ in range(8):
                others.acquire(0, ANN)
                others.release()
            others.acquire(0, ANN)

    sleeper = handle(FaultyStorage(storage, before=sleep), clock)
    with pytest.raises(LockTimeout, match=r"ann\.example"):
        sleeper.acquire(1, BOB)

    assert slept[0].paths == (f"{FOLDER}/lock2.acquired",)
    assert others.check() > 0


@pytest.mark.parametrize("effect", [Effect.LOSE_REPLY, Effect.LOSE_REQUEST])
def test_an_unanswered_put_is_looked_for(
    storage: MemoryStorage, clock: FakeClock, effect: Effect
) -> None:
    lock = handle(FaultyStorage(storage, Fault(effect)), clock)
    lock.acquire(10, ANN)

    assert names(storage) == ["lock1.acquired"]
    assert lock.check() > 0


def test_an_unanswered_renewal_keeps_the_old_lease(
    storage: MemoryStorage, clock: FakeClock
) -> None:
    fault = Fault(Effect.LOSE_REPLY, path="*.heartbeat")
    lock = handle(FaultyStorage(storage, fault), clock)
    lock.acquire(0, ANN)
    clock.advance(40)
    with pytest.raises(StorageError):
        lock.renew()

    assert lock.check() == pytest.approx(20)


def test_an_unanswered_release_is_left_to_the_lease(
    storage: MemoryStorage, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    fault = Fault(Effect.LOSE_REQUEST, path="*.released")
    lock = handle(FaultyStorage(storage, fault), clock)
    lock.acquire(0, ANN)
    with caplog.at_level(logging.WARNING):
        lock.release()

    assert "was not released" in caplog.text
    handle(storage, clock).acquire(70, BOB)


def test_a_put_that_lands_late_makes_no_second_holder(
    storage: MemoryStorage, clock: FakeClock
) -> None:
    """The lost request of a writer that gave up arrives: it holds the lock up, but only so long."""
    with pytest.raises(LockTimeout):
        handle(FaultyStorage(storage, Fault(Effect.LOSE_REQUEST, times=99)), clock).acquire(1, ANN)
    late = handle(storage, clock)
    late.acquire(0, ANN)  # what that request would have put
    heir = handle(storage, clock)
    with pytest.raises(LockTimeout):
        heir.acquire(10, BOB)
    heir.acquire(60, BOB)

    assert heir.check() > 0


def test_files_that_make_no_sense_are_respected_for_a_lease(
    storage: MemoryStorage, clock: FakeClock
) -> None:
    storage.put_if_absent(f"{FOLDER}/lock7.acquired", b"20240101000000001")
    storage.put_if_absent(f"{FOLDER}/lockX.acquired", b"")
    lock = handle(storage, clock)

    with pytest.raises(LockTimeout, match="another program"):
        lock.acquire(30, ANN)
    lock.acquire(60, ANN)
    assert "lock8.acquired" in names(storage)


def test_a_lease_that_a_slow_store_could_outlast_is_refused(storage: MemoryStorage) -> None:
    with pytest.raises(ConfigError, match="too short"):
        NumberedFiles(storage, lease_s=3, margin_s=1)
