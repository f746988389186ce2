"""Each kind of table lock, on a real service, as the lock contract needs it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kazoo.client import KazooClient
from pymetastore.hive_metastore import ttypes

from pyhudi.clock import Clock
from pyhudi.config import LockOptions
from pyhudi.locks.base import LockHolder, LockOwner, TableLock
from pyhudi.locks.dynamodb import DynamoRegister, DynamoTable
from pyhudi.locks.filesystem import FilesystemLock
from pyhudi.locks.hive_metastore import PAUSE_MS, HiveLock, HivePlace
from pyhudi.locks.in_process import InProcessLock, InProcessLocks
from pyhudi.locks.leased import QUEUE_PAUSE_MS, LeasedLock
from pyhudi.locks.numbered import NumberedFiles
from pyhudi.locks.register import RegisterLock
from pyhudi.locks.storage_lock import StorageRegister
from pyhudi.locks.zookeeper import ZookeeperLock
from pyhudi.locks.zookeeper_session import ZookeeperPlace
from pyhudi.storage.base import Storage, VersionedStorage
from tests.fakes import FakeClock
from tests.servers.dynamodb import DynamoDb
from tests.servers.hive_metastore import HiveMetastore
from tests.servers.zookeeper import Zookeeper

LEASE_S = 60.0
Make = Callable[[Clock], TableLock]

_numbers = itertools.count()


class Followed:
    """A lock that tells its world whose it is; otherwise the lock itself."""

    def __init__(self, inner: TableLock, passed: Callable[[], None]) -> None:
        self.inner = inner
        self.owner: LockOwner | None = None
        self._passed = passed

    def acquire(self, timeout_s: float, owner: LockOwner) -> None:
        self.inner.acquire(timeout_s, owner)
        self.owner = owner

    def held(self) -> bool:
        return self.inner.held()

    def check(self, needed_s: float = 0.0) -> float:
        self._passed()
        return self.inner.check(needed_s)

    def renew(self) -> None:
        self._passed()
        self.inner.renew()

    def release(self) -> None:
        self._passed()
        # Before: another thread must not take what is being released for a lease that has ended.
        self.owner = None
        self.inner.release()

    def describe(self) -> LockHolder | None:
        self._passed()
        return self.inner.describe()


@dataclass
class LockWorld:
    """One free lock: ``make`` gives handles on it.

    ``end`` is for services that keep time themselves: their clock cannot be turned, so what they
    do at the end of a lease is done to them once the handle's own clock has reached it.
    """

    make: Make
    end: Callable[[LockOwner], None] | None = None
    handles: list[Followed] = field(default_factory=list)

    def handle(self, clock: Clock) -> TableLock:
        lock = Followed(self.make(clock), self.time_has_passed)
        self.handles.append(lock)
        return lock

    def time_has_passed(self) -> None:
        for handle in self.handles:
            if self.end and handle.owner and not handle.inner.held():
                self.end(handle.owner)
                handle.owner = None

    def close(self) -> None:
        for handle in self.handles:
            handle.inner.release()


class WatchedClock(FakeClock):
    """A clock that tells the world when time has passed."""

    world: LockWorld | None = None

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        if self.world:
            self.world.time_has_passed()


def in_process() -> LockWorld:
    locks = InProcessLocks()
    return LockWorld(lambda clock: InProcessLock(locks, "table", clock, LEASE_S))


def lock_file(storage: Storage) -> LockWorld:
    return LockWorld(lambda c: FilesystemLock(storage, c, lease_s=LEASE_S, margin_s=2.0))


def numbered_files(storage: Storage) -> LockWorld:
    return LockWorld(
        lambda c: LeasedLock(NumberedFiles(storage, c, lease_s=LEASE_S, margin_s=2.0), c)
    )


def storage_lock(storage: VersionedStorage) -> LockWorld:
    def make(clock: Clock) -> TableLock:
        register = StorageRegister(storage, clock)
        return LeasedLock(RegisterLock(register, clock, lease_s=LEASE_S), clock)

    return LockWorld(make)


def dynamodb_lock(server: DynamoDb) -> LockWorld:
    options = LockOptions(dynamodb_endpoint_url=server.endpoint)
    table, key = DynamoTable.of(options, "locks"), f"table-{next(_numbers)}"

    def make(clock: Clock) -> TableLock:
        register = DynamoRegister(table, key, clock)
        return LeasedLock(RegisterLock(register, clock, lease_s=LEASE_S), clock)

    return LockWorld(make)


@contextmanager
def zookeeper_lock(server: Zookeeper) -> Iterator[LockWorld]:
    path = f"/hudi/table-{next(_numbers)}"
    place = ZookeeperPlace(server.address, path, LEASE_S, 20.0)
    admin = KazooClient(hosts=server.address)
    admin.start(timeout=60)

    def end(owner: LockOwner) -> None:
        for name in admin.get_children(path):
            if f"instant={owner.instant},".encode() in admin.get(f"{path}/{name}")[0]:
                admin.delete(f"{path}/{name}")

    try:
        yield LockWorld(lambda c: LeasedLock(ZookeeperLock(place, c), c, QUEUE_PAUSE_MS), end)
    finally:
        admin.stop()
        admin.close()


def hive_lock(server: HiveMetastore) -> LockWorld:
    place = HivePlace("lake", f"table_{next(_numbers)}", (server.uri,))
    shown = ttypes.ShowLocksRequest(dbname=place.database, tablename=place.table)

    def end(owner: LockOwner) -> None:
        with server.client() as client:
            for one in client.show_locks(shown).locks:
                if f" {owner.instant} " in one.agentInfo:
                    client.unlock(ttypes.UnlockRequest(lockid=one.lockid))

    return LockWorld(lambda c: LeasedLock(HiveLock(place, c), c, PAUSE_MS), end)
