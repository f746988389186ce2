"""When a write is done again: a stream's epoch does not end because of others, any other does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest

from pyhudi.errors import (
    CommitConflict,
    CommitUnknown,
    HudiError,
    LockTimeout,
    StorageError,
    UnsupportedTable,
    WriteFailed,
    WriterFenced,
)
from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import InstantTime
from pyhudi.format.stream_marks import Epoch
from pyhudi.timeline.table import Table
from pyhudi.transactions.conflicts.comparison import Group
from pyhudi.transactions.transaction import Committed
from pyhudi.writes.retries import (
    EPOCH_RETRIES,
    MOST_COMPACTIONS,
    MOST_WAITS,
    Retries,
    most_retries,
)
from tests.transactions.world import LAPSE_S, LAZY, World, die, finish, settle, work

T1 = InstantTime("20260101000000001")
DONE = Committed(T1, T1, CommitMetadata())
EPOCH = Epoch("s", "q", 3)
LATE = [
    LockTimeout("It is taken."),
    CommitUnknown("No answer.", instant=T1),
    WriterFenced("It was taken for dead.", instant=T1),
]


@dataclass
class Count:
    retries: int = 0
    sure: bool = False
    logged: frozenset[Group] = frozenset()
    deleting: frozenset[Group] = frozenset()


@pytest.fixture
def world() -> Iterator[World]:
    found = World()
    yield found
    found.close()


def retries(world: World, most: int = 3, epoch: Epoch | None = None, once: bool = False) -> Retries:
    def writer(table: Table) -> object:
        return world.writer(policy=LAZY, table=table)

    return Retries(world.clock, most, Count(), writer, epoch, once)  # type: ignore[arg-type]


def failing(*errors: HudiError) -> tuple[Callable[[Table, bool], Committed], list[bool]]:
    """An attempt that raises these in turn, then succeeds; and whether each was one again."""
    left, seen = list(errors), list[bool]()

    def attempt(table: Table, again: bool) -> Committed:
        seen.append(again)
        if left:
            raise left.pop(0)
        return DONE

    return attempt, seen


@pytest.mark.parametrize("epoch", [None, EPOCH])
def test_a_lost_race_is_written_again_after_a_pause(world: World, epoch: Epoch | None) -> None:
    attempt, seen = failing(CommitConflict("Lost."), CommitConflict("Lost."))
    again = retries(world, epoch=epoch)
    assert again.run(attempt, world.table()) is DONE
    assert seen == [False, True, True]
    assert again.count.retries == len(world.clock.slept) == 2


@pytest.mark.parametrize("pending", [False, True])
def test_a_stream_waits_for_a_pending_service_longer_than_for_other_writers(
    world: World, pending: bool
) -> None:
    late = CommitConflict("A clustering is to rewrite it.", pending=pending)
    attempt, _ = failing(*[late] * EPOCH_RETRIES)
    began = world.clock.now_ms()
    assert retries(world, EPOCH_RETRIES, EPOCH).run(attempt, world.table()) is DONE
    minutes = (world.clock.now_ms() - began) / 60_000
    assert (12 < minutes < 50) if pending else (minutes < 3)
    once = retries(world, EPOCH_RETRIES)
    once.count.retries = 20
    assert once.pause_ms(late) <= 3_000, "any other write ends soon, and says why"


def test_a_write_that_has_lost_too_often_says_so(world: World) -> None:
    attempt, seen = failing(*[CommitConflict("Lost.") for _ in range(9)])
    with pytest.raises(CommitConflict):
        retries(world, most=3).run(attempt, world.table())
    assert len(seen) == 4


@pytest.mark.parametrize("once", [False, True])
def test_a_key_taken_for_another_is_looked_up_and_written_again(world: World, once: bool) -> None:
    taken = WriteFailed("Another key has its hash.", misplaced=True)
    attempt, seen = failing(taken)
    again = retries(world, most=0, once=once)
    assert again.run(attempt, world.table()) is DONE
    assert seen == [False, True]
    assert again.count.sure
    assert again.count.retries == 0


def test_a_key_that_only_a_log_has_is_told(world: World) -> None:
    attempt, seen = failing(*[WriteFailed("Not there.", misplaced=True) for _ in range(3)])
    with pytest.raises(WriteFailed):
        retries(world).run(attempt, world.table())
    assert len(seen) == 2


LATE_ROW = WriteFailed("It came too late.", late=True, path="p/f.parquet")
COPIED = UnsupportedTable("The file has the key twice.", copied=True)
OF_LOGS = UnsupportedTable("The group has no base file.", of_logs=True)
LOGGED = {("p", "f"), ("p", "g")}


@pytest.mark.parametrize(
    ("failure", "groups"), [(LATE_ROW, {("p", "f")}), (COPIED, LOGGED), (OF_LOGS, LOGGED)]
)
def test_logs_in_the_way_are_compacted_first(
    world: World, failure: HudiError, groups: set[Group]
) -> None:
    attempt, seen = failing(failure)
    again, asked = retries(world, most=0), list[frozenset[Group]]()
    logged = frozenset({("p", FileId("f")), ("p", FileId("g"))})
    again.count.logged, again.count.deleting = logged, frozenset({("p", FileId("f"))})

    def compact(table: Table, named: frozenset[Group]) -> bool:
        asked.append(named)
        return True

    assert replace(again, compact=compact).run(attempt, world.table()) is DONE
    assert asked == [groups]
    assert seen == [False, True]
    assert again.count.retries == 0, "no race was lost"


def test_rows_of_a_statement_are_computed_again_after_that_compaction(world: World) -> None:
    attempt, seen = failing(LATE_ROW)
    again = retries(world, once=True)
    again.count.deleting = frozenset({("p", FileId("f"))})
    with pytest.raises(CommitConflict, match="Run it again") as late:
        replace(again, compact=lambda table, groups: True).run(attempt, world.table())
    assert len(seen) == 1
    assert retries(world, most=0, once=True).evaluated_in_ms(world.table(), late.value) == 0
    again.count.retries = 3 + MOST_COMPACTIONS
    assert again.evaluated_in_ms(world.table(), late.value) is None


@pytest.mark.parametrize(("most", "seen_in_all"), [(0, 1), (6, 6)])
def test_a_write_waits_for_others_who_compact_the_logs_in_its_way(
    world: World, most: int, seen_in_all: int
) -> None:
    """Its waits count as lost races, and are no compactions."""
    attempt, seen = failing(*[LATE_ROW] * 5)
    again = retries(world, most=most)
    again.count.deleting = frozenset({("p", FileId("f"))})

    def busy(table: Table, named: frozenset[Group]) -> bool:
        raise CommitConflict("Another program runs the compaction.", pending=True)

    patient = replace(again, compact=busy)
    if most:
        assert patient.run(attempt, world.table()) is DONE
    else:
        with pytest.raises(WriteFailed, match="too late"):
            patient.run(attempt, world.table())
    assert len(seen) == seen_in_all
    assert again.count.retries == len(world.clock.slept) == seen_in_all - 1
    with pytest.raises(CommitConflict, match="Another program"):
        replace(patient, once=True).run(failing(LATE_ROW)[0], world.table())


@pytest.mark.parametrize("compacts", [False, True])
def test_logs_in_the_way_end_a_write_if_compactions_do_not_help(
    world: World, compacts: bool
) -> None:
    attempt, seen = failing(*[LATE_ROW] * 9)
    again = retries(world)
    again.count.deleting = frozenset({("p", FileId("f"))})
    with pytest.raises(WriteFailed, match="too late"):
        replace(again, compact=lambda table, groups: compacts).run(attempt, world.table())
    assert len(seen) == (1 + MOST_COMPACTIONS if compacts else 1)


def test_another_failure_is_not_tried_again(world: World) -> None:
    attempt, seen = failing(WriteFailed("No space left."))
    with pytest.raises(WriteFailed):
        retries(world).run(attempt, world.table())
    assert len(seen) == 1


def test_a_wait_for_locks_is_no_lost_race(world: World) -> None:
    waits = [CommitConflict("It waited.", before_data=True) for _ in range(MOST_WAITS)]
    attempt, _ = failing(*waits)
    again = retries(world, most=0)
    assert again.run(attempt, world.table()) is DONE
    assert again.count.retries == 0


@pytest.mark.parametrize("late", LATE)
def test_what_may_have_had_an_effect_ends_a_write_but_no_stream(
    world: World, late: HudiError
) -> None:
    attempt, seen = failing(late)
    with pytest.raises(type(late)):
        retries(world).run(attempt, world.table())
    assert seen == [False]
    attempt, seen = failing(late, late)
    assert retries(world, epoch=EPOCH).run(attempt, world.table()) is DONE
    assert seen == [False, True, True]


@pytest.mark.parametrize("late", [*LATE, CommitConflict("Lost.")])
def test_rows_that_were_read_from_the_table_are_written_once(world: World, late: HudiError) -> None:
    attempt, seen = failing(late)
    with pytest.raises(type(late)):
        retries(world, epoch=EPOCH, once=True).run(attempt, world.table())
    assert seen == [False]


@pytest.mark.parametrize("late", LATE)
def test_a_statement_that_reads_its_table_is_evaluated_again_in_a_stream_alone(
    world: World, late: HudiError
) -> None:
    assert retries(world, once=True).evaluated_in_ms(world.table(), late) is None
    again = retries(world, epoch=EPOCH, once=True)
    assert again.evaluated_in_ms(world.table(), late) == 0
    again.count.retries = again.most
    assert again.evaluated_in_ms(world.table(), late) is None


@pytest.mark.parametrize("late", LATE)
def test_what_may_have_landed_is_not_hidden_by_a_storage_that_does_not_answer(
    world: World, late: HudiError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(storage: object) -> Table:
        raise StorageError("No answer.")

    monkeypatch.setattr("pyhudi.writes.retries.open_table", silent)
    attempt, _ = failing(late)
    with pytest.raises(type(late)):
        retries(world, epoch=EPOCH).run(attempt, world.table())


def test_an_unknown_outcome_is_settled_before_its_epoch_is_tried_again(world: World) -> None:
    """The files of the first try go, and no try after it takes them for another running write."""
    pending = []

    def attempt(table: Table, again: bool) -> Committed:
        pending.append([i.time for i in table.timeline().pending])
        if again:
            return DONE
        transaction = world.begin(policy=LAZY)
        work(transaction, {"k": "v"})
        die(transaction)
        raise CommitUnknown("No answer.", instant=transaction.instant)

    retries(world, epoch=EPOCH).run(attempt, world.table())
    assert pending == [[], []]
    assert world.leftovers() == []


def test_an_epoch_of_a_driver_that_was_taken_for_dead_is_written_once(world: World) -> None:
    """The machine stood still for longer than the heartbeat lasts, and another rolled it back."""

    def attempt(table: Table, again: bool) -> Committed:
        with world.begin(policy=LAZY) as transaction:
            written = work(transaction, {"k": "v"})
            if not again:
                world.clock.advance(LAPSE_S + 1)
                settle(world, LAZY)
            return finish(transaction, written)

    done = retries(world, epoch=EPOCH).run(attempt, world.table())
    assert [i.time for i in world.table().timeline().commits] == [done.instant]
    assert world.rows() == {"k": "v"}
    assert world.leftovers() == []


def test_a_stream_tries_often_and_any_other_write_as_often_as_was_asked() -> None:
    assert most_retries(3, None) == 3
    assert most_retries(3, EPOCH) == EPOCH_RETRIES
    assert most_retries(100, EPOCH) == 100
