"""Incremental reads from change logs: they give the rows that the base files give."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame

from pyhudi.reads import logged_rows
from tests import golden_tables
from tests.spark.tables import DDL, KEY, OPTIONS, PARTITION, VERSION, HudiTable, Lake, Row
from tests.spark.test_incremental import changed

pytestmark = pytest.mark.spark

LOGGED = {**OPTIONS, "hoodie.table.cdc.enabled": "true"}
MODE = "hoodie.table.cdc.supplemental.logging.mode"
#: so many rows that the log of a few costs less than their file
MANY = 3000


def row(key: int, name: str, ts: int = 1, dt: str = "x") -> Row:
    return (key, f"{name} {key * 7919 % 10007}", ts, dt)


def many(dt: str = "x", first: int = 0) -> list[Row]:
    return [row(key, "first", 1, dt) for key in range(first, first + MANY)]


def frame(table: HudiTable, begin: str, end: str | None = None) -> DataFrame:
    return table.df(**changed(begin, end))


def from_logs(found: DataFrame) -> bool:
    return "pyhudi changes of" in found._jdf.queryExecution().executedPlan().toString()


def same(found: DataFrame) -> list[Row]:
    """The rows by the logs, which must be those of the files: logs have no meta columns."""
    logged = found.select("*")
    assert from_logs(logged)
    filed = found.select("_hoodie_commit_time", "*")
    assert not from_logs(filed)
    told = sorted(tuple(each) for each in logged.collect())
    assert told == sorted(tuple(each)[1:] for each in filed.collect())
    return told


def made(lake: Lake, version: str = "9", **options: str) -> HudiTable:
    """A table of two partitions with MANY rows each."""
    table = lake.table(options={**LOGGED, VERSION: version}, **options)
    table.write([*many(), *many("y", MANY)], "bulk_insert")
    return table


@pytest.mark.parametrize("version", ["8", "9"])
def test_rows_of_one_commit_and_of_many_are_those_of_the_files(version: str, lake: Lake) -> None:
    table = made(lake, version)
    table.write([row(1, "b", 2), row(9001, "b", 2), row(MANY, "b", 2, "y")], "upsert")
    table.write([row(2, "", 3), row(9001, "", 3)], "delete")
    table.write([row(1, "c", 4), row(2, "c", 4), row(3, "c", 4)], "upsert")
    one, two, three, _ = table.instants()

    assert same(frame(table, one, two)) == [
        row(1, "b", 2), row(MANY, "b", 2, "y"), row(9001, "b", 2),
    ]  # fmt: skip
    assert same(frame(table, two, three)) == []
    assert same(frame(table, three)) == [row(1, "c", 4), row(2, "c", 4), row(3, "c", 4)]
    assert same(frame(table, one)) == [*same(frame(table, three)), row(MANY, "b", 2, "y")]
    assert same(frame(table, one, three)) == [row(1, "b", 2), row(MANY, "b", 2, "y")]
    assert not from_logs(frame(table, "earliest"))


def test_filters_columns_counts_and_joins_are_those_of_the_rows(lake: Lake) -> None:
    table = made(lake)
    table.write([row(1, "b", 2), row(2, "b", 2), row(MANY, "b", 2, "y")], "upsert")
    found = frame(table, table.instants()[0])
    assert [r[0] for r in found.where("dt = 'y'").select("id").collect()] == [MANY]
    assert [r[0] for r in found.where("id > 1 and dt = 'x'").select("ts").collect()] == [2]
    assert found.where("dt = 'y'").select("ts", "id").collect() == [(2, MANY)]
    assert found.where("dt = 'z'").collect() == []
    assert found.count() == 3
    assert found.agg({"id": "max"}).collect()[0][0] == MANY
    assert len(found.limit(2).collect()) == 2
    assert found.join(table.spark.range(2), "id").count() == 1
    assert {r[0] for r in found.select("_hoodie_commit_time").collect()} == {table.instants()[1]}


def test_a_group_without_a_whole_log_is_read_from_its_file(lake: Lake) -> None:
    table = made(lake)
    one = table.instants()[0]
    table.write([row(9000, "new", 2, "z"), row(9001, "new", 2, "z")], "bulk_insert")
    table.write([row(9001, "c", 3, "z"), row(1, "c", 3)], "upsert")
    assert same(frame(table, one)) == [
        row(1, "c", 3), row(9000, "new", 2, "z"), row(9001, "c", 3, "z"),
    ]  # fmt: skip


def test_a_row_that_moves_to_another_partition_comes_from_there(lake: Lake) -> None:
    table = made(lake, hoodie__index__type="GLOBAL_SIMPLE")
    table.write([row(5, "moved", 2, "y")], "upsert",
                hoodie__simple__index__update__partition__path="true")  # fmt: skip
    assert same(frame(table, table.instants()[0])) == [row(5, "moved", 2, "y")]


def test_a_key_with_several_rows_keeps_them_all(lake: Lake) -> None:
    table = lake.table(options=LOGGED)
    table.write([*many(), row(1, "twin")], "bulk_insert")
    one = table.instants()[0]
    table.write([row(1, "b", 2)], "upsert")
    table.write([row(1, "c", 3), row(2, "c", 3)], "upsert")
    assert same(frame(table, one)) == [row(1, "c", 3), row(1, "c", 3), row(2, "c", 3)]


@pytest.mark.parametrize("key", ["amount", "id,amount"])
def test_keys_whose_texts_do_not_follow_from_their_values_need_the_files(
    key: str, lake: Lake
) -> None:
    table = lake.table(options={**LOGGED, KEY: key, PARTITION: "dt"},
                       ddl="id long, amount decimal(10,2), ts long, dt string")  # fmt: skip
    amount = "cast(id as decimal(10,2)) amount"
    rows = table.spark.range(MANY).selectExpr("id", amount, "1l ts", "'x' dt")
    table.write(rows.coalesce(1), "bulk_insert")
    one = table.instants()[0]
    for ts in (2, 3):
        table.write(rows.where("id < 3").selectExpr("id", "amount", f"{ts}l ts", "dt"), "upsert")
    _, two, _ = table.instants()
    assert from_logs(frame(table, one, two))
    assert not from_logs(frame(table, one))
    assert [r["ts"] for r in frame(table, one).collect()] == [3, 3, 3]


@pytest.mark.parametrize("mode", ["OP_KEY_ONLY", "DATA_BEFORE"])
def test_logs_without_images_of_the_rows_are_not_asked(mode: str, lake: Lake) -> None:
    table = made(lake, **{MODE.replace(".", "__"): mode})
    table.write([row(1, "b", 2)], "upsert")
    found = frame(table, table.instants()[0])
    assert not from_logs(found)
    assert [tuple(r) for r in found.collect()] == [row(1, "b", 2)]


def test_logs_that_are_as_large_as_the_files_are_left_alone(lake: Lake) -> None:
    table = lake.table(options=LOGGED)
    table.write(many())
    table.write([row(key, "b", 2) for key in range(MANY)], "upsert")
    assert not from_logs(frame(table, table.instants()[0]))


def test_a_log_that_is_gone_says_that_the_history_is(lake: Lake) -> None:
    table = made(lake)
    table.write([row(1, "b", 2)], "upsert")
    found = frame(table, table.instants()[0])
    logs = [path for path in Path(table.path).rglob(".*.log.*") if ".crc" not in path.name]
    assert logs
    for path in logs:
        path.unlink()
    with pytest.raises(Exception, match=r"HISTORY_EXPIRED"):
        found.collect()


def test_logs_of_fewer_and_narrower_columns_give_those_of_today(lake: Lake) -> None:
    table = lake.table(options=LOGGED, ddl="id long, name string, ts int, dt string")
    table.write(many(), "bulk_insert")
    one = table.instants()[0]
    table.write([row(1, "b", 2), row(2, "b", 2)], "upsert")
    wider = table.frame(
        [(*row(2, "c", 3), "more")], "id long, name string, ts long, dt string, e string"
    )
    table.write(wider, "upsert")
    assert same(frame(table, one)) == [(*row(1, "b", 2), None), (*row(2, "c", 3), "more")]


def test_the_logs_of_apache_hudi_give_the_rows_of_its_files(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logged_rows, "WORTH", 1000.0)
    root = golden_tables.BY_NAME["h120_v9-cow_cdc"].unzip(tmp_path)
    table = HudiTable(lake.spark, str(root), {}, DDL)
    instants = table.instants()
    assert len(instants) == 4
    for at, begin in enumerate(instants[:-1]):
        for end in instants[at + 1 :]:
            same(frame(table, begin, end))
