"""How two upserts' new keys are compared: on the driver where it has them, else by a Spark job."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyhudi.errors import CommitConflict
from tests.spark.racing import SlowInput, in_background
from tests.spark.tables import DDL, DELETED, HudiTable, Lake

OPTIMISTIC = {"hoodie.write.concurrency.mode": "optimistic_concurrency_control"}
NO_RETRY = {"hoodie.write.num.retries.on.conflict.failures": "0"}

pytestmark = pytest.mark.spark


Row = tuple[int, str, int, str, bool]


def row(key: int, name: str, day: str, ts: int = 1, gone: bool = False) -> Row:
    return (key, name, ts, day, gone)


@pytest.fixture
def table(lake: Lake) -> HudiTable:
    made = lake.table(ddl=f"{DDL}, {DELETED} boolean", **OPTIMISTIC)
    made.write([row(n, "old", "ab"[n % 2]) for n in range(8)], "bulk_insert")
    return made


def comparisons(spark: SparkSession) -> int:
    """How many Spark jobs have compared keys so far."""
    jobs = spark._jsc.sc().statusStore().jobsList(None)
    told = [str(jobs.apply(at).description()) for at in range(jobs.size())]
    return sum("compare keys" in text for text in told)


def race(table: HudiTable, tmp_path: Path, ours: list[Row]) -> None:
    """Upsert ``ours``; meanwhile another upsert brings keys 500 and 501 to partition c."""
    rows = SlowInput(table.frame(ours), tmp_path / "slow")
    with in_background(table.write, rows.df, "upsert", **NO_RETRY) as done:
        rows.wait_until_read()
        table.write([row(500, "theirs", "c"), row(501, "theirs", "c")], "upsert")
        rows.go()
        done.result()


def test_only_an_input_that_is_not_on_the_driver_takes_a_job(
    spark: SparkSession, table: HudiTable, tmp_path: Path, way: str
) -> None:
    before = comparisons(spark)
    with pytest.raises(CommitConflict, match=r"did not have: 500, 501\.") as failed:
        race(table, tmp_path, [row(n, "ours", "c", 2) for n in (499, 500, 501, 502)])

    assert failed.value.facts["overlap"] == ("500", "501")
    assert (comparisons(spark) > before) == (way == "distributed")


def test_new_keys_of_another_partition_or_of_ones_own_alone_do_not_conflict(
    table: HudiTable, tmp_path: Path, way: str
) -> None:
    race(
        table,
        tmp_path,
        [row(500, "ours", "d", 2), row(502, "ours", "c", 2), row(0, "ours", "a", 2)],
    )

    found = sorted((r["id"], r["dt"]) for r in table.df().where("id >= 500").collect())
    assert found == [(500, "c"), (500, "d"), (501, "c"), (502, "c")]


def test_the_deletion_of_a_key_that_was_not_there_brings_no_key(
    table: HudiTable, tmp_path: Path, way: str
) -> None:
    race(table, tmp_path, [row(500, "gone", "c", 2, gone=True), row(502, "ours", "c", 2)])

    found = {r["id"]: r["name"] for r in table.df().where("id >= 500").collect()}
    assert found == {500: "theirs", 501: "theirs", 502: "ours"}
