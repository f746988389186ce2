"""From options to locks: what is opened, and what is refused before anything is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyhudi.config import LockOptions, resolve_write
from pyhudi.errors import ConfigError, LockTimeout
from pyhudi.locks.base import LockOwner
from pyhudi.locks.open import LockOpener
from pyhudi.storage.base import Storage
from pyhudi.storage.hadoop import HadoopStorage
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.s3 import S3Storage
from tests.fakes import FakeClock

LOCK = "hoodie.write.lock."
MANY = {"hoodie.write.concurrency.mode": "optimistic_concurrency_control"}
CLASSES = "org.apache.hudi.client.transaction.lock."


def options(provider: str, **said: object) -> dict[str, str]:
    named = {LOCK + key.replace("__", "."): str(value) for key, value in said.items()}
    return {LOCK + "provider": provider, **named}


def opened(given: dict[str, str], storage: Storage | None = None) -> str:
    said: LockOptions = resolve_write(given).lock
    lock = LockOpener(FakeClock(), lambda root: MemoryStorage(root)).open(
        said, "rides", storage or MemoryStorage("s3a://lake/rides")
    )
    return repr(lock)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({}, "FilesystemLock('s3a://lake/rides/.hoodie/lock')"),
        (
            options(CLASSES + "FileSystemBasedLockProvider", filesystem__path="/locks"),
            "FilesystemLock('/locks/lock')",
        ),
        (options("numbered_files"), "LeasedLock('s3a://lake/rides/.hoodie/locks')"),
        (
            options(CLASSES + "StorageBasedLockProvider"),
            "LeasedLock('s3a://lake/rides/.hoodie/.locks/table_lock.json')",
        ),
        (
            options(
                CLASSES + "ZookeeperBasedLockProvider",
                zookeeper__url="zk1:2181,zk2",
                zookeeper__port=2182,
                zookeeper__base_path="/hudi/",
            ),
            "LeasedLock('/hudi/rides' in ZooKeeper at zk1:2181,zk2:2182)",
        ),
        (
            options(
                "zookeeper",
                zookeeper__url="zk/chroot",
                zookeeper__base_path="/hudi",
                zookeeper__lock_key="other",
            ),
            "LeasedLock('/hudi/other' in ZooKeeper at zk/chroot)",
        ),
        (
            options(
                CLASSES + "ZookeeperBasedImplicitBasePathLockProvider", zookeeper__url="zk:2181"
            ),
            "LeasedLock('/tmp/5EFCB3C54DF60983/lock_key' in ZooKeeper at zk:2181)",
        ),
        (
            options(
                "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider",
                hivemetastore__database="lake",
                hivemetastore__table="rides",
                hivemetastore__uris="thrift://a:9083,thrift://b:9083",
            ),
            "LeasedLock(on lake.rides in the Hive Metastore thrift://a:9083,thrift://b:9083)",
        ),
        (
            options(
                "org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider",
                dynamodb__table="locks",
            ),
            "LeasedLock('rides' in the DynamoDB table locks)",
        ),
        (
            options("dynamodb", dynamodb__table="locks", dynamodb__partition_key="r"),
            "LeasedLock('r' in the DynamoDB table locks)",
        ),
        (
            options(
                "org.apache.hudi.aws.transaction.lock."
                "DynamoDBBasedImplicitPartitionKeyLockProvider",
                dynamodb__table="locks",
            ),
            "LeasedLock('5EFCB3C54DF60983' in the DynamoDB table locks)",
        ),
        (
            options(CLASSES + "InProcessLockProvider"),
            "FilesystemLock('s3a://lake/rides/.hoodie/lock')",
        ),
    ],
)
def test_hudis_options_open_the_lock_that_hudi_would_use(given: dict[str, str], what: str) -> None:
    assert opened(given) == what


@pytest.mark.parametrize(
    ("given", "key", "text"),
    [
        (options("zookeeper", zookeeper__base_path="/a"), "zookeeper.url", "is not set"),
        (options("zookeeper", zookeeper__url="zk"), "zookeeper.base_path", "is not set"),
        (
            options("zookeeper", zookeeper__url="zk", zookeeper__base_path="a"),
            "zookeeper.base_path",
            "must look like '/hudi/locks'",
        ),
        (
            options("zookeeper", zookeeper__url="zk", zookeeper__port="0"),
            "zookeeper.port",
            "it must be at least 1",
        ),
        (
            options("zookeeper", zookeeper__session_timeout_ms="soon"),
            "zookeeper.session_timeout_ms",
            "a whole number",
        ),
        (options("zookeeper_implicit"), "zookeeper.url", "is not set"),
        (options("hive_metastore"), "hivemetastore.database", "is not set"),
        (
            options("hive_metastore", hivemetastore__database="d", hivemetastore__table="t"),
            "hivemetastore.uris",
            "is not set",
        ),
        (
            options(
                "hive_metastore",
                hivemetastore__database="d",
                hivemetastore__table="t",
                hivemetastore__uris="thrift://a:9083,b:9083",
            ),
            "hivemetastore.uris",
            "'b:9083', but it must look like",
        ),
        (options("dynamodb"), "dynamodb.table", "is not set"),
        (
            options("dynamodb", dynamodb__table="t", dynamodb__billing_mode="free"),
            "dynamodb.billing_mode",
            "PAY_PER_REQUEST, PROVISIONED",
        ),
        (
            options("storage", storage__validity__timeout__secs=1),
            "storage.validity.timeout.secs",
            "may take",
        ),
        (
            {**MANY, **options("in_process")},
            "provider",
            "does not exclude writers of other processes",
        ),
        (options("com.example.MyLock"), "provider", "one of filesystem, numbered_files"),
    ],
)
def test_what_no_lock_can_be_made_of_is_refused_by_its_key(
    given: dict[str, str], key: str, text: str
) -> None:
    with pytest.raises(ConfigError, match=text) as refused:
        opened(given)
    assert refused.value.facts["key"] == LOCK + key
    assert LOCK + key in str(refused.value)


def test_the_storage_lock_is_refused_where_there_are_no_conditional_puts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="conditional puts") as refused:
        opened(options("storage"), LocalStorage(str(tmp_path)))
    assert refused.value.facts["key"] == LOCK + "provider"
    assert list(tmp_path.iterdir()) == []


def test_the_region_of_dynamodb_is_the_environments_where_nobody_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from pyhudi.locks.dynamodb import DynamoTable

    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert DynamoTable.of(LockOptions(), "t").region == "eu-west-1"
    assert DynamoTable.of(LockOptions(dynamodb_region="eu-north-1"), "t").region == "eu-north-1"
    monkeypatch.delenv("AWS_REGION")
    assert DynamoTable.of(LockOptions(), "t").region == "us-east-1"


@pytest.mark.parametrize("provider", ["filesystem", "numbered_files", "storage"])
def test_a_dead_holder_is_succeeded_though_each_wait_is_shorter_than_its_lease(
    provider: str,
) -> None:
    """What one write saw counts for the next write of the process."""
    clock, storage = FakeClock(), MemoryStorage("s3a://lake/rides", FakeClock())
    opener = LockOpener(clock, lambda root: MemoryStorage(root))
    said = resolve_write(options(provider)).lock
    opener.open(said, "rides", storage).acquire(0, LockOwner("1", "dead.example", 1))
    waits = 0

    while True:
        lock = opener.open(said, "rides", storage)
        try:
            lock.acquire(9, LockOwner("2", "alive.example", 2))
        except LockTimeout:
            waits += 1
            assert waits < 20
        else:
            break

    assert waits > 2
    assert lock.check() > 0


@pytest.mark.parametrize("provider", [None, "numbered_files", "storage"])
@pytest.mark.parametrize("store", [LocalStorage, S3Storage, HadoopStorage])
def test_who_says_nothing_waits_long_enough_to_succeed_a_dead_holder(
    provider: str | None, store: type[Storage]
) -> None:
    class Paced(MemoryStorage):
        put_timeout_s = store.put_timeout_s

    clock = FakeClock()
    storage = Paced("s3a://lake/rides", clock)
    said: LockOptions = resolve_write({} if provider is None else options(provider)).lock
    for pid in (1, 2):  # each a process of its own: the second has seen nothing before
        lock = LockOpener(clock, lambda root: storage).open(said, "rides", storage)
        lock.acquire(said.lock_wait_ms / 1_000, LockOwner("20240101000000001", "a", pid))
        assert lock.held()
