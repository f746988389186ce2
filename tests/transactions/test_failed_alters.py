"""Changes of columns that fail, and schema histories that no commit went with."""

from __future__ import annotations

import json

import pytest

from pyhudi.errors import HudiError
from pyhudi.format.column_ids import file_name, version_of
from pyhudi.format.instants import InstantTime
from pyhudi.format.schema_history import SCHEMA_FOLDER, history_file, history_time, render_history
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.storage.faults import Effect, Fault, FaultyStorage, SimulatedCrash
from pyhudi.tables.alter import _altered
from pyhudi.timeline.schema import table_schema
from pyhudi.timeline.schema_history import SchemaHistory, extended
from pyhudi.transactions.heartbeat import FOLDER as HEARTBEATS
from pyhudi.transactions.recovery.rollback import roll_back
from pyhudi.transactions.recovery.settle import settle_failed_writes
from pyhudi.transactions.transaction import Transaction
from tests.archiver import archive
from tests.transactions.test_schema_saving import ADD, RENAME, alter, begin, insert, saved
from tests.transactions.world import (
    LAPSE_S,
    NEVER,
    World,
    Written,
    die,
    finish,
    schema,
    settle,
    work,
)


def write_nothing(world: World, *columns: str) -> None:
    """A commit that declares ``columns`` and nothing else."""
    ours = world.begin(policy=NEVER)
    ours.inflight(None)
    finish(ours, Written(()), schema(*columns))


def fails_to_alter(world: World, effect: Effect) -> Transaction:
    """A RENAME COLUMN whose final put fails or never ends; its history is saved by then."""
    insert(begin(world), "s", "key", "value")
    storage = FaultyStorage(world.memory, Fault(effect, path="*.commit", times=3))
    ours = world.begin(storage, policy=NEVER)
    with pytest.raises((HudiError, SimulatedCrash)):
        alter(ours, RENAME)
    assert len(saved(world)) == 1
    return ours


def test_a_failed_change_of_columns_takes_its_history_along(world: World) -> None:
    fails_to_alter(world, Effect.FAIL_BEFORE).abort()

    assert saved(world) == []
    assert world.leftovers() == []


def test_the_history_of_a_killed_change_of_columns_goes_with_its_rollback(world: World) -> None:
    die(fails_to_alter(world, Effect.CRASH_BEFORE))
    world.clock.advance(LAPSE_S)

    settle(world)

    assert saved(world) == []
    assert world.leftovers() == []


def test_who_finishes_a_rollback_deletes_the_history_as_well(world: World) -> None:
    die(fails_to_alter(world, Effect.CRASH_BEFORE))
    world.clock.advance(LAPSE_S)
    dies = FaultyStorage(world.memory, Fault(Effect.CRASH_BEFORE, path="*.schemacommit"))
    with pytest.raises(SimulatedCrash):
        settle_failed_writes(world.writer(dies))
    assert len(saved(world)) == 1
    world.clock.advance(LAPSE_S)

    settle(world)

    assert saved(world) == []
    assert world.leftovers() == []


def test_a_history_that_was_saved_after_the_rollback_is_swept_up(world: World) -> None:
    """By a writer that was taken for dead in the midst of its commit."""
    ours = fails_to_alter(world, Effect.CRASH_BEFORE)
    (name,) = saved(world)
    text = world.memory.read(f"{SCHEMA_FOLDER}/{name}")
    die(ours)
    world.clock.advance(LAPSE_S)
    settle(world)
    world.memory.put_if_absent(f"{SCHEMA_FOLDER}/{name}", text)
    world.memory.put_if_absent(f"{HEARTBEATS}/{ours.instant}", b"")

    settle(world)

    assert saved(world) == []


def test_a_writer_that_another_rolled_back_deletes_the_history_that_it_saved_since(
    world: World,
) -> None:
    ours = fails_to_alter(world, Effect.FAIL_BEFORE)
    (name,) = saved(world)
    text = world.memory.read(f"{SCHEMA_FOLDER}/{name}")
    roll_back(world.writer(), ours.instant)
    world.memory.put_if_absent(f"{SCHEMA_FOLDER}/{name}", text)

    ours.abort()

    assert saved(world) == []


