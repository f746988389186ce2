"""Writes of logs beside compactions that were planned, run or withdrawn meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyhudi.errors import CommitConflict
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat, render_commit
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.plans import CompactionOperation, CompactionPlan, render_compaction_plan
from pyhudi.transactions.conflicts.compactions import check_compactions
from tests.transactions.world import World, put_instant

T1, T2, OURS = (InstantTime(f"2024010{n}000000000") for n in (1, 2, 3))
GROUP = ("a", FileId("g"))


def log(named: InstantTime) -> CommitMetadata:
    stat = WriteStat(GROUP[1], "a/.g.log", "a", prev_commit=named, log_version=1)
    return CommitMetadata("UPSERT", (stat,))


def plan(world: World, time: InstantTime, group: FileId = GROUP[1]) -> None:
    data = render_compaction_plan(CompactionPlan((CompactionOperation(T1, (), None, group, "a"),)))
    put_instant(world, Instant(time, Action.COMPACTION, State.REQUESTED), data)


def run(world: World, time: InstantTime) -> None:
    base = WriteStat(GROUP[1], f"a/g_0-0-0_{time}.parquet", "a", prev_commit=T1)
    layout = world.table().config.layout
    data = render_commit(CommitMetadata("COMPACT", (base,), compacted=True), layout)
    put_instant(world, Instant(time, Action.COMMIT, State.COMPLETED, time), data)


def mor(new_world: Callable[..., World], version: int) -> World:
    return new_world(version, {"hoodie.table.type": "MERGE_ON_READ"})


@pytest.mark.parametrize("done", [False, True], ids=["planned", "run"])
def test_a_log_of_layout_1_in_a_slice_that_a_compaction_ended_is_a_conflict(
    new_world: Callable[..., World], done: bool
) -> None:
    world = mor(new_world, 6)
    loaded = world.table().timeline()
    (run if done else plan)(world, T2)
    now = world.table().timeline()
    with pytest.raises(CommitConflict, match=f"compaction {T2} has taken up"):
        check_compactions(world.table(), loaded, now, OURS, log(T1))
    check_compactions(world.table(), loaded, now, OURS, log(T2))


def test_a_log_of_layout_1_named_by_a_plan_that_was_withdrawn_is_a_conflict(
    new_world: Callable[..., World],
) -> None:
    world = mor(new_world, 6)
    after = world.table().timeline()
    plan(world, T2)
    loaded = world.table().timeline()
    with pytest.raises(CommitConflict):
        check_compactions(world.table(), loaded, after, OURS, log(T2))
    check_compactions(world.table(), loaded, after, OURS, log(T1))


def test_a_plan_of_other_groups_is_none(new_world: Callable[..., World]) -> None:
    world = mor(new_world, 6)
    loaded = world.table().timeline()
    plan(world, T2, FileId("other"))
    check_compactions(world.table(), loaded, world.table().timeline(), OURS, log(T1))


@pytest.mark.parametrize("done", [False, True], ids=["planned", "run"])
def test_a_row_that_came_back_to_a_group_is_a_conflict_with_a_compaction_of_it(
    new_world: Callable[..., World], done: bool
) -> None:
    world = mor(new_world, 9)
    loaded = world.table().timeline()
    (run if done else plan)(world, T2)
    now = world.table().timeline()
    check_compactions(world.table(), loaded, now, OURS, log(OURS))
    with pytest.raises(CommitConflict, match="Run it again"):
        check_compactions(world.table(), loaded, now, OURS, log(OURS), {GROUP})
    check_compactions(world.table(), now, now, OURS, log(OURS), {GROUP})
