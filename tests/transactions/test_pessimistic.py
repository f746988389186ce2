"""Pessimistic writes: who waits, who begins anew, who is fenced, who may not write beside them."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from pyhudi.choices import CONCURRENCY_PROPERTY, ConcurrencyMode
from pyhudi.clock import SystemClock
from pyhudi.errors import CommitConflict, ConfigError, LockTimeout, WriteFailed, WriterFenced
from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata, WriteStat
from pyhudi.format.filenames import bucket_file_id
from pyhudi.format.instants import Action, InstantTime
from pyhudi.format.properties import parse_properties, render_properties
from pyhudi.locks.base import LockOwner
from pyhudi.locks.filesystem import FilesystemLock
from pyhudi.locks.groups import GroupLocks
from pyhudi.locks.in_process import InProcessLock, InProcessLocks
from pyhudi.timeline.active import COMMITS
from pyhudi.timeline.table import PROPERTIES
from pyhudi.transactions.conflicts import Footprint, Group
from pyhudi.transactions.pessimistic import declare_pessimistic, is_pessimistic, lock_names
from pyhudi.transactions.transaction import Committed, Transaction
from tests.fakes import FakeClock
from tests.transactions.test_settle import pending_clustering
from tests.transactions.world import (
    LAPSE_S,
    LAZY,
    NEVER,
    Rows,
    World,
    die,
    finish,
    other_lock,
    put_file,
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
    found = Transaction.begin(table, action, "upsert", other_lock(world), clock, NEVER, groups)
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
            if not conflict.facts.get("before_data"):
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


@pytest.fixture
def shared(world: World) -> World:
    """A pessimistic table of each version with one group, which holds k and j."""
    set_mark(world, True)
    with hand(world) as groups:
        upsert(world, {"k": "0", "j": "0"}, groups)
    return world


# -- who has lost its locks


def test_a_lock_of_a_group_that_another_program_took_is_asked_for_before_the_commit(
    shared: World,
) -> None:
    """By its own clock the write still has it; the table lock is not even taken."""

    def opened(name: str) -> FilesystemLock:
        return FilesystemLock(
            shared.memory, shared.clock, path=f".hoodie/.locks/{len(name)}", lease_s=LEASE_S
        )

    with GroupLocks(opened, shared.clock, 9, 20) as groups:
        transaction = begin(shared, groups)
        transaction.check_updates(groups_of(shared, transaction))
        written = work(transaction, {"k": "1"})
        (taken,) = shared.memory.walk(".hoodie/.locks")
        shared.memory.replace(taken.path, b"")
        assert groups.intact()

        with pytest.raises(WriterFenced, match="did not last"):
            finish(transaction, written)
        transaction.abort()

    assert shared.rows() == {"k": "0", "j": "0"}


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


def metadata_of(put: WriteStat) -> CommitMetadata:
    return CommitMetadata("UPSERT", (put,), {SCHEMA_KEY: schema("key", "value")})


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


# -- who is fenced


def test_a_writer_that_lost_a_group_lock_is_fenced_before_the_commit(shared: World) -> None:
    ours = hand(shared)
    slow = begin(shared, ours)
    slow.check_updates(groups_of(shared, slow))
    written = work(slow, {"k": "slow"})
    ours.stop()
    shared.clock.advance(LEASE_S + 1)
    with hand(shared) as theirs:
        upsert(shared, {"k": "fast"}, theirs)

    with pytest.raises(WriterFenced, match="did not last until the commit"):
        finish(slow, written)
    slow.abort()
    ours.release()

    assert shared.rows() == {"k": "fast", "j": "0"}
    assert shared.leftovers() == []


def test_early_detection_does_not_stop_who_has_taken_a_dead_writers_locks_over(
    shared: World,
) -> None:
    """The lock's lease is shorter than the time for which the dead writer's heartbeat counts."""
    dead = hand(shared)
    gone = begin(shared, dead)
    gone.check_updates(groups_of(shared, gone))
    work(gone, {"k": "dead"})
    die(gone)
    dead.stop()
    shared.clock.advance(LEASE_S + 1)

    table, lock, early = shared.table(), other_lock(shared), replace(NEVER, early=True)
    with hand(shared) as ours:
        mine = Transaction.begin(table, Action.COMMIT, "upsert", lock, shared.clock, early, ours)
        shared.transactions.append(mine)
        mine.check_updates(groups_of(shared, mine))
        finish(mine, work(mine, {"k": "1"}))
    assert shared.rows() == {"k": "1", "j": "0"}


def test_a_lease_that_ends_after_the_check_fences_under_the_table_lock(shared: World) -> None:
    class Late(InProcessLock):
        def acquire(self, timeout_s: float, owner: object) -> None:
            super().acquire(timeout_s, owner)  # type: ignore[arg-type]
            if armed:
                armed.pop()
                shared.clock.advance(LEASE_S - 1)
                shared.clock.advance(2)

    armed: list[bool] = []
    table_lock = Late(shared.locks, "t", shared.clock, 3 * LEASE_S)
    with hand(shared) as ours:
        slow = Transaction.begin(
            shared.table(), Action.COMMIT, "upsert", table_lock, shared.clock, NEVER, ours
        )
        shared.transactions.append(slow)
        slow.check_updates(groups_of(shared, slow))
        written = work(slow, {"k": "slow"})
        armed.append(True)
        with pytest.raises(WriterFenced, match="did not last until the commit"):
            finish(slow, written)
        slow.abort()
    assert shared.rows() == {"k": "0", "j": "0"}


def test_what_was_written_without_locks_on_our_groups_is_named_and_refused(shared: World) -> None:
    with hand(shared) as ours:
        mine = begin(shared, ours)
        (group,) = groups_of(shared, mine)
        mine.check_updates([group])
        written = work(mine, {"k": "1"})
        theirs = foreign_upsert(shared, {"k": "hudi"})
        with pytest.raises(WriteFailed, match="by Apache Hudi or a program like it") as failed:
            finish(mine, written)
        mine.abort()

    text = str(failed.value)
    assert mine.instant in text
    assert theirs.instant in text
    assert group[1] in text
    assert failed.value.facts["theirs"] == theirs.instant
    assert shared.rows() == {"k": "hudi", "j": "0"}
    assert shared.leftovers() == []


def test_what_was_written_without_locks_elsewhere_is_a_warning(
    shared: World, caplog: pytest.LogCaptureFixture
) -> None:
    if shared.version == 6:
        pytest.skip("in layout 1 the older instant may not complete at all")
    with hand(shared) as ours:
        mine = begin(shared, ours)
        mine.check_updates(groups_of(shared, mine))
        written = work(mine, {"k": "1"})
        theirs = foreign_upsert(shared, {"new": "hudi"})
        with caplog.at_level(logging.WARNING):
            finish(mine, written)

    assert f"upsert {theirs.instant} was written by a program that locks no" in caplog.text
    assert shared.rows() == {"k": "1", "j": "0", "new": "hudi"}


# -- all pessimistic or not at all


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
    return is_pessimistic(
        declare_pessimistic(world.table(), other_lock(world), world.clock, policy).config
    )


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

    with pytest.raises(ConfigError, match=f"under way: commit {running.instant}") as refused:
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
    table = declare_pessimistic(world.table(), lock, world.clock, LAZY)

    assert is_pessimistic(table.config)


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
    assert world.leftovers() == []


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
