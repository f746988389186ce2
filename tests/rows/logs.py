"""Log files as Apache Hudi writes them, made block by block with a library for Avro."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.format.log_blocks import MAGIC, BlockType, HeaderKey, avro_content, render_block
from pyhudi.format.roaring import bitmap_of
from pyhudi.rows.log_spec import CountedInstants, MergeSpec
from pyhudi.rows.spec import KEY_COLUMN, FileSystemSpec
from tests.format.test_delete_block import block as delete_content
from tests.format.test_delete_block import encoded

T1, T2, T3, T4, T5, T6 = (f"2024010{n}000000000" for n in range(1, 7))
LOG = "dt=1/.f_20240101000000000.log.1_0-1-2"
Row = Mapping[str, Any]
#: the columns of most tests, beside the key
COLUMNS: Mapping[str, Any] = {"ts": "long", "v": "string"}
ROWS = pa.struct([(KEY_COLUMN, pa.string()), ("ts", pa.int64()), ("v", pa.string())])


def spec(
    *ordering: str,
    kinds: pa.StructType = ROWS,
    completed: Sequence[str] = (T1, T2, T3, T4, T5, T6),
    **changes: Any,
) -> MergeSpec:
    """A merge of rows of ``kinds``, by event time if there are columns of ``ordering``."""
    roots = dict.fromkeys(path.split(".")[0] for path in ordering)
    facts: dict[str, Any] = {
        "root": "",
        "fs": FileSystemSpec("local"),
        "counted": CountedInstants(frozenset(completed), T1),
        "rows": kinds,
        "ordering": pa.struct([kinds.field(name) for name in roots]),
        "ordering_paths": ordering,
    }
    return MergeSpec(**facts | changes)


def schema(columns: Mapping[str, Any] = COLUMNS) -> str:
    """An Avro schema of the key and nullable ``columns``."""
    fields = [{"name": KEY_COLUMN, "type": ["null", "string"], "default": None}]
    fields += [{"name": n, "type": ["null", t], "default": None} for n, t in columns.items()]
    return json.dumps({"type": "record", "name": "t_record", "fields": fields})


def avro_block(
    instant: str, rows: Sequence[Row], columns: Mapping[str, Any] = COLUMNS, **header: str
) -> bytes:
    """A block of ``rows``; ``header`` has more entries by the name of their key."""
    form = fastavro.parse_schema(json.loads(schema(columns)))
    records = []
    for row in rows:
        sink = BytesIO()
        fastavro.schemaless_writer(sink, form, {KEY_COLUMN: row["key"], **row})
        records.append(sink.getvalue())
    return rendered(
        BlockType.AVRO_DATA, instant, avro_content(records), SCHEMA=schema(columns), **header
    )


def parquet_block(
    instant: str,
    table: pa.Table,
    columns: Mapping[str, Any] = COLUMNS,
    row_group_size: int | None = None,
    int96: bool = False,
    **header: str,
) -> bytes:
    """A block whose content is a Parquet file."""
    sink = BytesIO()
    pq.write_table(table, sink, row_group_size, use_deprecated_int96_timestamps=int96)
    kind = BlockType.PARQUET_DATA
    return rendered(kind, instant, sink.getvalue(), SCHEMA=schema(columns), **header)


def delete_block(
    instant: str, *deletes: tuple[str, tuple[str, Any] | None] | str, **header: str
) -> bytes:
    """A block of deletes, each a key alone or with an ordering value."""
    pairs = [(each, None) if isinstance(each, str) else each for each in deletes]
    content = delete_content(encoded(*pairs))
    return rendered(BlockType.DELETE, instant, content, SCHEMA=schema(), **header)


def rollback_block(instant: str, target: str) -> bytes:
    """A command block that takes the blocks of ``target`` back."""
    header = {"TARGET_INSTANT_TIME": target, "COMMAND_BLOCK_TYPE": "0", "SCHEMA": ""}
    return rendered(BlockType.COMMAND, instant, b"", **header)


def rendered(kind: BlockType, instant: str, content: bytes, **header: str) -> bytes:
    """A block; ``header`` by the name of the key."""
    entries = {int(HeaderKey[name]): text for name, text in header.items()}
    return render_block(kind, {int(HeaderKey.INSTANT_TIME): instant, **entries}, content)


def positions(base: str, at: Sequence[int]) -> dict[str, str]:
    """The header entries that say the places of a block's rows in the base file of ``base``."""
    text = base64.b64encode(bitmap_of(np.array(at, np.int64))).decode()
    return {
        "RECORD_POSITIONS": text,
        "BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS": base,
    }


def block_of_type(number: int, instant: str) -> bytes:
    """A whole block whose type is any number."""
    data = rendered(BlockType.DELETE, instant, b"")
    at = len(MAGIC) + 8 + 4
    return data[:at] + struct.pack(">i", number) + data[at + 4 :]
