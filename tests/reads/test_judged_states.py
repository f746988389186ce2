"""States from which a statement is judged, after its pin is gone and while it is held."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyhudi.reads.pins import HELD, PINS, TRUSTED_S
from pyhudi.timeline.table import PROPERTIES
from tests.reads.pinned_table import TIMELINE, World, commits_of, equal, evicted


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_statement_whose_pin_is_gone_is_judged_from_the_state_that_it_read(version: int) -> None:
    world = World(version)
    for time in (1, 3):
        world.commit(time, "a")
    asked = world.describe()
    evicted(world)
    world.commit(4, "a")
    world.commit(2, "a", done=9)

    assert commits_of(world.pins.state(asked)) == [1, 3]
    assert world.rows(asked) == 6, "and its scan reads that state"
    assert commits_of(world.pins.state(asked)) == [1, 3], "which the scan has not made newer"


def test_a_statement_that_was_scanned_after_its_pin_was_gone_is_judged_alike(world: World) -> None:
    world.commit(1, "a")
    asked = world.describe()
    world.commit(2, "a")
    evicted(world)

    assert world.rows(asked) == 3
    assert commits_of(world.pins.state(asked)) == [1]


def test_a_state_without_commits_stays_one_whatever_was_committed_since(world: World) -> None:
    asked = world.describe()
    evicted(world)
    world.commit(1, "a")
    assert commits_of(world.pins.state(asked)) == []


@pytest.mark.parametrize("change", ["archived", "rolled back", "properties"])
def test_a_state_that_cannot_be_told_for_certain_is_none_to_be_judged_from(
    world: World, change: str
) -> None:
    for time in (1, 2, 3):
        world.commit(time, "a")
    asked = world.describe()
    evicted(world)
    if change == "properties":
        data = world.storage.read(PROPERTIES)
        world.storage.replace(PROPERTIES, data + b"hoodie.some.property=1\n")
    else:
        world.archive({"archived": 1, "rolled back": 2}[change])

    assert world.pins.state(asked) is None
    assert world.rows(asked, equal("a")) is not None or change == "archived", "reads go on"
    assert world.pins.state(asked) is None, "though the read has opened it again"


def test_a_state_that_became_uncertain_stays_so_until_it_is_described_again(world: World) -> None:
    world.commit(1, "a")
    asked = world.describe()
    evicted(world)
    before = world.storage.read(PROPERTIES)
    world.storage.replace(PROPERTIES, before + b"hoodie.some.property=1\n")
    assert world.rows(asked) == 3
    world.pins.hold(asked)
    assert world.pins.state(asked) is None, "what is held is certain"
    world.clock.advance(TRUSTED_S + 1)
    assert world.rows(asked) == 3
    assert world.pins.state(asked) is None

    world.storage.replace(PROPERTIES, before)
    assert world.describe() == asked
    assert commits_of(world.pins.state(asked)) == [1]


def test_a_state_that_is_described_again_is_not_what_was_guessed_of_it_before(world: World) -> None:
    for time in (1, 2, 3):
        world.commit(time, "a")
    asked = world.describe()
    evicted(world)
    second = [f.path for f in world.storage.list(TIMELINE) if "00002_" in f.path]
    data = world.storage.read(second[0])
    world.storage.delete(second)
    assert world.rows(asked) == 6
    world.storage.put_if_absent(second[0], data)

    assert world.describe() == asked
    assert commits_of(world.pins.state(asked)) == [1, 2, 3]


def test_a_pin_from_before_an_upgrade_of_the_timeline_leads_to_its_instant(world: World) -> None:
    world.commit(1, "a")
    asked = world.describe()
    world.commit(2, "a")
    evicted(world)
    older = replace(asked, pin=f"{'0' * 32}-1-{1_700_000_000_000:015d}")
    assert world.rows(older) == 3
    assert world.pins.state(older) is None


def test_a_held_state_outlives_the_queries_after_it(world: World) -> None:
    for time in (1, 2, 3):
        world.commit(time, "a")
    asked = world.describe()
    world.pins.hold(asked)
    world.archive(1)
    for time in range(4, 5 + PINS):
        world.commit(time, "b")
        world.describe()
    world.storage.listings = 0

    assert commits_of(world.pins.state(asked)) == [1, 2, 3]
    assert world.storage.listings == 0
    assert world.rows(asked, equal("a")) is None, "its first commit is archived, its files are not"
    assert commits_of(world.pins.state(asked)) == [1, 2, 3], "though the scan saw less of it"
    world.pins.release(asked.pin)
    world.describe()
    assert world.pins.state(asked) is None, "nobody else keeps it"


def test_the_scans_of_a_held_state_list_no_timeline(world: World) -> None:
    world.commit(1, "a")
    asked = world.describe()
    world.pins.hold(asked)
    for time in range(2, 3 + PINS):
        world.commit(time, "b")
        world.describe()
    world.storage.listings = 0

    assert world.rows(asked) == 3
    assert world.storage.listings == 0


def test_a_held_state_stays_until_the_last_statement_that_holds_it_has_ended(world: World) -> None:
    world.commit(1, "a")
    asked = world.describe()
    for _ in range(2):
        world.pins.hold(asked)
    world.pins.release(asked.pin)
    assert asked.pin in world.pins._held
    world.pins.release(asked.pin)
    world.pins.release(asked.pin)
    assert not world.pins._held
    assert not world.pins._holds


def test_held_states_are_bounded_so_that_statements_that_never_end_cost_little(
    world: World,
) -> None:
    asked = []
    for time in range(1, HELD + 2):
        world.commit(time, "a")
        asked.append(world.describe())
        world.pins.hold(asked[-1])
    assert len(world.pins._held) == HELD
    assert asked[0].pin not in world.pins._held


def test_no_state_is_judged_from_whose_files_were_cleaned_meanwhile(world: World) -> None:
    world.commit(1, "a")
    asked = world.describe()
    world.commit(2, "a")
    world.archive(1)
    assert world.pins.state(asked) is not None

    world.clock.advance(TRUSTED_S + 1)
    assert world.pins.state(asked) is None


def test_the_scans_of_one_query_read_one_state_before_and_after_their_pin_is_gone(
    world: World,
) -> None:
    """A commit that began earlier and completes between them is in none of them."""
    world.commit(3, "a")
    asked = world.describe()
    assert world.rows(asked) == 3
    world.commit(2, "a", done=9)
    evicted(world)
    assert world.rows(asked) == 3
