"""One attempt of a write, as its steps see it."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from pyhudi.config import Operation, WriteOptions
from pyhudi.format.instants import InstantTime
from pyhudi.format.table_config import TableConfig
from pyhudi.planner.intent import Intent
from pyhudi.planner.kept import Kept
from pyhudi.planner.prepare import Prepared
from pyhudi.planner.runtime import Runtime
from pyhudi.planner.stage import tracked_key
from pyhudi.timeline.table import Table
from pyhudi.timeline.view import FileSystemView
from pyhudi.transactions.transaction import Transaction


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
    def instant(self) -> InstantTime:
        return self.transaction.instant

    @property
    def tracked_as(self) -> str:
        """What the shim's listener knows the jobs of this attempt by."""
        return tracked_key(self.table.storage.root, self.instant)

    @property
    def view(self) -> FileSystemView:
        """The file groups under the timeline that the transaction began with."""
        return self.table.view(self.transaction.timeline)

    def describe(self, step: str) -> str:
        """The name of a Spark job: ``pyhudi upsert trips: find file groups``."""
        return f"pyhudi {self.operation.value} {self.config.name}: {step}"
