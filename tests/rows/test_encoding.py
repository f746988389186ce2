"""How columns are encoded on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.rows.workers import T2, T3, Stat, insert, rows_of, spec, upsert

ROWS = 20_000
SCHEMA = pa.schema(
    [("id", pa.string()), ("city", pa.string()), ("text", pa.string()), ("few", pa.int32()),
     ("many", pa.int64()), ("price", pa.float64()), ("ts", pa.int64())]
)  # fmt: skip


def rows(start: int, count: int, ts: int) -> pa.Table:
    numbers = range(start, start + count)
    return rows_of(
        [
            {"id": f"k{n}", "city": f"city {n % 30}", "text": f"text {n * 7919}", "few": n % 9,
             "many": n * 31, "price": n / 7, "ts": ts}
            for n in numbers
        ],
        SCHEMA,
    )  # fmt: skip


def chunks(root: Path, stat: Stat) -> dict[str, list[pq.ColumnChunkMetaData]]:
    metadata = pq.ParquetFile(root / stat["path"]).metadata
    found: dict[str, list[pq.ColumnChunkMetaData]] = {}
    for group in range(metadata.num_row_groups):
        for at in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(at)
            found.setdefault(chunk.path_in_schema, []).append(chunk)
    return found


def coded(root: Path, stat: Stat) -> set[str]:
    return {
        name
        for name, parts in chunks(root, stat).items()
        if all(part.has_dictionary_page for part in parts)
    }


CODED = {
    "_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_file_name", "city", "few", "ts",
}  # fmt: skip


def test_only_columns_whose_values_repeat_get_dictionaries(tmp_path: Path) -> None:
    stat = insert(spec(tmp_path, schema=SCHEMA), rows(0, ROWS, 1))
    assert coded(tmp_path, stat) == CODED


def test_a_merge_keeps_the_encodings_of_the_old_file(tmp_path: Path) -> None:
    first = insert(spec(tmp_path, schema=SCHEMA, row_group_rows=4_096), rows(0, ROWS, 1))
    second = upsert(spec(tmp_path, T2, SCHEMA), first, rows(ROWS - 100, 200, 2))
    third = upsert(spec(tmp_path, T3, SCHEMA), second, rows(0, 100, 3))
    for stat in (second, third):
        assert coded(tmp_path, stat) == CODED
    cities = [part.dictionary_page_offset for part in chunks(tmp_path, third)["city"]]
    assert all(cities)


def test_constant_columns_cost_next_to_nothing(tmp_path: Path) -> None:
    stat = insert(spec(tmp_path, schema=SCHEMA), rows(0, ROWS, 1))
    sizes = {n: sum(p.total_compressed_size for p in c) for n, c in chunks(tmp_path, stat).items()}
    for name in ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_file_name"):
        assert sizes[name] < 400
    assert sizes["_hoodie_commit_seqno"] < ROWS


def test_every_column_has_statistics_and_a_page_index(tmp_path: Path) -> None:
    stat = insert(spec(tmp_path, schema=SCHEMA), rows(0, ROWS, 1))
    for parts in chunks(tmp_path, stat).values():
        assert all(part.is_stats_set and part.statistics.has_min_max for part in parts)
        assert all(part.has_column_index and part.has_offset_index for part in parts)


@pytest.mark.parametrize(
    ("codec", "stored"),
    [("snappy", "SNAPPY"), ("gzip", "GZIP"), ("zstd", "ZSTD"), ("lz4_raw", "LZ4"),
     ("uncompressed", "UNCOMPRESSED"), ("GZIP", "GZIP")],
)  # fmt: skip
def test_each_codec_is_what_the_file_says(tmp_path: Path, codec: str, stored: str) -> None:
    stat = insert(spec(tmp_path, schema=SCHEMA, codec=codec), rows(0, 2_000, 1))
    second = upsert(spec(tmp_path, T2, SCHEMA, codec=codec), stat, rows(0, 10, 2))
    for each in (stat, second):
        found = {part.compression for parts in chunks(tmp_path, each).values() for part in parts}
        assert found == {stored}


def test_row_groups_stay_within_rows_and_bytes(tmp_path: Path) -> None:
    wide = pa.schema([("id", pa.string()), ("blob", pa.binary())])
    table = rows_of([{"id": f"k{n}", "blob": bytes(4_000)} for n in range(5_000)], wide)
    stat = insert(spec(tmp_path, schema=wide, row_group_bytes=8 << 20), table)
    metadata = pq.ParquetFile(tmp_path / stat["path"]).metadata
    sizes = [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
    assert sum(sizes) == 5_000
    assert max(sizes) < 3_000


def test_a_dictionary_that_a_sample_hid_costs_no_rows(tmp_path: Path) -> None:
    """The first row group has one text, later ones have all different."""
    schema = pa.schema([("id", pa.string()), ("text", pa.string())])
    ids = [f"k{n}" for n in range(40_000)]
    texts = ["same"] * 4_096 + [f"different {n} " * 10 for n in range(4_096, 40_000)]
    table = pa.table({"id": ids, "text": texts}, schema=schema)
    table = table.append_column("_hoodie_record_key", table["id"])
    stat = insert(spec(tmp_path, schema=schema, row_group_rows=4_096), table)
    second = upsert(spec(tmp_path, T2, schema), stat, table.slice(39_990))
    for each in (stat, second):
        stored = pq.read_table(tmp_path / each["path"], columns=["id", "text"])
        found: dict[str, Any] = dict(zip(*(c.to_pylist() for c in stored.columns), strict=True))
        assert found == dict(zip(ids, texts, strict=True))


def test_a_merge_reads_a_row_group_larger_than_a_unit_in_parts(tmp_path: Path) -> None:
    first = insert(spec(tmp_path, schema=SCHEMA, row_group_rows=1 << 20), rows(0, ROWS, 1))
    assert pq.ParquetFile(tmp_path / first["path"]).metadata.num_row_groups == 1
    picks = pa.array(np.arange(0, ROWS, 777))
    changed = rows(0, ROWS, 2).take(picks)
    second = upsert(spec(tmp_path, T2, SCHEMA, row_group_rows=3_000), first, changed)
    metadata = pq.ParquetFile(tmp_path / second["path"]).metadata
    assert metadata.num_row_groups >= 6
    stored = pq.read_table(tmp_path / second["path"])
    assert stored["ts"].to_pylist() == [2 if n % 777 == 0 else 1 for n in range(ROWS)]
    assert stored["id"].to_pylist() == [f"k{n}" for n in range(ROWS)]
