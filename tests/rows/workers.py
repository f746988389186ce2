"""Running the worker functions as Spark would, on a table in a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.rows.bulk import bulk_write
from pyhudi.rows.groups import write_groups
from pyhudi.rows.spec import (
    EVENT_TIME,
    GROUP,
    KEY_COLUMN,
    PARTITION_COLUMN,
    STAT_SCHEMA,
    FileSystemSpec,
    GroupPlan,
    WriteSpec,
)

T1, T2, T3 = "20240101000000001", "20240102000000002", "20240103000000003"
T4 = "20240104000000004"
SCHEMA = pa.schema(
    [("id", pa.string()), ("name", pa.string()), ("price", pa.float64()), ("ts", pa.int64())]
)
Stat = dict[str, Any]


def spec(root: Path, instant: str = T1, schema: pa.Schema = SCHEMA, **changes: Any) -> WriteSpec:
    """A write of ``root``, event time by ``ts`` where the schema has it."""
    facts: dict[str, Any] = {
        "root": str(root),
        "fs": FileSystemSpec(),
        "instant": instant,
        "schema": schema,
        "avro_schema": '{"type":"record","name":"t_record","fields":[]}',
        "write_nonce": 4711,
        "key_columns": ("id",),
    }
    if "ts" in schema.names:
        facts |= {"merge_mode": EVENT_TIME, "ordering_columns": ("ts",)}
    return WriteSpec(**facts | changes)


def rows_of(rows: list[Mapping[str, Any]], schema: pa.Schema = SCHEMA, **more: Any) -> pa.Table:
    """Incoming rows with their ``id`` as the key; ``more`` are constant or listed columns."""
    table = pa.Table.from_pylist([{n: row.get(n) for n in schema.names} for row in rows], schema)
    return with_columns(table, **{KEY_COLUMN: table.column("id")} | more)


def with_columns(table: pa.Table, **columns: Any) -> pa.Table:
    """``table`` with columns added; a number or text is repeated."""
    for name, values in columns.items():
        if isinstance(values, int):
            values = pa.array([values] * table.num_rows, pa.int32())
        elif isinstance(values, str):
            values = pa.array([values] * table.num_rows, pa.string())
        table = table.append_column(name, values)
    return table


def run(work: Callable[..., Any], table: pa.Table, batch_rows: int = 10_000) -> list[Stat]:
    """The statistics that a worker function answers for these rows."""
    batches = table.combine_chunks().to_batches(batch_rows)
    return [stat for batch in work(iter(batches)) for stat in _checked(batch).to_pylist()]


def _checked(batch: pa.RecordBatch) -> pa.RecordBatch:
    assert batch.schema == STAT_SCHEMA
    return batch


def insert(write: WriteSpec, table: pa.Table, partition: str = "") -> Stat:
    """Bulk-insert rows into one new file."""
    stats = run(bulk_write(write, "seed"), with_columns(table, **{PARTITION_COLUMN: partition}))
    assert len(stats) == 1
    return stats[0]


def upsert(write: WriteSpec, stat: Stat, table: pa.Table) -> Stat:
    """Merge rows into the file that ``stat`` tells of."""
    stats = run(write_groups(write, {0: plan_of(stat)}), with_columns(table, **{GROUP: 0}))
    assert len(stats) == 1
    return stats[0]


def plan_of(stat: Stat) -> GroupPlan:
    """The plan that merges into the file of ``stat``."""
    instant = stat["path"].rsplit("_", 1)[1].removesuffix(".parquet")
    return GroupPlan(0, stat["file_id"], stat["partition_path"], stat["path"], instant)


def content(root: Path, stat: Stat) -> list[dict[str, Any]]:
    """The file's rows, meta columns included, in file order."""
    return pq.ParquetFile(root / stat["path"]).read().to_pylist()


def values(root: Path, stat: Stat, *names: str) -> list[tuple[Any, ...]]:
    """Some columns of the file's rows, sorted."""
    return sorted(tuple(row[name] for name in names) for row in content(root, stat))


def footer(root: Path, stat: Stat) -> dict[str, str]:
    """The footer's key-values."""
    entries = pq.ParquetFile(root / stat["path"]).metadata.metadata or {}
    return {key.decode(): value.decode() for key, value in entries.items()}
