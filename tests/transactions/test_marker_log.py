from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, wait

import pytest

from pyhudi.clock import SystemClock
from pyhudi.errors import StorageError, TableCorrupt
from pyhudi.format.instants import InstantTime
from pyhudi.format.markers import MarkerKind, marker_folder, marker_path
from pyhudi.storage.faults import Call, Effect, Fault, FaultyStorage, SimulatedCrash
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.transactions.markers import marker_log
from pyhudi.transactions.markers.marker_log import Batching, MarkerLog, Refusal
from pyhudi.transactions.markers.markers import delete_markers, marked_files
from tests.fakes import FakeClock

T = InstantTime("20240101000000000")
FOLDER = marker_folder(T)
SOON_S = 30


def name(number: int, kind: str = "CREATE") -> str:
    return f"dt=1/{number:04d}-0_0-1-2_{T}.parquet.marker.{kind}"


def lists(storage: MemoryStorage | FaultyStorage) -> dict[str, list[str]]:
    """Each ``MARKERS<n>`` file's lines, its bytes checked to be whole lines."""
    found = {}
    for file in storage.list(FOLDER):
        if file.name != "MARKERS.type":
            text = storage.read(file.path).decode()
            assert text.endswith("\n"), "Hudi reads lines"
            found[file.name] = text[:-1].split("\n")
    return found


def refusal(error: pytest.ExceptionInfo[StorageError]) -> object:
    return error.value.refusal


class Gate:
    """Holds storage calls that replace a list until it is opened; tells how many it holds."""

    def __init__(self, only: str = "MARKERS0") -> None:
        self.only = only
        self.open = threading.Event()
        self.reached = threading.Semaphore(0)

    def __call__(self, call: Call) -> None:
        if call.method == "replace" and call.paths[0].endswith(self.only):
            self.reached.release()
            assert self.open.wait(SOON_S), "nobody opened the gate"

    def await_one(self) -> None:
        assert self.reached.acquire(timeout=SOON_S), "no write came"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def logs() -> Iterator[list[MarkerLog]]:
    """Logs to be ended with the test."""
    made: list[MarkerLog] = []
    yield made
    for log in made:
        log.seal(0)


def test_the_files_have_the_bytes_that_hudi_writes(clock: FakeClock) -> None:
    storage = MemoryStorage()
    log = MarkerLog(storage, T, clock, Batching(interval_ms=0))
    log.ask([name(1), name(2, "MERGE")]).result(SOON_S)
    log.ask([name(3, "APPEND")]).result(SOON_S)
    assert log.seal(SOON_S)

    assert storage.read(f"{FOLDER}/MARKERS.type") == b"TIMELINE_SERVER_BASED"
    assert storage.read(f"{FOLDER}/MARKERS0") == f"{name(1)}\n{name(2, 'MERGE')}\n".encode()
    assert storage.read(f"{FOLDER}/MARKERS1") == f"{name(3, 'APPEND')}\n".encode()
    assert len(storage.walk("")) == 3


def test_the_type_is_written_before_the_first_list_and_only_once(clock: FakeClock) -> None:
    storage = FaultyStorage(MemoryStorage())
    log = MarkerLog(storage, T, clock, Batching(interval_ms=0))
    for number in range(3):
        log.ask([name(number)]).result(SOON_S)
    log.seal(SOON_S)
    written = [call.paths[0].rpartition("/")[2] for call in storage.writes]
    assert written == ["MARKERS.type", "MARKERS0", "MARKERS1", "MARKERS2"]


def test_nothing_is_read_or_written_before_the_first_request(clock: FakeClock) -> None:
    storage = FaultyStorage(MemoryStorage())
    log = MarkerLog(storage, T, clock, Batching())
    assert log.seal(0)
    assert storage.calls == []


def test_files_are_bounded_and_taken_in_turn(clock: FakeClock) -> None:
    storage = MemoryStorage()
    log = MarkerLog(storage, T, clock, Batching(interval_ms=0, threads=3))
    for number in range(8):
        log.ask([name(number)]).result(SOON_S)
    log.seal(SOON_S)
    assert lists(storage) == {
        "MARKERS0": [name(0), name(3), name(6)],
        "MARKERS1": [name(1), name(4), name(7)],
        "MARKERS2": [name(2), name(5)],
    }


