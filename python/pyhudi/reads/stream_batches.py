"""What one batch of a stream reads: files, rows of logs, or the pieces of change data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyhudi.format.spark_schema import Column, SparkSchema
from pyhudi.reads.change_data import ChangePlan
from pyhudi.reads.log_slices import Elsewhere, LogRowsPlan, plan_log_rows
from pyhudi.reads.scan import Query
from pyhudi.reads.scan_plan import ScanPlan, plan_scan
from pyhudi.rows.spec import COMMIT_TIME_COLUMN
from pyhudi.slices.files import FileSlice


@dataclass(frozen=True, slots=True)
class Batch:
    """Files for Spark's own reader and rows of logs, both with their ``query``; or pieces of change
    data for Python's workers; or nothing.

    ``logs`` are read ``with_commit_time``, by which the rows of the batch are told.
    """

    query: Query | None = None
    files: ScanPlan | None = None
    logs: LogRowsPlan | None = None
    pieces: ChangePlan | None = None


@dataclass(frozen=True, slots=True)
class BatchColumns:
    """The columns of a batch's rows, and where many logs are merged."""

    schema: SparkSchema
    elsewhere: Elsewhere | None = None

    def of(self, query: Query, slices: Sequence[FileSlice]) -> Batch:
        """The rows of ``slices``; errors as of ``plan_scan``."""
        files = plan_scan(query, (), narrowed=lambda every: slices, elsewhere=self.elsewhere)
        if not files.log_rows:
            return Batch(query, files)
        logs = plan_log_rows(query, slices, with_commit_time(self.schema), self.elsewhere)
        return Batch(query, files, logs)


def with_commit_time(schema: SparkSchema) -> SparkSchema:
    """``schema`` with the column of a row's commit."""
    if COMMIT_TIME_COLUMN in schema.types:
        return schema
    return SparkSchema((*schema.columns, Column(COMMIT_TIME_COLUMN, "string")))
