from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest

from pyhudi.errors import ConfigError, LockTimeout, StorageError, WriterFenced
from pyhudi.locks.base import LockOwner
from pyhudi.locks.filesystem import LOCK_PATH, FilesystemLock
from pyhudi.locks.leased import Sightings
from pyhudi.storage.base import Storage
from pyhudi.storage.faults import READS, Call, Effect, Fault, FaultyStorage
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage
from tests.fakes import FakeClock

ANN = LockOwner("20240101000000001", "ann.example", 11)
BOB = LockOwner("20240101000000002", "bob.example", 22)
HUDI_JSON = b"""{
  "lockCreateTime" : "2024-01-01 10:00:00.123",
  "lockThreadName" : "Driver-7",
  "lockStacksInfo" : [ "java.lang.Thread.getStackTrace (Thread.java:1564)" ]
}"""


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def storage(clock: FakeClock) -> MemoryStorage:
    return MemoryStorage(clock=clock)


def handle(storage: Storage, clock: FakeClock, **options: float) -> FilesystemLock:
    return FilesystemLock(storage, clock, **{"lease_s": 60.0, "margin_s": 2.0, **options})


def test_the_lock_is_hudis_file_with_hudis_keys(storage: MemoryStorage, clock: FakeClock) -> None:
    handle(storage, clock).acquire(0, ANN)

    content = json.loads(storage.read(".hoodie/lock"))

    assert content["lockCreateTime"] == "2023-11-14 22:13:20.000"
    assert content["lockThreadName"] == f"pyhudi {ANN.instant} on ann.example, process 11"
    assert content["lockStacksInfo"] == []


def test_a_release_leaves_nothing_behind(storage: MemoryStorage, clock: FakeClock) -> None:
    lock = handle(storage, clock)
    lock.acquire(0, ANN)
    lock.renew()
    lock.release()

    assert storage.walk("") == []


@pytest.mark.parametrize(
    ("content", "who"),
    [
        (HUDI_JSON, r"Apache Hudi \(thread 'Driver-7'\) since 2023-11-14 22:13:20 UTC"),
        (b"", "another program, probably Apache Hudi, since 2023-11-14 22:13:20 UTC"),
        (b"\xff\x00 half a fi", "another program"),
        (b'{"pyhudi": {"token": "of a later version"}}', "another program"),
        (b"[]", "another program"),
    ],
)
def test_another_programs_lock_is_respected_and_never_expires_by_default(
    storage: MemoryStorage, clock: FakeClock, content: bytes, who: str
) -> None:
    storage.put_if_absent(LOCK_PATH, content)

    with pytest.raises(LockTimeout, match=who) as refused:
        handle(storage, clock).acquire(5_000, ANN)

    assert "delete that file" in str(refused.value)
    assert "hoodie.write.lock.filesystem.expire" in str(refused.value)
    assert storage.read(LOCK_PATH) == content


def test_another_programs_lock_expires_at_the_age_that_hudi_is_told(
    storage: MemoryStorage, clock: FakeClock
) -> None:
    storage.put_if_absent(LOCK_PATH, b"")
    lock = handle(storage, clock, expire_minutes=10)
    clock.advance(9 * 60)

    with pytest.raises(LockTimeout):
        lock.acquire(50, ANN)
    lock.acquire(50, ANN)

    assert lock.check() > 0


def test_a_lease_is_no_longer_than_hudi_lets_our_file_grow_old(
    storage: MemoryStorage, clock: FakeClock
) -> None:
    lock = FilesystemLock(storage, clock, lease_s=600, margin_s=2, expire_minutes=1)
    lock.acquire(0, ANN)

    assert lock.check() == 60 - 2, "Hudi's clock may be ahead of the storage's"


