from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pyhudi.choices import FailedWrites
from pyhudi.errors import StorageError
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.services.failed_writes import Outcome, PendingWrite, foreseen, settle_and_tell
from pyhudi.storage.faults import Call, FaultyStorage
from pyhudi.timeline.table import open_table
from pyhudi.transactions.heartbeat import FOLDER as HEARTBEATS
from pyhudi.transactions.writer import WriterPolicy
from tests.transactions.world import (
    LAPSE_S,
    LAZY,
    NEVER,
    POLICY,
    World,
    begin_beside,
    dead_writer,
    finish,
    put_instant,
    settle,
    work,
)


@pytest.fixture
def world(new_world: Callable[..., World]) -> World:
    return new_world(9)


def tell(world: World, policy: WriterPolicy = LAZY) -> tuple[PendingWrite, ...]:
    return settle_and_tell(world.writer(policy=policy))


def test_a_dead_writer_is_rolled_back_and_told_with_its_files(world: World) -> None:
    dead = dead_writer(world)
    world.clock.advance(LAPSE_S + 5)

    (found,) = tell(world)

    rollback = next(i for i in world.table().timeline().completed if i.action is Action.ROLLBACK)
    assert found == PendingWrite(
        dead.instant,
        Action.COMMIT,
        State.INFLIGHT,
        Outcome.ROLLED_BACK,
        silent_ms=int((LAPSE_S + 5) * 1000),
        rollback=rollback.time,
        files_deleted=1,
    )
    assert world.leftovers() == []


def test_a_writer_that_lives_is_named_and_left_alone(world: World) -> None:
    dead = dead_writer(world)
    world.clock.advance(LAPSE_S)
    alive = begin_beside(world)
    written = work(alive, {"j": "1"})
    world.clock.advance(20)

    found = {each.instant: each for each in tell(world)}

    assert found[dead.instant].outcome is Outcome.ROLLED_BACK
    assert found[alive.instant].outcome is Outcome.ALIVE
    assert found[alive.instant].silent_ms == 20_000
    assert found[alive.instant].rollback is None
    finish(alive, written)
    assert world.rows() == {"j": "1"}


def test_a_dry_run_says_who_is_dead_and_why_and_changes_nothing(world: World) -> None:
    dead = dead_writer(world)
    world.clock.advance(LAPSE_S + 5)
    alive = begin_beside(world)
    before = {f.path: world.memory.read(f.path) for f in world.memory.walk("")}

    found = {each.instant: each for each in foreseen(world.writer(policy=LAZY))}

    assert found[dead.instant].outcome is Outcome.WOULD_GO
    assert f"{LAPSE_S + 5:.0f} s old" in found[dead.instant].why
    assert found[alive.instant].outcome is Outcome.ALIVE
    assert {f.path: world.memory.read(f.path) for f in world.memory.walk("")} == before
    told = {each.instant: each.outcome for each in tell(world)}
    assert told == {dead.instant: Outcome.ROLLED_BACK, alive.instant: Outcome.ALIVE}


def test_force_is_told_by_a_dry_run(world: World) -> None:
    alive = begin_beside(world)
    (found,) = foreseen(world.writer(policy=LAZY), {alive.instant})
    assert (found.outcome, found.why[:9]) == (Outcome.WOULD_GO, "by force,")


def test_nothing_is_waited_for(world: World) -> None:
    begin_beside(world)
    slept = len(world.clock.slept)
    assert [each.outcome for each in tell(world)] == [Outcome.ALIVE]
    assert len(world.clock.slept) == slept


def test_a_writer_without_a_heartbeat_is_told_as_such(world: World) -> None:
    """Apache Hudi's writers do not beat under EAGER."""
    dead = dead_writer(world)
    world.memory.delete([f"{HEARTBEATS}/{dead.instant}"])

    (young,) = tell(world)
    assert (young.outcome, young.silent_ms) == (Outcome.ALIVE, None)

    world.clock.advance(LAPSE_S)
    (old,) = tell(world)
    assert (old.outcome, old.silent_ms) == (Outcome.ROLLED_BACK, None)


