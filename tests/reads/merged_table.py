"""The rows of a query, read without Spark: of base files unless they are masked, and of logs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.application.runtime import Runtime
from pyhudi.format.schemas import META_COLUMNS
from pyhudi.format.spark_schema import Column, SparkSchema
from pyhudi.reads.log_slices import masks, merges, plan_log_rows
from pyhudi.reads.scan import Query, open_query
from pyhudi.rows.slice_reader import log_rows
from pyhudi.rows.spec import FileSystemSpec
from pyhudi.slices.files import base_files
from pyhudi.storage.local import LocalStorage
from tests.fakes import FakeClock


def opened(root: Path, as_of: str | None = None, **options: str) -> Query:
    storage = LocalStorage(str(root))
    files = FileSystemSpec("local"), str(root)
    runtime = Runtime(FakeClock(), lambda at: storage, lambda at: files, None, None)  # type: ignore[arg-type]
    return open_query(runtime, str(root), options, {}, as_of)


def rows(query: Query, *columns: str) -> list[dict[str, Any]]:
    """All rows, in the ``columns`` of the table or all of them, after the meta columns."""
    storage = query.table.storage
    meta = tuple(Column(name, "string") for name in META_COLUMNS)
    own = [c for c in query.schema().columns if not columns or c.name in columns]
    wanted = SparkSchema((*meta, *own))
    slices = query.slices(())
    with_logs = [each for each in slices if each.logs]
    masked = masks(merges(query, with_logs), with_logs) if with_logs else {}
    found: list[dict[str, Any]] = []
    for file in base_files(slices):
        table = pq.read_table(io.BytesIO(storage.read(file.path)))
        if file.path in masked:
            keep = np.ones(table.num_rows, np.bool_)
            keep[masked[file.path].masked] = False
            table = table.filter(pa.array(keep))
        held = [name for name in wanted.names if name in table.column_names]
        found += ({**dict.fromkeys(wanted.names), **row} for row in table.select(held).to_pylist())
    plan = plan_log_rows(query, slices, wanted)
    for piece in plan.pieces:
        for batch in log_rows(plan.spec, plan.spec.fs.open(), piece):
            found += batch.to_pylist()
    return found
