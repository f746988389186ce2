"""One attempt of a write, as its steps see it."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from pyhudi.application.runtime import Runtime
from pyhudi.config import ConcurrencyMode, Operation, WriteOptions
from pyhudi.format.instants import InstantTime
from pyhudi.format.table_config import TableConfig
from pyhudi.index.kinds import IndexKind, kind_of
from pyhudi.timeline.table import Table
from pyhudi.timeline.view import FileSystemView
from pyhudi.transactions.transaction import Transaction
from pyhudi.writes.intent import Intent
from pyhudi.writes.kept import Kept
from pyhudi.writes.prepare import Prepared
from pyhudi.writes.stage import Stage, tracked_key


@dataclass(frozen=True, slots=True)
class Write:
    """Everything that the steps of one attempt share."""

    runtime: Runtime
    table: Table
    options: WriteOptions
    operation: Operation
    intent: Intent
    prepared: Prepared
    transaction: Transaction
    kept: Kept

    @property
    def spark(self) -> SparkSession:
        return self.prepared.rows.sparkSession

    @property
    def config(self) -> TableConfig:
        return self.table.config

    @property
    def ordering_fields(self) -> tuple[str, ...]:
        """The ordering columns as the table's columns spell them."""
        return tuple(map(self.prepared.schema.own_spelling, self.config.ordering_fields))

    @property
    def index(self) -> IndexKind:
        return kind_of(self.options)

    @property
    def only_logs(self) -> bool:
        """Whether all rows go to logs, as those of a writer without coordination do."""
        return self.options.concurrency_mode is ConcurrencyMode.NON_BLOCKING

    @property
    def instant(self) -> InstantTime:
        return self.transaction.instant

    @property
    def tracked_as(self) -> str:
        """The key by which the shim's listener knows the jobs of this attempt."""
        return tracked_key(self.table.storage.root, self.instant)

    def stage(self, files: int | None = None) -> Stage:
        """The job that writes the files of this attempt; their number, if it is known."""
        step = "write files" if files is None else f"write files, {files} in all"
        return Stage(self.runtime.jobs, self.spark, self.tracked_as, self.describe(step))

    @property
    def view(self) -> FileSystemView:
        """The file groups under the timeline that the transaction began with."""
        return self.table.view(self.transaction.timeline)

    def describe(self, step: str) -> str:
        """The name of a Spark job: ``pyhudi upsert trips: find file groups``."""
        return f"pyhudi {self.operation.value} {self.config.name}: {step}"

    def few_rows(self, rows: DataFrame, limit_bytes: int) -> pa.Table | None:
        """``rows`` on the driver; None if they are too many, by Spark's estimate or in fact."""
        jobs = self.runtime.jobs
        if jobs.estimated_bytes(rows) > limit_bytes:
            return None
        return jobs.collect(rows, limit_bytes, self.describe("read the input"))

    def kept_rows(self) -> DataFrame:
        """The rows of the input on the executors, evaluated once for all attempts."""
        jobs = self.runtime.jobs
        return self.kept.checkpointed(jobs, self.prepared, self.describe("read the input"))

    def checkpointed(self, rows: DataFrame, step: str) -> DataFrame:
        """``rows``, which no task computes twice; ``step`` names the job of their joins."""
        return self.runtime.jobs.checkpointed(rows, self.describe(step))
