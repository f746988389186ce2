"""A table's coming and going beside other writers, each order of steps played by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pyhudi.errors import (
    ConfigError,
    LockTimeout,
    TableCorrupt,
    TableExists,
    TableNotFound,
    WriterFenced,
)
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.properties import render_properties
from pyhudi.locks.base import LockOwner
from pyhudi.locks.in_process import InProcessLock
from pyhudi.storage.faults import Effect, Fault, FaultyStorage, SimulatedCrash
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.timeline.table import BACKUP, PROPERTIES, Table, open_table, table_exists
from pyhudi.transactions.presence import (
    ID,
    TORN_MS,
    adopt,
    discard,
    find_table,
    holds_locks_alone,
    make_table,
    remove,
)
from pyhudi.transactions.writer import Writer
from tests.transactions.creators import give_up, just_made, make, on
from tests.transactions.world import (
    LAPSE_S,
    NEVER,
    POLICY,
    VERSIONS,
    World,
    begin_beside,
    dead_writer,
    finish,
    put_file,
    put_instant,
    work,
)


@pytest.fixture(params=VERSIONS)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    yield from just_made(request.param)


# -- a creator that gives its table up


def test_a_table_that_nobody_uses_leaves_nothing(world: World) -> None:
    table = world.table()
    failed = world.begin()
    work(failed, {"k": "1"})
    failed.abort()
    assert give_up(world, table)
    assert world.memory.walk("") == []
    assert give_up(world, table), "it is gone"


def test_a_commit_that_came_first_under_the_lock_stays(world: World) -> None:
    table = world.table()
    assert not give_up(world, table, lambda: world.upsert({"k": "theirs"}, policy=NEVER))
    assert world.rows() == {"k": "theirs"}


def test_a_write_that_has_begun_keeps_the_table(world: World) -> None:
    table, theirs = world.table(), begin_beside(world)
    assert not give_up(world, table)
    finish(theirs, work(theirs, {"k": "theirs"}))
    assert world.rows() == {"k": "theirs"}


@pytest.mark.parametrize(
    "left", [".hoodie/.heartbeat/20240101000000000", ".hoodie/.temp/.spool-1/x"]
)
def test_a_sign_of_another_writer_keeps_the_table(world: World, left: str) -> None:
    world.memory.put_if_absent(left, b"")
    assert not give_up(world, world.table())
    assert table_exists(world.memory)


def test_an_instant_that_nobody_settled_keeps_the_table(world: World) -> None:
    requested = Instant(InstantTime("20240101000000000"), Action.COMMIT, State.REQUESTED)
    put_instant(world, requested)
    assert not give_up(world, world.table())


def test_a_table_whose_properties_another_changed_stays(world: World) -> None:
    table = world.table()
    changed = {**table.config.raw, "hoodie.table.create.schema": "{}"}
    world.memory.replace(PROPERTIES, render_properties(changed))
    assert not give_up(world, table)


def test_a_table_that_another_made_in_its_place_stays(world: World) -> None:
    ours = world.table()
    world.memory.delete_folder("")
    theirs = make(world, ours)
    assert not give_up(world, ours)
    assert world.table().config.raw[ID] == theirs.config.raw[ID]


def test_a_write_that_began_too_late_fails_and_leaves_a_folder_for_the_next_table(
    world: World,
) -> None:
    table, begun = world.table(), []

    def begin() -> None:
        theirs = begin_beside(world)
        begun.append((theirs, work(theirs, {"k": "late"})))

    storage = on(world.memory, "delete", PROPERTIES, begin)
    assert discard(world.writer(table=Table(storage, table.config)))
    [(theirs, written)] = begun
    with pytest.raises(TableNotFound):
        finish(theirs, written)
    theirs.abort()
    assert world.data_files() == set()
    make(world, table)
    world.upsert({"k": "next"})
    assert world.rows() == {"k": "next"}
    assert world.leftovers() == []


def test_rows_of_a_write_that_began_too_late_stay_out_of_the_next_table(world: World) -> None:
    table, begun = world.table(), []

    def begin() -> None:
        theirs = begin_beside(world)
        theirs.inflight(None)
        begun.append(theirs)

    storage = on(world.memory, "walk", "", begin)
    assert discard(world.writer(table=Table(storage, table.config)))
    world.clock.advance(1)
    make(world, table, NEVER)
    world.upsert({"k": "next"}, policy=NEVER)
    put_file(begun[0], "b", FileId(f"{world.clock.uuid()}-0"), {"k": "late"})
    assert world.rows() == {"k": "next"}


def test_a_write_to_a_table_that_was_replaced_meanwhile_fails(world: World) -> None:
    table, theirs = world.table(), begin_beside(world)
    written = work(theirs, {"k": "old"})
    world.memory.delete([PROPERTIES])
    make(world, table, NEVER)
    with pytest.raises(TableNotFound, match="another one made in its place"):
        finish(theirs, written)
    theirs.abort()
    assert world.rows() == {}
    assert world.leftovers() == []


def test_a_write_whose_table_and_instant_are_gone_deletes_its_own_files(world: World) -> None:
    theirs = begin_beside(world)
    written = work(theirs, {"k": "old"})
    kept = {file.path: world.memory.read(file.path) for file in world.memory.walk("a")}
    world.memory.delete_folder("")
    for path, data in kept.items():
        world.memory.put_if_absent(path, data)
    with pytest.raises(TableNotFound, match="was taken away while this write ran"):
        finish(theirs, written)
    theirs.abort()
    assert world.data_files() == set()


def test_a_table_that_another_statement_adopted_stays(world: World) -> None:
    made = world.table()
    assert not give_up(world, made, lambda: adopt(world.writer()))
    assert not give_up(world, world.table())
    world.upsert({"k": "1"})
    assert world.rows() == {"k": "1"}


def test_a_table_that_is_gone_is_not_adopted(world: World) -> None:
    table = world.table()
    assert give_up(world, table)
    with pytest.raises(TableNotFound):
        adopt(world.writer(table=table))
    assert world.memory.walk("") == []


def test_a_table_with_commits_is_adopted_without_a_word(world: World) -> None:
    world.upsert({"k": "1"})
    before = world.memory.read(PROPERTIES)
    adopt(world.writer())
    assert world.memory.read(PROPERTIES) == before


def test_a_table_that_another_program_made_is_adopted_as_it_is(world: World) -> None:
    raw = world.table().config.raw
    world.memory.replace(PROPERTIES, render_properties({k: raw[k] for k in raw if k != ID}))
    before = world.memory.read(PROPERTIES)
    adopt(world.writer())
    assert world.memory.read(PROPERTIES) == before


@pytest.mark.parametrize("kept", [".hoodie/.locks/groups/1", ".hoodie/locks/lock1.taken", "mine/x"])
def test_locks_and_files_of_others_outlive_the_table(world: World, kept: str) -> None:
    world.memory.put_if_absent(kept, b"")
    assert give_up(world, world.table())
    assert [file.path for file in world.memory.walk("")] == [kept]


def test_a_removal_that_dies_leaves_no_half_of_a_table(world: World) -> None:
    world.memory.put_if_absent(BACKUP, world.memory.read(PROPERTIES))
    crash = Fault(Effect.CRASH_AFTER, path=PROPERTIES, methods=frozenset({"delete"}))
    table = Table(FaultyStorage(world.memory, crash), world.table().config)
    with pytest.raises(SimulatedCrash):
        discard(world.writer(table=table))
    assert not table_exists(world.memory)


# -- leftovers of creators that died


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("next_version", VERSIONS)
def test_a_folder_whose_writer_died_without_a_table_takes_a_new_one(
    version: int, next_version: int
) -> None:
    world = World(version)
    dead_writer(world)
    world.memory.delete([PROPERTIES])
    world.clock.advance(LAPSE_S + 1)
    again = World(next_version)
    table = make_table(world.writer(table=Table(world.memory, again.table().config)))
    assert table.config.version == next_version
    world.upsert({"k": "1"})
    assert world.rows() == {"k": "1"}
    assert world.data_files() == world.named_files()


def test_a_living_writer_of_another_version_keeps_a_folder_without_a_table() -> None:
    world, other = World(6), World(9)
    begin_beside(world)
    config = other.table().config
    world.memory.delete([PROPERTIES])
    with pytest.raises(ConfigError, match="is still running"):
        make_table(world.writer(policy=NEVER, table=Table(world.memory, config)))
    assert not table_exists(world.memory)
    world.close()


def test_commits_without_properties_are_not_taken_for_an_empty_folder(world: World) -> None:
    world.upsert({"k": "1"})
    table = world.table()
    world.memory.delete([PROPERTIES])
    with pytest.raises(TableCorrupt, match="has commits of a Hudi table, but no"):
        make(world, table)
    assert not table_exists(world.memory)


@pytest.mark.parametrize("torn", [b"", b"#Properties\nhoodie.table.na"])
def test_properties_cut_short_are_written_again_once_their_creator_is_dead(
    world: World, torn: bytes
) -> None:
    table = world.table()
    world.memory.replace(PROPERTIES, torn)
    with pytest.raises(TableCorrupt):
        find_table(world.memory, world.clock)
    world.clock.advance(TORN_MS / 1000)
    assert find_table(world.memory, world.clock) is None
    make(world, table)
    world.upsert({"k": "1"})
    assert world.rows() == {"k": "1"}


def test_properties_cut_short_beside_commits_are_never_replaced(world: World) -> None:
    world.upsert({"k": "1"})
    table = world.table()
    world.memory.replace(PROPERTIES, b"")
    world.clock.advance(TORN_MS / 1000)
    with pytest.raises(TableCorrupt):
        find_table(world.memory, world.clock)
    with pytest.raises((TableCorrupt, TableExists)):
        make(world, table)
    assert world.memory.read(PROPERTIES) == b""


def test_of_two_creators_the_second_is_told(world: World) -> None:
    table = world.table()
    with pytest.raises(TableExists):
        make(world, table)
    assert world.table().config.raw[ID] == table.config.raw[ID]


def test_a_creator_waits_until_a_removal_has_deleted_all(world: World) -> None:
    table, seen = world.table(), []
    failed = world.begin()
    work(failed, {"k": "1"})
    failed.abort()

    def create() -> None:
        hurried = replace(POLICY, lock_timeout_s=0)
        with pytest.raises(LockTimeout):
            make_table(world.writer(policy=hurried, table=table))
        seen.append(table_exists(world.memory))

    storage = on(world.memory, "delete", "a/.hoodie_partition_metadata", create)
    assert discard(world.writer(table=Table(storage, table.config)))
    assert seen == [False]


def test_a_creator_that_finds_a_table_with_commits_is_told_that_it_is_there(world: World) -> None:
    world.upsert({"k": "theirs"})
    with pytest.raises(TableExists):
        make(world, world.table())
    assert world.rows() == {"k": "theirs"}


def test_a_creator_whose_put_finds_the_properties_of_another_program_is_told(world: World) -> None:
    """Apache Hudi makes tables without the lock."""
    table, theirs = world.table(), world.memory.read(PROPERTIES)
    world.memory.delete_folder("")
    storage = on(
        world.memory,
        "put_if_absent",
        PROPERTIES,
        lambda: world.memory.put_if_absent(PROPERTIES, theirs),
    )
    with pytest.raises(TableExists):
        make_table(world.writer(table=Table(storage, table.config)))
    assert world.memory.read(PROPERTIES) == theirs


# -- the lock


class Lapsed(InProcessLock):
    """A lock whose lease ends while its holder looks at the table."""

    def __init__(self, world: World) -> None:
        super().__init__(world.locks, "t", world.clock)
        self._late = world.clock

    def acquire(self, timeout_s: float, owner: LockOwner) -> None:
        super().acquire(timeout_s, owner)
        self._late.advance(61)


def test_nothing_is_made_or_taken_away_under_a_lock_that_has_lapsed(world: World) -> None:
    table = world.table()
    before = world.memory.walk("")
    with pytest.raises(WriterFenced):
        discard(Writer(table, Lapsed(world), world.clock, POLICY))
    with pytest.raises(WriterFenced):
        remove(Writer(table, Lapsed(world), world.clock, POLICY))
    assert world.memory.walk("") == before

    world.memory.delete_folder("")
    with pytest.raises(WriterFenced):
        make_table(Writer(Table(world.memory, table.config), Lapsed(world), world.clock, POLICY))
    assert world.memory.walk("") == []


def test_each_that_makes_or_takes_a_table_away_gives_the_lock_back(world: World) -> None:
    table, leases = world.table(), world.locks.leases
    assert leases == {}
    adopted = adopt(world.writer(table=table))
    assert leases == {}
    assert not give_up(world, adopted)
    assert leases == {}
    remove(world.writer())
    assert leases == {}
    assert give_up(world, make(world, table))
    assert leases == {}


def test_a_table_has_an_id_that_its_later_properties_keep(world: World) -> None:
    before = world.table().config.raw[ID]
    world.upsert({"k": "1"})
    assert open_table(world.memory).config.raw[ID] == before


def test_a_folder_in_which_a_table_has_left_its_locks_alone_is_told(tmp_path: Path) -> None:
    (tmp_path / ".hoodie").mkdir()
    assert not holds_locks_alone(LocalStorage(str(tmp_path)))
    storage = MemoryStorage("memory:/left")
    assert not holds_locks_alone(storage)
    for path in (".hoodie/locks/lock3.acquired", ".hoodie/.locks/groups/a", ".hoodie/lock"):
        storage.put_if_absent(path, b"")
        assert holds_locks_alone(storage)
    for other in (".hoodie/locked", ".hoodie/timeline/x", "part-0", "p/part-0", ".hidden", "_x/y"):
        storage.put_if_absent(other, b"")
        assert not holds_locks_alone(storage), other
        storage.delete([other])
        storage.delete_empty_folders("")
    assert holds_locks_alone(storage)
