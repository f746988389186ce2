"""A writer dies at any of its writes: the next one settles it, rows are exact, nothing stays."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyhudi.format.instants import Action, State
from pyhudi.locks.filesystem import LOCK_PATH, FilesystemLock
from pyhudi.storage.base import Storage
from pyhudi.storage.faults import Effect, Fault, FaultyStorage, SimulatedCrash, every_crash
from pyhudi.transactions.transaction import Transaction
from tests.transactions.world import LAPSE_S, VERSIONS, World, finish, put_file, work

NewWorld = Callable[..., World]
BASE = {"k1": "0", "k2": "0"}


def file_lock(world: World, storage: Storage) -> FilesystemLock:
    return FilesystemLock(storage, world.clock)


def doomed_write(world: World, storage: Storage, action: Action) -> Transaction:
    """An update, an insert and a stray file of another attempt, in one write."""
    transaction = world.begin(storage, action=action)
    written = work(transaction, {"k1": "1", "new": "1"}, overwrite=action is Action.REPLACECOMMIT)
    put_file(transaction, "b", "stray-0", {"k1": "stray"}, attempt=3)  # type: ignore[arg-type]
    finish(transaction, written)
    return transaction


def settled(world: World) -> None:
    """What must hold after the next writer, whatever happened before."""
    assert world.leftovers() == []
    assert not world.memory.exists(LOCK_PATH)


def outcome(world: World, action: Action) -> dict[str, str]:
    """The rows as they must be, by whether the doomed write's completed file is there."""
    commits = world.table().timeline().commits
    assert len(commits) in (2, 3)
    rows = dict(BASE)
    if len(commits) == 3:
        rows = {"k1": "1", "new": "1"} | ({} if action is Action.REPLACECOMMIT else {"k2": "0"})
    return rows | {"last": "1"}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("action", [Action.COMMIT, Action.REPLACECOMMIT])
@pytest.mark.parametrize("lock", ["in process", "file"])
def test_after_a_crash_at_any_write_the_next_writer_finds_and_leaves_a_whole_table(
    new_world: NewWorld, version: int, action: Action, lock: str
) -> None:
    more = {"lock_of": file_lock} if lock == "file" else {}

    def prepared() -> World:
        world = new_world(version, {"hoodie.table.metadata.partitions": "files"}, **more)
        world.upsert(BASE)
        return world

    world = prepared()
    healthy = FaultyStorage(world.memory)
    doomed_write(world, healthy, action)
    completed = [
        i
        for i, call in enumerate(healthy.writes)
        if call.paths[0].endswith(f".{action.value}") and call.method == "put_if_absent"
    ]
    assert len(completed) == 1

    landed = set()
    for fault in every_crash(healthy):
        world = prepared()
        with pytest.raises(SimulatedCrash):
            doomed_write(world, FaultyStorage(world.memory, fault), action)
        first_after = Fault(Effect.CRASH_AFTER, at=completed[0] + 1)
        must_be_there = fault.at > first_after.at or fault == first_after
        world.clock.advance(LAPSE_S)
        world.upsert({"last": "1"})

        settled(world)
        assert world.rows() == outcome(world, action), fault
        assert (len(world.table().timeline().commits) == 3) == must_be_there, fault
        landed.add(must_be_there)
    assert landed == {False, True}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("died_at", ["*.inflight", "*.parquet"])
def test_a_crash_while_settling_is_settled_by_the_next_but_one(
    new_world: NewWorld, version: int, died_at: str
) -> None:
    def with_a_dead_writer() -> World:
        world = new_world(version)
        world.upsert(BASE)
        fault = Fault(Effect.CRASH_AFTER, path=died_at)
        with pytest.raises(SimulatedCrash):
            doomed_write(world, FaultyStorage(world.memory, fault), Action.COMMIT)
        world.clock.advance(LAPSE_S)
        return world

    world = with_a_dead_writer()
    healthy = FaultyStorage(world.memory)
    world.upsert({"next": "1"}, healthy)
    for fault in every_crash(healthy):
        world = with_a_dead_writer()
        with pytest.raises(SimulatedCrash):
            world.upsert({"next": "1"}, FaultyStorage(world.memory, fault))
        world.clock.advance(LAPSE_S)
        world.upsert({"last": "1"})

        settled(world)
        has_next = len(world.table().timeline().commits) == 3
        assert world.rows() == BASE | {"last": "1"} | ({"next": "1"} if has_next else {}), fault


@pytest.mark.parametrize("version", VERSIONS)
def test_data_files_go_before_the_instant_that_hides_them(
    new_world: NewWorld, version: int
) -> None:
    """A file without an instant on the timeline may count as archived data.

    Rules: spec/file_slices.md F3.
    """
    world = new_world(version)
    died = Fault(Effect.CRASH_AFTER, path="b/*.parquet")
    with pytest.raises(SimulatedCrash):
        doomed_write(world, FaultyStorage(world.memory, died), Action.COMMIT)
    world.clock.advance(LAPSE_S)
    recording = FaultyStorage(world.memory)
    world.upsert({"k": "1"}, recording)

    deletes = [c.paths for c in recording.writes if c.method == "delete" and c.paths]
    data = [n for n, paths in enumerate(deletes) if paths[0].endswith(".parquet")]
    instant = [n for n, paths in enumerate(deletes) if paths[0].endswith(".requested")]
    assert data
    assert max(data) < min(instant)
    done = [c.paths[0] for c in recording.writes if c.paths and ".rollback" in c.paths[0]]
    assert [name.rsplit(".", 1)[-1] for name in done] == [
        State.REQUESTED.value,
        State.INFLIGHT.value,
        Action.ROLLBACK.value,
    ]
