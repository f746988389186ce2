"""How many files a write makes, how large, and in which codec."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame

from tests.spark.tables import KEY, OPTIONS, PARTITION, HudiTable, Lake, rows_of

pytestmark = pytest.mark.spark

MAX, SMALL = "hoodie.parquet.max.file.size", "hoodie.parquet.small.file.limit"
BLOCK = "hoodie.parquet.block.size"
SINGLE = {KEY: "id"}


def newest(table: HudiTable) -> list[str]:
    """Paths of the files that a reader reads now."""
    return sorted(
        {
            f"{r[0]}/{r[1]}".lstrip("/")
            for r in table.df().select("_hoodie_partition_path", "_hoodie_file_name").collect()
        }
    )


def wide(table: HudiTable, rows: int) -> DataFrame:
    """Rows of some 200 bytes that do not compress, in one partition."""
    text = "concat(" + ", ".join(f"md5(concat(id, '{i}'))" for i in range(6)) + ")"
    made = table.spark.range(0, rows, 1, 1)
    return made.selectExpr("id", f"{text} as name", "1L as ts", "'x' as dt")


def test_new_rows_fill_small_files_first(lake: Lake) -> None:
    table = lake.table()
    table.write(rows_of(0, 30, "a"))
    assert len(newest(table)) == 3
    table.write(rows_of(30, 60, "b"))
    table.write(rows_of(60, 90, "c"), "insert")

    assert len(newest(table)) == 3
    assert len(table.rows()) == 90


def test_small_files_are_left_alone_when_the_limit_is_zero_or_several_write(lake: Lake) -> None:
    for name, option in (
        ("zero", {SMALL: "0"}),
        ("several", {"hoodie.write.concurrency.mode": "optimistic_concurrency_control"}),
    ):
        table = lake.table(name, {**OPTIONS, **option})
        table.write(rows_of(0, 9, "a"), "insert")
        table.write(rows_of(9, 18, "b"), "insert")
        assert len(newest(table)) == 6, name

        table.write([(0, "u", 2, "2024-01-01"), (99, "n", 1, "2024-01-01")])
        assert len(newest(table)) == 6, "a new key goes to a group that is updated anyway"
        assert len(table.rows()) == 19


@pytest.mark.parametrize("operation", ["insert", "bulk_insert", "upsert"])
def test_files_stop_at_their_greatest_size(lake: Lake, operation: str) -> None:
    table = lake.table(options={KEY: "id", PARTITION: "dt"})
    table.write(wide(table, 3000), operation, **{MAX: "100000", SMALL: "0", BLOCK: "50000"})

    sizes = [(lake.folder / "t" / f).stat().st_size for f in newest(table)]
    assert len(sizes) > 1
    assert max(sizes) < 500_000, "a file is as large as the last row group makes it"
    assert table.df().select("id").distinct().count() == 3000


@pytest.mark.parametrize("codec", ["gzip", "zstd", "uncompressed"])
def test_the_codec_is_the_one_asked_for(lake: Lake, codec: str) -> None:
    table = lake.table(options=SINGLE)
    table.write(rows_of(0, 3, "a"), hoodie__parquet__compression__codec=codec)

    (file,) = newest(table)
    group = pq.read_metadata(lake.folder / "t" / file).row_group(0)
    codecs = {group.column(i).compression for i in range(group.num_columns)}
    assert codecs == {codec.upper()}
    assert len(table.rows()) == 3


@pytest.mark.parametrize(
    "mode", ["GLOBAL_SORT", "PARTITION_SORT", "PARTITION_PATH_REPARTITION",
             "PARTITION_PATH_REPARTITION_AND_SORT"],
)  # fmt: skip
def test_every_sort_mode_of_a_bulk_insert_keeps_all_rows(lake: Lake, mode: str) -> None:
    table = lake.table()
    rows = rows_of(0, 60, "a")
    frame = lake.spark.createDataFrame(rows[::-1], table.ddl).repartition(3)
    table.write(frame, "bulk_insert", hoodie__bulkinsert__sort__mode=mode)

    assert table.rows() == {row[0]: row for row in rows}
    if mode != "PARTITION_SORT":
        assert len(newest(table)) <= 4
    if mode.endswith("SORT"):
        for file in newest(table):
            keys = pq.read_table(lake.folder / "t" / file)["_hoodie_record_key"].to_pylist()
            assert keys == sorted(keys)


def test_base_files_carry_a_filter_and_exact_key_ranges(lake: Lake) -> None:
    table = lake.table(options=SINGLE)
    table.write(rows_of(0, 12, "a"))
    table.write([(5, "", 0, "x"), (99, "", 0, "x")], "delete")

    (file,) = newest(table)
    footer = pq.read_metadata(lake.folder / "t" / file).metadata
    assert (footer[b"hoodie_min_record_key"], footer[b"hoodie_max_record_key"]) == (b"0", b"9")
    assert len(footer[b"org.apache.hudi.bloomfilter"]) < 100, "nothing for other indexes"


def test_bloom_footers_are_sized_to_their_rows(lake: Lake) -> None:
    table = lake.table(options={**SINGLE, "hoodie.index.type": "BLOOM"})
    table.write(rows_of(0, 100, "a"))
    table.write(rows_of(90, 110, "b", 2))

    (file,) = newest(table)
    footer = pq.read_metadata(lake.folder / "t" / file).metadata
    assert 100 < len(footer[b"org.apache.hudi.bloomfilter"]) < 20_000
    assert len(table.rows()) == 110
