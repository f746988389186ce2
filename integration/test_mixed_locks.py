"""Apache Hudi 1.2.0's own lock providers and pyhudi's locks exclude each other, both ways.

Hudi's S3 and DynamoDB code is in no jar of 1.2.0 that Maven Central has. For the storage-based
lock Hudi's provider runs over a plain client of S3 that the test brings, for DynamoDB it is
Amazon's lock client, which Hudi's provider wraps, that stands for Hudi.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest

from integration.peers.locks import OtherLocks, amazon_locks, hudi_locks
from pyhudi.clock import SystemClock
from pyhudi.config import resolve_write
from pyhudi.errors import LockTimeout
from pyhudi.locks.base import LockOwner, TableLock
from pyhudi.locks.leased import wait_for
from pyhudi.locks.open import LockOpener
from pyhudi.storage.base import Storage
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.open import open_storage
from tests.s3_server import BUCKET, S3Server, s3_server
from tests.servers.dynamodb import CLASSPATH, CREDENTIALS, DynamoDb, dynamodb_server

CLASSES = "org.apache.hudi.client.transaction.lock."
LOCK = "hoodie.write.lock."
REPO = Path(__file__).resolve().parents[1]
#: how long either side waits for its turn
TURN_S = 60
ANN = LockOwner("20240101000000001", "ann.example", 11, "nightly load")

_numbers = itertools.count()


@pytest.fixture(scope="module")
def hudi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherLocks]:
    with hudi_locks(tmp_path_factory.mktemp("hudi")) as running:
        yield running


@pytest.fixture(scope="module")
def amazon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherLocks]:
    with amazon_locks(tmp_path_factory.mktemp("amazon")) as running:
        yield running


@pytest.fixture(scope="module")
def dynamodb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DynamoDb]:
    if not CLASSPATH.exists():
        pytest.skip("no DynamoDB Local here: run make dynamodb")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        with dynamodb_server(tmp_path_factory.mktemp("dynamodb")) as server:
            yield server


@pytest.fixture(scope="module")
def open_s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server whose bucket needs no signature."""
    everything = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"AWS": ["*"]},
                "Action": ["s3:GetObject", "s3:PutObject"],
                "Resource": [f"arn:aws:s3:::{BUCKET}/*"],
            }
        ],
    }
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        server.client().put_bucket_policy(Bucket=BUCKET, Policy=json.dumps(everything))
        yield server


