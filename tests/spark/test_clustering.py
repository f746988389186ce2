"""Clustering as tasks of a Spark application, beside writes of the same application."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import pyhudi
from pyhudi.format.commit_metadata import WriteStat
from pyhudi.services.clustering import TasksHere
from pyhudi.spark.session import runtime_of
from pyhudi.transactions.transaction import Transaction
from pyhudi.writes.cluster_stage import SparkTasks
from pyhudi.writes.stage import tracked_key

pytestmark = pytest.mark.spark

OPTIONS = {
    "hoodie.table.name": "sorted",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.parquet.small.file.limit": "0",
}
BY_V = {"hoodie.clustering.plan.strategy.sort.columns": "v"}


def write(spark: SparkSession, path: str, rows: list[tuple[str, str, int]], **more: str) -> None:
    frame = spark.createDataFrame(rows, "id string, p string, v int").coalesce(1)
    given = {**OPTIONS, **{key.replace("_", "."): value for key, value in more.items()}}
    frame.write.format("pyhudi").options(**given).mode("append").save(path)


def test_groups_are_tasks_of_the_application(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for number in range(3):
        rows = [(f"{p}{number}{n}", p, 10 * n + number) for p in "ab" for n in (3, 1, 2)]
        write(spark, path, rows)
    before = sorted(map(tuple, spark.read.format("pyhudi").load(path).collect()))

    found = pyhudi.cluster(path, spark=spark, options=BY_V)

    assert [f.fate.value for f in found] == ["clustered"] * 6
    table = spark.read.format("pyhudi").load(path)
    assert sorted(map(tuple, table.collect())) == before
    in_a = [row.v for row in table.where("p = 'a'").collect()]
    assert in_a == sorted(in_a)
    assert len(pyhudi.Table(path).files()) == 2

    write(spark, path, [("a01", "a", 99)])
    changed_row = spark.read.format("pyhudi").load(path).where("id = 'a01'").collect()
    assert [row.v for row in changed_row] == [99]
    first = found[0].clustering
    since = spark.read.format("pyhudi").option("hoodie.datasource.query.type", "incremental")
    assert first is not None
    newer = since.option("hoodie.datasource.read.begin.instanttime", first).load(path)
    assert [row.id for row in newer.collect()] == ["a01"]


def test_the_cpu_time_of_workers_is_known_and_their_jobs_are_forgotten(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t")
    for number in range(2):
        write(spark, path, [(str(number), "a", number)])
    made: list[SparkTasks] = []
    begin = SparkTasks.__init__

    def noted(self: SparkTasks, *given: Any) -> None:
        begin(self, *given)
        made.append(self)

    monkeypatch.setattr(SparkTasks, "__init__", noted)
    found = pyhudi.cluster(path, spark=spark, options=BY_V)

    (tasks,) = made
    assert tasks.elsewhere_cpu_s() > 0
    instant = found[0].clustering
    assert instant is not None
    jobs, key = runtime_of(spark).jobs, tracked_key(pyhudi.Table(path).path, instant)
    assert not jobs.ended(key, 5.0), "nothing is known of it any more"


def test_a_write_clusters_after_its_commit_with_tasks_of_its_session(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    for number in range(2):
        inline = {"hoodie_clustering_inline": "true", "hoodie_clustering_inline_max_commits": "2"}
        write(spark, path, [(f"a{number}", "a", number)], **inline)
    assert [each.operation for each in pyhudi.history(path)] == ["upsert", "upsert", "cluster"]
    assert len(pyhudi.Table(path).files()) == 1
    done = pyhudi.last_commit(spark)
    assert done is not None
    assert done.entry.operation == "upsert"
    assert spark.read.format("pyhudi").load(path).count() == 2


@pytest.mark.parametrize("reverses", [True, False])
def test_a_write_that_a_clustering_overtook_takes_it_back_or_runs_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reverses: bool
) -> None:
    path = str(tmp_path / "t")
    write(spark, path, [("a0", "a", 0), ("a1", "a", 1)])
    write(spark, path, [("a2", "a", 2), ("a3", "a", 3)])
    looked_up, landed = threading.Event(), threading.Event()
    inflight, run = Transaction.inflight, TasksHere.run

    def waits(self: Transaction, profile: Any) -> None:
        looked_up.set()
        assert landed.wait(120)
        inflight(self, profile)

    def beside(self: TasksHere, *asked: Any) -> list[WriteStat]:
        """The write looks its keys up after the plan, and announces nothing before the commit."""
        if not landed.is_set():
            writer.start()
            assert looked_up.wait(120)
        return run(self, *asked)

    option = {
        "hoodie_write_concurrency_reverse_clustering_enable": str(reverses).lower(),
        # The new key goes to a file that the clustering replaces.
        "hoodie_parquet_small_file_limit": "1000000",
    }
    changed = [("a1", "a", 9), ("a4", "a", 4)]
    writer = threading.Thread(target=write, args=(spark, path, changed), kwargs=option)
    monkeypatch.setattr(Transaction, "inflight", waits)
    monkeypatch.setattr(TasksHere, "run", beside)
    try:
        assert [f.fate.value for f in pyhudi.cluster(path)] == ["clustered"] * 2
    finally:
        landed.set()
        writer.join(120)

    done = pyhudi.last_commit(spark)
    assert done is not None
    assert done.conflicts_retried == (0 if reverses else 1)
    assert done.entry.rows_updated == 1
    operations = [each.operation for each in pyhudi.history(path) if each.operation]
    assert operations == ["upsert"] * 2 + ["cluster"] * (2 if reverses else 1) + ["upsert"]
    table = spark.read.format("pyhudi").load(path)
    assert {r.id: r.v for r in table.collect()} == {"a0": 0, "a1": 9, "a2": 2, "a3": 3, "a4": 4}
    assert pyhudi.Table(path).check() == []
