"""A table in a folder with real base files, which the workers' functions write without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.config import resolve_write
from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata
from pyhudi.format.instants import Action
from pyhudi.format.new_table import new_table_properties
from pyhudi.format.properties import render_properties
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.format.table_config import KeyGenerator, MergeMode
from pyhudi.listing import Listing
from pyhudi.locks.in_process import InProcessLock, InProcessLocks
from pyhudi.rows.bulk import bulk_write
from pyhudi.rows.groups import write_groups
from pyhudi.rows.spec import (
    GROUP,
    KEY_COLUMN,
    PARTITION_COLUMN,
    FileSystemSpec,
    GroupPlan,
    WriteSpec,
)
from pyhudi.services.clustering import ClusteredFile, Clustering, Tasks, TasksHere, clustered
from pyhudi.services.written_files import stat_of
from pyhudi.slices.files import BaseFile
from pyhudi.storage.base import Storage
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import PROPERTIES, Table, open_table
from pyhudi.transactions.conflicts.comparison import Footprint, footprint
from pyhudi.transactions.transaction import Transaction
from pyhudi.transactions.writer import Writer, WriterPolicy
from tests.fakes import FakeClock
from tests.rows.workers import run as run_worker
from tests.transactions.world import POLICY, die

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64())])
Values = Mapping[str, int]


@dataclass
class FolderTable:
    """A fresh table of ``version`` in ``root``; each key is in partition ``p`` unless said."""

    root: Path
    version: int = 9
    schema: pa.Schema = SCHEMA
    running: list[Transaction] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = FakeClock()
        self.locks = InProcessLocks()
        self.storage = LocalStorage(str(self.root))
        if self.root.exists():
            return
        properties = new_table_properties(
            name="t",
            version=self.version,
            record_key_fields=["id"],
            partition_fields=["p"],
            ordering_fields=[],
            merge_mode=MergeMode.COMMIT_TIME_ORDERING,
            key_generator=KeyGenerator.SIMPLE,
            extra={},
        )
        self.root.mkdir()
        self.storage.put_if_absent(PROPERTIES, render_properties(properties))

    def table(self, storage: Storage | None = None) -> Table:
        return open_table(storage or self.storage)

    def writer(self, storage: Storage | None = None, policy: WriterPolicy = POLICY) -> Writer:
        lock = InProcessLock(self.locks, "t", self.clock)
        return Writer(self.table(storage), lock, self.clock, policy)

    def begin(self, policy: WriterPolicy = POLICY) -> Transaction:
        """A write that has not looked for its keys yet."""
        found = Transaction.begin(self.writer(policy=policy), Action.COMMIT, "upsert")
        self.running.append(found)
        return found

    def insert(self, values: Values, partition: str = "p") -> str:
        """Write new keys to one new file; the instant."""
        transaction = self.begin()
        transaction.inflight(None)
        rows = self.incoming(values, **{PARTITION_COLUMN: partition})
        seed = self.clock.uuid()
        return self.finish(transaction, run_worker(bulk_write(self.spec(transaction), seed), rows))

    def update(self, values: Values, transaction: Transaction | None = None) -> str:
        """Change keys of one file; the instant."""
        running = transaction or self.begin()
        return self.finish(running, self.merged(running, values))

    def merged(
        self, transaction: Transaction, values: Values, found: BaseFile | None = None
    ) -> list[dict[str, Any]]:
        """The steps of ``update`` up to the written file: announce, inflight, write.

        ``found`` is the file of the keys, if they were looked up before.
        """
        file = found or self.file_of(values)
        group = (file.partition_path, file.file_id)
        transaction.check_targets([file])
        transaction.check_updates([group])
        transaction.inflight(None)
        return self.written(transaction, values, file)

    def written(
        self, transaction: Transaction, values: Values, file: BaseFile
    ) -> list[dict[str, Any]]:
        """The file with these rows merged into it."""
        plan = GroupPlan(0, file.file_id, file.partition_path, file.path, file.instant)
        rows = self.incoming(values, **{GROUP: 0})
        return run_worker(write_groups(self.spec(transaction), {0: plan}), rows)

    def file_of(self, keys: Iterable[str]) -> BaseFile:
        """The file that holds all of ``keys``."""
        (file,) = [f for f in self.files() if set(keys) <= set(self.keys(f))]
        return file

    def finish(self, transaction: Transaction, stats: list[dict[str, Any]]) -> str:
        metadata, ours = self.sealed(transaction, stats)
        transaction.commit(metadata, ours)
        return transaction.instant

    def sealed(
        self, transaction: Transaction, stats: list[dict[str, Any]]
    ) -> tuple[CommitMetadata, Footprint]:
        """The commit of a write whose files are complete."""
        written = tuple(map(stat_of, stats))
        transaction.seal(lambda timeout_s: True, [s.path for s in written])
        extra = {SCHEMA_KEY: SparkSchema.of_arrow(self.schema).declaration("t")}
        metadata = CommitMetadata("UPSERT", written, extra)
        who = f"upsert {transaction.instant}"
        return metadata, footprint(who, metadata, frozenset(), False)

    def cluster(
        self,
        tasks: Tasks | None = None,
        dry_run: bool = False,
        storage: Storage | None = None,
        again: int = 0,
        **options: str,
    ) -> Listing[ClusteredFile]:
        """Cluster; ``options`` are the last words of their keys."""
        given = {
            f"hoodie.clustering.plan.strategy.{k.replace('_', '.')}": v for k, v in options.items()
        }
        return self.cluster_with(given, tasks, dry_run, storage, again)

    def cluster_with(
        self,
        given: Mapping[str, str],
        tasks: Tasks | None = None,
        dry_run: bool = False,
        storage: Storage | None = None,
        again: int = 0,
    ) -> Listing[ClusteredFile]:
        """Cluster with the options ``given``."""
        writer = self.writer(storage)
        resolved = resolve_write(given, writer.table.config.raw, {})
        place = FileSystemSpec(), str(self.root)
        run = Clustering(writer, resolved, place, tasks or TasksHere(), again=again)
        return clustered(run, dry_run)

    def close(self) -> None:
        for transaction in self.running:
            die(transaction)

    # -- looking

    def files(self) -> list[BaseFile]:
        table = self.table()
        return table.view(table.timeline()).latest()

    def content(self, file: BaseFile) -> list[dict[str, Any]]:
        return pq.ParquetFile(self.root / file.path).read().to_pylist()

    def keys(self, file: BaseFile) -> list[str]:
        return [row["id"] for row in self.content(file)]

    def rows(self) -> dict[str, int]:
        """What a reader sees; a key must be in one file only."""
        found: dict[str, int] = {}
        for file in self.files():
            for row in self.content(file):
                assert row["id"] not in found
                found[row["id"]] = row["v"]
        return found

    def on_disk(self) -> set[str]:
        return {str(f.relative_to(self.root)) for f in self.root.rglob("*.parquet")}

    def pending(self) -> list[str]:
        return [i.action.value for i in self.table().timeline().pending]

    def spec(self, transaction: Transaction) -> WriteSpec:
        schema = SparkSchema.of_arrow(self.schema).with_meta_columns()
        return WriteSpec(
            root=str(self.root),
            fs=FileSystemSpec(),
            instant=transaction.instant,
            schema=self.schema,
            avro_schema=str(schema.avro("t")),
            write_nonce=self.clock.random_int(1_000_000),
            key_columns=("id",),
        )

    def incoming(self, values: Values, **more: Any) -> pa.Table:
        rows = pa.table({"id": list(values), "v": list(values.values())}, schema=SCHEMA)
        rows = rows.append_column(KEY_COLUMN, rows.column("id"))
        for name, value in more.items():
            kind = pa.int32() if isinstance(value, int) else pa.string()
            rows = rows.append_column(name, pa.array([value] * rows.num_rows, kind))
        return rows
