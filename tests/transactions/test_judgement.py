from __future__ import annotations

import pytest

from pyhudi.choices import SchemaConflicts
from pyhudi.errors import CommitConflict
from pyhudi.format.instants import Action, Instant, InstantTime, State, instant_file_name
from pyhudi.storage.faults import FaultyStorage
from pyhudi.transactions.conflicts.comparison import Footprint
from pyhudi.transactions.conflicts.judgement import check_conflicts, declared_schema
from tests.archiver import archive
from tests.transactions.world import World, schema

LATE = InstantTime("20991231000000000")
NOTHING = Footprint("upsert X")


def put(world: World, action: Action, time: str, done: str = "20240101000000000") -> None:
    config = world.table().config
    completion = InstantTime(done) if config.layout == 2 else None
    instant = Instant(InstantTime(time), action, State.COMPLETED, completion)
    name = instant_file_name(instant, config.layout)
    world.memory.put_if_absent(f"{config.timeline_folder}/{name}", b"")


def drop(world: World, time: str) -> None:
    for file in world.memory.walk(world.table().config.timeline_folder):
        if file.name.startswith(time):
            world.memory.delete([file.path])


def touching_everything(world: World) -> Footprint:
    latest = world.view().latest()
    return Footprint("upsert X", frozenset((f.partition_path, f.file_id) for f in latest))


def test_nothing_is_read_where_nothing_has_completed(world: World) -> None:
    world.upsert({"k": "1"})
    loaded = world.table().timeline()
    watched = FaultyStorage(world.memory)

    check_conflicts(world.table(watched), loaded, loaded, LATE, touching_everything(world))

    assert [c.method for c in watched.calls if c.paths[0] != ".hoodie/hoodie.properties"] == []


def test_a_commit_since_the_load_is_judged_whatever_its_time(world: World) -> None:
    """A set difference: a commit with an earlier time that ended late counts like any other."""
    loaded = world.table().timeline()
    done = world.upsert({"k": "1"})
    now = world.table().timeline()
    ours = Footprint("insert_overwrite X", replaced_partitions=frozenset({"a"}))

    for time in (LATE, InstantTime("20000101000000000")):
        with pytest.raises(CommitConflict, match="replaced as a whole: a") as lost:
            check_conflicts(world.table(), loaded, now, time, ours)
        assert (lost.value.facts["ours"], lost.value.facts["theirs"]) == (time, done.instant)


def test_a_commit_that_was_loaded_is_not_judged_again(world: World) -> None:
    world.upsert({"k": "1"})
    loaded = world.table().timeline()
    world.upsert({"j": "1"})

    check_conflicts(world.table(), loaded, world.table().timeline(), LATE, NOTHING)


def test_a_restore_conflicts_with_every_write(world: World) -> None:
    loaded = world.table().timeline()
    put(world, Action.RESTORE, "20231231000000000")

    with pytest.raises(CommitConflict, match="restore 20231231000000000"):
        check_conflicts(world.table(), loaded, world.table().timeline(), LATE, NOTHING)


@pytest.mark.parametrize("action", [Action.CLEAN, Action.ROLLBACK, Action.SAVEPOINT])
def test_services_that_change_no_live_file_conflict_with_nobody(
    world: World, action: Action
) -> None:
    world.upsert({"k": "1"})
    loaded = world.table().timeline()
    put(world, action, "20231231000000000")

    check_conflicts(
        world.table(), loaded, world.table().timeline(), LATE, touching_everything(world)
    )


def test_a_commit_that_vanished_was_undone_and_the_write_on_it_conflicts(world: World) -> None:
    world.upsert({"k": "1"})
    undone = world.upsert({"k": "2"})
    loaded = world.table().timeline()
    drop(world, undone.instant)

    with pytest.raises(CommitConflict, match="was rolled back meanwhile") as lost:
        check_conflicts(world.table(), loaded, world.table().timeline(), LATE, NOTHING)
    assert lost.value.facts["overlap"] == (undone.instant,)


def test_commits_that_were_archived_are_no_conflict(world: World) -> None:
    old = world.upsert({"k": "1"})
    world.upsert({"k": "2"})
    loaded = world.table().timeline()
    archive(world.table(), old.instant)

    check_conflicts(world.table(), loaded, world.table().timeline(), LATE, NOTHING)


def test_only_layout_1_refuses_to_complete_behind_a_newer_commit(world: World) -> None:
    world.upsert({"k": "1"})
    loaded = world.table().timeline()
    early = InstantTime("20000101000000000")

    if world.version == 6:
        with pytest.raises(CommitConflict, match="older than commit"):
            check_conflicts(world.table(), loaded, loaded, early, NOTHING)
        check_conflicts(world.table(), loaded, loaded, LATE, NOTHING)
    else:
        check_conflicts(world.table(), loaded, loaded, early, NOTHING)


def test_a_write_without_a_schema_and_one_without_others_beside_it_read_none() -> None:
    world = World(9)
    world.upsert({"k": "1"})
    loaded = world.table().timeline()
    world.upsert({"k": "2"})
    now, late = world.table().timeline(), InstantTime("20991231000000000")
    watched = FaultyStorage(world.memory)
    table, rule = world.table(watched), SchemaConflicts.SIMPLE
    before = len(watched.calls)
    assert declared_schema(table, loaded, now, late, None, rule) is None
    assert declared_schema(table, now, now, late, schema("key"), rule) == schema("key")
    assert watched.calls[before:] == []
