"""A table is one of pessimistic writers for all of them, or for none."""

from __future__ import annotations

import pytest

from pyhudi.errors import ConfigError, WriteFailed
from pyhudi.format.instants import InstantTime
from pyhudi.format.properties import parse_properties
from pyhudi.locks.base import LockOwner
from pyhudi.locks.in_process import InProcessLock
from pyhudi.timeline.table import PROPERTIES
from pyhudi.transactions.pessimistic import declare_pessimistic, is_pessimistic
from pyhudi.transactions.writer import Writer
from tests.transactions.pessimists import (
    PESSIMISTIC,
    Waiting,
    begin,
    hand,
    set_mark,
)
from tests.transactions.world import (
    LAPSE_S,
    LAZY,
    World,
    die,
    finish,
    other_lock,
    work,
)


def test_a_write_without_locks_cannot_commit_to_a_table_that_has_become_pessimistic(
    world: World,
) -> None:
    world.upsert({"k": "0"})
    late = begin(world, None)
    written = work(late, {"k": "late"})
    set_mark(world, True)

    with pytest.raises(WriteFailed, match="another writer has made this a table of pessimistic"):
        finish(late, written)
    late.abort()

    assert world.rows() == {"k": "0"}
    assert world.leftovers() == []


def declare(world: World) -> bool:
    policy = LAZY
    return is_pessimistic(declare_pessimistic(world.writer(policy=policy)).config)


def test_the_first_pessimistic_write_records_the_mode_and_keeps_every_property(
    world: World,
) -> None:
    world.upsert({"k": "0"})
    before = parse_properties(world.memory.read(PROPERTIES), PROPERTIES)

    assert declare(world) is True
    assert declare(world) is True

    assert parse_properties(world.memory.read(PROPERTIES), PROPERTIES) == before | PESSIMISTIC
    assert world.locks.leases == {}


def test_a_table_with_a_write_under_way_is_not_made_pessimistic(world: World) -> None:
    running = begin(world, None)

    with pytest.raises(
        ConfigError, match=f"file groups are running: commit {running.instant}"
    ) as refused:
        declare(world)

    assert refused.value.facts["key"] == "hoodie.write.concurrency.mode"
    assert not is_pessimistic(world.table().config)
    assert world.locks.leases == {}


def test_a_dead_write_is_rolled_back_first_and_stops_nobody(world: World) -> None:
    dead = begin(world, None)
    work(dead, {"k": "dead"})
    die(dead)
    world.clock.advance(LAPSE_S + 1)

    assert declare(world) is True

    assert world.rows() == {}
    assert world.leftovers() == []


def test_two_first_writers_at_once_both_find_the_table_pessimistic(world: World) -> None:
    """The second one waits for the table lock while the first records the mode and begins."""
    held = other_lock(world)
    held.acquire(1, LockOwner.this_process(InstantTime("20240501123005111")))

    def first() -> None:
        held.release()
        assert declare(world) is True
        with hand(world) as groups:
            begin(world, groups)

    lock = InProcessLock(world.locks, "t", Waiting(world, first))
    table = declare_pessimistic(Writer(world.table(), lock, world.clock, LAZY))

    assert is_pessimistic(table.config)
