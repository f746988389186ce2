"""Options by which a write leaves other rows, or leaves them in another order."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.spark.tables import INDEX, KEY, OPTIONS, PARTITION, TYPE, HudiTable, Lake

pytestmark = pytest.mark.spark

STAYS = "hoodie.{}.index.update.partition.path"
COMBINE = "hoodie.combine.before."


def placed(table: HudiTable) -> dict[int, tuple[str, str, str]]:
    """Each row's partition folder, partition column and payload."""
    found = table.df().select("id", "_hoodie_partition_path", "dt", "name").collect()
    assert len({row[0] for row in found}) == len(found)
    return {row[0]: (row[1], row[2], row[3]) for row in found}


@pytest.mark.parametrize(
    ("kind", "table_type"), [("simple", "COPY_ON_WRITE"), ("bloom", "MERGE_ON_READ")]
)
def test_a_global_index_leaves_rows_in_their_partition_where_it_is_told_to(
    lake: Lake, kind: str, table_type: str
) -> None:
    stays = {INDEX: f"GLOBAL_{kind}".upper(), STAYS.format(kind): "false"}
    table = lake.table("t", {**OPTIONS, **stays, TYPE: table_type})
    table.write([(1, "a", 1, "x"), (2, "b", 1, "x"), (3, "c", 1, "y")])
    table.write([(1, "A", 2, "y")])
    table.frame([(2, "B", 2, "y"), (4, "D", 2, "y")]).createOrReplaceTempView("news")
    for key, value in stays.items():
        table.spark.conf.set(key, value)
    try:
        table.spark.sql(
            f"MERGE INTO pyhudi.`{table.path}` t USING news s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        table.spark.sql(f"UPDATE pyhudi.`{table.path}` SET dt = 'z', name = 'C' WHERE id = 3")
    finally:
        for key in stays:
            table.spark.conf.unset(key)

    found = placed(table)
    assert {key: path for key, (path, _, _) in found.items()} == {1: "x", 2: "x", 3: "y", 4: "y"}
    # A read leaves folders out by the column, so both must say the same.
    assert all(path == column for path, column, _ in found.values())
    for value, keys in {"x": {1, 2}, "y": {3, 4}, "z": set()}.items():
        assert {row.id for row in table.df().where(f"dt = '{value}'").collect()} == keys
    assert {key: name for key, (_, _, name) in found.items()} == {1: "A", 2: "B", 3: "C", 4: "D"}


def test_a_row_that_stays_keeps_only_the_part_of_its_values_that_its_folder_says(
    lake: Lake,
) -> None:
    hour = {
        "hoodie.datasource.write.keygenerator.type": "TIMESTAMP",
        "hoodie.keygen.timebased.timestamp.type": "DATE_STRING",
        "hoodie.keygen.timebased.input.dateformat": "yyyy-MM-dd HH",
        "hoodie.keygen.timebased.output.dateformat": "yyyy-MM-dd",
    }
    stays = {INDEX: "GLOBAL_SIMPLE", STAYS.format("simple"): "false"}
    table = lake.table("t", {**OPTIONS, **stays, **hour})
    table.write([(1, "a", 1, "2024-01-01 05"), (2, "b", 1, "2024-01-01 05")])
    table.write([(1, "A", 2, "2024-01-01 07"), (2, "B", 2, "2024-01-02 07")])

    day = "2024-01-01"
    assert placed(table) == {1: (day, f"{day} 07", "A"), 2: (day, f"{day} 05", "B")}


def test_a_row_that_stays_needs_the_newest_time_of_its_folder(lake: Lake) -> None:
    days = {
        "hoodie.datasource.write.keygenerator.type": "TIMESTAMP",
        "hoodie.keygen.timebased.timestamp.type": "DATE_STRING",
        "hoodie.keygen.timebased.input.dateformat": "yyyy-MM-dd HH",
        "hoodie.keygen.timebased.output.dateformat": "yyyy-MM-dd",
    }
    more = {INDEX: "GLOBAL_SIMPLE", STAYS.format("simple"): "false", TYPE: "MERGE_ON_READ"}
    table = lake.table("t", {**OPTIONS, **days, **more, "hoodie.compact.inline": "false"})
    table.write([(1, "a", 1, "2024-01-01 05"), (2, "b", 1, "2024-01-01 05")])
    table.write([(1, "A", 2, "2024-01-01 07")])
    table.write([(1, "B", 3, "2024-01-02 09")])
    assert placed(table)[1] == ("2024-01-01", "2024-01-01 07", "B")


def test_rows_of_one_key_are_combined_before_a_write_where_it_is_told_to(lake: Lake) -> None:
    twice = [(1, "a", 1, "x"), (1, "b", 2, "x")]
    for operation, given, kept in (
        ("insert", "false", ["a", "b"]),
        ("insert", "true", ["b"]),
        ("upsert", "false", ["a", "b"]),
        ("upsert", "true", ["b"]),
    ):
        table = lake.table(f"{operation}-{given}")
        table.write(twice, operation, **{COMBINE + operation: given})
        assert sorted(row.name for row in table.df().collect()) == kept, (operation, given)


@pytest.mark.parametrize("mode", ["NONE", "GLOBAL_SORT", "PARTITION_SORT"])
def test_a_bulk_insert_sorts_its_rows_as_it_is_told_to(lake: Lake, mode: str) -> None:
    table = lake.table("t", {KEY: "id", PARTITION: "dt"})
    rows = [(key, "n", 1, "x") for key in (5, 3, 8, 1, 9)]
    table.write(rows, "bulk_insert", **{"hoodie.bulkinsert.sort.mode": mode})

    (file,) = table.base_files()
    read = pq.read_table(Path(table.path) / file).column("id").to_pylist()
    assert read == ([5, 3, 8, 1, 9] if mode == "NONE" else [1, 3, 5, 8, 9])
