from __future__ import annotations

import itertools
import threading

import pytest

from pyhudi.errors import StorageError
from pyhudi.format.instants import InstantTime
from pyhudi.storage.faults import Call, Effect, Fault, FaultyStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.transactions.heartbeat import (
    FOLDER,
    PROBES,
    Heartbeat,
    HeartbeatPolicy,
    last_beat_ms,
    storage_now_ms,
)
from pyhudi.transactions.processes import LINUX, parse_process
from tests.fakes import FakeClock

T = InstantTime("20240101000000000")


def test_a_writer_counts_as_dead_after_one_interval_more_than_the_misses() -> None:
    assert HeartbeatPolicy(60_000, 2).lapse_ms == 180_000
    assert HeartbeatPolicy(1_000, 0).lapse_ms == 1_000


def test_a_beat_is_a_file_whose_age_tells_and_which_names_its_process() -> None:
    clock = FakeClock()
    storage = MemoryStorage(clock=clock)
    beating = Heartbeat(storage, clock, T, HeartbeatPolicy())
    assert last_beat_ms(storage, T) is None

    beating.beat()
    first = last_beat_ms(storage, T)
    clock.advance(5)
    beating.beat()

    assert first is not None
    assert last_beat_ms(storage, T) == first + 5_000
    assert parse_process(storage.read(f"{FOLDER}/{T}")) == LINUX.this()
    assert last_beat_ms(storage, InstantTime("20240101000000001")) is None


@pytest.mark.parametrize(("sweeps", "told"), [(0, True), (PROBES - 1, True), (PROBES, False)])
def test_the_storages_time_is_asked_again_where_others_sweep_the_question_up(
    sweeps: int, told: bool
) -> None:
    clock, left = FakeClock(), [sweeps]
    memory = MemoryStorage(clock=clock)

    def sweep(call: Call) -> None:
        if call.method == "list" and left[0]:
            left[0] -= 1
            memory.delete([file.path for file in memory.list(FOLDER)])

    clock.skew(3_600)
    now = storage_now_ms(FaultyStorage(memory, before=sweep), FakeClock())

    assert now == (clock.now_ms() if told else 0), "nobody is old by no time at all"
    assert memory.list(FOLDER) == []


def test_a_writer_knows_when_others_may_take_it_for_dead() -> None:
    clock = FakeClock()
    beating = Heartbeat(MemoryStorage(clock=clock), clock, T, HeartbeatPolicy(1_000, 2))
    beating.beat()

    clock.advance(2.9)
    assert not beating.lapsed()
    clock.advance(0.1)
    assert beating.lapsed()
    beating.beat()
    assert not beating.lapsed()


def test_only_a_beat_that_arrived_counts_and_from_before_it_was_sent() -> None:
    clock = FakeClock()

    def slow(call: Call) -> None:
        clock.advance(2)

    storage = FaultyStorage(
        MemoryStorage(clock=clock), Fault(Effect.FAIL_BEFORE, at=2), before=slow
    )
    beating = Heartbeat(storage, clock, T, HeartbeatPolicy(1_000, 2))
    beating.beat()
    clock.advance(1)
    assert beating.lapsed()  # 2 s in the put and 1 s since
    with pytest.raises(StorageError):
        beating.beat()
    assert beating.lapsed()


@pytest.mark.parametrize(
    "error",
    [StorageError("no route"), ConnectionResetError("by the peer"), KeyError("not of the storage")],
    ids=lambda error: type(error).__name__,
)
def test_the_thread_beats_goes_on_after_any_failure_and_ends(error: Exception) -> None:
    beats, count = threading.Semaphore(0), itertools.count()

    def fail_once(call: Call) -> None:
        if call.method == "replace":
            beats.release()
            if next(count) == 1:
                raise error

    inner = MemoryStorage()
    storage = FaultyStorage(inner, before=fail_once)
    beating = Heartbeat(storage, FakeClock(), T, HeartbeatPolicy(1, 2))
    beating.start()
    for _ in range(4):
        assert beats.acquire(timeout=60)
    beating.stop()

    assert inner.walk(FOLDER) == []
    assert not any(t.name == f"{FOLDER}/{T}" for t in threading.enumerate())


def test_an_unsettled_instant_keeps_its_last_beat() -> None:
    storage = MemoryStorage()
    beating = Heartbeat(storage, FakeClock(), T, HeartbeatPolicy())
    beating.start()

    beating.stop(settled=False)

    assert last_beat_ms(storage, T) is not None
