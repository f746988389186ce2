"""The incoming rows on the driver, where they are few; how many there are is found out safely.

Spark's estimate decides what is tried and bounds nothing: a compressed file, an ``explode`` or a
user's function make more of it. So the tasks count what they hand out and stop at a bound, and an
input that proves larger goes the way of large ones, which runs its plan again.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from pyhudi.planner.stage import job
from pyhudi.planner.write_context import Write


def estimated_bytes(rows: DataFrame) -> int:
    """Spark's estimate of a DataFrame's size; 0 for sources it knows nothing of but can cut."""
    return int(_bounded_rows(rows).estimate(rows._jdf))


def collect(write: Write, rows: DataFrame, limit_bytes: int) -> pa.Table | None:
    """``rows`` as one Arrow table on the driver; None where they are more than ``limit_bytes``.

    The bound is on the rows as Spark holds them, and tasks may take twice their even share.
    """
    with job(write.spark, write.describe("read the input")):
        bounded = _bounded_rows(rows).of(rows._jdf, limit_bytes)
        batches = DataFrame(bounded.frame(), write.spark)._collect_as_arrow()
    if bounded.exceeded():
        return None
    if not batches:
        return pa.table({name: pa.array([], pa.string()) for name in rows.columns})
    return pa.Table.from_batches(batches).combine_chunks()


def _bounded_rows(rows: DataFrame) -> Any:
    context: Any = rows.sparkSession.sparkContext
    return context._jvm.org.apache.spark.sql.pyhudi.BoundedRows
