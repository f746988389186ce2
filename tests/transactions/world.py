"""A small table in memory with writers on it, the worker's part played by a few lines.

A data file holds the JSON of its rows (key to value), so that what a reader sees is a dict.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyhudi.config import FailedWrites
from pyhudi.errors import FileExists
from pyhudi.format import partition_metadata
from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata, WriteStat
from pyhudi.format.filenames import BaseFileName, FileId
from pyhudi.format.instants import Action, Instant, instant_file_name
from pyhudi.format.markers import MarkerKind, marker_path
from pyhudi.format.new_table import new_table_properties
from pyhudi.format.properties import render_properties
from pyhudi.format.table_config import KeyGenerator, MergeMode
from pyhudi.locks.base import TableLock
from pyhudi.locks.in_process import InProcessLock, InProcessLocks
from pyhudi.slices.files import BaseFile
from pyhudi.storage.base import Storage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.timeline.active import COMMITS, Timeline
from pyhudi.timeline.strays import Archive
from pyhudi.timeline.table import PROPERTIES, Table, open_table
from pyhudi.timeline.view import FileSystemView, list_view
from pyhudi.transactions.conflicts.comparison import Footprint
from pyhudi.transactions.heartbeat import HeartbeatPolicy
from pyhudi.transactions.recovery.settle import settle_failed_writes
from pyhudi.transactions.transaction import Committed, Transaction
from pyhudi.transactions.writer import Writer, WriterPolicy
from tests.fakes import FakeClock

VERSIONS = (6, 8, 9)
POLICY = WriterPolicy(heartbeat=HeartbeatPolicy(interval_ms=60_000, tolerable_misses=2))
NEVER = WriterPolicy(heartbeat=POLICY.heartbeat, failed_writes=FailedWrites.NEVER)
LAZY = WriterPolicy(heartbeat=POLICY.heartbeat, failed_writes=FailedWrites.LAZY)
LAPSE_S = POLICY.heartbeat.lapse_ms / 1000
META = ".hoodie"

_numbers = itertools.count()

Rows = Mapping[str, str]


def schema(*columns: str) -> str:
    """The Avro JSON of a table with these text columns."""
    fields = [{"name": c, "type": ["null", "string"], "default": None} for c in columns]
    record = {"type": "record", "name": "t_record", "namespace": "hoodie.t", "fields": fields}
    return json.dumps(record)


@dataclass
class World:
    """A fresh table of ``version``; every writer gets its own lock handle, all share the clock.

    ``raw`` are further table properties. ``lock_of`` gives the lock for a writer's storage.
    """

    version: int = 9
    raw: Mapping[str, str] = field(default_factory=dict)
    lock_of: Callable[[World, Storage], TableLock] = lambda world, _: InProcessLock(
        world.locks, "t", world.clock
    )

    def __post_init__(self) -> None:
        self.clock = FakeClock()
        self.locks = InProcessLocks()
        # A root of its own: commits and views are cached by root and file name.
        self.memory = MemoryStorage(f"memory:/t{next(_numbers)}", self.clock)
        self.transactions: list[Transaction] = []
        properties = new_table_properties(
            name="t",
            version=self.version,
            record_key_fields=["key"],
            partition_fields=["p"],
            ordering_fields=[],
            merge_mode=MergeMode.COMMIT_TIME_ORDERING,
            key_generator=KeyGenerator.SIMPLE,
            extra=self.raw,
        )
        self.memory.put_if_absent(PROPERTIES, render_properties(properties))

    # -- writing

    def table(self, storage: Storage | None = None) -> Table:
        return open_table(storage or self.memory)

    def writer(
        self,
        storage: Storage | None = None,
        policy: WriterPolicy = POLICY,
        clock: FakeClock | None = None,
        table: Table | None = None,
    ) -> Writer:
        """One more writer, with its own handle on the lock of this process."""
        found = table or self.table(storage)
        return Writer(found, other_lock(self), clock or self.clock, policy)

    def begin(
        self,
        storage: Storage | None = None,
        action: Action = Action.COMMIT,
        policy: WriterPolicy = POLICY,
        clock: FakeClock | None = None,
    ) -> Transaction:
        used = storage or self.memory
        operation = "upsert" if action is Action.COMMIT else "insert_overwrite"
        lock = self.lock_of(self, used)
        found = Transaction.begin(
            Writer(self.table(used), lock, clock or self.clock, policy), action, operation
        )
        self.transactions.append(found)
        return found

    def upsert(self, rows: Rows, storage: Storage | None = None, **more: object) -> Committed:
        """A whole write; like the planner it aborts on whatever goes wrong."""
        with self.begin(storage, **more) as transaction:  # type: ignore[arg-type]
            return finish(transaction, work(transaction, rows))

    def close(self) -> None:
        """End the threads that beat for writers which never came to an end."""
        for transaction in self.transactions:
            die(transaction)

    # -- looking

    def view(self) -> FileSystemView:
        table = self.table()
        return list_view(self.memory, table.timeline(), Archive(self.memory, table.config))

    def rows(self) -> dict[str, str]:
        """What a reader sees; a key must be in one file only."""
        found: dict[str, str] = {}
        for file in self.view().latest():
            for key, value in json.loads(self.memory.read(file.path)).items():
                assert key not in found, f"{key} is in two file groups"
                found[key] = value
        return found

    def data_files(self) -> set[str]:
        """Every base file on the storage, visible or not."""
        return {f.path for f in self.memory.walk("") if f.name.endswith(".parquet")}

    def named_files(self) -> set[str]:
        """Every base file that a completed commit names."""
        timeline = self.table().timeline()
        return {
            stat.path
            for commit in timeline.commits
            for stat in COMMITS.get(self.memory, timeline, commit).stats
        }

    def leftovers(self) -> list[str]:
        """What a settled table must not have: strays, markers, heartbeats, pending instants."""
        found = sorted(self.data_files() - self.named_files())
        found += [f.path for f in self.memory.walk(f"{META}/.temp")]
        found += [f.path for f in self.memory.walk(f"{META}/.heartbeat")]
        found += [str(i) for i in self.table().timeline().pending]
        return found


def die(transaction: Transaction) -> None:
    """The writer's process is gone: nothing beats any more, and nothing is tidied."""
    transaction._heartbeat.stop(settled=False)


