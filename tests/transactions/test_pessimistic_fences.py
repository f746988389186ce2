"""Pessimistic writes: who is fenced, and what was written beside them without locks."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from pyhudi.errors import WriteFailed, WriterFenced
from pyhudi.format.instants import Action
from pyhudi.locks.filesystem import FilesystemLock
from pyhudi.locks.group_locks import GroupLocks
from pyhudi.locks.in_process import InProcessLock
from pyhudi.transactions.transaction import Transaction
from pyhudi.transactions.writer import Writer
from tests.transactions.pessimists import (
    LEASE_S,
    begin,
    foreign_upsert,
    groups_of,
    hand,
    upsert,
)
from tests.transactions.world import (
    NEVER,
    World,
    die,
    finish,
    other_lock,
    work,
)

# -- who has lost its locks


def test_a_lock_of_a_group_that_another_program_took_is_asked_for_before_the_commit(
    shared: World,
) -> None:
    """By its own clock the write still has it; the table lock is not even taken."""

    def opened(name: str) -> FilesystemLock:
        return FilesystemLock(
            shared.memory, shared.clock, path=f".hoodie/.locks/{len(name)}", lease_s=LEASE_S
        )

    with GroupLocks(opened, shared.clock, 9, 20) as groups:
        transaction = begin(shared, groups)
        transaction.check_updates(groups_of(shared, transaction))
        written = work(transaction, {"k": "1"})
        (taken,) = shared.memory.walk(".hoodie/.locks")
        shared.memory.replace(taken.path, b"")
        assert groups.intact()

        with pytest.raises(WriterFenced, match="did not last"):
            finish(transaction, written)
        transaction.abort()

    assert shared.rows() == {"k": "0", "j": "0"}


# -- who is fenced


def test_a_writer_that_lost_a_group_lock_is_fenced_before_the_commit(shared: World) -> None:
    ours = hand(shared)
    slow = begin(shared, ours)
    slow.check_updates(groups_of(shared, slow))
    written = work(slow, {"k": "slow"})
    ours.stop()
    shared.clock.advance(LEASE_S + 1)
    with hand(shared) as theirs:
        upsert(shared, {"k": "fast"}, theirs)

    with pytest.raises(WriterFenced, match="did not last until the commit"):
        finish(slow, written)
    slow.abort()
    ours.release()

    assert shared.rows() == {"k": "fast", "j": "0"}
    assert shared.leftovers() == []


def test_early_detection_does_not_stop_who_has_taken_a_dead_writers_locks_over(
    shared: World,
) -> None:
    """The lock's lease is shorter than the time for which the dead writer's heartbeat counts."""
    dead = hand(shared)
    gone = begin(shared, dead)
    gone.check_updates(groups_of(shared, gone))
    work(gone, {"k": "dead"})
    die(gone)
    dead.stop()
    shared.clock.advance(LEASE_S + 1)

    table, lock, early = shared.table(), other_lock(shared), replace(NEVER, early=True)
    with hand(shared) as ours:
        mine = Transaction.begin(
            Writer(table, lock, shared.clock, early), Action.COMMIT, "upsert", ours
        )
        shared.transactions.append(mine)
        mine.check_updates(groups_of(shared, mine))
        finish(mine, work(mine, {"k": "1"}))
    assert shared.rows() == {"k": "1", "j": "0"}


def test_a_lease_that_ends_after_the_check_fences_under_the_table_lock(shared: World) -> None:
    class Late(InProcessLock):
        def acquire(self, timeout_s: float, owner: object) -> None:
            super().acquire(timeout_s, owner)  # type: ignore[arg-type]
            if armed:
                armed.pop()
                shared.clock.advance(LEASE_S - 1)
                shared.clock.advance(2)

    armed: list[bool] = []
    table_lock = Late(shared.locks, "t", shared.clock, 3 * LEASE_S)
    with hand(shared) as ours:
        slow = Transaction.begin(
            Writer(shared.table(), table_lock, shared.clock, NEVER), Action.COMMIT, "upsert", ours
        )
        shared.transactions.append(slow)
        slow.check_updates(groups_of(shared, slow))
        written = work(slow, {"k": "slow"})
        armed.append(True)
        with pytest.raises(WriterFenced, match="did not last until the commit"):
            finish(slow, written)
        slow.abort()
    assert shared.rows() == {"k": "0", "j": "0"}


def test_what_was_written_without_locks_on_our_groups_is_named_and_refused(shared: World) -> None:
    with hand(shared) as ours:
        mine = begin(shared, ours)
        (group,) = groups_of(shared, mine)
        mine.check_updates([group])
        written = work(mine, {"k": "1"})
        theirs = foreign_upsert(shared, {"k": "hudi"})
        with pytest.raises(WriteFailed, match="by Apache Hudi or a program like it") as failed:
            finish(mine, written)
        mine.abort()

    text = str(failed.value)
    assert mine.instant in text
    assert theirs.instant in text
    assert group[1] in text
    assert failed.value.facts["theirs"] == theirs.instant
    assert shared.rows() == {"k": "hudi", "j": "0"}
    assert shared.leftovers() == []


def test_what_was_written_without_locks_elsewhere_is_a_warning(
    shared: World, caplog: pytest.LogCaptureFixture
) -> None:
    if shared.version == 6:
        pytest.skip("in layout 1 the older instant may not complete at all")
    with hand(shared) as ours:
        mine = begin(shared, ours)
        mine.check_updates(groups_of(shared, mine))
        written = work(mine, {"k": "1"})
        theirs = foreign_upsert(shared, {"new": "hudi"})
        with caplog.at_level(logging.WARNING):
            finish(mine, written)

    assert f"upsert {theirs.instant} was written by a program that locks no" in caplog.text
    assert shared.rows() == {"k": "1", "j": "0", "new": "hudi"}
