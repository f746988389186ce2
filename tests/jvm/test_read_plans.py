"""How a read is planned: counts, statistics, splits, and what the plan shows."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyhudi.reads.conditions import IsNotNull
from pyhudi.spark.protocol import ScanPlan
from tests.jvm.fake_planner import FakePlanner, struct
from tests.jvm.reading import IDS, load, plan_text, rows
from tests.reads.conditions import compare

pytestmark = [pytest.mark.spark, pytest.mark.every_line]

# ---- count, limit, statistics


def test_count_is_answered_without_reading(
    spark: SparkSession, planner: FakePlanner, people: str
) -> None:
    frame = load(spark, people)
    assert frame.count() == 3
    assert spark.sql(f"SELECT count(*), count(1) + 1 FROM pyhudi.`{people}`").first()[:] == (3, 4)
    assert planner.named("plan_scan") == []


def test_a_count_that_python_does_not_know_is_read(
    spark: SparkSession, planner: FakePlanner, people: str
) -> None:
    planner.count_known = False
    assert load(spark, people).count() == 3
    assert len(planner.named("count")) == 1
    assert load(spark, people).where("id > 1").count() == 2
    assert load(spark, people).groupBy("name").count().count() == 3


def test_the_optimizer_knows_bytes_and_rows(spark: SparkSession, people: str) -> None:
    def size(frame: DataFrame) -> int:
        return int(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())

    bytes_on_disk = sum(f.stat().st_size for f in Path(people).glob("*.parquet"))
    assert size(load(spark, people)) == bytes_on_disk
    assert 0 < size(load(spark, people).select("id")) < bytes_on_disk
    # Spark 4.3 asks for the rows only where the costs of plans are compared.
    spark.conf.set("spark.sql.cbo.enabled", "true")
    try:
        plan = load(spark, people)._jdf.queryExecution().optimizedPlan()
        assert int(plan.collectLeaves().head().stats().rowCount().get()) == 3
    finally:
        spark.conf.unset("spark.sql.cbo.enabled")


def test_equal_scans_share_one_exchange(spark: SparkSession, people: str) -> None:
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        frame = load(spark, people)
        joined = frame.alias("a").join(load(spark, people).alias("b"), "id")
        assert "ReusedExchange" in plan_text(joined)
        assert joined.count() == 3
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
        spark.conf.unset("spark.sql.adaptive.enabled")


def test_the_plan_shows_path_instant_files_and_filters(spark: SparkSession, people: str) -> None:
    frame = load(spark, people).where("id > 1")
    text = plan_text(frame)
    assert people in text
    assert "GreaterThan(id,1)" in text
    frame.collect()
    frame._jdf.queryExecution().optimizedPlan().stats()
    assert "files: 2" in plan_text(frame)


# ---- pins, and filters that partitions decide


def test_every_question_carries_the_pin_that_the_description_gave(
    spark: SparkSession, planner: FakePlanner, people: str
) -> None:
    planner.decisive = {"name"}
    table = planner.load(people)
    planner.save(people, {**table, "partitioning": ["name"]})
    frame = load(spark, people)
    planner.add(people, pa.table({"id": [4], "name": ["dan"]}), IDS)
    frame.where("name = 'ann' and id > 0").collect()
    frame.count()
    names = [name for name, _ in planner.calls]
    assert names == ["describe", "decide", "plan_scan", "count"]
    assert {request["pin"] for _, request in planner.calls[1:]} == {f"pin of {2:017d}"}
    load(spark, people).collect()
    assert planner.calls[-1][1]["pin"] == f"pin of {3:017d}"


def test_filters_that_partitions_decide_are_not_evaluated_again(
    spark: SparkSession, planner: FakePlanner, people: str
) -> None:
    planner.save(people, {**planner.load(people), "partitioning": ["name"]})
    planner.decisive = {"name"}
    frame = load(spark, people).where("name = 'ann' and id > 1")
    text = plan_text(frame)
    assert "PartitionFilters: [IsNotNull(name), EqualTo(name,ann)]" in text
    assert "PushedFilters: [IsNotNull(id), GreaterThan(id,1)]" in text
    (condition,) = [line for line in text.splitlines() if "Filter (" in line]
    assert "name" not in condition
    # The fake planner prunes nothing, so it shows that the rows are taken as they come.
    assert frame.count() == 2
    request = planner.named("plan_scan")[-1]
    assert request["partition_filters"] == (IsNotNull("name"), compare("name", "=", "ann"))
    assert request["filters"] == (IsNotNull("id"), compare("id", ">", 1))


def test_what_is_undecided_or_names_other_columns_is_left_to_spark(
    spark: SparkSession, planner: FakePlanner, people: str
) -> None:
    frame = load(spark, people)
    assert frame.where("name = 'ann'").count() == 1
    assert planner.named("decide") == [], "there is no partition column to ask about"

    planner.save(people, {**planner.load(people), "partitioning": ["name"]})
    frame = load(spark, people)
    assert frame.where("name = 'ann'").count() == 1
    assert frame.where("name = 'ann' or id = 2").count() == 2
    assert frame.where("upper(name) = 'ANN'").count() == 1
    planner.decisive = {"name", "id"}
    assert frame.where("id = 2 and name is not null").count() == 1


def test_a_count_and_a_limit_behind_decided_filters_reach_python(
    spark: SparkSession, planner: FakePlanner, people: str
) -> None:
    planner.save(people, {**planner.load(people), "partitioning": ["name"]})
    planner.decisive = {"name"}
    frame = load(spark, people).where("name is not null")
    frame.count()
    assert planner.named("count")[-1]["partition_filters"] == (IsNotNull("name"),)
    assert len(frame.limit(1).collect()) == 1
    assert planner.named("plan_scan")[-1]["limit"] == 1
    load(spark, people).where("name is not null and id > 0").limit(1).collect()
    assert planner.named("plan_scan")[-1]["limit"] is None


# ---- splits and long plans


def test_a_large_file_is_split_over_tasks_and_every_row_read_once(
    spark: SparkSession, planner: FakePlanner, path: str
) -> None:
    planner.create(path, struct({"id": "long"}), [])
    planner.add(path, pa.table({"id": range(50_000)}), {"id": "long"}, row_group=2_000)
    spark.conf.set("spark.sql.files.maxPartitionBytes", "100000")
    spark.conf.set("spark.sql.files.openCostInBytes", "0")
    try:
        frame = load(spark, path)
        assert frame.rdd.getNumPartitions() > 3
        assert frame.agg(F.sum("id"), F.count("id")).first()[:] == (1_249_975_000, 50_000)
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
        spark.conf.unset("spark.sql.files.openCostInBytes")


def test_small_files_share_tasks_as_in_a_plain_parquet_read(
    spark: SparkSession, planner: FakePlanner, path: str
) -> None:
    planner.create(path, struct({"id": "long"}), [])
    for n in range(20):
        planner.add(path, pa.table({"id": [n]}), {"id": "long"})
    plain = spark.read.parquet(*(str(f) for f in Path(path).glob("*.parquet")))
    frame = load(spark, path)
    assert frame.rdd.getNumPartitions() == plain.rdd.getNumPartitions() < 20
    assert frame.agg(F.sum("id")).first()[0] == 190


def test_a_long_plan_comes_as_an_arrow_file_that_is_deleted(
    spark: SparkSession, planner: FakePlanner, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planner.create(path, struct(IDS), [])
    planner.add(path, pa.table({"id": [1], "name": ["ann"]}), IDS)
    file = planner.load(path)["commits"][-1]["files"][0]
    planner.commit(path, [file] * 999)
    made: list[str] = []
    answer = planner.on_plan_scan

    def remember(request: dict[str, object]) -> ScanPlan:
        plan = answer(request)
        made.append(str(plan.arrow_file))
        return plan

    monkeypatch.setattr(planner, "on_plan_scan", remember)
    assert load(spark, path).agg(F.sum("id")).first()[0] == 1000
    assert made
    assert not os.path.exists(made[0])


def test_a_table_without_commits_is_empty(
    spark: SparkSession, planner: FakePlanner, path: str
) -> None:
    planner.create(path, struct(IDS), [])
    assert rows(load(spark, path)) == []
    assert load(spark, path).columns == ["id", "name"]