@dataclass
class Fleet:
    """A table's lock as both sides are told of it."""

    others: OtherLocks
    provider: str
    options: dict[str, str]
    storage: Storage
    hadoop: Mapping[str, str] = field(default_factory=dict)

    @property
    def said(self) -> dict[str, str]:
        """The options of the lock as a write is given them."""
        locks = {key: text for key, text in self.options.items() if key.startswith(LOCK)}
        return {**locks, LOCK + "provider": self.provider}

    def ours(self) -> TableLock:
        """A handle of pyhudi's, from the very options that Hudi is given."""
        clock = SystemClock()
        opener = LockOpener(clock, lambda root: open_storage(root, self.hadoop, clock))
        return opener.open(resolve_write(self.said).lock, "rides", self.storage)

    def killed(self) -> None:
        """Have a process of ours take the lock and die."""
        said = {
            "root": self.storage.root,
            "hadoop": self.hadoop,
            "options": self.said,
            "instant": ANN.instant,
        }
        command = [sys.executable, "-m", "integration.lock_holder", json.dumps(said)]
        with subprocess.Popen(command, cwd=REPO, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            process.kill()

    def theirs(self) -> str:
        """A handle of Hudi's."""
        name = f"handle-{next(_numbers)}"
        self.others.open(name, self.provider, self.options)
        return name


def hudi_options(root: str, **said: object) -> dict[str, str]:
    """What Hudi's providers ask for beside ``said``."""
    return {
        "hoodie.base.path": root,
        "hoodie.table.name": "rides",
        LOCK + "wait_time_ms_between_retry": "100",
        LOCK + "max_wait_time_ms_between_retry": "1000",
        LOCK + "num_retries": "3",
        LOCK + "wait_time_ms": "2000",
        **{LOCK + key.replace("__", "."): str(value) for key, value in said.items()},
    }


KINDS = ["filesystem", "storage", "zookeeper", "zookeeper implicit", "hive metastore", "dynamodb"]
SLOW = pytest.mark.matrix
#: one that each side asks again and again, and one that each waits at
TAKEN = ("storage", "zookeeper")


@pytest.fixture(params=KINDS)
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Fleet:
    number, get = next(_numbers), request.getfixturevalue
    local = LocalStorage(str(tmp_path))
    if request.param == "filesystem":
        (tmp_path / ".hoodie").mkdir()
        options = hudi_options(
            str(tmp_path), filesystem__path=f"{tmp_path}/.hoodie", filesystem__expire=0
        )
        return Fleet(get("hudi"), CLASSES + "FileSystemBasedLockProvider", options, local)
    if request.param == "storage":
        server: S3Server = get("open_s3")
        root = server.new_table()
        options = hudi_options(
            root, storage__validity__timeout__secs=25, storage__renew__interval__secs=2
        )
        options = {**options, "endpoint": server.endpoint}
        storage = open_storage(root, server.hadoop_options)
        provider = CLASSES + "StorageBasedLockProvider"
        return Fleet(get("hudi"), provider, options, storage, server.hadoop_options)
    if request.param.startswith("zookeeper"):
        place = {"zookeeper__url": get("zookeeper").address}
        provider = "ZookeeperBasedImplicitBasePathLockProvider"
        if request.param == "zookeeper":
            place |= {"zookeeper__base_path": "/hudi", "zookeeper__lock_key": f"rides-{number}"}
            provider = "ZookeeperBasedLockProvider"
        options = hudi_options(str(tmp_path), zookeeper__session_timeout_ms=3_000, **place)
        return Fleet(get("hudi"), CLASSES + provider, options, local)
    if request.param == "hive metastore":
        options = hudi_options(
            str(tmp_path),
            hivemetastore__uris=get("metastore").uri,
            hivemetastore__database="Lake",
            hivemetastore__table=f"Rides_{number}",
        )
        provider = "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider"
        return Fleet(get("hudi"), provider, options, local)
    options = hudi_options(
        str(tmp_path),
        dynamodb__table="locks",
        dynamodb__partition_key=f"rides-{number}",
        dynamodb__endpoint_url=get("dynamodb").endpoint,
    )
    provider = "org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider"
    return Fleet(get("amazon"), provider, options, local)


def test_hudi_keeps_us_out_until_it_releases(fleet: Fleet) -> None:
    ours = fleet.ours()
    assert ours.describe() is None  # makes the table of DynamoDB, which Amazon's client does not
    theirs = fleet.theirs()
    assert fleet.others.take(theirs)

    with pytest.raises(LockTimeout) as refused:
        ours.acquire(0.5, ANN)
    assert "it is held by" in str(refused.value)

    fleet.others.release(theirs)
    ours.acquire(10, ANN)
    assert ours.check() > 0
    ours.release()


def test_we_keep_hudi_out_until_we_release(fleet: Fleet) -> None:
    ours = fleet.ours()
    ours.acquire(10, ANN)
    theirs = fleet.theirs()

    assert not fleet.others.take(theirs, wait_ms=500)
    assert ours.check() > 0

    ours.release()
    assert fleet.others.take(theirs, wait_ms=10_000)
    fleet.others.release(theirs)


@pytest.mark.parametrize(
    "fleet",
    [kind if kind in TAKEN else pytest.param(kind, marks=SLOW) for kind in KINDS],
    indirect=True,
)
def test_taking_turns_nobody_meets_the_other_inside(fleet: Fleet) -> None:
    inside: list[str] = []
    worst: list[int] = []
    errors: list[BaseException] = []
    fleet.ours().describe()

    def turn(name: str, take: Callable[[], None], release: Callable[[], None]) -> None:
        try:
            for _ in range(4):
                take()
                inside.append(name)
                worst.append(len(inside))
                inside.remove(name)
                release()
        except BaseException as error:
            errors.append(error)

    ours, theirs = fleet.ours(), fleet.theirs()

    def they_take() -> None:
        # Not every provider of Hudi's waits by itself.
        taken = partial(fleet.others.take, theirs, wait_ms=2_000)
        if not wait_for(SystemClock(), taken, TURN_S, longest_pause_ms=100):
            raise AssertionError(f"no turn in {TURN_S} s: the lock is held by {ours.describe()}")

    threads = [
        threading.Thread(target=turn, args=("we", lambda: ours.acquire(TURN_S, ANN), ours.release)),
        threading.Thread(
            target=turn, args=("they", they_take, lambda: fleet.others.release(theirs))
        ),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert len(worst) == 8
    assert set(worst) == {1}


# The time for which each lock outlives its holder decides how long these take.
OUTLIVED = [
    "zookeeper",
    pytest.param("hive metastore", marks=SLOW),
    pytest.param("storage", marks=SLOW),
    pytest.param("dynamodb", marks=SLOW),
    pytest.param("filesystem", marks=SLOW),
]


@pytest.mark.parametrize("fleet", OUTLIVED, indirect=True)
def test_the_lock_of_our_killed_writer_passes_to_hudi(fleet: Fleet) -> None:
    fleet = _with_age(fleet)
    fleet.killed()
    theirs = fleet.theirs()

    assert not fleet.others.take(theirs, wait_ms=500)
    assert wait_for(SystemClock(), lambda: fleet.others.take(theirs, wait_ms=2_000), 100)

    fleet.others.release(theirs)


@pytest.mark.parametrize("fleet", OUTLIVED, indirect=True)
def test_the_lock_of_a_killed_hudi_passes_to_us(fleet: Fleet, tmp_path: Path) -> None:
    fleet = _with_age(fleet)
    ours = fleet.ours()
    ours.describe()
    start = amazon_locks if "dynamodb" in fleet.provider.lower() else hudi_locks
    with start(tmp_path) as doomed:
        theirs = replace(fleet, others=doomed).theirs()
        assert doomed.take(theirs)

    with pytest.raises(LockTimeout):
        ours.acquire(0.5, ANN)
    ours.acquire(200, ANN)
    assert ours.check() > 0
    ours.release()


def _with_age(fleet: Fleet) -> Fleet:
    """Hudi's lock file outlives its holder for ever, unless both sides are told an age."""
    return replace(fleet, options={**fleet.options, LOCK + "filesystem.expire": "1"})
