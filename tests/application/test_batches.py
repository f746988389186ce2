"""Which write of its batch a statement is, and what a query shows of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from pyhudi.application.batches import MicroBatch, Ordinals, Turn, progress_of
from pyhudi.config import resolve_write
from pyhudi.errors import CommitConflict, CommitUnknown, StorageError
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import InstantTime
from pyhudi.format.stream_marks import MOST_WRITES, Epoch
from pyhudi.transactions.epoch_conflicts import NAME, REPLACES
from pyhudi.transactions.transaction import Committed

BATCH = MicroBatch("query", "run", 7)
TIME = InstantTime("20260101000000000")


def taken(ordinals: Ordinals, place: str, batch: MicroBatch, kind: str = "") -> Turn:
    with ordinals.turn(place, batch, kind) as turn:
        assert turn is not None
        assert turn.batch == batch
        return turn


def ordinal(ordinals: Ordinals, place: str, batch: MicroBatch) -> int:
    return taken(ordinals, place, batch).ordinal


def test_the_writes_of_a_batch_to_one_table_are_numbered_in_their_order() -> None:
    ordinals = Ordinals()
    assert [ordinal(ordinals, "t", BATCH) for _ in range(3)] == [0, 1, 2]


def test_each_table_and_each_query_is_counted_by_itself() -> None:
    ordinals = Ordinals()
    other = MicroBatch("other", "run", 7)
    assert [ordinal(ordinals, r, b) for r in ("t", "u") for b in (BATCH, other)] == [0] * 4
    assert ordinal(ordinals, "t", BATCH) == 1


def test_the_next_batch_is_counted_from_0() -> None:
    ordinals = Ordinals()
    ordinal(ordinals, "t", BATCH)
    assert ordinal(ordinals, "t", MicroBatch("query", "run", 8)) == 0


def test_a_batch_that_another_run_of_its_query_repeats_is_counted_from_0() -> None:
    ordinals = Ordinals()
    ordinal(ordinals, "t", BATCH)
    again = MicroBatch("query", "a later run", 7)
    assert [ordinal(ordinals, "t", again) for _ in range(2)] == [0, 1]


def failed(ordinals: Ordinals, error: type[BaseException], beside: list[int] | None) -> None:
    """A write that fails; ``beside`` gets the number of another one that begins meanwhile."""
    with ordinals.turn("t", BATCH, "merge"):
        if beside is not None:
            beside.append(ordinal(ordinals, "t", BATCH))
        raise error("the write fails")


@pytest.mark.parametrize("error", [CommitConflict, CommitUnknown, StorageError, KeyboardInterrupt])
def test_a_write_that_fails_gives_its_number_back(error: type[BaseException]) -> None:
    ordinals = Ordinals()
    ordinal(ordinals, "t", BATCH)
    for _ in range(2):
        with pytest.raises(error):
            failed(ordinals, error, None)
    assert taken(ordinals, "t", BATCH, "insert") == Turn(BATCH, 1, ("", "insert"))
    assert ordinal(ordinals, "t", BATCH) == 2


def test_a_write_that_fails_after_the_next_one_has_begun_keeps_its_number() -> None:
    ordinals = Ordinals()
    beside: list[int] = []
    with pytest.raises(StorageError):
        failed(ordinals, StorageError, beside)
    assert beside == [1]
    assert ordinal(ordinals, "t", BATCH) == 2


def test_a_turn_says_what_the_writes_of_its_batch_to_its_table_are() -> None:
    ordinals = Ordinals()
    taken(ordinals, "t", BATCH, "delete")
    taken(ordinals, "u", BATCH, "merge")
    assert taken(ordinals, "t", BATCH, "insert").made == ("delete", "insert")
    for _ in range(MOST_WRITES):
        last = taken(ordinals, "t", BATCH, "insert")
    assert last.ordinal == MOST_WRITES + 1
    assert len(last.made) == MOST_WRITES


def test_a_write_outside_of_a_batch_has_no_turn() -> None:
    with Ordinals().turn("t", None) as turn:
        assert turn is None


def test_threads_of_one_batch_take_each_number_once() -> None:
    ordinals = Ordinals()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: ordinal(ordinals, "t", BATCH), range(200)))
    assert sorted(found) == list(range(200))


def test_no_table_of_a_running_batch_is_forgotten() -> None:
    ordinals = Ordinals(queries=1)
    assert {ordinal(ordinals, f"t{n}", BATCH) for n in range(2_000)} == {0}
    assert {ordinal(ordinals, f"t{n}", BATCH) for n in range(2_000)} == {1}


def test_the_query_that_has_written_least_recently_is_forgotten_first() -> None:
    ordinals = Ordinals(queries=2)
    first, second, third = (MicroBatch(query, "run", 7) for query in ("a", "b", "c"))
    for batch in (first, second, first, third):
        ordinal(ordinals, "t", batch)
    assert ordinal(ordinals, "t", first) == 2
    assert ordinal(ordinals, "t", second) == 0


def test_a_turn_has_the_stream_of_its_options() -> None:
    options = resolve_write({NAME: "orders", REPLACES: "old"})
    made = ("delete", "insert")
    assert Turn(BATCH, 1, made).epoch(options) == Epoch("orders", "query", 7, 1, "old", made)
    assert Turn(BATCH, 0).epoch(resolve_write({})) == Epoch("default_single_writer", "query", 7)


def test_a_batch_that_committed_nothing_shows_its_time_alone() -> None:
    assert progress_of(None, 2, 2.25) == {"writeMs": "250"}


def test_a_row_that_moved_to_another_partition_shows_as_an_update() -> None:
    stat = WriteStat(
        FileId("a"), "x/a", "x", num_inserts=4, num_updates=2, num_deletes=3, file_size_bytes=10
    )
    metadata = CommitMetadata("UPSERT", (stat,))
    done = Committed(TIME, TIME, metadata, rows_moved=1, lock_wait_ms=5, ended_s=2.75)
    assert progress_of(done, 2, 3) == {
        "writeMs": "1000",
        "commitMs": "750",
        "instant": TIME,
        "completedAt": TIME,
        "rowsIn": "8",
        "rowsInserted": "3",
        "rowsUpdated": "3",
        "rowsDeleted": "2",
        "filesWritten": "1",
        "bytesWritten": "10",
        "lockWaitMs": "5",
        "retries": "0",
    }
