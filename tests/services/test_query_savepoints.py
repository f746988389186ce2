"""Savepoints of running queries: they stand while a lease says so, and no longer."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from pyhudi.config import resolve_write
from pyhudi.reads.lease_keeper import LeaseKeeper
from pyhudi.services.clean import clean_table
from pyhudi.services.failed_writes import settle_and_tell
from pyhudi.services.inline import run_inline
from pyhudi.services.orphans import removed_orphans
from pyhudi.services.query_savepoints import end_query_savepoints, save_for_query
from pyhudi.services.savepoints import OF_QUERY, make_savepoint, savepoints_of
from pyhudi.timeline.read_states import ReadState
from pyhudi.transactions.heartbeat import Heartbeat
from pyhudi.transactions.leases import FOLDER, lease, living_leases
from tests.application.test_after_commit import runtime
from tests.services.test_leases import NEWEST_ONLY, POLICY, Queries, now, query
from tests.transactions.world import NEVER, VERSIONS, World, finish, work


@pytest.fixture(params=VERSIONS, ids=lambda version: f"v{version}")
def world(new_world: Callable[..., World], request: pytest.FixtureRequest) -> World:
    return new_world(request.param)


def saved(world: World) -> dict[str, str]:
    """Instants of savepoints, and their comments."""
    return {s.instant: s.comment for s in savepoints_of(world.table(), world.table().timeline())}


def running(world: World, state: ReadState) -> Heartbeat:
    """A query with a lease and a savepoint."""
    made = lease(world.memory, world.clock, state, POLICY, saves=True)
    made.beat()
    save_for_query(world.writer(), state)
    return made


def test_a_savepoint_lasts_as_long_as_the_queries_of_its_commit(world: World) -> None:
    first = world.upsert({"k": "1"}).instant
    one, two = running(world, now(world)), running(world, now(world))
    assert saved(world) == {first: OF_QUERY}
    assert [each.saves for each in living_leases(world.memory, world.clock, POLICY)] == [True] * 2

    one.stop()
    assert end_query_savepoints(world.writer()) == []
    assert saved(world) == {first: OF_QUERY}, "the other query runs"

    two.stop()
    assert end_query_savepoints(world.writer()) == [first]
    assert saved(world) == {}


@pytest.mark.parametrize("version", [8, 9])  # in version 6 no older instant completes late
def test_it_keeps_the_files_that_the_query_reads(
    new_world: Callable[..., World], version: int
) -> None:
    world = new_world(version)
    world.upsert({"k": "1"})
    late = world.begin()
    first = world.upsert({"j": "1"}, policy=NEVER).instant
    state = now(world)
    files = {f.path for f in world.view().latest()}
    finish(late, work(late, {"k": "2"}))
    assert {f.path for f in world.view().latest()} != files

    made = running(world, state)
    made.stop()  # only the savepoint is left
    world.upsert({"j": "2"})
    clean_table(world.writer(), NEWEST_ONLY)

    assert saved(world) == {first: OF_QUERY}
    assert files <= {file.path for file in world.memory.walk("")}


def test_a_query_that_has_ended_meanwhile_gets_none(world: World) -> None:
    world.upsert({"k": "1"})
    save_for_query(world.writer(), now(world))
    assert saved(world) == {}
    without = lease(world.memory, world.clock, now(world), POLICY)
    without.beat()
    save_for_query(world.writer(), now(world))
    assert saved(world) == {}


def test_the_savepoint_of_a_user_stays(world: World) -> None:
    first = world.upsert({"k": "1"}).instant
    make_savepoint(world.writer(), first, "mine")
    running(world, now(world)).stop()
    assert end_query_savepoints(world.writer()) == []
    assert saved(world) == {first: "mine"}


def test_a_user_who_saves_the_commit_of_a_query_keeps_it_after_the_query(world: World) -> None:
    first = world.upsert({"k": "1"}).instant
    query = running(world, now(world))
    assert make_savepoint(world.writer(), first, "mine").comment == "mine"
    assert saved(world) == {first: "mine"}
    query.stop()
    assert end_query_savepoints(world.writer()) == []
    assert saved(world) == {first: "mine"}


@pytest.mark.parametrize("service", ["failed writes", "after a commit"])
def test_what_a_dead_query_left_goes_with_the_next_service(service: str, world: World) -> None:
    world.upsert({"k": "1"})
    running(world, now(world))
    world.clock.advance(POLICY.lapse_ms / 1000 + 1)
    world.upsert({"k": "2"})
    writer = world.writer()
    if service == "failed writes":
        settle_and_tell(writer)
    else:
        run_inline(writer, resolve_write({}, writer.table.config.raw, {}))
    assert saved(world) == {}


def test_a_long_query_that_asks_for_it_has_one(world: World) -> None:
    first = world.upsert({"k": "1"}).instant
    queries = Queries()
    keeper = LeaseKeeper(replace(runtime(world), jobs=queries))  # type: ignore[arg-type]
    pin = f"digest-{world.table().config.layout}-{now(world).last}"
    keeper.note(pin, query(world), world.writer)
    queries.pins = [pin]
    keeper.look()
    settled(lambda: saved(world) == {first: OF_QUERY})
    queries.pins = []
    keeper.look()
    settled(lambda: saved(world) == {})
    assert living_leases(world.memory, world.clock, POLICY) == []


def settled(done: Callable[[], bool]) -> None:
    """Wait for a thread of the keeper."""
    ends = time.monotonic() + 60
    while not done():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_a_writer_that_beats_often_does_not_take_a_query_for_dead(world: World) -> None:
    """Leases beat once a minute, whatever the heartbeat of a writer is."""
    first = world.upsert({"k": "1"}).instant
    query = running(world, now(world))
    hasty = replace(NEVER, heartbeat=replace(NEVER.heartbeat, interval_ms=1_000))
    world.clock.advance(30)
    assert end_query_savepoints(world.writer(policy=hasty)) == []
    assert not removed_orphans(world.writer(policy=hasty), older_than_hours=0, dry_run=True)
    assert (saved(world), len(living_leases(world.memory, world.clock))) == ({first: OF_QUERY}, 1)
    query.stop()


def test_the_leases_of_queries_that_died_go_with_failed_writes(world: World) -> None:
    world.upsert({"k": "1"})
    lives = lease(world.memory, world.clock, now(world), POLICY, follows=True)
    dead = lease(world.memory, world.clock, now(world), POLICY, follows=True)
    world.clock.advance(POLICY.lapse_ms / 1000 + 1)
    lives.beat()
    dead.beat()
    assert settle_and_tell(world.writer()) == ()
    assert len(world.memory.list(FOLDER)) == 2, "both live"
    world.clock.advance(POLICY.lapse_ms / 1000 + 1)
    lives.beat()
    settle_and_tell(world.writer())
    assert len(world.memory.list(FOLDER)) == 1
    lives.stop()
