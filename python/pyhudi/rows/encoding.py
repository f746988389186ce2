"""How a base file's columns are encoded: with a dictionary only if values repeat.

A dictionary of distinct values costs more than it saves, and Parquet notices that only after a
megabyte. So a new file decides by a sample of its rows, and a merge by the size of the old file's
dictionaries.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pyhudi.rows.spec import (
    COMMIT_TIME_COLUMN,
    FILE_NAME_COLUMN,
    PARTITION_COLUMN,
    SEQNO_COLUMN,
    WriteSpec,
)

ALWAYS_CODED = (COMMIT_TIME_COLUMN, PARTITION_COLUMN, FILE_NAME_COLUMN)

_SAMPLE_ROWS = 16_384
_TEXT_SHARE = 0.5
_NUMBER_SHARE = 0.15
_SMALL_DICTIONARY_BYTES = 128 << 10
_DICTIONARY_LIMIT_BYTES = 512 << 10
# zlib's last levels cost five times the time for half a percent of size.
_LEVELS = {"gzip": 3}
_CODECS = {"lz4_raw": "lz4", "uncompressed": "none"}


def coded_in_sample(names: list[str], columns: list[pa.ChunkedArray]) -> frozenset[str]:
    """The columns of these rows in which values repeat often enough for a dictionary."""
    return frozenset(name for name, column in zip(names, columns, strict=True) if _repeats(column))


def _repeats(column: pa.ChunkedArray) -> bool:
    kind = column.type
    if pa.types.is_nested(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return False
    rows = len(column)
    if rows > _SAMPLE_ROWS:
        # Rows from the whole column: neighbours are often equal even if the column varies.
        steps = np.linspace(0, rows - 1, _SAMPLE_ROWS).astype(np.int64)
        column = column.take(pa.array(steps))
    wide = pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_decimal(kind)
    share = _TEXT_SHARE if wide else _NUMBER_SHARE
    return bool(pc.count_distinct(column).as_py() <= max(1, len(column) * share))


def coded_in_file(metadata: pq.FileMetaData, names: Iterable[str]) -> frozenset[str]:
    """The columns of a file whose dictionaries stayed small in every row group."""
    wanted = set(names)
    grown = set()
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for at in range(row_group.num_columns):
            chunk = row_group.column(at)
            if chunk.path_in_schema in wanted and not _small_dictionary(chunk):
                grown.add(chunk.path_in_schema)
    return frozenset(wanted - grown) if metadata.num_row_groups else frozenset()


def _small_dictionary(chunk: pq.ColumnChunkMetaData) -> bool:
    if not chunk.has_dictionary_page or not chunk.dictionary_page_offset:
        return False
    size = chunk.data_page_offset - chunk.dictionary_page_offset
    return bool(0 < size <= min(_SMALL_DICTIONARY_BYTES, chunk.total_compressed_size // 2 + 512))


def writer_options(spec: WriteSpec, coded: Iterable[str]) -> dict[str, Any]:
    """The arguments of ``pyarrow.parquet.ParquetWriter`` for one base file."""
    codec = spec.codec.lower()
    return {
        "compression": _CODECS.get(codec, codec),
        "compression_level": _LEVELS.get(codec),
        "use_dictionary": [*ALWAYS_CODED, *coded],
        # Sequence numbers differ only in their last digits: this takes a sixth of snappy's bytes.
        "column_encoding": {SEQNO_COLUMN: "DELTA_BYTE_ARRAY"},
        "dictionary_pagesize_limit": _DICTIONARY_LIMIT_BYTES,
        "write_statistics": True,
        "write_page_index": True,
        # Readers use the types of Parquet's own schema; Arrow's copy would add 2 kB to each file.
        "store_schema": False,
        "store_decimal_as_integer": False,
        "version": "2.6",
    }