def test_a_rollback_that_was_left_half_done_is_finished(world: World) -> None:
    dead = dead_writer(world)
    world.clock.advance(LAPSE_S)

    def cut(call: Call) -> None:
        if call.method == "delete" and any(path.endswith(".parquet") for path in call.paths):
            raise StorageError("gone", path=call.paths[0])

    broken = open_table(FaultyStorage(world.memory, before=cut))
    with pytest.raises(StorageError):
        settle_and_tell(world.writer(policy=LAZY, table=broken))

    found = {each.action: each for each in tell(world)}

    assert found[Action.ROLLBACK].outcome is Outcome.FINISHED
    assert found[Action.COMMIT].outcome is Outcome.ROLLED_BACK
    assert found[Action.COMMIT].instant == dead.instant
    assert found[Action.COMMIT].rollback == found[Action.ROLLBACK].instant
    assert world.leftovers() == []


def test_what_commits_meanwhile_is_told_as_committed(world: World) -> None:
    alive = begin_beside(world)
    written = work(alive, {"k": "1"})
    looked: list[str] = []

    def ends(call: Call) -> None:
        # The second look at the heartbeats is that of settling.
        if call.method == "list" and call.paths[0] == HEARTBEATS:
            looked.append(call.paths[0])
            if len(looked) == 2:
                finish(alive, written)

    table = open_table(FaultyStorage(world.memory, before=ends))
    (found,) = settle_and_tell(world.writer(policy=LAZY, table=table))

    assert found.outcome is Outcome.COMMITTED
    assert world.rows() == {"k": "1"}


def test_pending_services_of_other_tools_are_left_and_named(world: World) -> None:
    put_instant(world, Instant(InstantTime("20231201000000000"), Action.CLEAN, State.REQUESTED))
    world.clock.advance(LAPSE_S)
    (found,) = tell(world)
    assert (found.action, found.outcome) == (Action.CLEAN, Outcome.NOT_OURS)


def test_the_policy_never_only_tells(world: World) -> None:
    dead_writer(world)
    world.clock.advance(LAPSE_S)
    before = [f.path for f in world.memory.walk("")]

    (found,) = tell(world, NEVER)

    assert found.outcome is Outcome.NEVER
    assert [f.path for f in world.memory.walk("")] == before


def test_a_table_without_pending_instants_has_nothing_to_tell(world: World) -> None:
    world.upsert({"k": "1"})
    assert tell(world) == ()


# -- the policies, as the words of hoodie.clean.failed.writes.policy promise


def test_eager_rolls_back_at_once_what_has_no_heartbeat(world: World) -> None:
    dead = dead_writer(world)
    world.memory.delete([f"{HEARTBEATS}/{dead.instant}"])
    world.clock.advance(2)
    slept = len(world.clock.slept)

    settle(world, POLICY)

    assert len(world.clock.slept) == slept
    assert world.leftovers() == []


@pytest.mark.parametrize("policy", list(FailedWrites))
def test_no_policy_touches_a_writer_that_beats(world: World, policy: FailedWrites) -> None:
    alive = begin_beside(world)
    written = work(alive, {"k": "1"})
    world.clock.sleep = lambda seconds: (  # type: ignore[method-assign]
        world.clock.advance(seconds),
        alive._heartbeat.beat(),
    )

    settle(world, replace(POLICY, failed_writes=policy))

    finish(alive, written)
    assert world.rows() == {"k": "1"}


def test_lazy_and_never_do_not_wait_for_anybody(world: World) -> None:
    begin_beside(world)
    slept = len(world.clock.slept)
    for policy in (LAZY, NEVER):
        settle(world, policy)
    assert len(world.clock.slept) == slept
