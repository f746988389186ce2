"""From options to the table's lock.

The services' clients are imported only when they are needed: they are optional, and take longer to
load than all of pyhudi.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from pyhudi.choices import LockProvider
from pyhudi.clock import Clock
from pyhudi.errors import ConfigError
from pyhudi.format.xxhash64 import table_hash
from pyhudi.lock_options import LockOptions
from pyhudi.locks.base import TableLock
from pyhudi.locks.filesystem import LOCK_PATH, FilesystemLock
from pyhudi.locks.leased import QUEUE_PAUSE_MS, LeasedLock, LockService, Sightings
from pyhudi.locks.numbered import NumberedFiles
from pyhudi.locks.register import RegisterLock
from pyhudi.locks.storage_lock import StorageRegister
from pyhudi.storage.base import Storage, VersionedStorage

if TYPE_CHECKING:
    from pyhudi.locks.dynamodb import DynamoRegister
    from pyhudi.locks.zookeeper_session import ZookeeperPlace

#: the lock file's name in hoodie.write.lock.filesystem.path, as Hudi has it
LOCK_FILE: Final = "lock"
#: folder of the lock files of file groups: no reader or writer of Hudi looks there
GROUPS: Final = "groups"
GROUPS_PATH: Final = f".hoodie/.locks/{GROUPS}"
#: where Hudi's providers put the locks of tables that they name by a hash of the base path
IMPLICIT_BASE_PATH: Final = "/tmp"
IMPLICIT_LOCK_KEY: Final = "lock_key"
DYNAMODB_LEASE_S: Final = 60.0

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LockOpener:
    """Opens the locks of one process; all of them share what waiters saw of other holders."""

    clock: Clock
    storage: Callable[[str], Storage]
    sightings: Sightings = field(default_factory=Sightings)

    def open(self, said: LockOptions, table_name: str, storage: Storage) -> TableLock:
        """A handle on the lock of the table ``table_name`` that ``storage`` holds.

        ``ConfigError`` with ``key`` if the provider does not serve this storage, ``SetupError``
        if its package is missing. Asks no service yet.
        """
        clock = self.clock
        match said.lock_provider:
            case LockProvider.NUMBERED_FILES:
                files = NumberedFiles(storage, clock, sightings=self.sightings)
                return LeasedLock(files, clock)
            case LockProvider.STORAGE:
                return LeasedLock(self._conditional(said, storage), clock)
            case LockProvider.DYNAMODB | LockProvider.DYNAMODB_IMPLICIT:
                return self._register(self._dynamodb(said, table_name, storage))
            case LockProvider.ZOOKEEPER | LockProvider.ZOOKEEPER_IMPLICIT:
                from pyhudi.locks.zookeeper import ZookeeperLock

                place = zookeeper_place(said, table_name, storage.root)
                return self._queued(ZookeeperLock(place, clock))
            case LockProvider.HIVE_METASTORE:
                from pyhudi.locks.hive_metastore import PAUSE_MS, HiveLock, HivePlace

                hive = HivePlace(said.hive_database or "", said.hive_table or "", said.hive_uris)
                return LeasedLock(HiveLock(hive, clock), clock, PAUSE_MS)
            case LockProvider.IN_PROCESS:
                _LOG.warning("The in-process lock is for tests; the table's lock file is used.")
        return self._lock_file(said, storage)

    def groups(
        self, said: LockOptions, table_name: str, storage: Storage
    ) -> Callable[[str], TableLock]:
        """A function from the name of a file group, any text, to a handle on its lock.

        The locks are where the table lock is; only pyhudi's writers know them. ``ConfigError``
        with ``key`` for a provider that has none.
        """
        match said.lock_provider:
            case LockProvider.DYNAMODB | LockProvider.DYNAMODB_IMPLICIT:
                item = self._dynamodb(said, table_name, storage)
                return lambda group: self._register(item.beside(f"{GROUPS}/{_safe(group)}"))
            case LockProvider.ZOOKEEPER | LockProvider.ZOOKEEPER_IMPLICIT:
                from pyhudi.locks.zookeeper import ZookeeperLock
                from pyhudi.locks.zookeeper_session import ZookeeperSession

                place = zookeeper_place(said, table_name, storage.root)
                session = ZookeeperSession(place)
                # Not below the lock's own node, where Curator takes each child for a contender.
                return lambda group: self._queued(
                    ZookeeperLock(
                        replace(place, path=f"{place.path}-{GROUPS}/{_safe(group)}"),
                        self.clock,
                        session,
                    )
                )
            case LockProvider.HIVE_METASTORE:
                raise ConfigError(
                    "A Hive Metastore keeps no locks of file groups: each would be a request on "
                    "its own connection. Choose another hoodie.write.lock.provider, or "
                    "optimistic concurrency.",
                    key="hoodie.write.lock.provider",
                )
        folder = GROUPS_PATH
        if said.lock_path:
            storage, folder = self.storage(said.lock_path), GROUPS
        return lambda group: FilesystemLock(
            storage, self.clock, path=f"{folder}/{_safe(group)}", sightings=self.sightings
        )

    def _lock_file(self, said: LockOptions, storage: Storage) -> TableLock:
        path = LOCK_PATH
        if said.lock_path:
            storage, path = self.storage(said.lock_path), LOCK_FILE
        return FilesystemLock(
            storage,
            self.clock,
            path=path,
            expire_minutes=said.lock_expire_minutes,
            sightings=self.sightings,
        )

    def _queued(self, service: LockService) -> TableLock:
        return LeasedLock(service, self.clock, QUEUE_PAUSE_MS)

    def _conditional(self, said: LockOptions, storage: Storage) -> LockService:
        if not isinstance(storage, VersionedStorage):
            raise ConfigError(
                f"The lock provider 'storage' needs a store with conditional puts, but "
                f"'{storage.root}' is not on one; Apache Hudi's provider also supports only object "
                "stores. Leave hoodie.write.lock.provider out to use the table's lock file.",
                key="hoodie.write.lock.provider",
            )
        lease_s = float(said.storage_validity_s)
        if lease_s <= storage.put_timeout_s:
            raise ConfigError(
                f"'hoodie.write.lock.storage.validity.timeout.secs' is {lease_s:g}, but a put to "
                f"this store may take {storage.put_timeout_s:g} s. Set it to three times that.",
                key="hoodie.write.lock.storage.validity.timeout.secs",
            )
        register = StorageRegister(storage, self.clock)
        return RegisterLock(register, self.clock, lease_s=lease_s, sightings=self.sightings)

    def _register(self, register: DynamoRegister) -> TableLock:
        lease = RegisterLock(
            register, self.clock, lease_s=DYNAMODB_LEASE_S, sightings=self.sightings
        )
        return LeasedLock(lease, self.clock)

    def _dynamodb(self, said: LockOptions, table_name: str, storage: Storage) -> DynamoRegister:
        from pyhudi.locks.dynamodb import DynamoRegister, DynamoTable

        if said.lock_provider is LockProvider.DYNAMODB_IMPLICIT:
            key = table_hash(storage.root)
        else:
            key = said.dynamodb_partition_key or table_name
        return DynamoRegister(DynamoTable.of(said, said.dynamodb_table or ""), key, self.clock)


def _safe(group: str) -> str:
    """A name of bounded length for any lock service: partition paths may hold any character."""
    return hashlib.sha256(group.encode()).hexdigest()[:40]


def zookeeper_place(said: LockOptions, table_name: str, root: str) -> ZookeeperPlace:
    """Where the lock of the table ``table_name`` at ``root`` is, by the options of its lock."""
    from pyhudi.locks.zookeeper_session import ZookeeperPlace

    if said.lock_provider is LockProvider.ZOOKEEPER_IMPLICIT:
        path = f"{IMPLICIT_BASE_PATH}/{table_hash(root)}/{IMPLICIT_LOCK_KEY}"
    else:
        base = (said.zookeeper_base_path or "").rstrip("/")
        path = f"{base}/{said.zookeeper_lock_key or table_name}"
    return ZookeeperPlace(
        _servers(said.zookeeper_url or "", said.zookeeper_port),
        path,
        said.zookeeper_session_timeout_ms / 1_000,
        said.zookeeper_connection_timeout_ms / 1_000,
    )


def _servers(url: str, port: int | None) -> str:
    """``url`` with ``port`` at each server that is named without one; a chroot stays behind."""
    names, slash, chroot = url.replace(" ", "").partition("/")
    if port is not None:
        names = ",".join(n if ":" in n else f"{n}:{port}" for n in names.split(",") if n)
    return names + slash + chroot
