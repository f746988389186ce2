"""SHOW PARTITIONS, and partitions that are dropped or emptied by name."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.spark.test_sql import KEYED, create, table

pytestmark = pytest.mark.spark

ENCODED = KEYED.replace(")", ", 'hoodie.datasource.write.partitionpath.urlencode' = 'true')")
ROWS = [(1, "a", 1, "x"), (2, "b", 1, "y"), (3, "c", 1, None), (4, "d", 1, "x/1")]


def filled(spark: SparkSession, name: str) -> None:
    create(spark, name, ENCODED)
    frame = spark.createDataFrame(ROWS, "id bigint, name string, ts bigint, dt string")
    frame.coalesce(1).writeTo(name).append()


def shown(spark: SparkSession, name: str, of: str = "") -> list[str]:
    return sorted(row[0] for row in spark.sql(f"show partitions {name} {of}").collect())


def test_partitions_are_shown(spark: SparkSession, name: str) -> None:
    filled(spark, name)
    null = "dt=__HIVE_DEFAULT_PARTITION__"
    assert shown(spark, name) == [null, "dt=x", "dt=x%2F1", "dt=y"]
    assert shown(spark, name, "partition (dt = 'x')") == ["dt=x"]
    assert shown(spark, name, "partition (dt = 'nothing')") == []


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_the_partition_of_a_char_is_named_without_its_spaces(
    spark: SparkSession, name: str, kind: str
) -> None:
    given = f"tblproperties (primaryKey = 'id', type = '{kind}')"
    spark.sql(f"create table {name} (id int, c char(4)) using pyhudi partitioned by (c) {given}")
    spark.sql(f"insert into {name} values (1, 'p'), (2, 'q'), (3, 'r')")
    assert [each.rstrip() for each in shown(spark, name, "partition (c = 'p')")] == ["c=p"]
    spark.sql(f"alter table {name} drop if exists partition (c = 'p')")
    spark.sql(f"truncate table {name} partition (c = 'q')")
    spark.sql(f"alter table {name} drop if exists partition (c = 'other')")
    assert [row.id for row in spark.table(name).collect()] == [3]


def test_typed_values_are_shown_and_found(spark: SparkSession, name: str) -> None:
    spark.sql(
        f"create table {name} (id bigint, day date, hour int) using pyhudi "
        "partitioned by (day, hour) tblproperties (primaryKey = 'id')"
    )
    spark.sql(f"insert into {name} values (1, date'2024-05-01', 7), (2, date'2024-05-02', 8)")

    assert shown(spark, name) == ["day=2024-05-01/hour=7", "day=2024-05-02/hour=8"]
    assert shown(spark, name, "partition (hour = 8)") == ["day=2024-05-02/hour=8"]

    spark.sql(f"alter table {name} drop partition (day = date'2024-05-01', hour = 7)")
    assert [row.id for row in spark.table(name).collect()] == [2]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("double", ["NaN", "-Infinity", "0.1", None]),
        ("float", ["0.1", "NaN"]),
        ("date", ["+10000-01-01", "0001-01-01", None]),
    ],
)
def test_each_partition_is_dropped_emptied_and_overwritten_by_its_value(
    spark: SparkSession, name: str, kind: str, values: list[str | None]
) -> None:
    spark.sql(f"create table {name} (id int, p {kind}) using pyhudi partitioned by (p)")
    told = ["null" if value is None else f"'{value}'" for value in values]
    rows = [f"({at}, cast({value} as {kind}))" for at, value in enumerate(told)]
    for statement in (
        "alter table {} drop partition (p = {})",
        "truncate table {} partition (p = {})",
        "insert overwrite {} partition (p = {}) select 9",
    ):
        for at, value in enumerate(told):
            spark.sql(f"insert overwrite {name} values {', '.join(rows)}")
            spark.sql(statement.format(name, value))
            left = {row.id for row in spark.table(name).select("id").collect()}
            assert left - {9} == set(range(len(told))) - {at}, statement
            assert (9 in left) == statement.startswith("insert")


@pytest.mark.parametrize("kind", ["date", "timestamp"])
def test_partitions_of_days_that_the_old_calendar_lacks_are_dropped(
    spark: SparkSession, name: str, kind: str
) -> None:
    spark.sql(f"create table {name} (id int, p {kind}) using pyhudi partitioned by (p)")
    days = [f"{kind}'1582-10-{day:02}'" for day in (4, 10, 12, 15)]
    rows = [f"({at}, {day})" for at, day in enumerate(days)]
    spark.sql(f"insert into {name} values {', '.join(rows)}")
    spark.sql(f"alter table {name} drop partition (p = {days[1]})")
    spark.sql(f"truncate table {name} partition (p = {days[2]})")
    assert {row.id for row in spark.table(name).select("id").collect()} == {0, 3}


def test_a_folder_that_many_values_share_is_named_where_it_is_in_the_way(
    spark: SparkSession, name: str
) -> None:
    filled(spark, name)
    spark.sql(f"create table {name}2 (id int, at timestamp) using pyhudi partitioned by (at)")
    spark.sql(f"insert into {name}2 values (1, timestamp_micros(5))")
    for statement in (
        f"alter table {name} drop partition (dt = null)",
        f"insert overwrite {name}2 partition (at = '2024-01-01') select 2",
    ):
        with pytest.raises(Exception, match="The folder '(dt=__HIVE_.*|at=5)' does not say"):
            spark.sql(statement)
    spark.sql(f"drop table {name}2")


def test_partitions_are_dropped_in_one_commit(spark: SparkSession, name: str) -> None:
    filled(spark, name)
    before = spark.sql(f"select * from {name}").count()

    spark.sql(f"alter table {name} drop partition (dt = 'x'), partition (dt = 'y')")

    assert before == 4
    assert table(spark, name) == [ROWS[2], ROWS[3]]
    assert shown(spark, name) == ["dt=__HIVE_DEFAULT_PARTITION__", "dt=x%2F1"]
    with pytest.raises(Exception, match="nothing"):
        spark.sql(f"alter table {name} drop partition (dt = 'nothing')")
    spark.sql(f"alter table {name} drop if exists partition (dt = 'nothing')")
    assert table(spark, name) == [ROWS[2], ROWS[3]]


def test_a_partition_is_emptied(spark: SparkSession, name: str) -> None:
    filled(spark, name)
    spark.sql(f"truncate table {name} partition (dt = 'y')")
    assert table(spark, name) == [ROWS[0], ROWS[2], ROWS[3]]


def test_folders_are_shown_as_they_are(spark: SparkSession, name: str) -> None:
    plain = "tblproperties ('hoodie.datasource.write.hive_style_partitioning' = 'false')"
    create(spark, name, plain)
    assert shown(spark, name) == []
    spark.sql(f"insert into {name} values (1, 'a', 1, 'x'), (2, 'b', 1, null)")
    assert shown(spark, name) == ["__HIVE_DEFAULT_PARTITION__", "x"]


def test_a_table_without_partitions_shows_none_and_drops_none(
    spark: SparkSession, name: str
) -> None:
    spark.sql(f"create table {name} (id int, dt string) using pyhudi")
    spark.sql(f"insert into {name} values (1, 'x')")
    assert shown(spark, name) == []
    with pytest.raises(AnalysisException):
        spark.sql(f"alter table {name} drop partition (dt = 'x')")
    assert spark.table(name).count() == 1


def test_a_truncate_names_a_partition_that_is_there_by_all_its_columns(
    spark: SparkSession, name: str
) -> None:
    spark.sql(f"create table {name} (id int, a string, b int) using pyhudi partitioned by (a, b)")
    spark.sql(f"insert into {name} values (1, 'x', 1), (2, 'x', 2)")
    with pytest.raises(AnalysisException, match=r"\[PARTITIONS_NOT_FOUND\].*\(a = Olso, b = 1\)"):
        spark.sql(f"truncate table {name} partition (a = 'Olso', b = 1)")
    for statement in ("truncate table {} partition", "alter table {} drop partition"):
        with pytest.raises(AnalysisException, match=r"\bb\b"):
            spark.sql(f"{statement.format(name)} (a = 'x')")
    assert spark.table(name).count() == 2


def test_no_partition_is_made_without_rows(spark: SparkSession, name: str) -> None:
    filled(spark, name)
    with pytest.raises(Exception, match=r"\[UNSUPPORTED_TABLE\].*first row"):
        spark.sql(f"alter table {name} add partition (dt = 'w')")
    assert len(shown(spark, name)) == 4
