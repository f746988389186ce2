"""The put that decides a commit, with its three outcomes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyhudi.errors import (
    CommitUnknown,
    StorageError,
)
from pyhudi.storage.faults import Call, Effect, Fault, FaultyStorage
from pyhudi.transactions.phases import Phase
from tests.transactions.world import (
    World,
    finish,
    work,
)

NewWorld = Callable[..., World]


def completed_file(world: World) -> str:
    return "*_*.commit" if world.version > 6 else "*[0-9].commit"


def test_a_lost_reply_at_the_final_put_is_tried_again_under_the_same_name(world: World) -> None:
    faulty = FaultyStorage(world.memory, Fault(Effect.LOSE_REPLY, path=completed_file(world)))

    done = world.upsert({"k": "1"}, faulty)

    puts = [c.paths[0] for c in faulty.writes if c.paths[0].endswith(".commit")]
    assert len(puts) == 2
    assert len(set(puts)) == 1
    assert [i.time for i in world.table().timeline().commits] == [done.instant]
    assert world.rows() == {"k": "1"}


def test_a_commit_whose_put_is_never_answered_is_unknown_and_nothing_is_deleted(
    world: World,
) -> None:
    faulty = FaultyStorage(
        world.memory, Fault(Effect.LOSE_REQUEST, path=completed_file(world), times=3)
    )
    transaction = world.begin(faulty)
    written = work(transaction, {"k": "1"})

    with pytest.raises(CommitUnknown) as unknown:
        finish(transaction, written)
    transaction.abort()

    assert unknown.value.facts["path"] in {c.paths[0] for c in faulty.writes}
    assert world.data_files() == {written.stats[0].path}
    assert world.memory.walk(".hoodie/.temp") != []
    assert [f.name for f in world.memory.list(".hoodie/.heartbeat")] == [transaction.instant]
    # Its beat stays and grows old, so that a later writer may judge it: here it never landed.
    world.upsert({"j": "2"})
    assert world.rows() == {"j": "2"}
    assert world.leftovers() == []


def test_an_unanswered_put_that_landed_is_found_by_looking(world: World) -> None:
    faulty = FaultyStorage(
        world.memory,
        Fault(Effect.LOSE_REPLY, path=completed_file(world)),
        Fault(Effect.LOSE_REQUEST, at=2, path=completed_file(world), times=2),
    )

    world.upsert({"k": "1"}, faulty)

    assert world.rows() == {"k": "1"}
    assert world.leftovers() == []


def test_a_refusal_after_an_unanswered_put_leaves_the_outcome_unknown(world: World) -> None:
    faulty = FaultyStorage(
        world.memory,
        Fault(Effect.LOSE_REQUEST, path=completed_file(world)),
        Fault(Effect.FAIL_BEFORE, at=2, path=completed_file(world), times=9),
    )
    transaction = world.begin(faulty)
    written = work(transaction, {"k": "1"})

    with pytest.raises(CommitUnknown):
        finish(transaction, written)
    transaction.abort()

    assert world.data_files() == {written.stats[0].path}


def test_a_put_that_is_refused_is_a_known_failure(world: World) -> None:
    faulty = FaultyStorage(
        world.memory, Fault(Effect.FAIL_BEFORE, path=completed_file(world), times=9)
    )

    with pytest.raises(StorageError) as refused:
        world.upsert({"k": "1"}, faulty)

    assert not isinstance(refused.value, CommitUnknown)
    assert world.leftovers() == []


def test_an_interrupt_in_the_final_put_deletes_nothing(world: World) -> None:
    def interrupt(call: Call) -> None:
        if call.method == "put_if_absent" and call.paths[0].endswith(".commit"):
            raise KeyboardInterrupt

    transaction = world.begin(FaultyStorage(world.memory, before=interrupt))
    written = work(transaction, {"k": "1"})

    with pytest.raises(KeyboardInterrupt):
        finish(transaction, written)
    transaction.abort()

    assert transaction.phase is Phase.UNKNOWN
    assert world.data_files() == {written.stats[0].path}


def test_a_lost_clean_up_does_not_fail_a_commit(world: World) -> None:
    faulty = FaultyStorage(
        world.memory,
        Fault(Effect.FAIL_BEFORE, path=".hoodie/.temp/*", methods=frozenset({"delete_folder"})),
    )

    world.upsert({"k": "1"}, faulty)
    assert world.memory.walk(".hoodie/.heartbeat") == []
    assert world.memory.walk(".hoodie/.temp") != []

    world.upsert({"j": "1"})
    assert world.rows() == {"k": "1", "j": "1"}
    assert world.leftovers() == []
