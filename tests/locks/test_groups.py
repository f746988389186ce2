"""Locks of file groups: one order for all, a bound, leases that outlast a wait, no circle."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import boto3
import pytest
from kazoo.client import KazooClient

from pyhudi.clock import SystemClock
from pyhudi.config import resolve_write
from pyhudi.errors import CommitUnknown, ConfigError, LockTimeout, StorageError, WriterFenced
from pyhudi.locks.base import LockOwner, TableLock
from pyhudi.locks.filesystem import FilesystemLock
from pyhudi.locks.group_locks import GroupLocks
from pyhudi.locks.in_process import InProcessLock, InProcessLocks
from pyhudi.locks.open import LockOpener
from pyhudi.storage.faults import Call, FaultyStorage
from pyhudi.storage.memory import MemoryStorage
from tests.fakes import FakeClock
from tests.servers.dynamodb import DynamoDb
from tests.servers.zookeeper import Zookeeper

LEASE_S = 60.0
TIMEOUT_S = 20.0


def owner(instant: str = "20240501123005123") -> LockOwner:
    return LockOwner(instant, "etl-7", 4711)


class Shop:
    """Where all writers of a test get their locks; ``trail`` has who did what to which lock."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.locks = InProcessLocks()
        self.trail: list[str] = []

    def writer(self, most: int = 10, timeout_s: float = TIMEOUT_S) -> GroupLocks:
        return GroupLocks(self.open, self.clock, most, timeout_s)

    def open(self, name: str) -> TableLock:
        return Noted(self.trail, name, InProcessLock(self.locks, name, self.clock, LEASE_S))

    def held(self) -> list[str]:
        return sorted(self.locks.leases)


class Noted(InProcessLock):
    """A lock that tells when it is taken and given up."""

    def __init__(self, trail: list[str], name: str, inner: InProcessLock) -> None:
        super().__init__(inner._locks, inner._table, inner._clock, inner._lease_s)
        self._trail, self._name = trail, name

    def acquire(self, timeout_s: float, owner: LockOwner) -> None:
        super().acquire(timeout_s, owner)
        self._trail.append(f"+{self._name}")

    def release(self) -> None:
        super().release()
        self._trail.append(f"-{self._name}")


@pytest.fixture
def shop() -> Shop:
    return Shop()


def test_locks_are_taken_in_the_order_of_their_names(shop: Shop) -> None:
    mine = shop.writer()
    with mine:
        assert mine.hold(["c", "a", "b", "a"], owner()) is True
        assert shop.trail == ["+a", "+b", "+c"]
        assert len(mine) == 3
    assert shop.held() == []


def test_what_is_held_is_kept_and_needs_no_second_look(shop: Shop) -> None:
    with shop.writer() as mine:
        mine.hold(["a", "b"], owner())
        shop.trail.clear()
        assert mine.hold(["a", "b"], owner()) is False
        assert shop.trail == []


def test_a_later_lock_is_added_and_what_is_not_asked_for_is_given_up(shop: Shop) -> None:
    with shop.writer() as mine:
        mine.hold(["a", "b"], owner())
        shop.trail.clear()
        assert mine.hold(["b", "c"], owner()) is True
        assert shop.trail == ["-a", "+c"]


def test_for_an_earlier_lock_the_later_ones_are_given_up_and_taken_again(shop: Shop) -> None:
    with shop.writer() as mine:
        mine.hold(["a", "c", "d"], owner())
        shop.trail.clear()
        assert mine.hold(["a", "b", "c"], owner()) is True
        assert sorted(shop.trail[:2]) == ["-c", "-d"]
        assert shop.trail[2:] == ["+b", "+c"]
        assert shop.held() == ["a", "b", "c"]


def test_more_groups_than_allowed_are_refused_before_any_is_locked(shop: Shop) -> None:
    with shop.writer(most=3) as mine:
        mine.hold(["a", "b", "c"], owner())
        with pytest.raises(ConfigError, match="changes 4 file groups") as refused:
            mine.hold(["a", "b", "c", "d"], owner())
        assert shop.held() == ["a", "b", "c"]
    assert refused.value.facts["key"] == "hoodie.write.lock.groups.max"
    assert "hoodie.write.lock.groups.max is 3" in str(refused.value)


