"""Which pinned queries are kept, for how long, and what stays of a state that is opened again."""

from __future__ import annotations

import pytest

from pyhudi.errors import HistoryExpired
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.reads.pins import HELD, PINS, TRUSTED_S, Pinned, PinnedQueries, _as_it_was
from pyhudi.timeline.active import Timeline, instant_key
from tests.reads.conditions import compare
from tests.reads.pinned_table import TIMELINE, World


@pytest.fixture
def world() -> World:
    return World()


def evict(world: World) -> None:
    """Have so many other states described that no query before them is kept."""
    for time in range(100, 100 + PINS):
        world.commit(time, "z")
        world.describe()


@pytest.mark.parametrize("use", ["ask", "describe"])
def test_the_queries_that_were_used_last_are_kept(world: World, use: str) -> None:
    world.pins = PinnedQueries(world.runtime, limit=2)
    world.commit(1, "a")
    first = world.describe()
    past = world.open(first.instant)
    world.commit(2, "a")
    second = world.describe()
    if use == "ask":
        world.rows(first)
    else:
        assert world.pins.pin(past) == first.pin
    world.commit(3, "a")
    world.describe()
    assert first.pin in world.pins._kept
    assert second.pin not in world.pins._kept


def test_the_last_query_is_kept_however_many_files_it_lists(world: World) -> None:
    world.pins = PinnedQueries(world.runtime, files=1)
    world.commit(1, "a", "b")
    asked = world.describe()
    world.rows(asked)
    world.clock.advance(TRUSTED_S + 1)
    world.rows(asked)
    assert list(world.pins._kept) == [asked.pin]


def test_a_state_that_is_described_again_keeps_its_listing(world: World) -> None:
    world.commit(1, "a")
    asked = world.describe()
    first = world.pins.ask(asked, lambda query: query)
    assert world.describe() == asked
    assert world.pins.ask(asked, lambda query: query) is first


def test_what_is_held_has_no_listing(world: World) -> None:
    world.commit(1, "a")
    asked = world.describe()
    world.pins.hold(asked)
    assert world.rows(asked, compare("p", "=", "a")) == 3
    assert world.pins._kept[asked.pin].query.listed_files == 1
    assert world.pins._held[asked.pin].query.listed_files == 0
    evict(world)
    assert world.rows(asked, compare("p", "=", "a")) == 3
    assert world.pins._kept[asked.pin].query.listed_files == 1
    assert world.pins._held[asked.pin].query.listed_files == 0


def test_a_state_that_nobody_knows_is_not_held(world: World) -> None:
    world.commit(1, "a")
    asked = world.describe()
    world.pins = PinnedQueries(world.runtime)
    world.pins.hold(asked)
    assert not world.pins._held


def test_the_state_that_was_held_last_is_dropped_last(world: World) -> None:
    world.commit(1, "a")
    asked = [world.describe()]
    world.pins.hold(asked[0])
    for time in range(2, HELD + 1):
        world.commit(time, "a")
        asked.append(world.describe())
        world.pins.hold(asked[-1])
    world.describe()
    world.pins.pin(world.open(asked[0].instant))
    world.pins.hold(asked[0])
    world.commit(HELD + 1, "a")
    world.pins.hold(world.describe())
    assert asked[0].pin in world.pins._held
    assert asked[1].pin not in world.pins._held


def test_a_held_state_is_trusted_no_longer_than_a_query(world: World) -> None:
    world.commit(1, "a")
    asked = world.describe()
    world.pins.hold(asked)
    evict(world)
    world.archive(1)
    world.clock.advance(TRUSTED_S + 1)
    with pytest.raises(HistoryExpired):
        world.pins.ask(asked, lambda query: "what needs no commit to be read")


def test_an_empty_table_stays_empty_for_a_query_however_long_it_takes(world: World) -> None:
    asked = world.describe()
    world.commit(1, "a")
    world.clock.advance(TRUSTED_S + 1)
    assert world.rows(asked) == 0


def test_a_table_in_which_a_first_write_was_under_way_is_a_state_without_commits(
    world: World,
) -> None:
    world.storage.put_if_absent(f"{TIMELINE}/20240101000000001.commit.requested", b"")
    asked = world.describe()
    world.pins = PinnedQueries(world.runtime)
    world.commit(2, "a")
    found = world.pins.state(asked)
    assert found is not None
    assert found.timeline.commits == ()


def time(number: int) -> InstantTime:
    return InstantTime(f"{number:017d}")


def test_a_state_that_is_opened_again_lacks_late_commits_and_nothing_else() -> None:
    def done(at: int, ended: int, action: Action = Action.COMMIT) -> Instant:
        return Instant(time(at), action, State.COMPLETED, time(ended))

    late, clean, newer = done(2, 60), done(3, 61, Action.CLEAN), done(5, 62)
    pending = Instant(time(1), Action.COMMIT, State.REQUESTED)
    found = (pending, late, clean, done(4, 50), newer)
    stamps = {instant_key(i): 1 for i in found if i.state is State.COMPLETED}
    asked = Pinned(f"{'0' * 32}-2-{time(50)}", "/t", {}, {}, time(4))

    then = _as_it_was(Timeline(2, TIMELINE, found, stamps), asked).instants
    assert then[:1] + then[2:] == found[:1] + found[2:]
    assert (then[1].time, then[1].state, then[1].completion_time) == (time(2), State.INFLIGHT, None)
