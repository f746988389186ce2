"""Writes the files of layout 2's archive (spec/archive.md A2); ``archive.py`` reads them.

An instant is a row of a Parquet file; a manifest names the files that count.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.format.instants import Action, Instant, InstantTime

#: the columns of HoodieLSMTimelineInstant
SCHEMA = pa.schema(
    [
        pa.field("instantTime", pa.string()),
        pa.field("completionTime", pa.string()),
        pa.field("action", pa.string()),
        pa.field("metadata", pa.binary()),
        pa.field("plan", pa.binary()),
        pa.field("version", pa.int32(), nullable=False),
    ]
)
ROW_VERSION = 1
#: pending actions whose inflight file is the plan of a row, unless it is empty
REPLACING = frozenset({Action.REPLACECOMMIT, Action.CLUSTERING})
#: pending actions whose requested file is the plan
PLANNED = REPLACING | {Action.CLEAN, Action.COMPACTION, Action.LOGCOMPACTION}


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """A completed instant, and the bytes of its completed file and of its plan; may be empty."""

    instant: Instant
    metadata: bytes
    plan: bytes = b""


def history_file_name(least: InstantTime, greatest: InstantTime, level: int) -> str:
    """The name of a file with the instants from ``least`` to ``greatest``."""
    return f"{least}_{greatest}_{level}.parquet"


def render_history_file(rows: Iterable[HistoryRow]) -> bytes:
    """The Parquet file of these rows, ascending by time."""
    records = [
        {
            "instantTime": row.instant.time,
            "completionTime": row.instant.completion_time or row.instant.time,
            "action": row.instant.action.value,
            "metadata": row.metadata or None,
            "plan": row.plan or None,
            "version": ROW_VERSION,
        }
        for row in sorted(rows, key=lambda row: row.instant.time)
    ]
    return _rendered(pa.Table.from_pylist(records, SCHEMA))


def merge_history_files(files: Iterable[bytes]) -> bytes:
    """One file with the rows of ``files``; ``ArrowException`` or ``KeyError`` if one is no such."""
    tables = [pq.read_table(pa.BufferReader(f)).select(SCHEMA.names).cast(SCHEMA) for f in files]
    return _rendered(pa.concat_tables(tables).sort_by("instantTime"))


def _rendered(table: pa.Table) -> bytes:
    out = BytesIO()
    # No Arrow schema in the footer: readers are to see the plain Parquet types.
    pq.write_table(table, out, compression="gzip", store_schema=False)
    return out.getvalue()


def render_manifest(files: Mapping[str, int]) -> bytes:
    """A manifest that names these files, with their sizes in bytes."""
    entries = [{"fileName": name, "fileLen": files[name]} for name in sorted(files)]
    return json.dumps({"files": entries}, indent=2).encode()