def test_a_wait_in_vain_names_the_group_its_owner_and_the_age(shop: Shop) -> None:
    with shop.writer() as theirs, shop.writer() as mine:
        theirs.hold(["b"], owner("20240501123005999"))
        shop.clock.advance(3)
        with pytest.raises(LockTimeout, match="File group b stayed locked") as late:
            mine.hold(["a", "b"], owner())
        assert "instant 20240501123005999 on etl-7, process 4711" in str(late.value)
        assert late.value.facts["group"] == "b"
        assert late.value.facts["owner"] == owner("20240501123005999")
        assert late.value.facts["since"] is not None
        assert str(late.value).count("LOCK_TIMEOUT") == 1
    assert shop.held() == []


def test_the_time_is_for_all_locks_together_and_a_free_one_is_had_after_it(shop: Shop) -> None:
    """The first is busy for 15 s, the second for longer than the 5 s that are left of 20."""
    others = [shop.writer() for _ in "ab"]
    for other, name in zip(others, "ab", strict=True):
        other.hold([name], owner())
    began = shop.clock.monotonic()
    ends = {"a": began + 15, "b": began + 100}

    class Passing(FakeClock):
        def sleep(self, seconds: float) -> None:
            shop.clock.advance(seconds)
            for other, name in zip(others, "ab", strict=True):
                if shop.clock.monotonic() >= ends[name]:
                    other.release()

        def monotonic(self) -> float:
            return shop.clock.monotonic()

    clock = Passing()
    mine = GroupLocks(lambda n: InProcessLock(shop.locks, n, clock, LEASE_S), clock, 10, TIMEOUT_S)
    with mine, pytest.raises(LockTimeout, match="File group b"):
        mine.hold(["a", "b"], owner())
    assert 20 <= shop.clock.monotonic() - began < 21
    with GroupLocks(shop.open, shop.clock, 10, timeout_s=0) as hasty:
        assert hasty.hold(["x", "y", "z"], owner()) is True
    for other in others:
        other.release()


def test_the_lock_of_a_dead_holder_goes_to_the_next_when_its_lease_has_ended(shop: Shop) -> None:
    dead = shop.writer()
    dead.hold(["a", "b"], owner())
    dead.stop()

    with shop.writer(timeout_s=LEASE_S + 10) as mine:
        before = shop.clock.monotonic()
        assert mine.hold(["a", "b"], owner()) is True
        assert shop.clock.monotonic() - before >= LEASE_S - 1
        mine.check()
        with pytest.raises(WriterFenced, match="lock of file group a did not last") as lost:
            dead.check()
        assert lost.value.facts["group"] == "a"
        assert dead.intact() is False
        dead.release()
        assert shop.held() == ["a", "b"]


def test_renewed_leases_outlast_any_wait(shop: Shop) -> None:
    with shop.writer() as mine:
        mine.hold(["a", "b", "c"], owner())
        for _ in range(5):
            shop.clock.advance(LEASE_S * 2 / 3)
            mine.renew()
        assert mine.intact() is True
        mine.check()
        with pytest.raises(LockTimeout):
            shop.writer().hold(["b"], owner())


def test_a_lapsed_lock_is_taken_anew_by_the_next_attempt_and_told_as_taken(shop: Shop) -> None:
    with shop.writer() as mine:
        mine.hold(["a", "b"], owner())
        shop.clock.advance(LEASE_S + 1)
        assert mine.intact() is False
        mine.renew()
        with pytest.raises(WriterFenced):
            mine.check()
        assert mine.hold(["a", "b"], owner()) is True
        assert mine.intact() is True
        mine.check()


def test_a_daemon_renews_all_of_them_by_itself_until_they_are_released() -> None:
    """The lease, which stands still here, is some hundredths of a second: so is the interval."""
    renewed = {"a": threading.Semaphore(0), "b": threading.Semaphore(0)}

    class Told(InProcessLock):
        def renew(self) -> None:
            super().renew()
            renewed[self._table].release()

    clock, locks = FakeClock(), InProcessLocks()
    with GroupLocks(lambda n: Told(locks, n, clock, 0.03), clock, 10, 5) as mine:
        mine.hold(["a", "b"], owner())
        for lock in "abab":
            assert renewed[lock].acquire(timeout=30)
    assert mine._renewer is not None
    assert not mine._renewer.is_alive()


