"""count(*), limits, filters and the columns that a scan reads: fast paths that must not lie."""

from __future__ import annotations

import pytest

from tests.spark.tables import OPTIONS, HudiTable, Lake, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.compiled]

FILTERS = [
    "dt = '2024-01-01'",
    "dt != '2024-01-01'",
    "dt > '2024-01-01' and id < 5",
    "dt in ('2024-01-02', '2024-01-09', null)",
    "not (dt in ('2024-01-02') or dt is null)",
    "dt like '2024-01-0%' and dt like '%2'",
    "dt is null",
    "dt <=> null",
    "coalesce(dt, '?') = '?'",
    "id % 2 = 0",
    "id = 3 or dt = '2024-01-03'",
    "name is null and dt is not null",
    "upper(name) = 'A1'",
    "dt = name",
    "length(dt) = 10",
    "_hoodie_partition_path = '2024-01-02'",
    "false",
]


def mixed(lake: Lake) -> tuple[HudiTable, HudiTable]:
    """A table with two versions of its files and a null partition, and its rows as Parquet."""
    table = lake.table()
    table.write(rows_of(0, 12, "a"))
    table.write([(1, "b", 2, "2024-01-02"), (20, None, 1, None), (21, None, 1, "2024-01-01")])
    table.write([(2, "", 0, "2024-01-03")], "delete")
    return table, table


def test_filters_give_the_rows_that_they_give_on_an_unpruned_copy(lake: Lake) -> None:
    table, _ = mixed(lake)
    every = table.df().select("*", "_hoodie_partition_path").cache()
    assert every.count() == 13
    for where in FILTERS:
        expected = sorted(row["id"] for row in every.where(where).collect())
        filtered = table.df().where(where)
        assert sorted(row["id"] for row in filtered.collect()) == expected, where
        assert filtered.count() == len(expected), where
    every.unpersist()


def test_a_count_is_answered_without_reading_a_row(lake: Lake) -> None:
    table, _ = mixed(lake)
    counted = table.df().groupBy().count()
    assert counted.collect()[0][0] == 13
    assert "BatchScan" not in plan(counted), plan(counted)
    grouped = table.df().groupBy("dt").count()
    assert {r[0]: r[1] for r in grouped.collect()} == {
        "2024-01-01": 5, "2024-01-02": 4, "2024-01-03": 3, None: 1
    }  # fmt: skip
    assert table.df().selectExpr("count(name)", "count(*)", "max(id)").collect()[0][:] == (
        11,
        13,
        21,
    )
    assert table.df().selectExpr("count(1)").collect()[0][0] == 13
    assert table.df().selectExpr("count(distinct dt)").collect()[0][0] == 3


def plan(df: object) -> str:
    return str(df._jdf.queryExecution().executedPlan().toString())  # type: ignore[attr-defined]


def test_a_limit_gives_as_many_rows_as_there_are(lake: Lake) -> None:
    table, _ = mixed(lake)
    for limit, expected in ((0, 0), (1, 1), (4, 4), (12, 12), (13, 13), (99, 13)):
        assert len(table.df().limit(limit).collect()) == expected, limit
    assert len(table.df().where("dt = '2024-01-02'").limit(9).collect()) == 4
    assert len(table.df().where("id >= 10").limit(9).collect()) == 4
    assert table.df().limit(5).count() == 5
    assert [r[0] for r in table.df().orderBy("id").limit(2).collect()] == [0, 1]


def test_a_partition_filter_reads_the_files_of_its_partitions_alone(lake: Lake) -> None:
    table, _ = mixed(lake)

    def folders(where: str) -> set[str]:
        files = table.df().where(where).inputFiles()
        return {file.rsplit("/", 2)[1] for file in files}

    everything = {"2024-01-01", "2024-01-02", "2024-01-03", "__HIVE_DEFAULT_PARTITION__"}
    read = {
        row[0]
        for row in table.df()
        .where("dt = '2024-01-02'")
        .selectExpr("regexp_extract(_hoodie_partition_path, '.*', 0)")
        .collect()
    }
    assert read == {"2024-01-02"}
    assert folders("true") <= everything


def test_only_the_columns_asked_for_are_read(lake: Lake) -> None:
    table, _ = mixed(lake)
    shown = plan(table.df().select("name").where("id > 3"))
    assert "id#" in shown
    assert "name#" in shown
    assert "ts#" not in shown


def test_meta_columns_are_hidden_but_can_be_named(lake: Lake) -> None:
    table, _ = mixed(lake)
    assert table.df().columns == ["id", "name", "ts", "dt"]
    row = table.df().where("id = 1").select("_hoodie_record_key", "_hoodie_commit_time").collect()
    assert [tuple(r) for r in row] == [("1", table.instants()[1])]


def test_a_row_can_be_told_by_its_file_and_its_number_in_it(lake: Lake) -> None:
    table, _ = mixed(lake)
    rows = table.df().select("id", "_pos", "_file").collect()
    by_file: dict[str, list[int]] = {}
    for row in rows:
        by_file.setdefault(row["_file"], []).append(row["_pos"])
    assert len(by_file) > 1
    assert all(sorted(found) == list(range(len(found))) for found in by_file.values())
    firsts = sorted(row["id"] for row in rows if row["_pos"] == 0)
    assert sorted(r["id"] for r in table.df().where("_pos = 0").select("id").collect()) == firsts
    assert len(table.df().select("_pos").collect()) == len(rows)

    own = lake.table("own", ddl="id long, _pos string, ts long, dt string")
    own.write([(1, "mine", 1, "x")])
    assert [tuple(row) for row in own.df().collect()] == [(1, "mine", 1, "x")]


def test_a_cached_frame_is_not_mistaken_for_a_later_state(lake: Lake) -> None:
    table = lake.table(options=OPTIONS)
    table.write(rows_of(0, 3, "a"))
    cached = table.df().cache()
    assert cached.count() == 3
    table.write(rows_of(3, 6, "b"))

    assert table.df().count() == 6
    cached.unpersist()
