from __future__ import annotations

import pytest

from pyhudi.errors import StorageError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.slow import OverRate, Pace, SlowStorage, by_folder
from tests.fakes import FakeClock


def slow(pace: Pace) -> tuple[SlowStorage, FakeClock]:
    clock = FakeClock()
    return SlowStorage(MemoryStorage(clock=clock), pace, clock), clock


def waited(clock: FakeClock) -> float:
    return round(sum(clock.slept), 6)


def test_every_request_takes_the_latency() -> None:
    storage, clock = slow(Pace(latency_ms=20, puts_a_second=1e9, gets_a_second=1e9))

    storage.put_if_absent("a", b"1")
    storage.read("a")
    storage.list("")
    storage.exists("b")

    assert waited(clock) == 0.08


def test_who_comes_too_soon_waits_for_his_turn_and_reads_have_turns_of_their_own() -> None:
    storage, clock = slow(Pace(latency_ms=0, puts_a_second=10, gets_a_second=1000))

    for number in range(5):
        storage.replace(str(number), b"")

    assert waited(clock) == 0.5
    storage.read("0")
    assert waited(clock) == 0.501


def test_a_batched_delete_is_one_request_and_takes_a_turn_for_each_of_its_names() -> None:
    storage, clock = slow(Pace(latency_ms=10, puts_a_second=1_000))

    storage.delete(f"p/{n}" for n in range(1_500))

    assert storage.counts == {"delete": 2}
    assert waited(clock) == 1.52


def test_a_listing_is_a_request_for_each_thousand_names() -> None:
    storage, _ = slow(Pace(latency_ms=0))
    for number in range(2_001):
        storage.put_if_absent(f"p/{number:04}", b"")
    storage.counts.clear()

    storage.walk("")
    storage.list("p")
    storage.list("absent")

    assert storage.counts == {"list": 7}
    storage.delete_folder("p")
    assert storage.counts == {"list": 10, "delete": 3}
    assert storage.requests == 13


def test_over_the_rate_a_strict_store_says_slow_down_and_does_nothing() -> None:
    storage, clock = slow(Pace(latency_ms=0, puts_a_second=2, over=OverRate.REFUSE))
    for name in "ab":
        storage.put_if_absent(name, b"")

    with pytest.raises(StorageError, match="SlowDown, HTTP 503") as refused:
        storage.put_if_absent("c", b"")

    assert refused.value.facts == {"path": "c", "had_no_effect": True}
    assert [file.path for file in storage.walk("")] == ["a", "b"]
    assert storage.refused == 1
    clock.advance(0.5)
    storage.put_if_absent("c", b"")
    with pytest.raises(StorageError, match="SlowDown"):
        storage.delete(["a"])
    assert storage.counts == {"put": 4, "list": 1, "delete": 1}


def test_after_a_rest_even_a_batch_above_the_rate_is_taken_and_paid_for_later() -> None:
    storage, clock = slow(Pace(latency_ms=0, puts_a_second=100, over=OverRate.REFUSE))

    storage.delete(str(n) for n in range(500))

    clock.advance(3.9)
    with pytest.raises(StorageError, match="SlowDown"):
        storage.replace("a", b"")
    clock.advance(0.2)
    storage.replace("a", b"")


def test_each_prefix_has_turns_of_its_own() -> None:
    pace = Pace(latency_ms=0, puts_a_second=1, over=OverRate.REFUSE, prefix_of=by_folder)
    storage, _ = slow(pace)

    storage.put_if_absent("p/1", b"")
    storage.put_if_absent("q/1", b"")
    with pytest.raises(StorageError, match="memory:/table/p'"):
        storage.put_if_absent("p/2", b"")