def test_never_more_than_twenty_files_are_made(clock: FakeClock) -> None:
    storage = MemoryStorage()
    log = MarkerLog(storage, T, clock, Batching(interval_ms=0, threads=500))
    for number in range(45):
        log.ask([name(number)]).result(SOON_S)
    log.seal(SOON_S)
    assert len(lists(storage)) == 20


def test_a_marker_asked_again_is_answered_without_a_write(clock: FakeClock) -> None:
    storage = FaultyStorage(MemoryStorage())
    log = MarkerLog(storage, T, clock, Batching(interval_ms=0))
    log.ask([name(1), name(2)]).result(SOON_S)
    before = len(storage.calls)
    assert log.ask([name(2), name(1)]).done()
    log.ask([name(1), name(3), name(3)]).result(SOON_S)
    log.seal(SOON_S)
    assert len(storage.calls) == before + 1
    assert lists(storage) == {"MARKERS0": [name(1), name(2)], "MARKERS1": [name(3)]}


def test_what_an_earlier_server_wrote_is_read_on_the_first_request(clock: FakeClock) -> None:
    storage = FaultyStorage(MemoryStorage())
    storage.replace(f"{FOLDER}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    storage.replace(f"{FOLDER}/MARKERS0", f"{name(1)}\n{name(2)}".encode())
    storage.replace(f"{FOLDER}/MARKERS77", f"{name(3)}\n".encode())
    storage.calls.clear()
    log = MarkerLog(storage, T, clock, Batching(interval_ms=0, threads=1))
    log.ask([name(1), name(3)]).result(SOON_S)
    assert storage.writes == []
    log.ask([name(4)]).result(SOON_S)
    log.ask([name(5)]).result(SOON_S)
    log.seal(SOON_S)
    found = [path for path in lists(storage).values() for path in path]
    assert sorted(found) == [name(n) for n in (1, 2, 3, 4, 5)]
    assert marked_files(storage, T) == [name(n).removesuffix(".marker.CREATE") for n in range(1, 6)]


def test_an_instant_with_direct_markers_gets_no_lists(clock: FakeClock) -> None:
    storage = FaultyStorage(MemoryStorage())
    storage.put_if_absent(marker_path(T, f"p/x-0_0-1-2_{T}.parquet", MarkerKind.CREATE), b"")
    log = MarkerLog(storage, T, clock, Batching())
    with pytest.raises(TableCorrupt, match="one kind of markers|direct marker"):
        log.ask([name(1)]).result(SOON_S)
    log.seal(SOON_S)
    assert [f.name for f in storage.list(FOLDER)] == []


def test_a_request_is_answered_only_once_its_batch_is_on_storage(
    clock: FakeClock, logs: list[MarkerLog]
) -> None:
    gate = Gate()
    storage = FaultyStorage(MemoryStorage(), before=gate)
    log = MarkerLog(storage, T, clock, Batching())
    logs.append(log)
    answer = log.ask([name(1)])
    gate.await_one()
    again = log.ask([name(1)])
    assert not answer.done()
    assert not again.done(), "a marker on its way is no marker yet"
    gate.open.set()
    answer.result(SOON_S)
    again.result(SOON_S)


def test_requests_that_come_during_a_write_share_the_next_one(
    clock: FakeClock, logs: list[MarkerLog]
) -> None:
    gate = Gate()
    storage = FaultyStorage(MemoryStorage(), before=gate)
    log = MarkerLog(storage, T, clock, Batching(interval_ms=50))
    logs.append(log)
    first = log.ask([name(0)])
    gate.await_one()
    # The fake clock stands still: the interval does not pass.
    rest = [log.ask([name(number)]) for number in range(1, 101)]
    assert not any(answer.done() for answer in rest)
    gate.open.set()
    wait([first, *rest], SOON_S)
    assert log.seal(SOON_S)
    assert lists(storage) == {"MARKERS0": [name(0)], "MARKERS1": [name(n) for n in range(1, 101)]}


def test_after_the_interval_another_thread_writes_another_file_meanwhile(
    clock: FakeClock, logs: list[MarkerLog]
) -> None:
    gate = Gate("MARKERS0")
    storage = FaultyStorage(MemoryStorage(), before=gate)
    log = MarkerLog(storage, T, clock, Batching(interval_ms=50, threads=2))
    logs.append(log)
    log.ask([]).result(SOON_S)
    first = log.ask([name(0)])
    gate.await_one()
    second = log.ask([name(1)])
    clock.advance(0.05)
    second.result(SOON_S)
    assert not first.done()
    third = log.ask([name(2)])
    clock.advance(0.05)
    third.result(SOON_S)
    assert lists(storage) == {"MARKERS1": [name(1), name(2)]}, "a file has one writer at a time"
    gate.open.set()
    first.result(SOON_S)


def test_a_failed_write_fails_exactly_its_requests_and_claims_nothing(clock: FakeClock) -> None:
    inner = MemoryStorage()
    storage = FaultyStorage(inner, Fault(Effect.FAIL_BEFORE, at=2, path="*MARKERS[0-9]*"))
    log = MarkerLog(storage, T, clock, Batching(interval_ms=0))
    log.ask([name(1)]).result(SOON_S)
    with pytest.raises(StorageError, match="fault was injected"):
        log.ask([name(2)]).result(SOON_S)
    log.ask([name(3)]).result(SOON_S)
    assert name(2) not in str(lists(inner))
    log.ask([name(2)]).result(SOON_S)
    log.seal(SOON_S)
    assert sorted(n for found in lists(inner).values() for n in found) == [
        name(1), name(2), name(3),
    ]  # fmt: skip


def test_a_first_write_that_fails_is_tried_anew_from_the_type_on(clock: FakeClock) -> None:
    storage = FaultyStorage(MemoryStorage(), Fault(Effect.LOSE_REQUEST, path="*MARKERS.type"))
    log = MarkerLog(storage, T, clock, Batching(interval_ms=0))
    with pytest.raises(StorageError):
        log.ask([name(1)]).result(SOON_S)
    clock.advance(storage.put_timeout_s)
    log.ask([name(1)]).result(SOON_S)
    log.seal(SOON_S)
    assert marked_files(storage, T) == [name(1).removesuffix(".marker.CREATE")]


@pytest.mark.parametrize("effect", [Effect.LOSE_REPLY, Effect.LOSE_REQUEST])
def test_a_marker_of_unknown_outcome_is_written_again_and_its_file_rests(
    clock: FakeClock, effect: Effect
) -> None:
    inner = MemoryStorage()
    storage = FaultyStorage(inner, Fault(effect, path="*MARKERS0"))
    log = MarkerLog(storage, T, clock, Batching(interval_ms=0, threads=2))
    with pytest.raises(StorageError) as error:
        log.ask([name(1)]).result(SOON_S)
    assert not error.value.had_no_effect
    log.ask([name(1)]).result(SOON_S)
    log.ask([name(2)]).result(SOON_S)
    assert lists(inner)["MARKERS1"] == [name(1), name(2)]
    # Nothing has gone to MARKERS0 since: the lost put may still land and would undo it.
    clock.advance(storage.put_timeout_s)
    log.ask([name(3)]).result(SOON_S)
    log.seal(SOON_S)
    assert lists(inner)["MARKERS0"] == [name(3)]


def test_a_crash_of_the_process_answers_nobody_with_yes(clock: FakeClock) -> None:
    storage = FaultyStorage(MemoryStorage(), Fault(Effect.CRASH_AFTER, path="*MARKERS0"))
    log = MarkerLog(storage, T, clock, Batching(interval_ms=0))
    with pytest.raises(SimulatedCrash):
        log.ask([name(1)]).result(SOON_S)
    log.seal(SOON_S)


def test_after_the_seal_every_request_is_refused(clock: FakeClock) -> None:
    storage = FaultyStorage(MemoryStorage())
    log = MarkerLog(storage, T, clock, Batching())
    log.ask([name(1)]).result(SOON_S)
    assert log.seal(SOON_S)
    calls = len(storage.calls)
    for names in ([name(1)], [name(2)]):
        with pytest.raises(StorageError, match="has ended") as error:
            log.ask(names)
        assert refusal(error) is Refusal.SEALED
    assert len(storage.calls) == calls


def test_the_seal_waits_for_what_is_being_written_and_refuses_what_waits(
    clock: FakeClock,
) -> None:
    gate = Gate()
    storage = FaultyStorage(MemoryStorage(), before=gate)
    log = MarkerLog(storage, T, clock, Batching())
    under_way = log.ask([name(1)])
    gate.await_one()
    waiting = log.ask([name(2)])
    assert not log.seal(0), "a write is under way"
    with pytest.raises(StorageError) as error:
        waiting.result(SOON_S)
    assert refusal(error) is Refusal.SEALED
    gate.open.set()
    assert log.seal(SOON_S)
    under_way.result(0)
    assert lists(storage) == {"MARKERS0": [name(1)]}


@pytest.mark.parametrize("bound", ["MOST_QUEUED", "MOST_QUEUED_BYTES"])
def test_a_full_queue_refuses_instead_of_growing(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch, bound: str, logs: list[MarkerLog]
) -> None:
    monkeypatch.setattr(marker_log, bound, 2 if bound == "MOST_QUEUED" else 2 * len(name(0)))
    gate = Gate()
    storage = FaultyStorage(MemoryStorage(), before=gate)
    log = MarkerLog(storage, T, clock, Batching())
    logs.append(log)
    answers: list[Future[None]] = [log.ask([name(0)])]
    gate.await_one()
    answers += [log.ask([name(1)]), log.ask([name(2)])]
    with pytest.raises(StorageError) as error:
        log.ask([name(3)])
    assert refusal(error) is Refusal.BUSY
    gate.open.set()
    for answer in answers:
        answer.result(SOON_S)
    log.ask([name(3)]).result(SOON_S)


def test_one_bad_name_refuses_the_whole_request(clock: FakeClock) -> None:
    storage = FaultyStorage(MemoryStorage())
    log = MarkerLog(storage, T, clock, Batching())
    with pytest.raises(StorageError, match="is no marker") as error:
        log.ask([name(1), "../../etc/passwd.marker.CREATE"])
    assert refusal(error) is Refusal.MALFORMED
    assert log.seal(0)
    assert storage.calls == []


def test_a_successor_keeps_what_was_answered(clock: FakeClock) -> None:
    storage = FaultyStorage(MemoryStorage())
    log = MarkerLog(storage, T, clock, Batching(interval_ms=0))
    log.ask([name(1)]).result(SOON_S)
    successor = log.successor()
    assert successor is not None
    with pytest.raises(StorageError) as error:
        log.ask([name(2)])
    assert refusal(error) is Refusal.BUSY
    successor.ask([name(1)]).result(SOON_S)
    successor.ask([name(2)]).result(SOON_S)
    assert lists(storage) == {"MARKERS0": [name(1), name(2)]}
    successor.seal(SOON_S)
    assert successor.successor() is None, "what is sealed stays sealed"


def test_a_file_whose_put_was_lost_rests_for_a_successor_too(clock: FakeClock) -> None:
    inner = MemoryStorage()
    storage = FaultyStorage(inner, Fault(Effect.LOSE_REQUEST, path="*MARKERS0"))
    log = MarkerLog(storage, T, clock, Batching(interval_ms=0, threads=2))
    with pytest.raises(StorageError):
        log.ask([name(1)]).result(SOON_S)
    successor = log.successor()
    assert successor is not None
    for number in (1, 2):
        successor.ask([name(number)]).result(SOON_S)
    assert lists(inner) == {"MARKERS1": [name(1), name(2)]}

    clock.advance(storage.put_timeout_s)
    successor.ask([name(3)]).result(SOON_S)
    successor.seal(SOON_S)
    assert lists(inner)["MARKERS0"] == [name(3)]


def test_many_threads_lose_nothing_on_a_real_disk(tmp_path: object) -> None:
    storage = LocalStorage(str(tmp_path))
    log = MarkerLog(storage, T, SystemClock(), Batching(interval_ms=1, threads=4))

    def ask(first: int) -> None:
        for number in range(first, first + 40):
            log.ask([name(number)]).result(SOON_S)

    threads = [threading.Thread(target=ask, args=(40 * n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert log.seal(SOON_S)
    assert marked_files(storage, T) == [name(n).removesuffix(".marker.CREATE") for n in range(320)]
    delete_markers(storage, T)
    assert storage.walk(FOLDER) == []
