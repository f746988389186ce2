from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import pyhudi
from pyhudi.cli.quickstart import FOLDER, NEW_ROWS, Tour, free_folder, main, next_steps, run
from pyhudi.cli.taxi_trips import DAYS, corrections, late_news, trips
from pyhudi.errors import TableExists
from tests.fakes import FakeClock

ROWS = 2_000


@pytest.mark.spark
def test_the_tour_makes_a_table_with_two_commits(spark: SparkSession, tmp_path: Path) -> None:
    said: list[str] = []
    run(Tour(spark, str(tmp_path / "trips"), said.append, FakeClock(), ROWS))
    first, second = pyhudi.history(str(tmp_path / "trips"))
    assert (first.operation, first.rows_inserted) == ("bulk_insert", ROWS)
    assert (second.operation, second.rows_inserted) == ("upsert", NEW_ROWS)
    changed = corrections(trips(spark, 0, ROWS), 60).count()
    assert second.rows_updated == changed > 0
    text = "\n".join(said)
    assert f"{NEW_ROWS:,} trips inserted, {changed} updated" in text
    assert f"as of instant {first.instant} the table had {ROWS:,} trips" in text
    assert second.instant in text


@pytest.mark.spark
def test_what_the_tour_says_to_try_next_works(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "trips")
    rows = trips(spark, 0, 10)
    rows.write.format("pyhudi").option("hoodie.table.name", "trips").save(path)
    lines = next_steps(path, pyhudi.history(path)[0].instant).splitlines()
    code = [line.strip() for line in lines if line.strip().startswith("spark.")]
    assert len(code) == 4
    for line in code:
        exec(line, {"spark": spark})
    spark.sql("drop table trips")


@pytest.mark.spark
def test_trips_are_the_same_however_spark_splits_them(spark: SparkSession) -> None:
    one, many = trips(spark, 0, 500).coalesce(1), trips(spark, 0, 500).repartition(7)
    assert one.exceptAll(many).count() == 0
    assert trips(spark, 100, 10).exceptAll(one).count() == 0


@pytest.mark.spark
def test_trips_look_real(spark: SparkSession) -> None:
    found = trips(spark, 0, 5_000).agg(
        F.countDistinct("trip_id").alias("ids"),
        F.countDistinct("day").alias("days"),
        F.min(F.col("ended_at") > F.col("started_at")).alias("forward"),
        F.min("km").alias("shortest"),
        F.max("km").alias("longest"),
        F.min("fare").alias("cheapest"),
        F.max(F.col("updated_at") != F.col("ended_at")).alias("edited"),
    )
    row = found.collect()[0]
    assert (row.ids, row.days, row.forward, row.edited) == (5_000, DAYS, True, False)
    assert 0.5 < row.shortest < 1 < 10 < row.longest < 30
    assert row.cheapest > 3


@pytest.mark.spark
def test_corrections_are_newer_and_late_news_older_than_the_trip(spark: SparkSession) -> None:
    booked = trips(spark, 0, 600)
    when = booked.select("trip_id", F.col("updated_at").alias("booked_at"))
    fixed = corrections(booked, 60).join(when, "trip_id")
    late = late_news(booked, 20).join(when, "trip_id")
    assert fixed.where("updated_at <= booked_at").count() == 0
    assert late.where("updated_at >= booked_at").count() == 0
    assert fixed.count() > 0
    assert late.count() == 20


def test_a_new_or_empty_folder_is_taken(tmp_path: Path) -> None:
    assert free_folder(str(tmp_path / "new")) == tmp_path / "new"
    assert free_folder(str(tmp_path)) == tmp_path


def test_a_folder_with_something_in_it_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(TableExists, match="not empty"):
        free_folder(str(tmp_path))
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith("[TABLE_EXISTS]")
    assert [p.name for p in tmp_path.iterdir()] == ["letter.txt"]


def test_without_a_name_the_first_free_one_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert free_folder(None) == tmp_path / FOLDER
    (tmp_path / FOLDER).mkdir()
    (tmp_path / f"{FOLDER}-2").write_text("a file")
    assert free_folder(None) == tmp_path / f"{FOLDER}-3"
