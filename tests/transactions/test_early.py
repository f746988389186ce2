"""Early conflict detection and what a pending clustering stops before data is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pyhudi.errors import CommitConflict
from pyhudi.transactions.transaction import Transaction
from tests.transactions.world import LAPSE_S, NEVER, World, die, finish, work

NewWorld = Callable[..., World]
EARLY = replace(NEVER, early=True)


def touched(world: World) -> list[tuple[str, str]]:
    return [(f.partition_path, f.file_id) for f in world.view().latest()]


@pytest.fixture(params=[6, 8, 9])
def filled(request: pytest.FixtureRequest, new_world: NewWorld) -> World:
    world = new_world(request.param)
    world.upsert({"k": "0"})
    return world


def check(world: World, transaction: Transaction) -> None:
    transaction.check_updates(touched(world))  # type: ignore[arg-type]


def test_a_running_write_on_the_same_group_is_found_before_data_is_written(filled: World) -> None:
    running, mine = filled.begin(policy=NEVER), filled.begin(policy=EARLY)
    work(running, {"k": "1"})

    with pytest.raises(CommitConflict, match=f"running write {running.instant}") as found:
        check(filled, mine)

    assert found.value.facts["theirs"] == running.instant


def test_without_the_option_nobody_looks(filled: World) -> None:
    running, mine = filled.begin(policy=NEVER), filled.begin(policy=NEVER)
    work(running, {"k": "1"})

    check(filled, mine)


def test_a_dead_writer_stops_nobody(filled: World) -> None:
    running, mine = filled.begin(policy=NEVER), filled.begin(policy=EARLY)
    work(running, {"k": "1"})
    die(running)
    filled.clock.advance(LAPSE_S + 1)

    check(filled, mine)


def test_a_running_write_on_other_groups_stops_nobody(filled: World) -> None:
    running, mine = filled.begin(policy=NEVER), filled.begin(policy=EARLY)
    work(running, {"new": "1"}, partition="b")

    check(filled, mine)


def test_a_commit_that_came_meanwhile_is_found_as_well(filled: World) -> None:
    theirs, mine = filled.begin(policy=NEVER), filled.begin(policy=EARLY)
    groups = touched(filled)
    finish(theirs, work(theirs, {"k": "1"}))

    with pytest.raises(CommitConflict, match="both changed the same file groups"):
        mine.check_updates(groups)  # type: ignore[arg-type]
