"""``hoodie.properties``: read while it is changed, and changed under the lock alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyhudi.errors import StorageError, TableCorrupt, TableExists, TableNotFound, WriterFenced
from pyhudi.locks.base import LockOwner, TableLock
from pyhudi.storage.faults import (
    Call,
    Effect,
    Fault,
    FaultyStorage,
    SimulatedCrash,
    every_crash,
)
from pyhudi.storage.memory import MemoryStorage
from pyhudi.timeline.table import BACKUP, PROPERTIES, Table, open_table, table_exists
from pyhudi.transactions.metadata_table import drop_metadata_table
from pyhudi.transactions.pessimistic import declare_pessimistic
from pyhudi.transactions.presence import make_table
from pyhudi.transactions.renaming import rename_table
from pyhudi.transactions.writer import Writer
from tests.transactions.world import LAZY, VERSIONS, World, other_lock

NewWorld = Callable[..., World]
Change = Callable[[World, Table, TableLock], object]

PROMISE = {"hoodie.table.metadata.partitions": "files"}
TORN = [b"", b"#Updated at\nhoodie.table.name=t\nhoodie.table.ver", b"#Updated at\nhoodie.tab"]


def drops(world: World, table: Table, lock: TableLock) -> None:
    if not lock.held():
        lock.acquire(0, LockOwner.this_process("t"))
    try:
        drop_metadata_table(table, lock)
    finally:
        lock.release()


def renames(world: World, table: Table, lock: TableLock) -> None:
    rename_table(Writer(table, lock, world.clock, LAZY), "other")


def declares(world: World, table: Table, lock: TableLock) -> None:
    declare_pessimistic(Writer(table, lock, world.clock, LAZY))


CHANGES = [drops, renames, declares]


# -- reading


@pytest.mark.parametrize("torn", [None, *TORN], ids=["absent", "empty", "cut", "nameless"])
def test_the_backup_counts_where_a_change_of_apache_hudis_has_died(
    world: World, torn: bytes | None
) -> None:
    before = world.table().config
    leave_backup(world, torn)

    assert world.table().config == before
    assert table_exists(world.memory)
    world.upsert({"k": "1"})
    assert world.rows() == {"k": "1"}


def test_a_table_whose_properties_are_being_changed_is_not_created_again(world: World) -> None:
    config = world.table().config
    leave_backup(world, None)

    with pytest.raises(TableExists):
        make_table(world.writer(table=Table(world.memory, config)))


def test_a_change_that_ends_while_it_is_read_is_no_missing_table(world: World) -> None:
    """The file is away, then the backup is: in between the file has come back."""
    before = world.table().config
    data = leave_backup(world, None)

    def finish(call: Call) -> None:
        if call.paths == (BACKUP,) and not world.memory.exists(PROPERTIES):
            world.memory.put_if_absent(PROPERTIES, data)
            world.memory.delete([BACKUP])

    storage = FaultyStorage(world.memory, before=finish)
    assert open_table(storage).config == before

    leave_backup(world, None)
    assert table_exists(storage)


def test_torn_properties_without_a_backup_are_corrupt_and_none_at_all_no_table(
    world: World,
) -> None:
    world.memory.replace(PROPERTIES, b"")
    with pytest.raises(TableCorrupt, match=r"hoodie\.properties"):
        world.table()
    world.memory.replace(BACKUP, b"")
    world.memory.delete([PROPERTIES])
    with pytest.raises(TableCorrupt, match=r"hoodie\.properties\.backup"):
        world.table()
    world.memory.delete([BACKUP])
    with pytest.raises(TableNotFound):
        world.table()
    assert not table_exists(world.memory)


def test_an_intact_table_is_opened_with_one_read(world: World) -> None:
    storage = FaultyStorage(world.memory)
    open_table(storage)
    assert [str(call) for call in storage.calls] == [f"read {PROPERTIES}"]


# -- changing


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("change", CHANGES)
def test_properties_are_not_changed_under_a_lease_that_may_end_before(
    new_world: NewWorld, version: int, change: Change
) -> None:
    """A successor may have changed them by then, and would lose what it wrote."""
    world = new_world(version, PROMISE)
    before = world.memory.read(PROPERTIES)
    lock = other_lock(world)

    def be_slow(call: Call) -> None:
        if call.paths == (PROPERTIES,) and call.method == "read" and lock.held():
            world.clock.advance(59.5)

    table = world.table(FaultyStorage(world.memory, before=be_slow))
    with pytest.raises(WriterFenced):
        change(world, table, lock)

    assert world.memory.read(PROPERTIES) == before


class MakesRoom(MemoryStorage):
    """A store that deletes a file before another takes its name, in steps of their own."""

    def __init__(self, inner: MemoryStorage, die_between: bool) -> None:
        super().__init__(inner.root)
        self._files = inner._files
        self._die_between = die_between

    def replace(self, path: str, data: bytes) -> None:
        self.delete([path])
        if self._die_between and path == PROPERTIES:
            raise SimulatedCrash("between the two")
        super().replace(path, data)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_dies_where_files_are_not_replaced_at_once_leaves_the_old_properties(
    new_world: NewWorld, change: Change
) -> None:
    world = new_world(9, PROMISE)
    before = world.table().config

    with pytest.raises(SimulatedCrash):
        change(world, world.table(MakesRoom(world.memory, die_between=True)), other_lock(world))

    assert world.table().config == before
    world.clock.advance(61)
    change(world, world.table(MakesRoom(world.memory, die_between=False)), other_lock(world))
    assert world.table().config != before
    assert not world.memory.exists(BACKUP)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_dies_anywhere_leaves_the_old_properties_or_the_new(
    new_world: NewWorld, change: Change
) -> None:
    world = new_world(9, PROMISE)
    old = world.table().config
    healthy = FaultyStorage(world.memory)
    change(world, world.table(healthy), other_lock(world))
    new = world.table().config
    for fault in every_crash(healthy):
        world = new_world(9, PROMISE)
        with pytest.raises(SimulatedCrash):
            change(world, world.table(FaultyStorage(world.memory, fault)), other_lock(world))
        assert world.table().config in (old, new)


def test_a_backup_that_cannot_be_deleted_fails_no_change(
    new_world: NewWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world = new_world(9, PROMISE)
    fails = Fault(Effect.FAIL_BEFORE, path=BACKUP, methods=frozenset({"delete"}))
    drops(world, world.table(FaultyStorage(world.memory, fails)), other_lock(world))

    assert world.table().config.metadata_partitions == ()
    assert "remains" in caplog.text


def test_a_backup_that_cannot_be_put_leaves_the_properties_alone(new_world: NewWorld) -> None:
    world = new_world(9, PROMISE)
    before = world.memory.read(PROPERTIES)
    fails = Fault(Effect.FAIL_BEFORE, path=BACKUP)
    with pytest.raises(StorageError):
        drops(world, world.table(FaultyStorage(world.memory, fails)), other_lock(world))

    assert world.memory.read(PROPERTIES) == before


def leave_backup(world: World, torn: bytes | None) -> bytes:
    """As a change of Apache Hudi's that died left it; gives what the properties were."""
    data = world.memory.read(PROPERTIES)
    world.memory.replace(BACKUP, data)
    world.memory.delete([PROPERTIES])
    if torn is not None:
        world.memory.put_if_absent(PROPERTIES, torn)
    return data


