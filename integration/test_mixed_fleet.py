"""Apache Hudi 1.2.0 and pyhudi write one table at the same time, and no update of either is lost.

Both use optimistic concurrency with one lock. Their rows lie in the same file groups, so the later
of two that meet has to notice: Hudi fails and is asked again, as its users would; pyhudi retries.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from integration.peers import SparkPeer
from integration.peers.process import PeerError
from integration.peers.tables import read_properties, writer_options
from tests.servers.zookeeper import Zookeeper

ROUNDS = 4
KEYS = 10  # of each writer
MEMORY = {"spark.driver.memory": "1g"}
LOCK = "hoodie.write.lock."
CLASSES = "org.apache.hudi.client.transaction.lock."
NO_METADATA = {"hoodie.metadata.enable": "false"}
LOGS = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
MANY = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
    # pyhudi does not keep Hudi's metadata table up, and switches it off where it finds one.
    **NO_METADATA,
}
MADE = {
    "hoodie.table.name": "rides",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.precombine.field": "turn",
}
METADATA = "hoodie.table.metadata.partitions"
CONFLICTS = ("ConcurrentModification", "WriteConflict", "CommitConflict", "COMMIT_CONFLICT")
#: Apache Hudi picks a time, waits for 200 ms and only then asks for it: another writer may have it
TAKEN = "FileAlreadyExistsException"


@pytest.fixture
def hudi(peers: Callable[[str], SparkPeer]) -> SparkPeer:
    return peers("hudi-1.2.0")


@pytest.fixture
def ours(peers: Callable[[str], SparkPeer]) -> SparkPeer:
    return peers("pyhudi")


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
    #: what else may befall a write that is then asked for again
    bears: tuple[str, ...] = (*CONFLICTS, TAKEN)
    failures: list[str] = field(default_factory=list)
    #: the column of what a key says
    says: str = "said"

    def rows(self, turn: int) -> pa.Table:
        """What it writes in one turn."""
        return batch(self.name, turn)

    def work(self) -> None:
        for turn in range(1, ROUNDS + 1):
            rows = self.rows(turn)
            while True:
                began = time.monotonic()
                try:
                    self.peer.write(self.table, rows, self.options)
                except PeerError as error:
                    text = f"{error.kind} {error.text}"
                    if not any(word in text for word in self.bears):
                        raise
                    self.conflicts += any(word in text for word in CONFLICTS)
                    self.failures.append(text)
                    assert len(self.failures) < 10 * ROUNDS, "it never gets through"
                    continue
                finally:
                    self.spans.append((began, time.monotonic()))
                break
            keys, texts = (rows[column].to_pylist() for column in ("id", self.says))
            self.acknowledged |= dict(zip(keys, texts, strict=True))


def batch(name: str, turn: int) -> pa.Table:
    return pa.table(
        {
            "id": [f"{name}-{n}" for n in range(KEYS)],
            "city": ["Oslo" if n % 2 else "Lima" for n in range(KEYS)],
            "said": [f"{name} in turn {turn}"] * KEYS,
            "turn": pa.array([turn] * KEYS, pa.int64()),
        }
    )


def said_in(reader: SparkPeer, table: Path, options: Mapping[str, str]) -> dict[str, str]:
    """What each key says, once each, as ``reader`` finds it."""
    rows = reader.read(table, options).rows
    found = {str(row["id"]): str(row["said"]) for row in rows}
    assert len(found) == len(rows)
    return found


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
    ("version", "lock", "logs"),
    [
        (9, "zookeeper", False),
        pytest.param(8, "zookeeper", False, marks=pytest.mark.matrix),
        pytest.param(9, "lock file", False, marks=pytest.mark.matrix),
        pytest.param(8, "lock file", False, marks=pytest.mark.matrix),
        pytest.param(9, "zookeeper", True, marks=pytest.mark.matrix),
        pytest.param(8, "lock file", True, marks=pytest.mark.matrix),
    ],
)
def test_hudi_and_pyhudi_write_at_once_and_no_update_is_lost(
    hudi: SparkPeer,
    ours: SparkPeer,
    zookeeper: Zookeeper,
    tmp_path: Path,
    version: int,
    lock: str,
    logs: bool,
) -> None:
    table = tmp_path / "rides"
    locked = by_zookeeper(zookeeper, table) if lock == "zookeeper" else by_lock_file(table)
    first = pa.concat_tables([batch("hudi", 0), batch("ours", 0)])
    made = {**MADE, **NO_METADATA, "hoodie.write.table.version": str(version)}
    made |= LOGS if logs else {}
    hudi.write(table, first, made, mode="overwrite")
    options = {**writer_options(table), **MANY, **locked, **(LOGS if logs else {})}
    writers = [
        Writer(hudi, table, options, "hudi"),
        Writer(ours, table, {**MANY, **locked}, "ours"),
    ]

    both_at_once(*(writer.work for writer in writers))

    met = sum(a[0] < b[1] and b[0] < a[1] for a in writers[0].spans for b in writers[1].spans)
    assert met > 0, "the two never wrote at the same time"
    expected = writers[0].acknowledged | writers[1].acknowledged
    assert len(expected) == 2 * KEYS
    assert bool(list(table.rglob(".*.log.*"))) == logs
    assert said_in(hudi, table, NO_METADATA) == expected
    assert said_in(ours, table, {}) == expected
    print(
        f"version {version}, {lock}: {met} pairs of writes met, Hudi failed {writers[0].conflicts} "
        f"times by a conflict, pyhudi {writers[1].conflicts} times after its retries"
    )


@pytest.mark.matrix
def test_with_hudis_metadata_table_on_the_table_stays_whole_for_who_lists_it(
    hudi: SparkPeer, ours: SparkPeer, zookeeper: Zookeeper, tmp_path: Path
) -> None:
    """Each of our commits switches it off, and each of Hudi's writes builds it again."""
    table = tmp_path / "rides"
    locked = {**MANY, **by_zookeeper(zookeeper, table)}
    with_metadata = {key: text for key, text in locked.items() if "metadata" not in key}
    first = pa.concat_tables([batch("hudi", 0), batch("ours", 0)])
    hudi.write(table, first, MADE, mode="overwrite")
    assert read_properties(table)[METADATA]

    for turn in (1, 2):
        ours.write(table, batch("ours", turn), locked)
        assert not read_properties(table)[METADATA]
        hudi.write(table, batch("hudi", turn), {**writer_options(table), **with_metadata})
        assert read_properties(table)[METADATA]
        expected = dict.fromkeys(batch("hudi", 0)["id"].to_pylist(), f"hudi in turn {turn}")
        expected |= dict.fromkeys(batch("ours", 0)["id"].to_pylist(), f"ours in turn {turn}")
        for given in ({}, NO_METADATA):
            assert said_in(hudi, table, given) == expected

    options = {**writer_options(table), **with_metadata}
    bears = (*CONFLICTS, TAKEN, "HoodieMetadata", "metadata table")
    theirs = Writer(hudi, table, options, "hudi", bears=bears)
    writers = [theirs, Writer(ours, table, locked, "ours")]
    both_at_once(*(writer.work for writer in writers))

    expected = writers[0].acknowledged | writers[1].acknowledged
    assert said_in(hudi, table, NO_METADATA) == expected
    assert said_in(ours, table, {}) == expected
    for text in theirs.failures:
        reasons = re.findall(r"[\w.]*Exception: [^\n]*", text)
        print("with its metadata table on, Hudi failed:", *reasons, sep="\n  ")
    seen = said_in(hudi, table, {})
    stale = sorted(key for key in expected if seen.get(key) != expected[key])
    print(f"read through the metadata table, these rows are not the newest: {stale or 'none'}")
