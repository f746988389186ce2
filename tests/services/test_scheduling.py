from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from pyhudi.errors import LockTimeout, WriterFenced
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.plans import ActionInstant, CleanerPlan, parse_cleaner_plan, render_cleaner_plan
from pyhudi.locks.base import LockOwner
from pyhudi.locks.in_process import InProcessLock
from pyhudi.services.scheduling import ServicePlan, ServicePlanners, StaticView
from pyhudi.storage.faults import Call, FaultyStorage
from pyhudi.transactions.writer import Writer, WriterPolicy
from tests.locks.test_renewal import LEASE_S, Told
from tests.transactions.world import (
    NEVER,
    POLICY,
    World,
    begin_beside,
    finish,
    other_lock,
    work,
)

ONE = InstantTime("20231114000000000")


@dataclass
class CleanAll:
    """Plans a clean that keeps the newest commit; ``then`` happens while it thinks."""

    then: Callable[[], None] = lambda: None
    seen: list[StaticView] = field(default_factory=list)

    def plan(self, view: StaticView) -> ServicePlan | None:
        self.seen.append(view)
        self.then()
        commits = view.timeline.commits
        if not commits or any(i.action is Action.CLEAN for i in view.timeline.pending):
            return None
        kept = ActionInstant(commits[-1].time, "commit")
        plan = CleanerPlan(kept, commits[-1].time, "KEEP_LATEST_COMMITS", {})
        return ServicePlan(Action.CLEAN, render_cleaner_plan(plan))


@pytest.fixture
def world(new_world: Callable[..., World]) -> World:
    return new_world(9)


def registered(*planners: CleanAll) -> ServicePlanners:
    registry = ServicePlanners()
    for planner in planners:
        registry.register(planner)
    return registry


def schedule(
    world: World, *planners: CleanAll, policy: WriterPolicy = POLICY
) -> tuple[Instant, ...]:
    lock = other_lock(world)
    return registered(*planners).schedule(Writer(world.table(), lock, world.clock, policy), ONE)


def test_a_plan_is_published_as_a_requested_instant(world: World) -> None:
    done = world.upsert({"k": "1"})

    (planned,) = schedule(world, CleanAll())

    (pending,) = world.table().timeline().pending
    assert pending == planned
    assert (pending.action, pending.state) == (Action.CLEAN, State.REQUESTED)
    assert pending.time > done.completion_time
    path = world.table().timeline().file_of(pending)
    plan = parse_cleaner_plan(world.memory.read(path), path)
    assert plan.last_completed_commit_timestamp == done.instant


def test_the_table_stands_still_from_the_view_to_the_plan(world: World) -> None:
    """Another writer that is ready to commit cannot, until the plan is there."""
    world.upsert({"k": "1"})
    other = begin_beside(world)
    other.writer = replace(other.writer, policy=replace(NEVER, lock_timeout_s=0.0))
    written = work(other, {"k": "2"})
    refused: list[LockTimeout] = []

    def commits() -> None:
        with pytest.raises(LockTimeout) as error:
            finish(other, written)
        refused.append(error.value)

    planner = CleanAll(then=commits)
    (planned,) = schedule(world, planner)

    assert len(refused) == 1
    (view,) = planner.seen
    assert view.timeline.keys() == world.table().timeline().keys()
    assert planned in world.table().timeline().pending


def test_the_view_has_what_came_between_our_commit_and_the_lock(world: World) -> None:
    world.upsert({"k": "1"})
    table = world.table()
    later = world.upsert({"j": "1"})
    planner = CleanAll()

    registered(planner).schedule(world.writer(table=table), ONE)

    assert planner.seen[0].timeline.commits[-1].time == later.instant
    assert len(planner.seen[0].files().latest()) == 2


def test_the_view_has_what_was_committed_while_the_lock_was_waited_for(world: World) -> None:
    world.upsert({"k": "1"})
    other = begin_beside(world)
    written = work(other, {"j": "1"})

    class Waiting(InProcessLock):
        def acquire(self, timeout_s: float, owner: LockOwner) -> None:
            finish(other, written)
            super().acquire(timeout_s, owner)

    lock, planner = Waiting(world.locks, "t", world.clock), CleanAll()
    registered(planner).schedule(Writer(world.table(), lock, world.clock, POLICY), ONE)

    assert planner.seen[0].timeline.commits[-1].time == other.instant


def test_each_planner_sees_the_plans_before_its_own(world: World) -> None:
    world.upsert({"k": "1"})
    first, second = CleanAll(), CleanAll()

    planned = schedule(world, first, second)

    assert len(planned) == 1
    assert second.seen[0].timeline.pending == planned


def test_nothing_is_published_where_nothing_is_due(world: World) -> None:
    before = [f.path for f in world.memory.walk("")]
    assert schedule(world, CleanAll()) == ()
    assert [f.path for f in world.memory.walk("")] == before


def test_without_a_planner_nobody_takes_the_lock(world: World) -> None:
    taken = other_lock(world)
    taken.acquire(0.0, LockOwner.this_process("other"))
    assert schedule(world) == ()


def test_a_lock_that_is_taken_is_an_error(world: World) -> None:
    taken = other_lock(world)
    taken.acquire(0.0, LockOwner.this_process("other"))
    with pytest.raises(LockTimeout):
        schedule(world, CleanAll(), policy=replace(POLICY, lock_timeout_s=0.0))


def test_a_planner_that_takes_longer_than_the_lease_keeps_the_lock(world: World) -> None:
    world.upsert({"k": "1"})
    world.memory.put_timeout_s = LEASE_S / 10
    lock = Told(world.locks, world.clock)

    planners = registered(CleanAll(then=lock.be_slow))
    planned = planners.schedule(Writer(world.table(), lock, world.clock, POLICY), ONE)

    assert [i.action for i in planned] == [Action.CLEAN]


def test_a_plan_is_not_published_again_under_a_lease_that_has_ended(world: World) -> None:
    """The first time was taken, and by the second the table may have moved on."""
    world.upsert({"k": "1"})
    asked: list[str] = []

    def take(call: Call) -> None:
        if call.method == "put_if_absent" and call.paths[0].endswith(".clean.requested"):
            asked.append(call.paths[0])
            world.memory.put_if_absent(call.paths[0], b"")
            world.clock.advance(61)

    table = world.table(FaultyStorage(world.memory, before=take))
    with pytest.raises(WriterFenced):
        registered(CleanAll()).schedule(world.writer(table=table), ONE)

    assert len(asked) == 1


def test_a_planner_whose_lock_is_lost_publishes_nothing(world: World) -> None:
    world.upsert({"k": "1"})
    with pytest.raises(WriterFenced):
        schedule(world, CleanAll(then=lambda: world.clock.advance(61)))
    assert world.table().timeline().pending == ()
    other_lock(world).acquire(0.0, LockOwner.this_process("next"))


def test_a_planner_that_fails_leaves_the_lock_free(world: World) -> None:
    def fails() -> None:
        raise RuntimeError("no plan")

    with pytest.raises(RuntimeError, match="no plan"):
        schedule(world, CleanAll(then=fails))
    other_lock(world).acquire(0.0, LockOwner.this_process("next"))