def test_the_properties_of_a_table_without_a_metadata_table_are_left_alone(world: World) -> None:
    faulty = FaultyStorage(world.memory)
    drops(world, open_table(faulty), other_lock(world))
    assert faulty.writes == []


def test_a_metadata_table_that_is_only_being_made_is_given_up_too(
    new_world: NewWorld,
) -> None:
    """Who makes it goes on with the files of before the commit."""
    world = new_world(9, {"hoodie.table.metadata.partitions.inflight": "files"})
    world.memory.put_if_absent(".hoodie/metadata/files/a", b"x")

    drops(world, world.table(), other_lock(world))

    assert world.table().config.metadata_partitions_inflight == ()
    assert world.memory.walk(".hoodie/metadata") == []


@pytest.mark.parametrize("effect", [Effect.CRASH_BEFORE, Effect.CRASH_AFTER])
def test_no_crash_leaves_the_promise_of_a_metadata_table_without_its_folder(
    new_world: NewWorld, effect: Effect
) -> None:
    world = new_world(9, PROMISE)
    world.memory.put_if_absent(".hoodie/metadata/files/a", b"x")
    dies = Fault(effect, path=".hoodie/metadata*", methods=frozenset({"delete_folder"}))

    with pytest.raises(SimulatedCrash):
        drops(world, world.table(FaultyStorage(world.memory, dies)), other_lock(world))

    assert world.table().config.metadata_partitions == ()