def test_hudi_taking_the_lock_from_us_fences_us(storage: MemoryStorage, clock: FakeClock) -> None:
    lock = handle(storage, clock)
    lock.acquire(0, ANN)
    storage.replace(LOCK_PATH, HUDI_JSON)

    with pytest.raises(WriterFenced, match="Driver-7"):
        lock.check()
    lock.release()
    assert storage.read(LOCK_PATH) == HUDI_JSON


def test_hudi_deleting_our_lock_fences_us(storage: MemoryStorage, clock: FakeClock) -> None:
    lock = handle(storage, clock)
    lock.acquire(0, ANN)
    storage.delete([LOCK_PATH])

    with pytest.raises(WriterFenced, match="the file is gone"):
        lock.check()


def test_hadoops_checksum_of_an_older_lock_does_not_survive_ours(
    tmp_path: Path, clock: FakeClock
) -> None:
    lock = handle(LocalStorage(str(tmp_path)), clock)
    lock.acquire(0, ANN)
    (tmp_path / ".hoodie" / ".lock.crc").write_bytes(b"Hudi's")
    lock.release()

    assert os.listdir(tmp_path / ".hoodie") == []


def test_a_lock_whose_reply_was_lost_is_ours(storage: MemoryStorage, clock: FakeClock) -> None:
    lock = handle(FaultyStorage(storage, Fault(Effect.LOSE_REPLY)), clock)

    lock.acquire(0, ANN)

    assert lock.check() > 0


def test_a_request_that_was_lost_is_repeated(storage: MemoryStorage, clock: FakeClock) -> None:
    lock = handle(FaultyStorage(storage, Fault(Effect.LOSE_REQUEST, times=3)), clock)

    lock.acquire(10, ANN)

    assert lock.check() > 0


def test_a_storage_that_refuses_is_not_asked_again(
    storage: MemoryStorage, clock: FakeClock
) -> None:
    lock = handle(FaultyStorage(storage, Fault(Effect.FAIL_BEFORE)), clock)

    with pytest.raises(StorageError, match="injected"):
        lock.acquire(10, ANN)
    assert clock.slept == []


def test_a_renewal_that_stood_still_for_the_lease_does_not_count(
    storage: MemoryStorage, clock: FakeClock
) -> None:
    """Found by the explorer: the look was in time, the write that followed it was not."""
    stops: list[float] = []

    def stand_still(call: Call) -> None:
        if call.method == "replace" and stops:
            clock.advance(stops.pop())

    lock = handle(FaultyStorage(storage, before=stand_still), clock)
    lock.acquire(0, ANN)
    stops.append(61.0)

    with pytest.raises(WriterFenced, match="while it was being renewed"):
        lock.renew()
    with pytest.raises(WriterFenced, match="does not hold"):
        lock.check()


def test_a_renewal_whose_reply_was_lost_keeps_the_old_lease(
    storage: MemoryStorage, clock: FakeClock
) -> None:
    lock = handle(FaultyStorage(storage, Fault(Effect.LOSE_REPLY, methods={"replace"})), clock)
    lock.acquire(0, ANN)
    clock.advance(30)

    with pytest.raises(StorageError):
        lock.renew()

    assert lock.check() == 30
    lock.renew()
    assert lock.check() == 60


