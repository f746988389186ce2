"""Where storms rage: a table's root and the lock that guards it, each on its real service."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyhudi.clock import SystemClock
from pyhudi.config import resolve_write
from pyhudi.errors import LockTimeout
from pyhudi.locks.base import LockOwner
from pyhudi.locks.open import LockOpener
from pyhudi.storage.base import Storage
from pyhudi.storage.open import open_storage
from pyhudi.timeline.table import open_table
from tests.s3_server import S3Server, s3_server
from tests.servers.dynamodb import CREDENTIALS, dynamodb_server
from tests.servers.hive_metastore import hive_metastore
from tests.servers.zookeeper import zookeeper_server

LOCK = "hoodie.write.lock."
PROVIDER = LOCK + "provider"
#: as short as a lock on local disk may live, whose puts may take two seconds
LEASE_S = 8.0
#: the same on S3, for locks that may be told so: a put there may take nineteen seconds
S3_LEASE_S = 30.0

BEAT_MS, MISSES = 1_000, 2
LAPSE_S = BEAT_MS * (MISSES + 1) / 1_000

OPTIONS = {
    "hoodie.table.name": "storm",
    "hoodie.datasource.write.recordkey.field": "key",
    "hoodie.datasource.write.partitionpath.field": "dt",
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.num.retries.on.conflict.failures": "10",
    "hoodie.client.heartbeat.interval_in_ms": str(BEAT_MS),
    "hoodie.client.heartbeat.tolerable.misses": str(MISSES),
    LOCK + "wait_time_ms": "180000",
}


@dataclass(frozen=True, slots=True)
class Place:
    """A table to be made at ``root``; ``lock`` and ``storage`` are their names for people."""

    root: str
    lock: str
    storage: str
    options: Mapping[str, str]
    lease_s: float = LEASE_S
    s3: S3Server | None = None

    @property
    def hadoop(self) -> dict[str, str]:
        """The ``fs.s3a.*`` settings that reach the storage."""
        return self.s3.hadoop_options if self.s3 else {}

    def open(self) -> Storage:
        """The table's storage."""
        return open_storage(self.root, self.hadoop)

    def lock_problems(self, options: Mapping[str, str]) -> list[str]:
        """Whether the lock can be had, and is free when it was given up.

        The last process of a storm may have been killed with it. Then nobody has asked since, and
        the lease of the dead is over before a wait of two leases is.
        """
        storage = self.open()
        config = open_table(storage).config
        said = resolve_write(options, config.raw).lock
        lock = LockOpener(SystemClock(), lambda root: storage).open(said, config.name, storage)
        try:
            lock.acquire(2 * self.lease_s + 5, LockOwner.this_process("after the storm"))
        except LockTimeout as error:
            return [f"the lock is not free after the storm: {error}"]
        lock.release()
        holder = lock.describe()
        return [f"the lock is still held by {holder}"] if holder else []


def _filesystem(folder: Path, stack: ExitStack) -> Place:
    return Place(str(folder / "storm"), "filesystem", "local disk", {})


def _numbered(folder: Path, stack: ExitStack) -> Place:
    options = {PROVIDER: "numbered_files"}
    return Place(str(folder / "storm"), "numbered files", "local disk", options)


def _zookeeper(folder: Path, stack: ExitStack) -> Place:
    server = stack.enter_context(zookeeper_server(folder))
    options = {
        PROVIDER: "zookeeper",
        LOCK + "zookeeper.url": server.address,
        LOCK + "zookeeper.base_path": "/storms",
        LOCK + "zookeeper.session_timeout_ms": str(int(LEASE_S * 1_000)),
    }
    return Place(str(folder / "storm"), "ZooKeeper", "local disk", options)


def _hive_metastore(folder: Path, stack: ExitStack) -> Place:
    server = stack.enter_context(hive_metastore(folder, LEASE_S))
    options = {
        PROVIDER: "hive_metastore",
        LOCK + "hivemetastore.uris": server.uri,
        LOCK + "hivemetastore.database": "lake",
        LOCK + "hivemetastore.table": "storm",
    }
    return Place(str(folder / "storm"), "Hive Metastore", "local disk", options)


def _dynamodb(folder: Path, stack: ExitStack) -> Place:
    server = stack.enter_context(dynamodb_server(folder))
    options = {
        PROVIDER: "dynamodb",
        LOCK + "dynamodb.table": "locks",
        LOCK + "dynamodb.endpoint_url": server.endpoint,
    }
    before = {name: os.environ.get(name, "") for name in CREDENTIALS}
    os.environ.update(CREDENTIALS)
    stack.callback(os.environ.update, before)
    return Place(str(folder / "storm"), server.kind, "local disk", options)


def _storage(folder: Path, stack: ExitStack) -> Place:
    server = stack.enter_context(s3_server(folder))
    options = {PROVIDER: "storage", LOCK + "storage.validity.timeout.secs": str(int(S3_LEASE_S))}
    root = server.new_table("storm")
    return Place(root, "storage (conditional put)", server.kind, options, S3_LEASE_S, server)


def _lock_file_on_s3(folder: Path, stack: ExitStack) -> Place:
    server = stack.enter_context(s3_server(folder))
    # The lock file's lease is four times what a put may take.
    return Place(server.new_table("storm"), "filesystem", server.kind, {}, 76.0, server)


PLACES = {
    "filesystem": _filesystem,
    "numbered": _numbered,
    "zookeeper": _zookeeper,
    "hive": _hive_metastore,
    "dynamodb": _dynamodb,
    "storage": _storage,
    "s3-filesystem": _lock_file_on_s3,
}


@contextmanager
def place(name: str, folder: Path) -> Iterator[Place]:
    """Run what the lock and the storage of this name need; their files are in ``folder``."""
    with ExitStack() as stack:
        yield PLACES[name](folder, stack)
