"""Rows of log files in Spark: merged by a Spark job, and what is told when a file is damaged."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pyhudi.errors import HudiError, TableCorrupt, UnsupportedTable
from pyhudi.format.log_blocks import BlockType, HeaderKey, read_blocks, render_block
from pyhudi.reads import log_slices
from tests import golden_tables
from tests.spark.tables import TYPE, Lake
from tests.spark.test_golden import by_key, opened, rows

pytestmark = [pytest.mark.spark, pytest.mark.compiled]

NAMES = ("h120_v9-mor_np", "h120_v9-mor_types", "h120_v9-mor_parquet_log", "h0150_v6-mor_log")
TABLES = {each.name: each for each in golden_tables.ALL}


@pytest.mark.parametrize("name", NAMES)
def test_logs_that_a_spark_job_merges_give_the_same_rows(
    spark: SparkSession, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_slices, "HERE_BYTES", -1)
    df = opened(spark, TABLES[name].unzip(tmp_path))
    expected = by_key(TABLES[name].expected() or [])
    assert df.count() == len(expected)
    assert rows(df) == expected
    key = expected[-1]["_hoodie_record_key"]
    held = df.where(F.col("_hoodie_record_key") == key)
    assert held.count() == sum(row["_hoodie_record_key"] == key for row in expected)
    assert df.select(F.lit(1)).count() == len(expected)


def logs_of(root: Path) -> list[Path]:
    found = sorted(file for file in root.rglob(".*.log.*") if ".hoodie" not in file.parts)
    assert found
    return found


def cut_contents(path: Path) -> None:
    """The blocks stay whole, but their contents lack the end."""
    blocks = [
        render_block(block.block_type, block.header, block.content[: len(block.content) // 2])
        for block in read_blocks(path.read_bytes())
    ]
    path.write_bytes(b"".join(blocks))


def as_hfile(path: Path) -> None:
    blocks = [
        render_block(BlockType.HFILE_DATA, block.header, block.content)
        for block in read_blocks(path.read_bytes())
    ]
    path.write_bytes(b"".join(blocks))


def partial(path: Path) -> None:
    blocks = [
        render_block(
            block.block_type, {**block.header, int(HeaderKey.IS_PARTIAL): "true"}, block.content
        )
        for block in read_blocks(path.read_bytes())
    ]
    path.write_bytes(b"".join(blocks))


DAMAGES: dict[str, tuple[Callable[[Path], None], type[HudiError]]] = {
    "lost": (os.unlink, TableCorrupt),
    "contents": (cut_contents, TableCorrupt),
    "HFile": (as_hfile, UnsupportedTable),
}


@pytest.mark.parametrize("here", [True, False], ids=["driver", "job"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_log_that_cannot_be_merged_is_told(
    spark: SparkSession, tmp_path: Path, damage: str, here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not here:
        monkeypatch.setattr(log_slices, "HERE_BYTES", -1)
    root = TABLES["h120_v9-mor_np"].unzip(tmp_path)
    change, kind = DAMAGES[damage]
    change(logs_of(root)[0])
    for ask in (lambda df: df.count(), lambda df: df.collect()):
        with pytest.raises(kind):
            ask(opened(spark, root))


@pytest.mark.parametrize("here", [True, False], ids=["driver", "job"])
def test_rows_that_may_lack_columns_are_whole(
    spark: SparkSession, tmp_path: Path, here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """These have all columns, so nothing below them shows."""
    if not here:
        monkeypatch.setattr(log_slices, "HERE_BYTES", -1)
    table = TABLES["h120_v9-mor_np"]
    root = table.unzip(tmp_path)
    partial(logs_of(root)[0])
    df = opened(spark, root)
    expected = by_key(table.expected() or [])
    assert rows(df) == expected
    assert df.count() == len(expected)


def test_a_log_that_goes_after_the_plan_is_told(spark: SparkSession, tmp_path: Path) -> None:
    root = TABLES["h120_v9-mor_np"].unzip(tmp_path)
    df = opened(spark, root)
    assert df.schema.names
    for log in logs_of(root):
        log.unlink()
    with pytest.raises(HudiError):
        df.collect()


def test_a_row_names_the_file_that_it_comes_from(spark: SparkSession, tmp_path: Path) -> None:
    root = TABLES["h120_v9-mor_types"].unzip(tmp_path)
    found = opened(spark, root).select("id", "_file", "_pos").orderBy("id").collect()
    (base,) = root.rglob("*.parquet")
    (log,) = logs_of(root)
    assert [tuple(row) for row in found] == [(1, f"file:{base}", 0), (2, f"file:{log}", None)]


def test_few_rows_come_whole_where_spark_takes_texts_for_large_ones(
    spark: SparkSession, tmp_path: Path
) -> None:
    df = opened(spark, TABLES["h120_v9-mor_np"].unzip(tmp_path))
    plain = rows(df)
    key = "spark.sql.execution.arrow.useLargeVarTypes"
    spark.conf.set(key, "true")
    try:
        assert rows(df.where("id is not null")) == plain
    finally:
        spark.conf.unset(key)


#: of each type that a base file may hold a column: with nulls, of few values and of many
VALUES = {
    "flag": "id % 2 = 0",
    "few": "cast(id % 5 as int)",
    "whole": "cast(id * 7919 as int)",
    "day": "date_add(date '2024-01-01', cast(id as int))",
    "long": "id * 1000003",
    "moment": "timestamp_seconds(id * 3601)",
    "local": "cast(timestamp_seconds(id * 3607) as timestamp_ntz)",
    "single": "cast(id / 3 as float)",
    "double": "id / 7",
    "small_money": "cast(id % 1000 as decimal(9, 2))",
    "money": "cast(id * 100003 as decimal(18, 3))",
    "large_money": "cast(id * 100003 as decimal(30, 5))",
    "word": "concat('w', id % 7)",
    "text": "sha2(cast(id as string), 256)",
    "bytes": "unhex(sha1(cast(id as string)))",
    "items": "transform(sequence(0, id % 4), x -> concat(id, '-', x))",
    "pairs": "map(concat('k', id), id, 'n', -id)",
    "place": (
        "named_struct('a', id, 'b', if(id % 4 = 0, null, concat('b', id)), "
        "'c', if(id % 5 = 0, null, named_struct('d', cast(id as double), 'e', array(id))))"
    ),
}


@pytest.mark.parametrize("off_heap", [False, True])
def test_rows_beside_deleted_ones_keep_their_values(
    spark: SparkSession, lake: Lake, off_heap: bool
) -> None:
    columns = [
        F.expr(f"if(id % 11 = {at % 11}, null, {value})").alias(name)
        for at, (name, value) in enumerate(VALUES.items())
    ]
    every = spark.range(9_000).select("id", F.lit(1).alias("ts"), F.lit("d").alias("dt"), *columns)
    table = lake.table(**{TYPE: "MERGE_ON_READ"})
    table.write(every.coalesce(1), "bulk_insert")
    gone = F.expr("abs(hash(id)) % 3 = 0 or id between 100 and 5000")
    table.write(every.where(gone), "delete")
    spark.sql(f"alter table pyhudi.`{table.path}` add columns (late string)")
    key = "spark.sql.columnVector.offheap.enabled"
    spark.conf.set(key, str(off_heap).lower())
    try:
        found = table.df().drop(*(c for c in table.df().columns if c.startswith("_hoodie")))
        expected = every.where(~gone).withColumn("late", F.lit(None).cast("string"))
        assert sorted(map(repr, found.select(expected.columns).collect())) == sorted(
            map(repr, expected.collect())
        )
        parts = "place.c.d", "place.b", "pairs", "day"
        assert sorted(map(repr, found.select(*parts).collect())) == sorted(
            map(repr, expected.select(*parts).collect())
        )
    finally:
        spark.conf.unset(key)
