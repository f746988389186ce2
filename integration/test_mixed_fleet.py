"""Apache Hudi 1.2.0 and pyhudi write one table at the same time, and no update of either is lost.

Both use optimistic concurrency with one lock. Their rows lie in the same file groups, so the later
of two that meet has to notice: Hudi fails and is asked again, as its users would; pyhudi retries.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from integration.peers import SparkPeer, apache_hudi, pyhudi_on_spark
from integration.peers.process import PeerError
from integration.peers.tables import writer_options
from tests.servers.zookeeper import Zookeeper, zookeeper_server

ROUNDS = 4
KEYS = 10  # of each writer
MEMORY = {"spark.driver.memory": "1g"}
LOCK = "hoodie.write.lock."
CLASSES = "org.apache.hudi.client.transaction.lock."
MANY = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
    # pyhudi does not keep Hudi's metadata table up, and switches it off where it finds one.
    "hoodie.metadata.enable": "false",
}
CONFLICTS = ("ConcurrentModification", "WriteConflict", "CommitConflict", "COMMIT_CONFLICT")


@pytest.fixture(scope="module")
def hudi() -> Iterator[SparkPeer]:
    peer = apache_hudi("1.2.0", conf=MEMORY)
    yield peer
    peer.close()


@pytest.fixture(scope="module")
def ours() -> Iterator[SparkPeer]:
    peer = pyhudi_on_spark(conf=MEMORY)
    yield peer
    peer.close()


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zookeeper]:
    with zookeeper_server(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


def by_zookeeper(server: Zookeeper, table: Path) -> dict[str, str]:
    return {
        LOCK + "provider": CLASSES + "ZookeeperBasedLockProvider",
        LOCK + "zookeeper.url": server.address,
        LOCK + "zookeeper.port": server.address.rpartition(":")[2],
        LOCK + "zookeeper.base_path": "/hudi",
        LOCK + "zookeeper.lock_key": table.parent.name,
    }


def by_lock_file(table: Path) -> dict[str, str]:
    return {
        LOCK + "provider": CLASSES + "FileSystemBasedLockProvider",
        LOCK + "filesystem.path": f"{table}/.hoodie",
        LOCK + "filesystem.expire": "10",
    }


@dataclass
class Writer:
    """Upserts its own keys again and again; what was acknowledged last is what must be there."""

    peer: SparkPeer
    table: Path
    options: Mapping[str, str]
    name: str
    acknowledged: dict[str, str] = field(default_factory=dict)
    spans: list[tuple[float, float]] = field(default_factory=list)
    conflicts: int = 0

    def work(self) -> None:
        for turn in range(1, ROUNDS + 1):
            rows = batch(self.name, turn)
            while True:
                began = time.monotonic()
                try:
                    self.peer.write(self.table, rows, self.options)
                except PeerError as error:
                    if not any(word in f"{error.kind} {error.text}" for word in CONFLICTS):
                        raise
                    self.conflicts += 1
                    continue
                finally:
                    self.spans.append((began, time.monotonic()))
                break
            self.acknowledged |= dict(
                zip(rows["id"].to_pylist(), rows["said"].to_pylist(), strict=True)
            )


def batch(name: str, turn: int) -> pa.Table:
    return pa.table(
        {
            "id": [f"{name}-{n}" for n in range(KEYS)],
            "city": ["Oslo" if n % 2 else "Lima" for n in range(KEYS)],
            "said": [f"{name} in turn {turn}"] * KEYS,
            "turn": pa.array([turn] * KEYS, pa.int64()),
        }
    )


def both_at_once(*writers: Callable[[], None]) -> None:
    errors: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


@pytest.mark.parametrize(
    ("version", "lock"),
    [
        (9, "zookeeper"),
        (8, "zookeeper"),
        pytest.param(9, "lock file", marks=pytest.mark.matrix),
        pytest.param(8, "lock file", marks=pytest.mark.matrix),
    ],
)
def test_hudi_and_pyhudi_write_at_once_and_no_update_is_lost(
    hudi: SparkPeer, ours: SparkPeer, zookeeper: Zookeeper, tmp_path: Path, version: int, lock: str
) -> None:
    table = tmp_path / "rides"
    locked = by_zookeeper(zookeeper, table) if lock == "zookeeper" else by_lock_file(table)
    first = pa.concat_tables([batch("hudi", 0), batch("ours", 0)])
    made = {
        "hoodie.table.name": "rides",
        "hoodie.write.table.version": str(version),
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "turn",
        "hoodie.metadata.enable": "false",
    }
    hudi.write(table, first, made, mode="overwrite")
    options = {**writer_options(table), **MANY, **locked}
    writers = [
        Writer(hudi, table, options, "hudi"),
        Writer(ours, table, {**MANY, **locked}, "ours"),
    ]

    both_at_once(*(writer.work for writer in writers))

    met = sum(a[0] < b[1] and b[0] < a[1] for a in writers[0].spans for b in writers[1].spans)
    assert met > 0, "the two never wrote at the same time"
    expected = writers[0].acknowledged | writers[1].acknowledged
    assert len(expected) == 2 * KEYS
    for reader, given in ((hudi, {"hoodie.metadata.enable": "false"}), (ours, {})):
        rows = reader.read(table, given).rows
        assert sorted((row["id"], row["said"]) for row in rows) == sorted(expected.items())
    print(
        f"version {version}, {lock}: {met} pairs of writes met, Hudi failed {writers[0].conflicts} "
        f"times by a conflict, pyhudi {writers[1].conflicts} times after its retries"
    )
