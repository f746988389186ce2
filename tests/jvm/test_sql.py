"""The session catalog: every statement of SQL and of the DataFrame API that names a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from pyhudi.tables.column_changes import AddColumn
from tests.jvm.fake_planner import FakePlanner, local
from tests.reads.conditions import compare

pytestmark = [pytest.mark.spark, pytest.mark.every_line]


@pytest.fixture(autouse=True)
def _clean(spark: SparkSession, planner: FakePlanner) -> Iterator[None]:
    yield
    spark.sql("DROP TABLE IF EXISTS trips")


@pytest.fixture
def trips(spark: SparkSession) -> str:
    """A managed table of trips by day, with one row on each of two days."""
    spark.sql(
        "CREATE TABLE trips (id BIGINT COMMENT 'number of the trip', fare DOUBLE, day STRING) "
        "USING pyhudi PARTITIONED BY (day) TBLPROPERTIES (primaryKey = 'id', type = 'cow')"
    )
    spark.sql("INSERT INTO trips VALUES (1, 1.5, 'mon'), (2, 2.5, 'tue')")
    return "trips"


def rows(spark: SparkSession, query: str = "SELECT id, fare, day FROM trips") -> list[tuple]:
    return sorted(tuple(row) for row in spark.sql(query).collect())


def frame(spark: SparkSession, *values: tuple[int, float, str]) -> DataFrame:
    return spark.createDataFrame(list(values), "id long, fare double, day string")


def location(spark: SparkSession, table: str = "trips") -> Path:
    text = spark.sql(f"DESCRIBE EXTENDED {table}").where("col_name = 'Location'").first()
    return local(text.data_type)


# ---- CREATE


def test_create_table_tells_python_all_that_the_statement_says(
    spark: SparkSession, planner: FakePlanner, trips: str
) -> None:
    (request,) = planner.named("create_table")
    assert request["table"] == "default.trips"
    assert [field["name"] for field in request["schema"]["fields"]] == ["id", "fare", "day"]
    assert request["partitioning"] == ["day"]
    assert request["properties"] == {"primaryKey": "id", "type": "cow"}
    assert request["path"].endswith("/trips")


def test_a_managed_table_is_written_and_read(spark: SparkSession, trips: str) -> None:
    assert rows(spark) == [(1, 1.5, "mon"), (2, 2.5, "tue")]


def test_a_create_that_python_refuses_leaves_no_table(
    spark: SparkSession, planner: FakePlanner
) -> None:
    planner.on_create_table = planner.on_delete_where  # type: ignore[method-assign]
    with pytest.raises(AnalysisException):
        spark.sql("CREATE TABLE trips (id BIGINT) USING pyhudi")
    assert not spark.catalog.tableExists("trips")


def test_an_existing_table_at_a_location_is_adopted_with_its_columns(
    spark: SparkSession, planner: FakePlanner, path: str
) -> None:
    frame(spark, (7, 1.0, "mon")).write.format("pyhudi").partitionBy("day").save(path)
    spark.sql(f"CREATE TABLE trips USING pyhudi LOCATION '{path}'")
    assert rows(spark) == [(7, 1.0, "mon")]
    shown = spark.sql("SHOW CREATE TABLE trips").first()[0]
    assert "PARTITIONED BY (day)" in shown
    assert "LOCATION" in shown


def test_columns_missing_from_a_new_table_are_an_error_of_python(
    spark: SparkSession, planner: FakePlanner, path: str
) -> None:
    with pytest.raises(AnalysisException) as caught:
        spark.sql(f"CREATE TABLE trips USING pyhudi LOCATION '{path}'")
    assert str(caught.value).startswith("[FAKE_ERROR] there is no table at ")
    assert not spark.catalog.tableExists("trips")


def test_an_external_table_is_made_where_there_is_none(
    spark: SparkSession, planner: FakePlanner, path: str
) -> None:
    spark.sql(f"CREATE TABLE trips (id BIGINT, day STRING) USING pyhudi LOCATION '{path}'")
    spark.sql("INSERT INTO trips VALUES (1, 'mon')")
    assert rows(spark, "SELECT * FROM trips") == [(1, "mon")]
    spark.sql("DROP TABLE trips")
    assert planner.on_exists({"path": path})


def test_a_table_by_transform_is_refused(spark: SparkSession, planner: FakePlanner) -> None:
    with pytest.raises(AnalysisException, match=r"\[CONFIG_ERROR\].*partitioned by columns"):
        spark.sql("CREATE TABLE trips (at TIMESTAMP) USING pyhudi PARTITIONED BY (days(at))")
    assert planner.named("create_table") == []


def test_create_table_as_select_creates_and_fills(
    spark: SparkSession, planner: FakePlanner
) -> None:
    spark.sql(
        "CREATE TABLE trips USING pyhudi PARTITIONED BY (day) TBLPROPERTIES (primaryKey = 'id') "
        "AS SELECT 1L AS id, 1.5D AS fare, 'mon' AS day"
    )
    assert rows(spark) == [(1, 1.5, "mon")]
    (request,) = planner.named("create_table")
    assert request["partitioning"] == ["day"]
    assert request["properties"] == {"primaryKey": "id"}


def test_a_failed_create_table_as_select_leaves_nothing(
    spark: SparkSession, planner: FakePlanner, path: str
) -> None:
    planner.on_insert = planner.on_delete_where  # type: ignore[assignment, method-assign]
    for where in ("", f"LOCATION '{path}'"):
        with pytest.raises(AnalysisException):
            spark.sql(f"CREATE TABLE trips USING pyhudi {where} AS SELECT 1L AS id")
        assert not spark.catalog.tableExists("trips")
    assert not local(path).exists()
    del planner.on_insert
    spark.sql("CREATE TABLE trips USING pyhudi AS SELECT 1L AS id")
    assert rows(spark, "SELECT * FROM trips") == [(1,)]


@pytest.mark.parametrize("tidied", [True, False])
def test_a_table_that_no_catalog_takes_goes_again_and_the_error_says_why(
    spark: SparkSession, planner: FakePlanner, path: str, tidied: bool
) -> None:
    if not tidied:
        planner.on_discard_table = planner.on_delete_where  # type: ignore[assignment, method-assign]
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        spark.sql(f"CREATE TABLE nowhere.trips (id BIGINT) USING pyhudi LOCATION '{path}'")
    assert len(planner.named("discard_table")) == 1
    assert local(path).exists() is not tidied


def test_create_table_as_select_over_an_existing_table_is_refused(
    spark: SparkSession, planner: FakePlanner, path: str
) -> None:
    frame(spark, (7, 1.0, "mon")).write.format("pyhudi").save(path)
    with pytest.raises(AnalysisException, match=r"\[TABLE_EXISTS\]"):
        spark.sql(f"CREATE TABLE trips USING pyhudi LOCATION '{path}' AS SELECT 1L AS id")
    assert spark.read.format("pyhudi").load(path).count() == 1
    assert not spark.catalog.tableExists("trips")


# ---- INSERT


def test_insert_by_column_list_and_static_partition(spark: SparkSession, trips: str) -> None:
    spark.sql("INSERT INTO trips PARTITION (day = 'wed') SELECT 3, 3.5")
    spark.sql("INSERT INTO trips (day, id, fare) VALUES ('thu', 4, 4.5)")
    assert rows(spark)[2:] == [(3, 3.5, "wed"), (4, 4.5, "thu")]


def test_an_insert_carries_table_properties_and_options(
    spark: SparkSession, planner: FakePlanner, trips: str
) -> None:
    frame(spark, (3, 3.5, "wed")).writeTo(trips).option("hoodie.A", "b").append()
    request = planner.named("insert")[-1]
    assert request["properties"] == {"primaryKey": "id", "type": "cow"}
    assert request["options"] == {"hoodie.A": "b"}
    assert request["overwrite"] == "none"


def test_insert_overwrite_replaces_all_rows_in_one_write(
    spark: SparkSession, planner: FakePlanner, trips: str
) -> None:
    spark.sql("INSERT OVERWRITE trips SELECT id + 10, fare, day FROM trips WHERE id = 1")
    assert rows(spark) == [(11, 1.5, "mon")]
    assert planner.named("insert")[-1]["overwrite"] == "all"


def test_static_insert_overwrite_replaces_one_partition(
    spark: SparkSession, planner: FakePlanner, trips: str
) -> None:
    spark.sql("INSERT OVERWRITE trips PARTITION (day = 'mon') SELECT 5, 5.5")
    assert rows(spark) == [(2, 2.5, "tue"), (5, 5.5, "mon")]
    request = planner.named("insert")[-1]
    assert request["overwrite"] == "filter"
    assert request["filters"] == (compare("day", "<=>", "mon"),)


def test_dynamic_insert_overwrite_replaces_the_partitions_that_come(
    spark: SparkSession, planner: FakePlanner, trips: str
) -> None:
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        spark.sql("INSERT OVERWRITE trips VALUES (5, 5.5, 'mon'), (6, 6.5, 'wed')")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert rows(spark) == [(2, 2.5, "tue"), (5, 5.5, "mon"), (6, 6.5, "wed")]
    (request,) = planner.named("insert_spooled")
    assert request["overwrite"] == "dynamic"
    assert [field["name"] for field in request["schema"]["fields"]] == ["id", "fare", "day"]


def test_overwrite_partitions_without_rows_changes_nothing(
    spark: SparkSession, planner: FakePlanner, trips: str
) -> None:
    frame(spark, (1, 1.0, "mon")).where("id > 1").writeTo(trips).overwritePartitions()
    assert rows(spark) == [(1, 1.5, "mon"), (2, 2.5, "tue")]
    assert planner.named("insert_spooled")[0]["files"] == []


def test_a_failed_dynamic_overwrite_gives_the_spool_back(
    spark: SparkSession, planner: FakePlanner, trips: str
) -> None:
    writer = frame(spark, (5, 5.5, "mon")).writeTo(trips).option("fail", "yes")
    with pytest.raises(AnalysisException) as caught:
        writer.overwritePartitions()
    assert str(caught.value) == "[FAKE_ERROR] the insert failed as it was told to."
    assert not (location(spark) / ".spool").exists()
    assert len(planner.named("spool_abort")) == 1


def test_write_to_overwrite_by_condition(
    spark: SparkSession, planner: FakePlanner, trips: str
) -> None:
    from pyspark.sql.functions import col

    frame(spark, (5, 5.5, "mon")).writeTo(trips).overwrite(col("day") == "mon")
    assert rows(spark) == [(2, 2.5, "tue"), (5, 5.5, "mon")]


# ---- saveAsTable


def save(frame: DataFrame, mode: str, **options: str) -> None:
    frame.write.format("pyhudi").mode(mode).options(**options).saveAsTable("trips")


def test_save_as_table_creates_with_the_options_of_the_write(
    spark: SparkSession, planner: FakePlanner
) -> None:
    writer = frame(spark, (1, 1.5, "mon")).write.format("pyhudi").partitionBy("day")
    writer.option("hoodie.datasource.write.recordkey.field", "id").saveAsTable("trips")
    assert rows(spark) == [(1, 1.5, "mon")]
    (request,) = planner.named("create_table")
    assert request["options"] == {"hoodie.datasource.write.recordkey.field": "id"}
    assert request["partitioning"] == ["day"]


def test_save_as_table_appends(spark: SparkSession, trips: str) -> None:
    save(frame(spark, (3, 3.5, "wed")), "append")
    assert len(rows(spark)) == 3


def test_save_as_table_ignores(spark: SparkSession, trips: str) -> None:
    save(frame(spark, (3, 3.5, "wed")), "ignore")
    assert len(rows(spark)) == 2


def test_save_as_table_refuses_an_existing_one(spark: SparkSession, trips: str) -> None:
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        save(frame(spark, (3, 3.5, "wed")), "error")


def test_save_as_table_overwrites_in_one_commit(
    spark: SparkSession, planner: FakePlanner, trips: str
) -> None:
    save(frame(spark, (3, 3.5, "wed")), "overwrite")
    assert rows(spark) == [(3, 3.5, "wed")]
    assert planner.named("insert")[-1]["overwrite"] == "replace"
    assert len(planner.named("create_table")) == 1


def test_a_failed_save_as_table_leaves_the_old_rows(
    spark: SparkSession, planner: FakePlanner, trips: str
) -> None:
    with pytest.raises(AnalysisException, match="as it was told to"):
        save(frame(spark, (3, 3.5, "wed")), "overwrite", fail="yes")
    assert rows(spark) == [(1, 1.5, "mon"), (2, 2.5, "tue")]


def test_save_as_table_does_not_change_the_partitioning_silently(
    spark: SparkSession, trips: str
) -> None:
    writer = frame(spark, (3, 3.5, "wed")).write.format("pyhudi").mode("overwrite")
    with pytest.raises(AnalysisException, match=r"\[TABLE_EXISTS\].*partitioned by \(day\)"):
        writer.partitionBy("fare").saveAsTable("trips")
    assert len(rows(spark)) == 2


def test_replace_table_without_rows_replaces_all_by_none(
    spark: SparkSession, planner: FakePlanner, trips: str
) -> None:
    with pytest.raises(AnalysisException, match=r"\[TABLE_EXISTS\].*partitioned by \(day\)"):
        spark.sql("REPLACE TABLE trips (id BIGINT, day STRING) USING pyhudi PARTITIONED BY (id)")
    assert len(rows(spark)) == 2
    spark.sql("REPLACE TABLE trips (id BIGINT, day STRING) USING pyhudi PARTITIONED BY (day)")
    assert rows(spark) == []
    asked = planner.named("insert")[-1]
    assert (asked["overwrite"], asked["filters"]) == ("replace", ())


# ---- time travel


def test_version_and_timestamp_as_of_reach_python(
    spark: SparkSession, planner: FakePlanner, trips: str
) -> None:
    spark.sql("INSERT INTO trips VALUES (3, 3.5, 'wed')")
    first = f"{1:017d}"
    old = f"SELECT id FROM trips VERSION AS OF '{first}'"
    assert rows(spark, old) == [(1,), (2,)]
    assert planner.named("describe")[-1]["as_of"] == first
    assert rows(spark, "SELECT id FROM trips TIMESTAMP AS OF '2024-01-01 00:00:00'") != []
    assert planner.named("describe")[-1]["as_of_micros"] == 1_704_067_200_000_000


def test_an_option_of_a_read_travels_in_time(
    spark: SparkSession, planner: FakePlanner, trips: str
) -> None:
    spark.sql("INSERT INTO trips VALUES (3, 3.5, 'wed')")
    old = spark.read.option("as.of.instant", f"{1:017d}").table(trips)
    assert sorted(row.id for row in old.collect()) == [1, 2]
    assert old.count() == 2


def test_a_path_is_a_table_name_too(spark: SparkSession, planner: FakePlanner, path: str) -> None:
    frame(spark, (7, 1.0, "mon")).write.format("pyhudi").save(path)
    assert rows(spark, f"SELECT * FROM pyhudi.`{path}`") == [(7, 1.0, "mon")]


# ---- describe, drop, truncate, delete, alter


def test_show_create_table_repeats_the_statement(spark: SparkSession, trips: str) -> None:
    shown = spark.sql("SHOW CREATE TABLE trips").first()[0]
    for part in (
        "CREATE TABLE spark_catalog.default.trips",
        "id BIGINT COMMENT 'number of the trip'",
        "USING pyhudi",
        "PARTITIONED BY (day)",
        "'primaryKey' = 'id'",
        "'type' = 'cow'",
    ):
        assert part in shown
    assert "LOCATION" not in shown
    spark.sql("DROP TABLE trips")
    spark.sql(shown)
    assert rows(spark) == []


def test_describe_shows_columns_comments_and_place(spark: SparkSession, trips: str) -> None:
    shown = {row.col_name: row for row in spark.sql("DESCRIBE EXTENDED trips").collect()}
    assert shown["id"].data_type == "bigint"
    assert shown["id"].comment == "number of the trip"
    assert shown["Provider"].data_type == "pyhudi"
    assert shown["Location"].data_type.endswith("/trips")


def test_drop_removes_a_managed_table_with_its_data(spark: SparkSession, trips: str) -> None:
    folder = location(spark)
    spark.sql("DROP TABLE trips PURGE")
    assert not folder.exists()
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("SELECT * FROM trips")


def test_a_table_whose_files_are_gone_can_still_be_dropped(
    spark: SparkSession, planner: FakePlanner, trips: str
) -> None:
    (location(spark) / "fake.json").unlink()
    with pytest.raises(AnalysisException, match=r"\[TABLE_NOT_FOUND\]"):
        rows(spark)
    spark.sql("DROP TABLE trips")
    assert not spark.catalog.tableExists("trips")


def test_truncate_empties_the_table(spark: SparkSession, planner: FakePlanner, trips: str) -> None:
    spark.sql("TRUNCATE TABLE trips")
    assert rows(spark) == []
    assert len(planner.named("truncate_table")) == 1


def test_whole_partitions_are_deleted_by_metadata(
    spark: SparkSession, planner: FakePlanner, trips: str
) -> None:
    spark.sql("DELETE FROM trips WHERE day = 'mon'")
    assert rows(spark) == [(2, 2.5, "tue")]
    assert planner.named("delete_where")[0]["filters"][-1] == compare("day", "=", "mon")


def test_a_merge_that_only_inserts_is_told_from_an_insert(
    spark: SparkSession, planner: FakePlanner, trips: str
) -> None:
    frame(spark, (2, 9.9, "tue"), (7, 7.5, "tue")).createOrReplaceTempView("news")
    spark.sql("MERGE INTO trips t USING news s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *")
    assert rows(spark) == [(1, 1.5, "mon"), (2, 2.5, "tue"), (7, 7.5, "tue")]
    (request,) = planner.named("insert_new")
    assert [scan["path"] for scan in request["reads"]["scans"]] == [request["path"]]

    spark.sql("INSERT INTO trips SELECT * FROM news s LEFT ANTI JOIN trips t ON t.id = s.id")
    known = len(planner.named("insert_new"))
    assert known == (1 if pyspark.__version__ >= "4" else 2), "the same to Spark 3.5"
    spark.sql("INSERT INTO trips SELECT * FROM news s LEFT ANTI JOIN news t ON t.id = s.id")
    assert len(planner.named("insert_new")) == known


def test_python_is_told_of_the_scans_by_which_rows_come_from_their_own_table(
    spark: SparkSession, planner: FakePlanner, trips: str
) -> None:
    frame(spark, (7, 7.5, "tue")).createOrReplaceTempView("news")
    mine = "SELECT * FROM news WHERE id > (SELECT first(id) FROM trips)"
    spark.sql(f"INSERT INTO trips {mine}")
    with_option = "spark.sql.sources.partitionOverwriteMode"
    spark.conf.set(with_option, "dynamic")
    try:
        spark.sql(f"INSERT OVERWRITE trips {mine.replace('>', '>=')}")
    finally:
        spark.conf.unset(with_option)
    for method in ("insert", "insert_spooled"):
        request = planner.named(method)[-1]
        assert [scan["path"] for scan in request["reads"]["scans"]] == [request["path"]], method
        assert request["reads"]["evaluated"] == 0
    spark.sql("INSERT INTO trips SELECT * FROM news")
    assert planner.named("insert")[-1]["reads"]["scans"] == []


def test_changes_of_columns_are_asked_of_python_and_properties_kept(
    spark: SparkSession, planner: FakePlanner, trips: str
) -> None:
    spark.sql("ALTER TABLE trips ADD COLUMNS (tip DOUBLE)")
    spark.sql("ALTER TABLE trips ALTER COLUMN fare TYPE DOUBLE")
    spark.sql("ALTER TABLE trips SET TBLPROPERTIES (owner_team = 'fares')")
    asked = [change for request in planner.named("alter_columns") for change in request["changes"]]
    assert asked == [AddColumn(("tip",), "double", True, None)]
    assert "'owner_team' = 'fares'" in spark.sql("SHOW CREATE TABLE trips").first()[0]


def test_tables_of_other_providers_pass_through(spark: SparkSession, planner: FakePlanner) -> None:
    spark.sql("CREATE TABLE trips (id BIGINT) USING parquet")
    spark.sql("INSERT INTO trips VALUES (1)")
    spark.sql("ALTER TABLE trips ADD COLUMNS (tip DOUBLE)")
    spark.createDataFrame([(2, 2.0)], "id long, tip double").write.mode("append").saveAsTable(
        "trips"
    )
    assert [row.id for row in spark.sql("SELECT * FROM trips ORDER BY id").collect()] == [1, 2]
    assert planner.calls == []


def test_where_nobody_attached_a_statement_starts_a_planner(
    spark: SparkSession, planner: FakePlanner
) -> None:
    spark.sparkContext._jvm.io.pyhudi.Bridge.unregister()
    spark.sql("CREATE TABLE unattached (id BIGINT) USING pyhudi")
    try:
        spark.sql("INSERT INTO unattached VALUES (1), (2)")
        assert spark.table("unattached").count() == 2
        assert planner.calls == []
    finally:
        spark.sql("DROP TABLE unattached")
