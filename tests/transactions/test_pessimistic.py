"""Pessimistic writes: who waits, and who begins again."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pyhudi.choices import CONCURRENCY_PROPERTY
from pyhudi.clock import SystemClock
from pyhudi.errors import CommitConflict, LockTimeout
from pyhudi.format.filenames import bucket_file_id
from pyhudi.format.instants import Action
from pyhudi.locks.group_locks import GroupLocks
from pyhudi.locks.in_process import InProcessLock, InProcessLocks
from pyhudi.timeline.active import COMMITS
from pyhudi.transactions.conflicts.comparison import Footprint
from pyhudi.transactions.pessimistic import lock_names
from tests.transactions.pessimists import (
    PESSIMISTIC,
    NewWorld,
    begin,
    groups_of,
    hand,
    metadata_of,
    upsert,
)
from tests.transactions.test_settle import pending_clustering
from tests.transactions.world import (
    World,
    finish,
    put_file,
    work,
)

# -- who waits


def test_a_lone_write_takes_its_locks_and_needs_one_attempt(shared: World) -> None:
    with hand(shared) as groups:
        assert upsert(shared, {"k": "1"}, groups) == 0
        assert len(groups) == 1
        assert list(shared.locks.leases) == sorted(groups._held)

    assert shared.locks.leases == {}
    assert shared.rows() == {"k": "1", "j": "0"}
    timeline = shared.table().timeline()
    marks = [COMMITS.get(shared.memory, timeline, c).extra for c in timeline.commits]
    assert [m[CONCURRENCY_PROPERTY] for m in marks] == ["PESSIMISTIC_CONCURRENCY_CONTROL"] * 2


def test_who_waited_for_a_changed_group_begins_anew_before_it_writes_data(shared: World) -> None:
    with hand(shared) as theirs:
        first = begin(shared, theirs)
        first.check_updates(groups_of(shared, first))
        written = work(first, {"k": "1"})

        def their_end() -> None:
            finish(first, written)
            theirs.release()

        with hand(shared, their_end) as ours:
            assert upsert(shared, {"j": "2"}, ours) == 1

    assert shared.rows() == {"k": "1", "j": "2"}
    assert shared.leftovers() == []
    commits = shared.table().timeline().commits
    assert commits[-1].time > (commits[-2].completion_time or commits[-2].time)


def test_who_finds_a_clustering_planned_on_its_groups_has_not_waited_for_a_lock(
    shared: World,
) -> None:
    """Such waits are begun again at once, so often, and a clustering takes its time."""
    with hand(shared) as theirs:
        first = begin(shared, theirs)
        first.check_updates(groups_of(shared, first))

        def their_end() -> None:
            first.abort()
            theirs.release()
            pending_clustering(shared, "20991231000000000")

        with hand(shared, their_end) as ours:
            second = begin(shared, ours)
            with pytest.raises(CommitConflict, match="clustering") as told:
                second.check_updates(groups_of(shared, second))
            second.abort()
    assert "before_data" not in told.value.facts


def test_who_waited_for_a_group_that_stayed_as_it_was_goes_on(shared: World) -> None:
    """The other gave up without a commit."""
    with hand(shared) as theirs:
        first = begin(shared, theirs)
        first.check_updates(groups_of(shared, first))
        work(first, {"k": "1"})

        def their_end() -> None:
            first.abort()
            theirs.release()

        with hand(shared, their_end) as ours:
            assert upsert(shared, {"j": "2"}, ours) == 0

    assert shared.rows() == {"k": "0", "j": "2"}


def test_a_group_that_stays_locked_ends_the_wait_with_its_name(shared: World) -> None:
    with hand(shared) as theirs, hand(shared) as ours:
        first, second = begin(shared, theirs), begin(shared, ours)
        (group,) = groups_of(shared, first)
        first.check_updates([group])
        with pytest.raises(LockTimeout, match=f"File group a/{group[1]} stayed locked") as late:
            second.check_updates([group])
        second.abort()
        assert first.instant in str(late.value)


def test_new_keys_need_no_lock_and_nobody_waits_for_them(shared: World) -> None:
    with hand(shared) as theirs, hand(shared) as ours:
        first = begin(shared, theirs)
        first.check_updates(groups_of(shared, first))
        second = begin(shared, ours)
        second.check_updates([])
        finish(second, work(second, {"new": "1"}, "b"))
        assert len(ours) == 0
        first.abort()
    assert shared.rows() == {"k": "0", "j": "0", "new": "1"}


def test_a_partition_that_is_replaced_is_judged_with_what_was_added_to_it(shared: World) -> None:
    """Rows that came into a new group of the partition while its replacer waited."""
    with hand(shared) as theirs:
        first = begin(shared, theirs)
        first.check_updates(groups_of(shared, first))

        def their_end() -> None:
            put = put_file(first, "a", bucket_file_id(7, shared.clock.uuid()), {"n": "1"})
            first.inflight(None)
            first.seal(lambda _: True, [put.path])
            done = Footprint("upsert", created=frozenset({("a", put.file_id)}))
            first.commit(metadata_of(put), done)
            theirs.release()

        with hand(shared, their_end) as ours:
            second = begin(shared, ours, Action.REPLACECOMMIT)
            with pytest.raises(CommitConflict, match="the other replaced as a whole: a") as lost:
                second.check_updates(groups_of(shared, second), swept=["a"])
            second.abort()
    assert lost.value.facts["before_data"] is True


# -- names


def test_a_bucket_has_one_lock_whoever_names_its_file() -> None:
    one, two = (bucket_file_id(3, f"{c * 8}-{c * 4}-4aaa-8aaa-{c * 12}") for c in "ab")
    assert one != two
    assert lock_names([("p", one)]) == lock_names([("p", two)]) == {"p/00000003"}
    assert lock_names([("p", one), ("q", one)]) == {"p/00000003", "q/00000003"}


def test_other_groups_are_locked_by_partition_and_file_id() -> None:
    group = ("day=1/ä b", "5f1c9d2e-7a41-4c0b-9f6e-2b8d1a3c4e50-0")
    assert lock_names([group]) == {"day=1/ä b/5f1c9d2e-7a41-4c0b-9f6e-2b8d1a3c4e50-0"}  # type: ignore[list-item]
    assert lock_names([]) == frozenset()


def test_of_two_that_create_one_bucket_the_second_finds_it_before_it_writes(
    new_world: NewWorld,
) -> None:
    world = new_world(9, PESSIMISTIC)
    ids = [bucket_file_id(3, world.clock.uuid()) for _ in "ab"]
    with hand(world) as theirs:
        first = begin(world, theirs)
        first.check_updates([], [("a", ids[0])])

        def their_end() -> None:
            first.inflight(None)
            put = put_file(first, "a", ids[0], {"n": "1"})
            first.seal(lambda _: True, [put.path])
            touched = Footprint(
                "upsert", created=frozenset({("a", ids[0])}), buckets=frozenset({("a", 3)})
            )
            first.commit(metadata_of(put), touched)
            theirs.release()

        with hand(world, their_end) as ours:
            second = begin(world, ours)
            with pytest.raises(CommitConflict, match="both wrote the same buckets: a bucket 3"):
                second.check_updates([], [("a", ids[1])])
            second.abort()


# -- many at once


@pytest.mark.parametrize("version", [8, 9])
def test_writers_at_once_lose_no_update_and_no_work(new_world: NewWorld, version: int) -> None:
    """Real threads add one to some of three counters, each in a file group of its own.

    An update would be lost if two read one value; work, if a commit failed after data was written.
    """
    world = new_world(version, PESSIMISTIC)
    world.clock = SystemClock()  # type: ignore[assignment]
    locks, counters = InProcessLocks(), ("i", "j", "k")

    def mine() -> GroupLocks:
        clock = SystemClock()
        return GroupLocks(lambda n: InProcessLock(locks, n, clock, 60), clock, 3, 60)

    for counter in counters:
        with mine() as groups:
            seed = begin(world, groups)
            finish(seed, work(seed, {counter: "0"}))

    def add(number: int) -> dict[str, int]:
        chance, added = random.Random(number), dict.fromkeys(counters, 0)
        for _ in range(6):
            wanted = chance.sample(counters, 2)
            with mine() as groups:
                while not added_to(world, groups, wanted):
                    pass
            for counter in wanted:
                added[counter] += 1
        return added

    with ThreadPoolExecutor(4) as pool:
        added = list(pool.map(add, range(4)))

    totals = {counter: str(sum(each[counter] for each in added)) for counter in counters}
    assert world.rows() == totals
    assert sum(map(int, totals.values())) == 4 * 6 * 2
    # Who was overtaken at the begin took another time. The next sweep deletes the first one's beat.
    begun = {transaction.instant for transaction in world.transactions}
    assert [p for p in world.leftovers() if Path(p).parent.name != ".heartbeat"] == []
    assert begun.isdisjoint(Path(p).name for p in world.leftovers())


def added_to(world: World, groups: GroupLocks, counters: list[str]) -> bool:
    """One attempt; whether it committed. One that fails has written no data."""
    transaction = begin(world, groups)
    files = world.table().view(transaction.timeline).latest()
    found = {file: json.loads(world.memory.read(file.path)) for file in files}
    touched = [file for file, rows in found.items() if rows.keys() & set(counters)]
    try:
        transaction.check_updates([(f.partition_path, f.file_id) for f in touched])
    except CommitConflict:
        transaction.abort()
        return False
    now = {counter: value for rows in found.values() for counter, value in rows.items()}
    finish(transaction, work(transaction, {c: str(int(now[c]) + 1) for c in counters}))
    return True
