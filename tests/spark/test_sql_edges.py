"""Statements that Spark would take half-way: served whole, or refused by name."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Row, SparkSession

from tests.spark.tables import KEY, PARTITION, TYPE, Lake
from tests.spark.test_sql import folder_of

pytestmark = pytest.mark.spark


def test_char_and_varchar_columns_have_their_lengths(spark: SparkSession, name: str) -> None:
    spark.sql(f"create table {name} (id int, c char(5), v varchar(3)) using pyhudi")
    spark.sql(f"insert into {name} values (1, 'ab', 'xyz')")

    assert spark.sql(f"select c, v from {name}").collect() == [Row(c="ab   ", v="xyz")]
    assert spark.sql(f"select id from {name} where c = 'ab'").collect() == [Row(id=1)]
    with pytest.raises(Exception, match="(?i)exceed"):
        spark.sql(f"insert into {name} values (2, 'a', 'longer')")


@pytest.mark.parametrize("change", ["c type string", "v type string"])
def test_a_declared_length_is_not_altered_in_name_alone(
    spark: SparkSession, name: str, change: str
) -> None:
    spark.sql(f"create table {name} (id int, c char(5), v varchar(3)) using pyhudi")
    with pytest.raises(Exception, match=r"is (CHAR|VARCHAR)\(\d\), a length that the catalog"):
        spark.sql(f"alter table {name} alter column {change}")


def test_comments_inside_a_column_leave_what_the_catalog_has_of_it(
    spark: SparkSession, name: str
) -> None:
    spark.sql(
        f"create table {name} (id int, s struct<x: varchar(3) comment 'in'> comment 'of s', "
        "d struct<a: int comment 'in'> default named_struct('a', 5)) using pyhudi "
        "tblproperties (primaryKey = 'id')"
    )
    comments = {row.col_name: row.comment for row in spark.sql(f"describe {name}").collect()}
    assert comments["s"] == "of s"
    spark.sql(f"insert into {name} (id) values (1)")
    assert spark.sql(f"select d.a from {name}").collect() == [Row(a=5)]
    with pytest.raises(Exception, match="(?i)exceed"):
        spark.sql(f"insert into {name} values (2, named_struct('x', 'longer'), null)")
    spark.sql(f"alter table {name} alter column s comment 'anew'")
    comments = {row.col_name: row.comment for row in spark.sql(f"describe {name}").collect()}
    assert comments["s"] == "anew"


def test_a_column_is_added_beside_one_with_a_default(spark: SparkSession, name: str) -> None:
    given = "using pyhudi tblproperties (primaryKey = 'id')"
    spark.sql(f"create table {name} (id int, x int default 5) {given}")
    spark.sql(f"alter table {name} add columns (y string)")
    spark.sql(f"insert into {name} (id) values (1)")
    spark.sql(f"alter table {name} rename column y to z")
    spark.sql(f"alter table {name} set tblproperties ('note' = 'n')")
    spark.sql(f"insert into {name} (id, z) values (2, 'z')")
    found = spark.sql(f"select id, x, z from {name} order by id").collect()
    assert [tuple(row) for row in found] == [(1, 5, None), (2, 5, "z")]


@pytest.mark.every_line
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_statements_change_rows_of_tables_with_char_columns(
    spark: SparkSession, name: str, kind: str
) -> None:
    """Where Spark pads the columns by a projection over the table, the statements find it."""
    given = f"using pyhudi tblproperties (primaryKey = 'id', type = '{kind}')"
    spark.sql(f"create table {name} (id int, c char(5), v varchar(5)) {given}")
    spark.sql(f"insert into {name} values (1, 'ab', 'x'), (2, 'cd', 'y'), (3, 'ef', 'z')")

    spark.sql(f"delete from {name} where c = 'cd'")
    spark.sql(f"update {name} set v = length(c) where c = 'ab'")
    spark.sql(
        f"merge into {name} t using (select explode(array(1, 4)) id, 'new' c) s on t.id = s.id"
        " when matched and t.c = 'ab' then update set c = s.c, v = concat(trim(t.c), t.v)"
        " when not matched then insert (id, c, v) values (s.id, s.c, 'i')"
    )
    spark.sql(
        f"merge into {name} t using {name} s on t.c < s.c and s.id = 4 when matched then delete"
    )

    assert sorted(spark.sql(f"select * from {name}").collect()) == [
        Row(id=1, c="new  ", v="ab5"),
        Row(id=4, c="new  ", v="i"),
    ]


@pytest.mark.every_line
@pytest.mark.parametrize(
    "condition",
    [
        "exists (select 1 from SOURCE s where s.c = t.c)",
        "v = (select max(s.v) from SOURCE s where s.c = t.c)",
        "c in (select c from SOURCE)",
        "exists (select 1 from SOURCE s where s.c = t.c and s.c in (select max(c) from SOURCE))",
    ],
)
def test_subqueries_of_statements_see_char_columns(
    spark: SparkSession, name: str, condition: str
) -> None:
    given = "using pyhudi tblproperties (primaryKey = 'id')"
    for table in (name, f"{name}_source"):
        spark.sql(f"create table {table} (id int, c char(5), v varchar(5)) {given}")
    spark.sql(f"insert into {name} values (1, 'ab', 'x'), (2, 'cd', 'y')")
    spark.sql(f"insert into {name}_source values (7, 'cd', 'y')")

    where = condition.replace("SOURCE", f"{name}_source")
    assert [row.id for row in spark.sql(f"select id from {name} t where {where}").collect()] == [2]
    spark.sql(f"delete from {name} t where {where}")

    assert [row.id for row in spark.sql(f"select id from {name}").collect()] == [1]


@pytest.mark.parametrize("how", ["", "purge"])
def test_a_table_at_a_path_is_not_dropped_by_name(
    spark: SparkSession, lake: Lake, how: str
) -> None:
    table = lake.table()
    table.write([(1, "a", 5, "x")])

    with pytest.raises(AnalysisException, match="UNSUPPORTED_TABLE"):
        spark.sql(f"drop table pyhudi.`{table.path}` {how}")

    assert table.df().count() == 1


def test_the_location_of_a_table_stays(spark: SparkSession, name: str, lake: Lake) -> None:
    spark.sql(f"create table {name} (id int) using pyhudi")
    spark.sql(f"insert into {name} values (1)")

    with pytest.raises(AnalysisException, match="UNSUPPORTED_TABLE"):
        spark.sql(f"alter table {name} set location '{lake.folder}/other'")

    assert spark.table(name).count() == 1
    spark.sql(f"alter table {name} set tblproperties ('note' = 'kept')")
    assert spark.table(name).count() == 1


def test_an_entry_without_a_table_says_what_it_is(spark: SparkSession, name: str) -> None:
    spark.sql(f"create table {name} (id int) using pyhudi")
    shutil.rmtree(folder_of(spark, name))
    with pytest.raises(AnalysisException, match="CREATE TABLE ... LIKE"):
        spark.sql(f"select * from {name}")


@pytest.mark.parametrize("condition", ["d = 0", "d in (0, 5)", "d >= 0", "not d > 0", "d <=> 0"])
def test_zero_is_found_whatever_its_sign(lake: Lake, condition: str) -> None:
    table = lake.table(options={KEY: "id"}, ddl="id long, d double")
    table.write(lake.spark.sql("select id, -0.0D d from range(100)"))

    assert table.df().filter(condition).count() == 100


@pytest.mark.parametrize(
    "condition",
    ["d > 5", "d >= 5", "not d < 5", "d != 1", "d = double('NaN')", "d <=> double('NaN')"],
)
def test_nan_is_found_though_statistics_leave_it_out(lake: Lake, condition: str) -> None:
    table = lake.table(options={KEY: "id"}, ddl="id long, d double")
    table.write(lake.spark.sql("select id, if(id = 7, double('NaN'), 1.0D) d from range(100)"))

    assert [row.id for row in table.df().filter(condition).collect()] == [7]


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_days_that_the_old_calendar_lacks_are_found(lake: Lake, kind: str) -> None:
    """Spark hands dates to filters in that calendar, in which they become another day."""
    given = {KEY: "id", TYPE: kind, "hoodie.log.most.changed.percent": "100"}
    table = lake.table(options=given, ddl="id int, d date, t timestamp")
    days = lake.spark.sql("select explode(sequence(0, 19)) id").selectExpr(
        "id",
        "date_add(date'1582-10-01', id) d",
        "date_add(date'1582-10-01', id) + interval 5 hours t",
    )
    table.write(days)
    table.write(days.where("id % 3 = 0"))
    for condition in (
        "d = date'1582-10-10'",
        "d in (date'1582-10-10', date'1582-10-20')",
        "d >= date'1582-10-06'",
        "not d < date'1582-10-14'",
        "t >= timestamp'1582-10-10 05:00:00'",
        "t = timestamp'1582-10-06 05:00:00'",
    ):
        wanted = sorted(row.id for row in days.where(condition).collect())
        assert sorted(row.id for row in table.df().where(condition).collect()) == wanted, condition


@contextmanager
def machine_in(spark: SparkSession, zone: str) -> Iterator[None]:
    """The JVM as on a machine in this time zone."""
    zones = spark._jvm.java.util.TimeZone  # type: ignore[union-attr]
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone(zone))
    try:
        yield
    finally:
        zones.setDefault(before)


@pytest.mark.parametrize(
    ("kind", "zone", "lost", "next_to_it"),
    [
        ("date", "Pacific/Apia", "2011-12-30", "2011-12-31"),
        ("timestamp", "Pacific/Apia", "1892-07-03 11:27:00", "1892-07-04 11:27:00"),
        ("timestamp", "America/New_York", "1883-11-18 16:57:00", "1883-11-18 17:00:58"),
    ],
)
def test_times_that_the_zone_of_the_machine_lacks_are_found(
    lake: Lake, kind: str, zone: str, lost: str, next_to_it: str
) -> None:
    """Spark hands them to filters as times of that zone, in which they become other ones."""
    table = lake.table(options={KEY: "id", PARTITION: "p"}, ddl=f"id int, p {kind}, d {kind}")
    values = f"(0, {kind}'{lost}'), (1, {kind}'{next_to_it}')"
    table.write(lake.spark.sql(f"select id, p, p d from values {values} t(id, p)"))
    with machine_in(lake.spark, zone):
        for column in ("p", "d"):
            for id, value in enumerate((lost, next_to_it)):
                found = table.df().where(f"{column} = {kind}'{value}'").select("id").collect()
                assert [row.id for row in found] == [id], (column, value)
        lake.spark.sql(f"delete from pyhudi.`{table.path}` where p = {kind}'{lost}'")
    assert [row.id for row in table.df().collect()] == [1]


def test_fields_with_the_names_of_hidden_columns_are_set(spark: SparkSession, name: str) -> None:
    spark.sql(
        f"create table {name} (id int, s struct<_pos: int, _file: string>) using pyhudi "
        "tblproperties (primaryKey = 'id')"
    )
    spark.sql(f"insert into {name} values (1, named_struct('_pos', 1, '_file', 'a'))")
    spark.sql(f"update {name} as t set s._pos = 2, t.s._FILE = 'b'")
    assert spark.sql(f"select s.* from {name}").collect() == [(2, "b")]
    for hidden in ("_pos", f"{name}._file"):
        with pytest.raises(AnalysisException, match="cannot be set"):
            spark.sql(f"update {name} set {hidden} = 5")
