"""What every table lock promises, run against each of them under a clock that tests control."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pyhudi.clock import Clock, SystemClock
from pyhudi.errors import LockTimeout, WriterFenced
from pyhudi.locks.base import LockOwner, TableLock
from pyhudi.locks.leased import DECLARED
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.open import open_storage
from tests.contracts import lock_worlds
from tests.contracts.lock_worlds import LEASE_S, LockWorld, WatchedClock
from tests.fakes import FakeClock
from tests.s3_server import S3Server

ANN = LockOwner("20240101000000001", "ann.example", 11, "nightly load")
BOB = LockOwner("20240101000000002", "bob.example", 22)

NewHandle = Callable[[Clock], TableLock]


LOCKS = [
    "in process",
    "lock file in memory", "lock file on disk", "lock file on s3",
    "numbered files in memory", "numbered files on disk", "numbered files on s3",
    "storage in memory", "storage on s3",
    "dynamodb", "zookeeper", "hive metastore",
]  # fmt: skip


@pytest.fixture(params=LOCKS)
def lock_world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LockWorld]:
    """One free lock of each kind in turn."""
    kind, _, place = request.param.partition(" in memory")[0].partition(" on ")
    with ExitStack() as stack:
        if kind == "in process":
            world = lock_worlds.in_process()
        elif kind == "zookeeper":
            server = request.getfixturevalue("zookeeper")
            world = stack.enter_context(lock_worlds.zookeeper_lock(server))
        elif kind == "hive metastore":
            world = lock_worlds.hive_lock(request.getfixturevalue("metastore"))
        elif kind == "dynamodb":
            world = lock_worlds.dynamodb_lock(request.getfixturevalue("dynamodb"))
        else:
            on: Any = MemoryStorage()
            if place == "disk":
                on = LocalStorage(str(tmp_path))
            elif place == "s3":
                s3: S3Server = request.getfixturevalue("s3")
                on = open_storage(s3.new_table(), s3.hadoop_options)
            make = {
                "lock file": lock_worlds.lock_file,
                "numbered files": lock_worlds.numbered_files,
                "storage": lock_worlds.storage_lock,
            }[kind]
            world = make(on)
        stack.callback(world.close)
        yield world


@pytest.fixture
def new_handle(lock_world: LockWorld) -> NewHandle:
    """Makes handles on one and the same free lock."""
    return lock_world.handle


@pytest.fixture
def clock(lock_world: LockWorld) -> FakeClock:
    clock = WatchedClock(now_ms=1_704_067_200_000)
    clock.world = lock_world
    return clock


def test_a_free_lock_is_taken_at_once(new_handle: NewHandle, clock: FakeClock) -> None:
    lock = new_handle(clock)
    assert lock.describe() is None
    assert not lock.held()

    lock.acquire(0, ANN)

    assert lock.held()
    assert clock.slept == []


def test_a_taken_lock_times_out_and_names_owner_host_since_and_remedy(
    new_handle: NewHandle, clock: FakeClock
) -> None:
    new_handle(clock).acquire(0, ANN)
    clock.advance(1)

    with pytest.raises(LockTimeout) as refused:
        new_handle(clock).acquire(10, BOB)

    text = str(refused.value)
    assert text.startswith("[LOCK_TIMEOUT]")
    for fact in (ANN.instant, "ann.example", "process 11", "nightly load", "within 10 s"):
        assert fact in text
    assert "since 2024-01-01 00:00:00 UTC" in text
    assert refused.value.facts["owner"] == ANN
    assert refused.value.facts["host"] == "ann.example"
    assert refused.value.facts["since"] == 1_704_067_200_000
    assert 9.99 <= sum(clock.slept) < 12


def test_a_released_lock_can_be_taken_by_another(new_handle: NewHandle, clock: FakeClock) -> None:
    ann, bob = new_handle(clock), new_handle(clock)
    ann.acquire(0, ANN)

    ann.release()
    bob.acquire(0, BOB)

    assert not ann.held()
    assert bob.check() > 0


def test_a_released_lock_can_be_taken_again_by_the_same_handle(
    new_handle: NewHandle, clock: FakeClock
) -> None:
    lock = new_handle(clock)
    for _ in range(3):
        lock.acquire(0, ANN)
        assert lock.check() > 0
        lock.release()
        assert lock.describe() is None


def test_a_handle_that_has_the_lock_may_not_take_it_twice(
    new_handle: NewHandle, clock: FakeClock
) -> None:
    lock = new_handle(clock)
    lock.acquire(0, ANN)

    with pytest.raises(RuntimeError, match="already"):
        lock.acquire(10, ANN)


def test_anybody_can_read_who_holds_the_lock(new_handle: NewHandle, clock: FakeClock) -> None:
    new_handle(clock).acquire(0, ANN)

    holder = new_handle(clock).describe()

    assert holder is not None
    assert holder.owner == ANN
    assert holder.since_ms == 1_704_067_200_000
    # What is declared may be a little longer than what the holder counts on, as clocks run apart.
    assert LEASE_S <= holder.lease_s <= LEASE_S * DECLARED


def test_the_remaining_lease_falls_with_time_and_renewal_restores_it(
    new_handle: NewHandle, clock: FakeClock
) -> None:
    lock = new_handle(clock)
    lock.acquire(0, ANN)

    clock.advance(25)
    assert lock.check() == pytest.approx(LEASE_S - 25)
    lock.renew()
    assert lock.check() == pytest.approx(LEASE_S)

    clock.advance(50)
    lock.renew()
    clock.advance(50)
    assert lock.held()
    assert lock.check() == pytest.approx(LEASE_S - 50)


def test_a_holder_that_needs_longer_than_its_lease_is_fenced(
    new_handle: NewHandle, clock: FakeClock
) -> None:
    lock = new_handle(clock)
    lock.acquire(0, ANN)
    clock.advance(50)

    assert lock.check(needed_s=9) == pytest.approx(10)
    with pytest.raises(WriterFenced):
        lock.check(needed_s=10)


def test_a_holder_whose_lease_lapsed_is_fenced_though_nobody_took_over(
    new_handle: NewHandle, clock: FakeClock
) -> None:
    lock = new_handle(clock)
    lock.acquire(0, ANN)

    clock.advance(LEASE_S + 1)

    assert not lock.held()
    with pytest.raises(WriterFenced):
        lock.check()
    with pytest.raises(WriterFenced):
        lock.renew()


def test_the_lock_of_a_dead_holder_is_taken_over_after_its_lease(
    new_handle: NewHandle, clock: FakeClock
) -> None:
    dead, heir = new_handle(clock), new_handle(clock)
    dead.acquire(0, ANN)

    with pytest.raises(LockTimeout):
        heir.acquire(LEASE_S / 2, BOB)
    heir.acquire(LEASE_S, BOB)

    assert heir.check() > 0
    assert not dead.held()
    for call in (dead.check, dead.renew):
        with pytest.raises(WriterFenced):
            call()
    holder = dead.describe()
    assert holder is not None
    assert holder.owner == BOB


def test_a_holder_that_lost_its_lock_cannot_release_its_successors(
    new_handle: NewHandle, clock: FakeClock
) -> None:
    dead, heir = new_handle(clock), new_handle(clock)
    dead.acquire(0, ANN)
    heir.acquire(3 * LEASE_S, BOB)

    dead.release()

    assert heir.check() > 0


def test_a_holder_that_renews_is_never_taken_over(new_handle: NewHandle, clock: FakeClock) -> None:
    alive, rival = new_handle(clock), new_handle(clock)
    alive.acquire(0, ANN)

    for _ in range(4):
        with pytest.raises(LockTimeout):
            rival.acquire(LEASE_S / 2, BOB)
        alive.renew()

    assert alive.check() > 0


def test_a_wall_clock_that_jumps_does_not_end_a_lease(
    new_handle: NewHandle, clock: FakeClock
) -> None:
    alive, rival = new_handle(clock), new_handle(clock)
    alive.acquire(0, ANN)

    clock.skew(10 * LEASE_S)

    with pytest.raises(LockTimeout):
        rival.acquire(5, BOB)
    assert alive.check() > 0


def test_two_machines_whose_wall_clocks_differ_exclude_each_other(new_handle: NewHandle) -> None:
    here, ahead = FakeClock(), FakeClock(now_ms=1_900_000_000_000, seed=1)
    new_handle(here).acquire(0, ANN)

    with pytest.raises(LockTimeout):
        new_handle(ahead).acquire(5, BOB)


def test_releasing_what_is_not_held_does_nothing(new_handle: NewHandle, clock: FakeClock) -> None:
    holder, other = new_handle(clock), new_handle(clock)
    other.release()
    holder.acquire(0, ANN)

    other.release()

    assert holder.check() > 0
    holder.release()
    holder.release()
    assert other.describe() is None


def test_checking_what_is_not_held_is_refused(new_handle: NewHandle, clock: FakeClock) -> None:
    lock = new_handle(clock)
    new_handle(clock).acquire(0, ANN)

    for call in (lock.check, lock.renew):
        with pytest.raises(WriterFenced):
            call()


def test_threads_that_take_turns_lose_no_increment(new_handle: NewHandle) -> None:
    counter = [0]
    errors: list[BaseException] = []

    def work(number: int) -> None:
        lock = new_handle(SystemClock())
        try:
            for _ in range(5):
                lock.acquire(60, LockOwner(str(number), "host", number))
                seen = counter[0]
                lock.check()
                counter[0] = seen + 1
                lock.release()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert counter == [20]