@dataclass(frozen=True)
class Written:
    """What the workers did: statistics of the files that count."""

    stats: tuple[WriteStat, ...]
    replaced: dict[str, tuple[FileId, ...]] | None = None
    swept: frozenset[str] = frozenset()


def work(
    transaction: Transaction, rows: Rows, partition: str = "a", overwrite: bool = False
) -> Written:
    """Play the worker: update the groups that hold a key, put all new keys into one new group."""
    storage, clock = transaction.table.storage, transaction.writer.clock
    view = list_view(storage, transaction.timeline, Archive(storage, transaction.table.config))
    old = view.latest(partitions=[partition])
    transaction.check_targets(old)
    transaction.inflight(None)
    left, stats = dict(rows), []
    for file in [] if overwrite else old:
        kept = json.loads(storage.read(file.path))
        hits = {key: left.pop(key) for key in list(left) if key in kept}
        if hits:
            stats.append(put_file(transaction, partition, file.file_id, kept | hits, file))
    if left:
        stats.append(put_file(transaction, partition, FileId(f"{clock.uuid()}-0"), left))
    if not overwrite:
        return Written(tuple(stats))
    replaced = {partition: tuple(f.file_id for f in old)} if old else {}
    return Written(tuple(stats), replaced, frozenset({partition}))


def put_file(
    transaction: Transaction,
    partition: str,
    file_id: FileId,
    rows: Rows,
    old: BaseFile | None = None,
    attempt: int = 0,
) -> WriteStat:
    """One task attempt writes one file: marker, partition metadata, data file."""
    storage, time = transaction.table.storage, transaction.instant
    name = BaseFileName(file_id, f"0-7-{attempt}", time).render()
    path = f"{partition}/{name}" if partition else name
    kind = MarkerKind.CREATE if old is None else MarkerKind.MERGE
    storage.put_if_absent(marker_path(time, path, kind), b"")
    # In words, so that the worker also stands in a table without partitions.
    metadata = f"{partition}/.hoodie_partition_metadata".lstrip("/")
    if not storage.exists(metadata):
        try:
            content = partition_metadata.render(time, partition_metadata.depth_of(partition))
            storage.put_if_absent(metadata, content)
        except FileExists:
            pass
    data = json.dumps(dict(rows)).encode()
    storage.put_if_absent(path, data)
    return WriteStat(
        file_id=file_id,
        path=path,
        partition_path=partition,
        prev_commit=old.instant if old else None,
        num_writes=len(rows),
        file_size_bytes=len(data),
    )


def footprint(transaction: Transaction, written: Written) -> Footprint:
    groups = [((s.partition_path, s.file_id), s.prev_commit) for s in written.stats]
    replaced = {(p, g) for p, ids in (written.replaced or {}).items() for g in ids}
    return Footprint(
        who=f"{transaction.operation} {transaction.instant}",
        updated=frozenset({g for g, old in groups if old} | replaced),
        created=frozenset(g for g, old in groups if not old),
        replaced_partitions=written.swept,
    )


def finish(
    transaction: Transaction, written: Written, avro: str = schema("key", "value")
) -> Committed:
    """Seal and commit what the workers did."""
    transaction.seal(lambda timeout_s: True, [s.path for s in written.stats])
    metadata = CommitMetadata(
        operation=transaction.operation.upper(),
        stats=written.stats,
        extra={SCHEMA_KEY: avro},
        replaced=written.replaced,
    )
    return transaction.commit(metadata, footprint(transaction, written))


def begin_beside(world: World) -> Transaction:
    """A second writer, which leaves the first alone: it is alive and both know it."""
    return world.begin(policy=NEVER)


def other_lock(world: World) -> TableLock:
    return InProcessLock(world.locks, "t", world.clock)


def settle(
    world: World, policy: WriterPolicy = POLICY, clock: FakeClock | None = None
) -> Timeline | None:
    return settle_failed_writes(world.writer(policy=policy, clock=clock))


def dead_writer(world: World) -> Transaction:
    """A writer that died after it had written its files."""
    transaction = world.begin()
    work(transaction, {"k": "dead"})
    die(transaction)
    return transaction


def put_instant(world: World, instant: Instant, data: bytes = b"") -> None:
    config = world.table().config
    name = instant_file_name(instant, config.layout)
    world.memory.put_if_absent(f"{config.timeline_folder}/{name}", data)
