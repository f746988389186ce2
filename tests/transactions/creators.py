"""Creators of tables beside other writers, for the tests of several modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from pyhudi.locks.base import LockOwner
from pyhudi.locks.in_process import InProcessLock
from pyhudi.storage.faults import Call, FaultyStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.timeline.table import Table
from pyhudi.transactions.presence import (
    ID,
    discard,
    make_table,
)
from pyhudi.transactions.writer import Writer, WriterPolicy
from tests.transactions.world import (
    POLICY,
    World,
    other_lock,
)


def just_made(version: int) -> Iterator[World]:
    """A table that its creator has just made, and has not written to."""
    found = World(version)
    config = found.table().config
    found.memory.delete_folder("")
    make_table(Writer(Table(found.memory, config), other_lock(found), found.clock, POLICY))
    yield found
    found.close()


class Waiting(InProcessLock):
    """A lock for which its holder waits while ``first`` goes on."""

    def __init__(self, world: World, first: Callable[[], object]) -> None:
        super().__init__(world.locks, "t", world.clock)
        self._first: Callable[[], object] | None = first

    def acquire(self, timeout_s: float, owner: LockOwner) -> None:
        first, self._first = self._first, None
        if first is not None:
            first()
        super().acquire(timeout_s, owner)


def make(world: World, config_of: Table, policy: WriterPolicy = POLICY) -> Table:
    plain = {k: v for k, v in config_of.config.raw.items() if k != ID}
    config = replace(config_of.config, raw=plain)
    return make_table(world.writer(policy=policy, table=Table(world.memory, config)))


def give_up(world: World, table: Table, first: Callable[[], object] = lambda: None) -> bool:
    return discard(Writer(table, Waiting(world, first), world.clock, POLICY))


def on(storage: MemoryStorage, method: str, path: str, act: Callable[[], object]) -> FaultyStorage:
    """The storage, with ``act`` right before the first such call."""
    todo = [act]

    def before(call: Call) -> None:
        if todo and call.method == method and path in call.paths:
            todo.pop()()

    return FaultyStorage(storage, before=before)
