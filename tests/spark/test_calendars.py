"""Ancient dates and times of files that Spark wrote by the old calendar."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.spark.tables import KEY, ORDERING, Lake, settings

pytestmark = [pytest.mark.spark, pytest.mark.compiled]

DDL = "id bigint, d date, t timestamp, deep array<struct<d: date>>, ts bigint"
ANCIENT = ("0001-01-01", "0300-02-28", "0999-12-31", "1000-02-28", "1500-03-01", "1582-10-04")
SINCE = ("1582-10-15", "1899-12-31", "2024-02-29")
MODES = ("datetimeRebaseModeInWrite", "int96RebaseModeInWrite")


def written_by_spark(lake: Lake, path: str, kind: str) -> None:
    """Put a file in the place of the table's one that has its rows, by the old calendar."""
    (file,) = Path(path).rglob("*.parquet")
    held = lake.spark.read.option("datetimeRebaseMode", "CORRECTED").parquet(str(file))
    old_ways = {f"spark.sql.parquet.{mode}": "LEGACY" for mode in MODES}
    with settings(lake.spark, {**old_ways, "spark.sql.parquet.outputTimestampType": kind}):
        held.coalesce(1).write.parquet(f"{path}-old")
    (old,) = Path(f"{path}-old").glob("*.parquet")
    assert b"org.apache.spark.legacyDateTime" in pq.read_metadata(old).metadata
    file.write_bytes(old.read_bytes())
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("kind", ["TIMESTAMP_MICROS", "INT96"])
def test_a_merge_into_a_file_of_the_old_calendar_keeps_what_its_rows_say(
    lake: Lake, kind: str
) -> None:
    table = lake.table(options={KEY: "id", ORDERING: "ts"}, ddl=DDL)
    days = [*ANCIENT, *SINCE]
    rows = lake.spark.sql(
        "select id, cast(day as date) d, cast(concat(day, ' 12:34:56.789') as timestamp) t, "
        "array(named_struct('d', cast(day as date))) deep, 1L ts from values "
        + ", ".join(f"({at}L, '{day}')" for at, day in enumerate(days))
        + " as days (id, day)"
    )
    shown = ["id", "cast(d as string)", "cast(t as string)", "cast(deep[0].d as string)"]
    table.write(rows.coalesce(1))
    before = table.df().selectExpr(*shown).orderBy("id").collect()
    assert [row[1] for row in before] == days
    written_by_spark(lake, table.path, kind)
    lake.spark.catalog.clearCache()
    assert table.df().selectExpr(*shown).orderBy("id").collect() == before
    least = table.df().selectExpr("cast(min(d) as string)").collect()
    assert least[0][0] == days[0]

    table.write(rows.where("id = 0").selectExpr("id", "d", "t", "deep", "2L ts").coalesce(1))
    assert table.df().selectExpr(*shown).orderBy("id").collect() == before
