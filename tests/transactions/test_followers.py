"""Readers that follow a table while writers with wrong clocks commit to it, all at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pyhudi.choices import Order
from pyhudi.clock import SystemClock
from pyhudi.errors import CommitConflict
from pyhudi.format.instants import InstantTime
from pyhudi.locks.in_process import InProcessLock
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import PROPERTIES, open_table
from pyhudi.timeline.tail import table_commits
from tests.transactions.world import NEVER, World, finish, work

WRITERS, WRITES = 3, 6


class WrongClock(SystemClock):
    """A clock that is some seconds off."""

    def __init__(self, off_s: float) -> None:
        self._off_ms = int(off_s * 1000)

    def now_ms(self) -> int:
        return super().now_ms() + self._off_ms


def write_all(world: World, storage: LocalStorage, writer: int) -> list[InstantTime]:
    """One writer's commits, each to a new group of its own partition; a lost race is run again."""
    done: list[InstantTime] = []
    clock = WrongClock(writer - 1)
    while len(done) < WRITES:
        transaction = world.begin(storage, policy=NEVER, clock=clock)  # type: ignore[arg-type]
        try:
            written = work(transaction, {f"{writer}-{len(done)}": "x"}, partition=f"p{writer}")
            done.append(finish(transaction, written).instant)
        except CommitConflict:
            transaction.abort()
    return done


@pytest.mark.parametrize(
    ("version", "order"),
    [(6, Order.FENCED), (6, Order.REQUESTED)] + [(9, order) for order in Order],
)
def test_a_follower_misses_no_commit_of_writers_that_cross(
    version: int, order: Order, new_world: Callable[..., World], tmp_path: Path
) -> None:
    world = new_world(version, lock_of=lambda w, _: InProcessLock(w.locks, "t", SystemClock()))
    storage = LocalStorage(str(tmp_path))
    storage.put_if_absent(PROPERTIES, world.memory.read(PROPERTIES))
    table = open_table(storage)
    told: list[InstantTime] = []
    checkpoint = None

    with ThreadPoolExecutor(WRITERS) as pool:
        writers = [pool.submit(write_all, world, storage, n) for n in range(WRITERS)]
        ended = False
        while not ended:
            # Looked at before the listing, so that the last round sees all there is.
            ended = all(writer.done() for writer in writers)
            found = table_commits(table, checkpoint, order)
            told += [entry.instant for entry in found.commits]
            checkpoint = found.checkpoint

    committed = [time for writer in writers for time in writer.result()]
    assert len(committed) == WRITERS * WRITES
    assert set(told) == set(committed)
    if order is not Order.REQUESTED:
        assert len(told) == len(committed)
    if order is Order.COMPLETED:
        ends = {i.time: str(i.completion_time) for i in table.timeline().commits}
        assert [ends[time] for time in told] == sorted(ends.values())