@pytest.mark.parametrize(
    "error",
    [
        StorageError("the network is away"),
        ConnectionResetError("by the peer"),
        KeyError("not of the storage"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_renewal_that_fails_is_no_loss_yet(error: Exception) -> None:
    def fail(call: Call) -> None:
        if broken and call.method == "replace":
            raise error

    broken: list[bool] = []
    clock = FakeClock()
    storage = FaultyStorage(MemoryStorage(clock=clock), before=fail)
    mine = GroupLocks(
        lambda n: FilesystemLock(storage, clock, path=n, lease_s=60, margin_s=2), clock, 10, 20
    )
    with mine:
        mine.hold(["a", "b"], owner())
        clock.advance(30)
        broken.append(True)
        mine.renew()
        mine.check()
        broken.clear()
        mine.renew()
        clock.advance(50)
        mine.check()


def test_a_loss_that_a_renewal_told_of_is_remembered() -> None:
    """The lease has not ended yet, but nobody renews it any more."""
    clock = FakeClock()
    storage = MemoryStorage(clock=clock)
    mine = GroupLocks(
        lambda n: FilesystemLock(storage, clock, path=n, lease_s=60, margin_s=2), clock, 10, 20
    )
    with mine:
        mine.hold(["a"], owner())
        clock.advance(59)
        assert mine.intact()
        mine.renew()

        assert not mine.intact()
        with pytest.raises(WriterFenced, match="too late to renew") as lost:
            mine.check()
        assert lost.value.facts["group"] == "a"


@pytest.mark.parametrize("error", [None, ValueError("bad"), CommitUnknown("no answer")])
def test_only_after_an_unknown_outcome_the_leases_are_left_to_end(
    shop: Shop, error: Exception | None
) -> None:
    mine = shop.writer()
    try:
        with mine:
            mine.hold(["a"], owner())
            if error:
                raise error
    except (ValueError, CommitUnknown):
        pass
    assert shop.held() == (["a"] if isinstance(error, CommitUnknown) else [])
    assert mine._renewer is not None
    assert not mine._renewer.is_alive()


class Dawdling(InProcessLock):
    """A lock whose owner rests once he has it, so that the others come in between."""

    def acquire(self, timeout_s: float, owner: LockOwner) -> None:
        super().acquire(timeout_s, owner)
        self._clock.sleep(0.002)


def in_process(clock: SystemClock) -> Callable[[str], TableLock]:
    locks = InProcessLocks()
    return lambda name: Dawdling(locks, name, clock, 30)


def lock_files(clock: SystemClock) -> Callable[[str], TableLock]:
    storage = MemoryStorage(clock=clock)
    return lambda name: FilesystemLock(storage, clock, path=f"groups/{name}", lease_s=30)


@pytest.mark.parametrize("kind", [in_process, lock_files])
def test_writers_with_crossing_sets_never_wait_for_each_other_in_a_circle(
    kind: Callable[[SystemClock], Callable[[str], TableLock]],
) -> None:
    """Real threads: each write asks for two groups, then for two others, in any order.

    A circle would end in a ``LockTimeout``; two at a time in a group would be seen as well.
    """
    clock, names = SystemClock(), [f"group {n}" for n in range(4)]
    open_lock, inside, guard = kind(clock), set(), threading.Lock()
    overlaps: list[str] = []

    def run(seed: int) -> int:
        chance, done = random.Random(seed), 0
        for _ in range(8):
            with GroupLocks(open_lock, clock, 10, timeout_s=30) as held:
                for _ in range(2):
                    wanted = chance.sample(names, 2)
                    held.hold(wanted, owner())
                    with guard:
                        overlaps.extend(n for n in wanted if n in inside)
                        inside.update(wanted)
                    with guard:
                        inside.difference_update(wanted)
                    done += 1
        return done

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(4))) == [16] * 4
    assert overlaps == []


# -- where they are

ZOOKEEPER = {"zookeeper.url": "zk:2181", "zookeeper.base_path": "/hudi"}
GROUP = "day=1/../ä b/5f1c9d2e-7a41-4c0b-9f6e-2b8d1a3c4e50-0"
HASH = "bef44b5032e45f1b382d7079286dfa504f5456be"
FILE = f"FilesystemLock('s3a://lake/rides/.hoodie/.locks/groups/{HASH}')"


def opened(given: dict[str, str], group: str = GROUP) -> TableLock:
    said = resolve_write({f"hoodie.write.lock.{key}": text for key, text in given.items()}).lock
    opener = LockOpener(FakeClock(), lambda root: MemoryStorage(root))
    return opener.groups(said, "rides", MemoryStorage("s3a://lake/rides"))(group)


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({}, FILE),
        ({"provider": "storage"}, FILE),
        ({"provider": "numbered_files"}, FILE),
        ({"filesystem.path": "/locks/rides"}, f"FilesystemLock('/locks/rides/groups/{HASH}')"),
        (
            {"provider": "zookeeper", **ZOOKEEPER},
            f"LeasedLock('/hudi/rides-groups/{HASH}' in ZooKeeper at zk:2181)",
        ),
        (
            {"provider": "dynamodb", "dynamodb.table": "locks"},
            f"LeasedLock('rides/groups/{HASH}' in the DynamoDB table locks)",
        ),
    ],
)
def test_the_locks_of_groups_are_where_the_table_lock_is(given: dict[str, str], where: str) -> None:
    assert repr(opened(given)) == where
    assert repr(opened(given, "another")) != where


