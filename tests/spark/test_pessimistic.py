"""Pessimistic writers on one table: the later one waits for its file groups and loses no work."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pyhudi
from pyhudi.clock import SystemClock
from pyhudi.config import LockOptions
from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.instants import Action
from pyhudi.format.plans import parse_rollback_metadata
from pyhudi.locks.base import LockOwner
from pyhudi.locks.group_locks import GroupLocks
from pyhudi.locks.open import LockOpener
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.active import COMMITS
from pyhudi.timeline.table import Table, open_table
from pyhudi.transactions.pessimistic import lock_names
from tests.spark.racing import SlowInput, in_background
from tests.spark.tables import OPTIONS, TYPE, HudiTable, Lake, refused

MODE, MOST = "hoodie.write.concurrency.mode", "hoodie.write.lock.groups.max"
PROPERTY, MARKED = "pyhudi.write.concurrency.mode", "PESSIMISTIC_CONCURRENCY_CONTROL"
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
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


def test_a_compaction_beside_a_write_that_waits_for_its_groups_costs_it_nothing(
    lake: Lake,
) -> None:
    options = {TYPE: "MERGE_ON_READ", "hoodie.compact.inline": "false"}
    table = lake.table(options={**OPTIONS, **options}, **{RETRIES: "0"})
    table.write([row(n, day="ab"[n % 2]) for n in range(4)], "bulk_insert", **{MODE: MARKED})
    table.write([row(0, "old", ts=2), row(1, "old", "b", ts=2)], "upsert")
    taken = lock_of_all_groups(table)
    with in_background(table.write, [row(0, "new", ts=3)], "upsert") as write:
        until(lambda: len(opened(table).timeline().pending) == 1)
        assert [f.fate.value for f in pyhudi.compact(table.path)] == ["compacted"] * 2
        taken.release()
        write.result()

    assert names(table) == {0: "new", 1: "old", 2: "x", 3: "x"}
    assert [c.operation for c in commits(table)][-2:] in (
        ["UPSERT", "COMPACT"],
        ["COMPACT", "UPSERT"],
    )
    assert [c.extra.get(PROPERTY) for c in commits(table)] == [MARKED] * 4
    assert [f.fate.value for f in pyhudi.compact(table.path)] == ["compacted"]
    assert names(table) == {0: "new", 1: "old", 2: "x", 3: "x"}


def test_two_first_writes_of_one_bucket_leave_one_file_group(
    lake: Lake, tmp_path: Path, way: str
) -> None:
    """No group is there to be locked: the bucket's number is."""
    table = lake.table(**BUCKETS, **{RETRIES: "0", MODE: MARKED})
    table.write([row(0, day="b")], "upsert")
    inputs = [
        SlowInput(table.frame([row(n, f"writer {n}"), row(5, "both", ts=n)]), tmp_path / str(n))
        for n in (1, 2)
    ]
    with (
        in_background(table.write, inputs[0].df, "upsert") as first,
        in_background(table.write, inputs[1].df, "upsert") as second,
    ):
        for each in inputs:
            each.wait_until_read()
        for each in inputs:
            each.go()
        first.result()
        second.result()

    assert names(table) == {0: "x", 1: "writer 1", 2: "writer 2", 5: "both"}
    found = opened(table)
    assert len(found.view(found.timeline()).latest(partitions=["a"])) == 1
    assert set(files_rolled_back(table)) <= {0}
    assert [each.evaluations for each in inputs] == [1, 1]


@pytest.mark.parametrize("operation", ["insert_overwrite", "insert_overwrite_table"])
def test_a_replaced_partition_is_locked_before_its_new_rows_are_written(
    table: HudiTable, tmp_path: Path, operation: str
) -> None:
    taken = lock_of_all_groups(table)
    rows = SlowInput(table.frame([row(50, "new"), row(51, "new")]), tmp_path / "slow")
    rows.go()
    with in_background(table.write, rows.df, operation) as done:
        until(lambda: len(opened(table).timeline().pending) == 1)
        before = table.base_files()
        table.write([row(60, "late")], "insert")
        taken.release()
        done.result()

    left = {50: "new", 51: "new"}
    if operation == "insert_overwrite":
        left |= dict.fromkeys((1, 3, 5, 7), "x")
    assert names(table) == left
    assert len(before) == 2
    assert rows.evaluations == 1
    assert files_rolled_back(table) == [0]


def test_a_partition_is_deleted_under_the_locks_of_its_groups(table: HudiTable) -> None:
    taken = lock_of_all_groups(table)
    gone = {"hoodie.datasource.write.partitions.to.delete": "a"}
    with in_background(table.write, [row(0)], "delete_partition", **gone) as done:
        until(lambda: len(opened(table).timeline().pending) == 1)
        assert not done.done()
        taken.release()
        done.result()

    assert sorted(names(table)) == [1, 3, 5, 7]


def test_more_file_groups_than_may_be_locked_are_refused(table: HudiTable) -> None:
    both = [row(0, "y", ts=2), row(1, "y", "b", ts=2)]
    with pytest.raises(Exception, match="changes 2 file groups.*hoodie.write.lock.groups.max is 1"):
        table.write(both, "upsert", **{MOST: "1"})

    assert set(names(table).values()) == {"x"}
    table.write(both, "upsert", **{MOST: "2"})
    assert names(table)[1] == "y"


@pytest.mark.parametrize("said", ["OPTIMISTIC_CONCURRENCY_CONTROL", "SINGLE_WRITER"])
def test_a_pessimistic_table_refuses_writers_of_another_mode_and_names_both(
    table: HudiTable, said: str
) -> None:
    with refused("CONFIG_ERROR", table.path, MODE, said, PROPERTY, MARKED):
        table.write([row(0)], "upsert", **{MODE: said})


def test_a_writer_that_says_nothing_follows_the_table(table: HudiTable) -> None:
    table.write([row(0, "y", ts=2)], "upsert")

    assert table.properties()[PROPERTY] == MARKED
    assert commits(table)[-1].extra[PROPERTY] == MARKED
    assert names(table)[0] == "y"


def test_an_optimistic_table_becomes_pessimistic_once_nobody_writes_to_it(
    lake: Lake, tmp_path: Path
) -> None:
    optimistic = {MODE: "OPTIMISTIC_CONCURRENCY_CONTROL"}
    table = lake.table(**optimistic)
    table.write([row(0)], "bulk_insert")
    assert PROPERTY not in table.properties()

    rows = SlowInput(table.frame([row(1)]), tmp_path / "slow")
    with in_background(table.write, rows.df, "upsert") as done:
        rows.wait_until_read()
        (running,) = opened(table).timeline().pending
        with pytest.raises(Exception, match=f"no file groups are running: commit {running.time}"):
            table.write([row(0, "y", ts=2)], "upsert", **{MODE: MARKED})
        rows.go()
        done.result()

    table.write([row(0, "y", ts=2)], "upsert", **{MODE: MARKED})
    assert table.properties()[PROPERTY] == MARKED
    assert names(table) == {0: "y", 1: "x"}
    with refused("CONFIG_ERROR", table.path, PROPERTY):
        table.write([row(0)], "upsert")


def test_a_provider_without_locks_of_groups_is_refused_with_the_reason(table: HudiTable) -> None:
    hive = "hoodie.write.lock.hivemetastore."
    given = {
        "hoodie.write.lock.provider": "hive_metastore",
        hive + "database": "d",
        hive + "table": "t",
        hive + "uris": "thrift://localhost:1",
    }
    with refused("CONFIG_ERROR", table.path, "keeps no locks of file groups"):
        table.write([row(0)], "upsert", **given)
