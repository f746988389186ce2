"""Pessimistic writers in memory, for the tests of several modules."""

from __future__ import annotations

from collections.abc import Callable

from pyhudi.choices import CONCURRENCY_PROPERTY, ConcurrencyMode
from pyhudi.errors import CommitConflict
from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata, WriteStat
from pyhudi.format.instants import Action
from pyhudi.format.properties import parse_properties, render_properties
from pyhudi.locks.group_locks import GroupLocks
from pyhudi.locks.in_process import InProcessLock
from pyhudi.timeline.table import PROPERTIES
from pyhudi.transactions.conflicts.comparison import Group
from pyhudi.transactions.transaction import Committed, Transaction
from pyhudi.transactions.writer import Writer
from tests.fakes import FakeClock
from tests.transactions.world import (
    NEVER,
    Rows,
    World,
    finish,
    other_lock,
    schema,
    work,
)

NewWorld = Callable[..., World]
PESSIMISTIC = {CONCURRENCY_PROPERTY: ConcurrencyMode.PESSIMISTIC.value}
LEASE_S = 60.0


class Waiting(FakeClock):
    """The world's time, in which something happens once while somebody sleeps."""

    def __init__(self, world: World, meanwhile: Callable[[], object] | None = None) -> None:
        super().__init__()
        self._world, self._meanwhile = world, meanwhile

    def monotonic(self) -> float:
        return self._world.clock.monotonic()

    def sleep(self, seconds: float) -> None:
        self._world.clock.advance(seconds)
        act, self._meanwhile = self._meanwhile, None
        if act is not None:
            act()


def hand(world: World, meanwhile: Callable[[], object] | None = None, most: int = 9) -> GroupLocks:
    """One writer's locks; ``meanwhile`` is done when it first has to wait."""
    clock = Waiting(world, meanwhile)
    return GroupLocks(lambda n: InProcessLock(world.locks, n, clock, LEASE_S), clock, most, 20)


def begin(world: World, groups: GroupLocks | None, action: Action = Action.COMMIT) -> Transaction:
    table, clock = world.table(), world.clock
    found = Transaction.begin(
        Writer(table, other_lock(world), clock, NEVER), action, "upsert", groups
    )
    world.transactions.append(found)
    return found


def groups_of(world: World, transaction: Transaction, partition: str = "a") -> list[Group]:
    view = world.table().view(transaction.timeline)
    return [(f.partition_path, f.file_id) for f in view.latest(partitions=[partition])]


def upsert(world: World, rows: Rows, groups: GroupLocks, partition: str = "a") -> int:
    """A whole write as the planner does it; gives the attempts that ended before data."""
    for before in range(5):
        transaction = begin(world, groups)
        try:
            transaction.check_updates(groups_of(world, transaction, partition))
        except CommitConflict as conflict:
            transaction.abort()
            if not conflict.before_data:
                raise
            continue
        finish(transaction, work(transaction, rows, partition))
        return before
    raise AssertionError("it never got anywhere")


def set_mark(world: World, mark: bool) -> None:
    """What Apache Hudi sees of the mark is nothing: without it our own writer stands for Hudi."""
    raw = parse_properties(world.memory.read(PROPERTIES), PROPERTIES)
    raw.pop(CONCURRENCY_PROPERTY, None)
    world.memory.replace(PROPERTIES, render_properties(raw | (PESSIMISTIC if mark else {})))


def foreign_upsert(world: World, rows: Rows) -> Committed:
    set_mark(world, False)
    done = world.upsert(rows, policy=NEVER)
    set_mark(world, True)
    return done


def metadata_of(put: WriteStat) -> CommitMetadata:
    return CommitMetadata("UPSERT", (put,), {SCHEMA_KEY: schema("key", "value")})