def test_a_metastore_keeps_none_and_says_why() -> None:
    hive = {"database": "d", "table": "t", "uris": "thrift://a:9083"}
    given = {f"hivemetastore.{key}": text for key, text in hive.items()}
    with pytest.raises(ConfigError, match="no locks of file groups: each would be") as refused:
        opened({"provider": "hive_metastore", **given})
    assert refused.value.facts["key"] == "hoodie.write.lock.provider"


# -- on real services

SERVED = [f"a/{number:02d}" for number in range(20)]


def served(given: dict[str, str]) -> Callable[[], GroupLocks]:
    """Writers that get their locks from a service."""
    clock, storage = SystemClock(), MemoryStorage("s3a://lake/served")
    said = resolve_write({f"hoodie.write.lock.{key}": text for key, text in given.items()}).lock

    def writer() -> GroupLocks:
        open_lock = LockOpener(clock, lambda root: storage).groups(said, "served", storage)
        return GroupLocks(open_lock, clock, len(SERVED), timeout_s=1)

    return writer


def exclude_each_other(writer: Callable[[], GroupLocks]) -> None:
    with writer() as first, writer() as second:
        assert first.hold(SERVED, owner()) is True
        first.renew()
        first.check()
        with pytest.raises(LockTimeout, match="File group a/07 stayed locked") as late:
            second.hold(["a/07"], owner())
        assert late.value.facts["owner"] == owner()
        first.hold(SERVED[:5], owner())
        assert second.hold(["a/07", "a/19"], owner()) is True
        second.check()


def test_on_zookeeper_one_session_holds_all_locks_of_a_write(zookeeper: Zookeeper) -> None:
    given = {
        "provider": "zookeeper",
        "zookeeper.url": zookeeper.address,
        "zookeeper.base_path": "/groups",
    }
    writer = served(given)
    exclude_each_other(writer)

    admin = KazooClient(hosts=zookeeper.address)
    admin.start(timeout=60)
    try:
        folder = "/groups/served-groups"
        with writer() as locks:
            locks.hold(SERVED, owner())
            nodes = [
                f"{folder}/{n}/{c}"
                for n in admin.get_children(folder)
                for c in admin.get_children(f"{folder}/{n}")
            ]
            owners = {admin.exists(node).ephemeralOwner for node in nodes}
            assert (len(nodes), len(owners)) == (len(SERVED), 1)
        assert [admin.get_children(f"{folder}/{n}") for n in admin.get_children(folder)] == (
            [[]] * len(SERVED)
        )
    finally:
        admin.stop()
        admin.close()


def test_on_dynamodb_the_items_of_released_locks_are_gone(dynamodb: DynamoDb) -> None:
    exclude_each_other(
        served(
            {
                "provider": "dynamodb",
                "dynamodb.table": "groups",
                "dynamodb.endpoint_url": dynamodb.endpoint,
            }
        )
    )
    client = boto3.client("dynamodb", endpoint_url=dynamodb.endpoint, region_name="us-east-1")
    assert client.scan(TableName="groups")["Items"] == []
