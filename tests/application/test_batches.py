"""Which write of its batch a statement is, and what a query shows of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from pyhudi.application.batches import MicroBatch, Ordinals, Turn, progress_of
from pyhudi.config import resolve_write
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import InstantTime
from pyhudi.format.stream_marks import Epoch
from pyhudi.transactions.epochs import NAME, REPLACES
from pyhudi.transactions.transaction import Committed

BATCH = MicroBatch("query", "run", 7)
TIME = InstantTime("20260101000000000")


def ordinal(ordinals: Ordinals, root: str, batch: MicroBatch, again: bool = False) -> int:
    turn = ordinals.turn(root, batch, again)
    assert turn is not None
    assert turn.batch == batch
    return turn.ordinal


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


def test_a_statement_that_is_evaluated_again_keeps_its_number() -> None:
    ordinals = Ordinals()
    assert [ordinal(ordinals, "t", BATCH, again) for again in (False, False, True, True)] == [
        0,
        1,
        1,
        1,
    ]
    assert ordinal(ordinals, "t", BATCH) == 2


def test_a_statement_outside_of_a_batch_has_no_turn() -> None:
    assert Ordinals().turn("t", None) is None


def test_threads_of_one_batch_take_each_number_once() -> None:
    ordinals = Ordinals()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: ordinal(ordinals, "t", BATCH), range(200)))
    assert sorted(found) == list(range(200))


def test_the_table_that_was_written_least_recently_is_forgotten_first() -> None:
    ordinals = Ordinals(limit=2)
    for root in ("t", "u", "t", "v"):
        ordinal(ordinals, root, BATCH)
    assert ordinal(ordinals, "t", BATCH) == 2
    assert ordinal(ordinals, "u", BATCH) == 0


def test_a_turn_has_the_stream_of_its_options() -> None:
    options = resolve_write({NAME: "orders", REPLACES: "old"})
    assert Turn(BATCH, 1).epoch(options) == Epoch("orders", "query", 7, 1, "old")
    assert Turn(BATCH, 0).epoch(resolve_write({})) == Epoch("default_single_writer", "query", 7)


def test_a_batch_that_committed_nothing_shows_its_time_alone() -> None:
    assert progress_of(None, 0.25) == {"writeMs": "250"}


def test_a_row_that_moved_to_another_partition_shows_as_an_update() -> None:
    stat = WriteStat(
        FileId("a"), "x/a", "x", num_inserts=4, num_updates=2, num_deletes=3, file_size_bytes=10
    )
    done = Committed(TIME, TIME, CommitMetadata("UPSERT", (stat,)), rows_moved=1, lock_wait_ms=5)
    assert progress_of(done, 1.0) == {
        "writeMs": "1000",
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