def test_rolling_back_one_change_keeps_the_history_of_others(world: World) -> None:
    insert(begin(world), "s", "key", "value")
    done = alter(begin(world), ADD)
    kept = saved(world)
    dead = world.begin(policy=NEVER)
    work(dead, {"k": "1"})
    die(dead)
    world.clock.advance(LAPSE_S)

    settle(world)

    assert saved(world) == kept
    assert history_time(kept[0]) == done.instant


@pytest.mark.parametrize("when", ["alone", "after a change that succeeded"])
def test_a_history_that_no_commit_went_with_tells_nothing_once_archived_past(
    world: World, when: str
) -> None:
    """Apache Hudi's rollbacks leave such files; a late put does as well."""
    insert(begin(world), "s", "key", "value")
    if when != "alone":
        alter(begin(world), ADD)
    ours = world.begin(FaultyStorage(world.memory), policy=NEVER)
    history, current = ours.keep_history(), table_schema(world.table(), ours.timeline, None)
    assert current is not None
    before = history.current() or history.first_version(current)
    found = _altered(current, before, (RENAME,), world.table().config)
    version = version_of(found.columns, int(ours.instant), before, ours.timeline.layout)
    text = extended(version, history.text() or render_history([before]))
    completion = InstantTime(str(int(ours.instant) + 1))
    path = history_file(ours.instant, completion, ours.timeline.layout)
    ours.abort()
    world.memory.put_if_absent(path, text.encode())
    columns = ("key", "value") if when == "alone" else ("key", "value", "a")
    for _ in range(3):  # by writers without schema-on-read, which do not say their version
        write_nothing(world, *columns)
    commits = world.table().timeline().commits
    old = [c.time for c in commits[:-2]]
    for run in [old] if when == "alone" else [[time] for time in old]:
        archive(world.table(), *run)
    timeline = world.table().timeline()
    assert timeline.first_time is not None
    assert timeline.first_time > ours.instant

    now = SchemaHistory(world.table(), timeline)
    read = table_schema(world.table(), timeline, None)
    assert read is not None
    held = now.held(read, commits[0].time, SparkSchema.of_avro(json.loads(schema("key", "value"))))

    names = {column.name: file_name(column) for column in held.columns}
    assert names["value"] == "value"
    assert (now.current() is None) == (when == "alone")
    watched = FaultyStorage(world.memory)
    assert SchemaHistory(world.table(watched), timeline).saved() == now.saved()
    folder = world.table().config.history_folder
    assert [c for c in watched.calls if c.paths[0].startswith(folder)] == [], "it is known by now"


def test_the_history_of_an_archived_change_tells_as_ever(world: World) -> None:
    insert(begin(world), "s", "key", "value")
    alter(begin(world), RENAME)
    for _ in range(3):
        write_nothing(world, "key", "fare")
    commits = world.table().timeline().commits
    archive(world.table(), *(c.time for c in commits[:-2]))
    timeline = world.table().timeline()

    now = SchemaHistory(world.table(), timeline)
    read = table_schema(world.table(), timeline, None)
    assert read is not None
    held = now.held(read, commits[0].time, SparkSchema.of_avro(json.loads(schema("key", "value"))))

    names = {column.name: file_name(column) for column in held.columns}
    assert names == {"key": "key", "fare": "value"}


@pytest.mark.parametrize("lost", ["gone", "torn"])
def test_without_the_archive_a_history_is_believed(world: World, lost: str) -> None:
    insert(begin(world), "s", "key", "value")
    alter(begin(world), RENAME)
    for _ in range(3):
        write_nothing(world, "key", "fare")
    commits = world.table().timeline().commits
    archive(world.table(), *(c.time for c in commits[:-2]))
    for file in world.memory.list(world.table().config.history_folder):
        world.memory.delete([file.path])
        if lost == "torn":
            world.memory.put_if_absent(file.path, b"torn")

    current = SchemaHistory(world.table(), world.table().timeline()).current()

    assert current is not None
    assert [f["name"] for f in current.fields[5:]] == ["key", "fare"]
