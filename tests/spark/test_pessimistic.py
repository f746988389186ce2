"""Pessimistic writers on one table: the later one waits for its file groups and loses no work."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyhudi.clock import SystemClock
from pyhudi.config import LockOptions
from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.instants import Action
from pyhudi.format.plans import parse_rollback_metadata
from pyhudi.locks.base import LockOwner
from pyhudi.locks.groups import GroupLocks
from pyhudi.locks.open import LockOpener
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.active import COMMITS
from pyhudi.timeline.table import Table, open_table
from pyhudi.transactions.pessimistic import lock_names
from tests.spark.racing import in_background
from tests.spark.tables import HudiTable, Lake

MODE = "hoodie.write.concurrency.mode"
PROPERTY, MARKED = "pyhudi.write.concurrency.mode", "PESSIMISTIC_CONCURRENCY_CONTROL"
RETRIES = "hoodie.write.num.retries.on.conflict.failures"
WAIT_S = 60

pytestmark = pytest.mark.spark


def row(key: int, name: str = "x", day: str = "a", ts: int = 1) -> tuple[Any, ...]:
    return (key, name, ts, day)


@pytest.fixture
def table(lake: Lake) -> HudiTable:
    """Four rows in each of two partitions, one file group each; no write is tried again."""
    made = lake.table(**{RETRIES: "0"})
    made.write([row(n, day="ab"[n % 2]) for n in range(8)], "bulk_insert", **{MODE: MARKED})
    return made


def opened(table: HudiTable) -> Table:
    return open_table(LocalStorage(table.path))


def names(table: HudiTable) -> dict[int, str]:
    return {key: found[1] for key, found in table.rows().items()}


def commits(table: HudiTable) -> list[CommitMetadata]:
    found = opened(table)
    timeline = found.timeline()
    return [COMMITS.get(found.storage, timeline, i) for i in timeline.commits]


def files_rolled_back(table: HudiTable) -> list[int]:
    """For each rollback, how many data files it took away."""
    found = opened(table)
    timeline = found.timeline()
    paths = [timeline.file_of(i) for i in timeline.completed if i.action is Action.ROLLBACK]
    return [parse_rollback_metadata(found.storage.read(p), p).total_files_deleted for p in paths]


def lock_of_all_groups(table: HudiTable) -> GroupLocks:
    """Another writer's hand on every file group."""
    found = opened(table)
    clock = SystemClock()
    opener = LockOpener(clock, LocalStorage)
    locks = GroupLocks(opener.groups(LockOptions(), "t", found.storage), clock, 10, 10)
    groups = ((f.partition_path, f.file_id) for f in found.view(found.timeline()).latest())
    locks.hold(lock_names(groups), LockOwner.this_process("20240101000000000"))
    return locks


def until(true: Callable[[], bool]) -> None:
    ends = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < ends, "it did not come to pass"
        time.sleep(0.02)


def test_two_upserts_of_one_group_both_land_and_neither_writes_its_data_twice(
    table: HudiTable, way: str
) -> None:
    """Both have begun before either has its lock: the second one finds its group changed."""
    taken = lock_of_all_groups(table)
    mine = table.frame([row(0, "mine", ts=2), row(1, "mine", "b", ts=2), row(100, "mine")])
    with (
        in_background(table.write, mine, "upsert") as first,
        in_background(table.write, [row(0, "other", ts=2), row(2, "other", ts=2)], "upsert") as two,
    ):
        until(lambda: len(opened(table).timeline().pending) == 2)
        taken.release()
        first.result()
        two.result()

    found = names(table)
    assert found.pop(0) in ("mine", "other")
    assert found == {1: "mine", 2: "other", 3: "x", 4: "x", 5: "x", 6: "x", 7: "x", 100: "mine"}
    assert [c.extra.get(PROPERTY) for c in commits(table)] == [MARKED] * 3
    assert ["pyhudi.conflict.retries" in c.extra for c in commits(table)] == [False] * 3
    assert files_rolled_back(table) == [0]
    assert list(Path(table.path, ".hoodie", ".locks", "groups").iterdir()) == []
