"""Every table that Apache Hudi wrote gives its rows, meta columns included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests import golden_tables
from tests.golden_tables import GoldenTable
from tests.spark.tables import as_json

pytestmark = [pytest.mark.spark, pytest.mark.compiled]

META = (
    "_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_partition_path",
    "_hoodie_file_name",
)  # fmt: skip
WITH_ROWS = [t for t in golden_tables.ALL if t.expected() is not None]


def opened(spark: SparkSession, root: Path, **options: str) -> DataFrame:
    named = {k.replace("__", "."): v for k, v in options.items()}
    return spark.read.format("pyhudi").options(**named).load(str(root))


def rows(df: DataFrame) -> list[dict[str, Any]]:
    return by_key(as_json(df.select(*META, "*")))


def by_key(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sorted as the expected files are, with numbers and times in one form."""
    order = ("_hoodie_partition_path", "_hoodie_record_key")
    found = [{k: one_form(v) for k, v in row.items()} for row in found]
    return sorted(found, key=lambda r: [str(r.get(k)) for k in order])


def one_form(value: Any) -> Any:
    if isinstance(value, str) and value.endswith("Z"):
        return value.replace(".000Z", "Z")
    return value


@pytest.mark.parametrize(
    "table", [t for t in WITH_ROWS if not t.merge_on_read], ids=lambda t: t.name
)
def test_a_copy_on_write_table_gives_its_rows(
    spark: SparkSession, tmp_path: Path, table: GoldenTable
) -> None:
    df = opened(spark, table.unzip(tmp_path))
    expected = by_key(table.expected() or [])
    assert rows(df) == expected
    assert df.count() == len(expected)


#: what the writing version reads, and Apache Hudi 1.2.0 and hudi-rs do not
DISPUTED = frozenset({"h0150_v6-mor_bucket_consistent"})


@pytest.mark.parametrize("table", [t for t in WITH_ROWS if t.merge_on_read], ids=lambda t: t.name)
def test_a_merge_on_read_table_gives_its_rows(
    spark: SparkSession, tmp_path: Path, table: GoldenTable
) -> None:
    root = table.unzip(tmp_path)
    df = opened(spark, root)
    expected = by_key(table.expected() or [])
    if table.name not in DISPUTED:
        assert rows(df) == expected
    assert df.count() == len(df.collect())
    base = opened(spark, root, hoodie__datasource__query__type="read_optimized")
    assert len(rows(base)) == base.count()


@pytest.mark.parametrize(
    "table", [t for t in golden_tables.ALL if t.moment == "midfail"], ids=lambda t: t.name
)
def test_a_copy_from_inside_a_failing_write_shows_its_first_insert_alone(
    spark: SparkSession, tmp_path: Path, table: GoldenTable
) -> None:
    df = opened(spark, table.unzip(tmp_path), hoodie__datasource__query__type="read_optimized")
    assert df.count() == len(df.collect()) == 4


def test_a_table_of_hudis_can_be_written_and_read_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name in (
        "h0150_v6-cow_hive_cplx",
        "h120_v9-cow_bucket",
        "h102_v8-cow_meta",
        "h120_v9-cow_rli",
        "h0150_v6-cow_bloom",
        "h120_v9-keyless",
    ):
        if name not in golden_tables.BY_NAME:
            continue
        root = golden_tables.BY_NAME[name].unzip(tmp_path)
        before = {tuple(r) for r in opened(spark, root).collect()}
        ddl = opened(spark, root).schema
        fresh = spark.createDataFrame(
            [(70, "n", 7.5, 9, "2024-01-01")],
            "id long, name string, price double, ts long, dt string",
        )
        fresh = fresh.select(*[f.name for f in ddl.fields])
        fresh.write.format("pyhudi").mode("append").save(str(root))
        after = {tuple(r) for r in opened(spark, root).collect()}
        assert after == before | {tuple(fresh.collect()[0])}, name
        properties = (root / ".hoodie" / "hoodie.properties").read_text("latin-1")
        lines = dict(x.split("=", 1) for x in properties.splitlines() if "=" in x)
        assert lines.get("hoodie.table.metadata.partitions", "") == "", "a stale metadata table"