def test_a_release_that_fails_is_said_and_the_lock_then_expires(
    storage: MemoryStorage, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    lock = handle(FaultyStorage(storage, Fault(Effect.FAIL_BEFORE, methods={"delete"})), clock)
    lock.acquire(0, ANN)

    with caplog.at_level(logging.WARNING):
        lock.release()

    assert "could not be released" in caplog.text
    handle(storage, clock).acquire(70, BOB)


def test_a_holder_near_the_end_of_its_lease_leaves_the_file_to_its_heirs(
    storage: MemoryStorage, clock: FakeClock
) -> None:
    lock = handle(storage, clock)
    lock.acquire(0, ANN)
    clock.advance(58)

    with pytest.raises(WriterFenced, match="too late to renew"):
        lock.renew()
    lock.release()

    assert storage.exists(LOCK_PATH)
    assert not lock.held()


def test_an_heir_that_strikes_after_its_rivals_margin_neither_has_the_lock_nor_gives_it_up(
    storage: MemoryStorage, clock: FakeClock
) -> None:
    """Both saw the dead lock; the rival takes it whole between our last look and our replace."""
    handle(storage, clock).acquire(0, ANN)
    rival, eve = handle(storage, clock), LockOwner("20240101000000003", "eve.example", 33)
    with pytest.raises(LockTimeout):
        rival.acquire(50, eve)

    def rival_strikes_first(call: Call) -> None:
        if call.method == "replace" and not rival.held():
            rival.acquire(20, eve)
            assert rival.check() > 0

    heir = handle(FaultyStorage(storage, before=rival_strikes_first), clock)
    with pytest.raises(LockTimeout):
        heir.acquire(61, BOB)

    assert not heir.held()
    with pytest.raises(WriterFenced, match=BOB.host):
        rival.check()
    assert storage.exists(LOCK_PATH)


def test_a_holder_that_shows_life_right_before_a_takeover_keeps_its_lock(
    storage: MemoryStorage, clock: FakeClock
) -> None:
    """It slept on until the heir had seen enough, and renewed before the heir struck."""
    holder = handle(storage, clock)
    holder.acquire(0, ANN)
    sightings = Sightings()
    with pytest.raises(LockTimeout):
        heir_of(storage, clock, sightings).acquire(0, BOB)
    clock.advance(30)
    holder.renew()
    old = storage.read(LOCK_PATH)
    with pytest.raises(LockTimeout):
        heir_of(storage, clock, sightings).acquire(0, BOB)
    clock.advance(61)
    reads: list[Call] = []

    def show_life(call: Call) -> None:
        reads.extend([call] if call.method == "read" else [])
        if len(reads) == 2 and storage.read(LOCK_PATH) == old:
            # Its own clock stood still meanwhile.
            storage.replace(LOCK_PATH, old.replace(b'"beat": 1', b'"beat": 2'))

    heir = heir_of(FaultyStorage(storage, before=show_life), clock, sightings)
    with pytest.raises(LockTimeout):
        heir.acquire(0, BOB)

    assert b'"beat": 2' in storage.read(LOCK_PATH)
    assert not heir.held()


def heir_of(storage: Storage, clock: FakeClock, sightings: Sightings) -> FilesystemLock:
    return FilesystemLock(storage, clock, lease_s=60.0, margin_s=2.0, sightings=sightings)


@pytest.mark.parametrize("effect", [Effect.LOSE_REPLY, Effect.LOSE_REQUEST])
def test_a_takeover_that_got_no_answer_does_not_count_and_fails_nothing(
    storage: MemoryStorage, clock: FakeClock, effect: Effect
) -> None:
    """It may land late, on another writer's lock: it is left to its lease."""
    handle(storage, clock).acquire(0, ANN)
    lost = Fault(effect, methods=frozenset({"replace"}))
    faulty = FaultyStorage(storage, lost)
    heir = handle(faulty, clock)

    heir.acquire(150, BOB)

    assert heir.check() > 0
    assert [call.method for call in faulty.writes].count("replace") == 2


def test_a_release_leaves_another_programs_lock_alone(
    storage: MemoryStorage, clock: FakeClock
) -> None:
    """Hudi overwrites ours where it looked before we took it, whatever our lease says."""
    lock = handle(storage, clock)
    lock.acquire(0, ANN)
    storage.replace(LOCK_PATH, HUDI_JSON)
    assert lock.held()

    lock.release()

    assert storage.read(LOCK_PATH) == HUDI_JSON


@pytest.mark.parametrize("how", ["taken", "renewed", "taken over"])
def test_a_lease_begins_before_the_request_that_took_or_renewed_it(
    storage: MemoryStorage, clock: FakeClock, how: str
) -> None:
    def slow(call: Call) -> None:
        if call.method in ("put_if_absent", "replace"):
            clock.advance(1)

    if how == "taken over":
        handle(storage, clock).acquire(0, ANN)
    lock = handle(FaultyStorage(storage, before=slow), clock)
    lock.acquire(70, BOB)
    if how == "renewed":
        clock.advance(20)
        lock.renew()

    # A takeover waits for its rivals' requests as well, 2 s here.
    assert lock.check() == pytest.approx(60 - (3 if how == "taken over" else 1))


def test_a_takeover_that_was_too_slow_does_not_count_but_blocks_others_for_a_lease(
    storage: MemoryStorage, clock: FakeClock
) -> None:
    handle(storage, clock).acquire(0, ANN)
    stalls = iter([3.0])

    def stall(call: Call) -> None:
        if call.method == "replace":
            clock.advance(next(stalls, 0.0))

    heir = handle(FaultyStorage(storage, before=stall), clock)
    with pytest.raises(LockTimeout, match=BOB.host):
        heir.acquire(62, BOB)
    assert not heir.held()
    with pytest.raises(LockTimeout):
        handle(storage, clock).acquire(55, ANN)

    heir.acquire(70, BOB)
    assert heir.check() > 0


def test_a_takeover_that_was_overtaken_while_it_waited_does_not_count(
    storage: MemoryStorage, clock: FakeClock
) -> None:
    handle(storage, clock).acquire(0, ANN)
    took: list[Call] = []

    def rival_strikes_after(call: Call) -> None:
        if call.method == "read" and took and took[-1].method == "replace":
            storage.replace(LOCK_PATH, HUDI_JSON)
        took.append(call)

    heir = handle(FaultyStorage(storage, before=rival_strikes_after), clock)
    with pytest.raises(LockTimeout, match="Driver-7"):
        heir.acquire(70, BOB)

    assert not heir.held()


def test_a_lock_that_cannot_be_read_is_not_taken(storage: MemoryStorage, clock: FakeClock) -> None:
    handle(storage, clock).acquire(0, ANN)
    broken = FaultyStorage(storage, Fault(Effect.FAIL_BEFORE, methods=READS))

    with pytest.raises(StorageError):
        handle(broken, clock).acquire(10, BOB)


@pytest.mark.parametrize(
    "options", [{"expire_minutes": -1}, {"lease_s": 6.0}, {"lease_s": 60.0, "margin_s": 20.0}]
)
def test_options_that_cannot_work_are_refused(
    storage: MemoryStorage, clock: FakeClock, options: dict[str, float]
) -> None:
    with pytest.raises(ConfigError) as refused:
        handle(storage, clock, **options)
    assert refused.value.facts["key"] == "hoodie.write.lock.filesystem.expire"


def test_the_defaults_fit_every_storage(storage: MemoryStorage, tmp_path: Path) -> None:
    for each in (storage, LocalStorage(str(tmp_path))):
        lock = FilesystemLock(each, FakeClock())
        lock.acquire(0, ANN)
        assert lock.check(needed_s=each.put_timeout_s) >= 30


def test_a_wait_of_more_than_two_seconds_says_once_what_it_waits_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = FakeClock()
    storage = MemoryStorage(clock=clock)
    holder, waiting = handle(storage, clock), handle(storage, clock)
    holder.acquire(0, ANN)
    with caplog.at_level(logging.WARNING, "pyhudi"), pytest.raises(LockTimeout):
        waiting.acquire(1, BOB)
    assert caplog.messages == []
    with caplog.at_level(logging.WARNING, "pyhudi"), pytest.raises(LockTimeout):
        waiting.acquire(10, BOB)
    (told,) = caplog.messages
    assert told.startswith("Waiting for the lock 'memory:/")
    assert f"held by {ANN}" in told
    assert told.endswith("s more at most.")
