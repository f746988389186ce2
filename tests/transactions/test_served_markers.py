"""A transaction whose markers a service takes: sealed before they are read, dropped at its end."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from pyhudi.errors import WriteFailed
from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.filenames import BaseFileName, FileId
from pyhudi.storage.faults import Call, FaultyStorage
from pyhudi.transactions.heartbeat import HeartbeatPolicy
from pyhudi.transactions.markers.marker_log import Batching, MarkerRefused, Refusal
from pyhudi.transactions.markers.marker_service import MarkerService, OpenMarkers
from pyhudi.transactions.transaction import Transaction
from pyhudi.transactions.writer import WriterPolicy
from tests.transactions.world import World, Written, finish, footprint

SOON_S = 30


@pytest.fixture
def service(world: World) -> Iterator[MarkerService]:
    made = MarkerService(world.clock)
    yield made
    made.close()


def mark(transaction: Transaction, markers: OpenMarkers, group: str) -> str:
    """Have one data file marked; its path."""
    name = BaseFileName(FileId(group), "0-1-2", transaction.instant).render()
    markers.ask([f"a/{name}.marker.CREATE"]).result(SOON_S)
    return f"a/{name}"


def begin(world: World, service: MarkerService) -> tuple[Transaction, OpenMarkers]:
    transaction = world.begin()
    transaction.inflight(None)
    markers = service.open(world.memory, transaction.instant, Batching())
    transaction.keep_markers(markers)
    return transaction, markers


def refusal_of(markers: OpenMarkers) -> object:
    with pytest.raises(MarkerRefused) as error:
        markers.ask(["a/late.marker.CREATE"])
    return error.value.refusal


def test_strays_are_found_in_the_lists_and_nothing_stays_behind(
    world: World, service: MarkerService
) -> None:
    transaction, markers = begin(world, service)
    stray = mark(transaction, markers, "g1")
    world.memory.put_if_absent(stray, b"{}")
    mark(transaction, markers, "g2")

    seen: list[object] = []

    def ended(timeout_s: float) -> bool:
        seen.append(refusal_of(markers))
        return True

    transaction.seal(ended, [])
    assert seen == [Refusal.SEALED], "the service takes nothing while attempts may still write"
    assert not world.memory.exists(stray)
    transaction.commit(CommitMetadata("UPSERT"), footprint(transaction, Written(())))
    assert world.leftovers() == []
    assert refusal_of(markers) is Refusal.UNKNOWN


def test_an_abort_seals_before_it_deletes_and_drops_afterwards(
    world: World, service: MarkerService
) -> None:
    transaction, markers = begin(world, service)
    path = mark(transaction, markers, "g1")
    world.memory.put_if_absent(path, b"{}")
    transaction.abort()
    assert world.leftovers() == []
    assert refusal_of(markers) is Refusal.UNKNOWN


def test_the_next_writer_rolls_a_dead_one_back_by_its_lists(
    world: World, service: MarkerService
) -> None:
    transaction, markers = begin(world, service)
    path = mark(transaction, markers, "g1")
    world.memory.put_if_absent(path, b"{}")
    transaction._heartbeat.stop(settled=False)
    world.clock.advance(3_600)
    world.upsert({"k": "1"})
    assert world.leftovers() == []
    assert world.rows() == {"k": "1"}


@pytest.mark.parametrize("ending", ["seal", "abort"])
def test_a_list_that_is_being_written_for_too_long_fails_the_write_and_deletes_nothing(
    world: World, service: MarkerService, ending: str
) -> None:
    opened, reached = threading.Event(), threading.Event()

    def hold(call: Call) -> None:
        if call.method == "replace" and call.paths[0].endswith("MARKERS0"):
            reached.set()
            assert opened.wait(SOON_S)

    policy = WriterPolicy(heartbeat=HeartbeatPolicy(60_000, 2), seal_timeout_s=0.01)
    transaction = world.begin(policy=policy)
    transaction.inflight(None)
    slow = FaultyStorage(world.memory, before=hold)
    markers = service.open(slow, transaction.instant, Batching())
    transaction.keep_markers(markers)
    name = BaseFileName(FileId("g1"), "0-1-2", transaction.instant).render()
    answer = markers.ask([f"a/{name}.marker.CREATE"])
    assert reached.wait(SOON_S)
    if ending == "seal":
        with pytest.raises(WriteFailed, match="had not ended"):
            transaction.seal(lambda _: True, [])
    transaction.abort()
    opened.set()
    answer.result(SOON_S)
    assert [i.time for i in world.table().timeline().pending] == [transaction.instant]
    assert refusal_of(markers) is Refusal.UNKNOWN


def test_a_gate_that_was_never_asked_leaves_no_folder(world: World, service: MarkerService) -> None:
    transaction, _ = begin(world, service)
    finish(transaction, Written(()))
    assert world.leftovers() == []
