from __future__ import annotations

from pathlib import Path

import pytest

from pyhudi.errors import FileExists, StorageError
from pyhudi.storage.base import Storage
from pyhudi.storage.faults import (
    READS,
    Call,
    Effect,
    Fault,
    FaultyStorage,
    SimulatedCrash,
    every_crash,
)
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage
from tests.fakes import FakeClock


def write_three(storage: Storage) -> None:
    storage.put_if_absent("1.requested", b"")
    storage.replace("1.inflight", b"")
    storage.exists("1.inflight")
    storage.delete(["1.requested", "1.inflight"])


def paths(storage: Storage) -> list[str]:
    return [file.path for file in storage.walk("")]


def test_without_faults_the_calls_go_through_and_are_recorded() -> None:
    storage = FaultyStorage(MemoryStorage(clock=FakeClock()))

    write_three(storage)

    assert [str(call) for call in storage.calls] == [
        "put_if_absent 1.requested",
        "replace 1.inflight",
        "exists 1.inflight",
        "delete 1.requested 1.inflight",
    ]
    assert len(storage.writes) == 3
    with pytest.raises(FileNotFoundError):
        storage.read("1.requested")


@pytest.mark.parametrize(
    ("effect", "known", "left"),
    [
        (Effect.FAIL_BEFORE, True, []),
        (Effect.FAIL_AFTER, False, ["a"]),
        (Effect.LOSE_REQUEST, False, []),
        (Effect.LOSE_REPLY, False, ["a"]),
    ],
)
def test_a_fault_fails_with_or_without_the_effect(
    effect: Effect, known: bool, left: list[str]
) -> None:
    storage = FaultyStorage(MemoryStorage(), Fault(effect))

    with pytest.raises(StorageError) as failed:
        storage.put_if_absent("a", b"")

    assert failed.value.had_no_effect is known
    assert paths(storage) == left


def test_a_fault_strikes_as_often_as_it_is_told_and_then_no_more() -> None:
    storage = FaultyStorage(MemoryStorage(), Fault(Effect.FAIL_BEFORE, at=2, times=2))

    storage.put_if_absent("1", b"")
    for _ in range(2):
        with pytest.raises(StorageError):
            storage.put_if_absent("2", b"")
    storage.put_if_absent("2", b"")

    assert paths(storage) == ["1", "2"]


def test_a_fault_may_wait_for_a_path_and_a_method() -> None:
    storage = FaultyStorage(
        MemoryStorage(),
        Fault(Effect.FAIL_BEFORE, path="*/hoodie.properties", methods=READS),
    )
    storage.put_if_absent(".hoodie/hoodie.properties", b"x")
    assert not storage.exists(".hoodie/other")

    with pytest.raises(StorageError, match="injected before read"):
        storage.read(".hoodie/hoodie.properties")


def test_the_storages_own_refusal_is_not_hidden_by_a_fault_after_it() -> None:
    inner = MemoryStorage()
    inner.put_if_absent("a", b"")

    with pytest.raises(FileExists):
        FaultyStorage(inner, Fault(Effect.LOSE_REPLY)).put_if_absent("a", b"")


def test_nothing_reaches_the_storage_after_a_crash() -> None:
    inner = MemoryStorage()
    storage = FaultyStorage(inner, Fault(Effect.CRASH_BEFORE, at=2))

    with pytest.raises(SimulatedCrash, match=r"before replace 1\.inflight"):
        write_three(storage)
    with pytest.raises(SimulatedCrash, match="dead already"):
        storage.delete(["1.requested"])

    assert storage.crashed
    assert paths(inner) == ["1.requested"]


@pytest.mark.parametrize("method", ["put_if_absent", "replace"])
def test_a_put_that_stops_halfway_leaves_half_its_bytes_under_no_name_of_the_table(
    tmp_path: Path, method: str
) -> None:
    inner = LocalStorage(str(tmp_path))
    storage = FaultyStorage(inner, Fault(Effect.FAIL_HALFWAY))

    with pytest.raises(StorageError, match="injected halfway through") as failed:
        getattr(storage, method)("p/a", b"12345678")

    assert failed.value.had_no_effect
    assert paths(inner) == []
    assert [file.read_bytes() for file in (tmp_path / "p").iterdir()] == [b"1234"]
    storage.put_if_absent("p/a", b"again")
    assert storage.read("p/a") == b"again"


def test_every_crash_covers_both_sides_and_the_middle_of_each_write() -> None:
    healthy = FaultyStorage(MemoryStorage())
    write_three(healthy)
    left = []

    for fault in every_crash(healthy):
        inner = MemoryStorage()
        with pytest.raises(SimulatedCrash):
            write_three(FaultyStorage(inner, fault))
        left.append(paths(inner))

    one, two = ["1.requested"], ["1.inflight", "1.requested"]
    assert left == [[], [], one, one, one, two, two, []]


def test_a_race_can_be_staged_before_a_call() -> None:
    inner = MemoryStorage()

    def rival(call: Call) -> None:
        if call.paths == ("1.requested",) and not inner.exists("1.requested"):
            inner.put_if_absent("1.requested", b"theirs")

    with pytest.raises(FileExists):
        FaultyStorage(inner, before=rival).put_if_absent("1.requested", b"ours")
