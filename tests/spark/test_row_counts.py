"""The numbers of rows that UPDATE, DELETE and MERGE answer."""

from __future__ import annotations

import pytest
from pyspark.sql import Row, SparkSession

from tests.archiver import archive
from tests.spark.test_repeated_statements import THEIRS, Meanwhile, meanwhile
from tests.spark.test_row_changes import START, filled, hudi
from tests.spark.test_sql import table

__all__ = ["meanwhile"]
pytestmark = pytest.mark.spark

AFFECTED = "num_affected_rows"
#: the numbers of a MERGE, in their order
NAMES = [AFFECTED, "num_updated_rows", "num_deleted_rows", "num_inserted_rows"]
NEWS = """(select 1L id, 'mine' name, 9L ts, 'x' dt union all select 2L, 'gone', 9L, 'x'
union all select 7L, 'mine', 9L, 'x' union all select 8L, 'mine', 9L, 'z') s"""


def answered(spark: SparkSession, statement: str) -> tuple[object, ...]:
    """The one row that a statement answers."""
    (row,) = spark.sql(statement).collect()
    return tuple(row)


@pytest.mark.every_line
def test_statements_answer_how_many_rows_they_changed(spark: SparkSession, name: str) -> None:
    filled(spark, name)

    updated = spark.sql(f"update {name} set name = concat(name, '!') where dt = 'x' or id = 5")
    assert updated.dtypes == [(AFFECTED, "bigint")]
    assert updated.collect() == [Row(num_affected_rows=3)]
    assert updated.count() == 1

    merged = spark.sql(
        f"""merge into {name} t using {NEWS} on t.id = s.id
        when matched and s.name = 'gone' then delete when matched then update set *
        when not matched then insert *
        when not matched by source and t.id = 3 then delete
        when not matched by source then update set name = 'left'"""
    )
    assert merged.dtypes == [(each, "bigint") for each in NAMES]
    # Updated are 1, and 4 and 5, which the source has not; deleted 2 and 3; inserted 7 and 8.
    assert [tuple(row) for row in merged.collect()] == [(7, 3, 2, 2)]

    deleted = spark.sql(f"delete from {name} where id in (1, 7, 99)")
    assert deleted.dtypes == [(AFFECTED, "bigint")]
    assert [tuple(row) for row in deleted.collect()] == [(2,)]

    inserting = f"merge into {name} t using {NEWS} on t.id = s.id when not matched then insert *"
    new = spark.sql(inserting)
    assert new.dtypes == merged.dtypes
    # Of 1, 2, 7 and 8 the table has 8.
    assert [tuple(row) for row in new.collect()] == [(3, 0, 0, 3)]
    assert answered(spark, inserting) == (0, 0, 0, 0)

    assert answered(spark, f"delete from {name} where dt = 'x'") == (3,)
    assert len(table(spark, name)) == 3
    assert answered(spark, f"delete from {name}") == (3,)
    assert table(spark, name) == []
    assert len(hudi(spark, name).timeline().commits) == 8, "each statement ran once"


@pytest.mark.every_line
def test_a_statement_that_changes_nothing_answers_zero(spark: SparkSession, name: str) -> None:
    filled(spark, name)

    assert answered(spark, f"update {name} set name = 'x' where id = 99") == (0,)
    assert answered(spark, f"update {name} set name = 'x' where false") == (0,)
    assert answered(spark, f"delete from {name} where id = 99") == (0,)
    assert answered(spark, f"delete from {name} where dt = 'nowhere'") == (0,)
    merging = f"merge into {name} t using {NEWS} on t.id = s.id + 90 when matched then delete"
    assert answered(spark, merging) == (0, 0, 0, 0)

    assert len(hudi(spark, name).timeline().commits) == 1
    spark.sql(f"truncate table {name}")
    assert answered(spark, f"delete from {name}") == (0,)


def test_a_row_that_moves_to_another_partition_is_one_updated_row(
    spark: SparkSession, name: str
) -> None:
    filled(spark, name)

    assert answered(spark, f"update {name} set dt = 'z' where id in (1, 2, 3)") == (3,)
    merging = f"""merge into {name} t using (select 3L id union all select 4L union all select 9L) s
        on t.id = s.id when matched and t.id = 4 then delete when matched then update set dt = 'v'
        when not matched then insert (id, name, ts, dt) values (s.id, 'new', 1L, 'v')"""
    assert answered(spark, merging) == (3, 1, 1, 1)
    assert [row[0] for row in table(spark, name)] == [1, 2, 3, 5, 9]


def test_an_update_that_the_ordering_column_undoes_is_not_counted(
    spark: SparkSession, name: str
) -> None:
    filled(spark, name)

    assert answered(spark, f"update {name} set ts = 2 - id where dt = 'x'") == (1,)
    assert table(spark, name)[:2] == [(1, "a", 1, "x"), (2, "b", 1, "x")]


def test_a_statement_that_was_repeated_answers_the_numbers_of_its_commit(
    spark: SparkSession, name: str, meanwhile: Meanwhile
) -> None:
    filled(spark, name)
    # The first run finds rows 1 and 2 by their ts, the second only row 2.
    meanwhile([THEIRS])
    assert answered(spark, f"delete from {name} where ts < 5 and dt = 'x'") == (1,)

    meanwhile([(7, "theirs", 5, "x")])
    merging = f"merge into {name} t using {NEWS} on t.id = s.id when not matched then insert *"
    assert answered(spark, merging) == (2, 0, 0, 2)

    meanwhile([(3, "theirs", 5, "y")])
    assert answered(spark, f"delete from {name} where ts = 1 and id = 3") == (0,)


def test_deleted_rows_are_null_if_the_commit_that_wrote_them_was_archived(
    spark: SparkSession, name: str
) -> None:
    filled(spark, name)
    spark.sql(f"insert into {name} values (9, 'i', 1, 'z')")
    opened = hudi(spark, name)
    first, _ = opened.timeline().commits
    archive(opened, first.time)

    assert answered(spark, f"delete from {name} where dt = 'z'") == (1,)
    assert answered(spark, f"delete from {name} where dt = 'x'") == (None,)
    assert [row[0] for row in table(spark, name)] == [3, 4, 5]


def test_a_table_without_a_key_counts_as_others_do(spark: SparkSession, name: str) -> None:
    spark.sql(f"create table {name} (a int, b int) using pyhudi")
    spark.sql(f"insert into {name} values (1, 1), (1, 1), (2, 1)")

    assert answered(spark, f"update {name} set b = 2 where a = 1") == (2,)
    merging = f"""merge into {name} t using (select 2 a union all select 3) s on t.a = s.a
        when matched then delete when not matched then insert (a, b) values (s.a, 0)"""
    assert answered(spark, merging) == (2, 0, 1, 1)
    assert answered(spark, f"delete from {name} where a = 1") == (2,)


@pytest.mark.every_line
def test_explain_shows_the_plan_and_changes_nothing(spark: SparkSession, name: str) -> None:
    filled(spark, name)
    for statement in (
        f"update {name} set name = 'x'",
        f"delete from {name} where id = 1",
        f"delete from {name} where dt = 'x'",
        f"delete from {name}",
        f"merge into {name} t using {NEWS} on t.id = s.id when matched then delete",
        f"merge into {name} t using {NEWS} on t.id = s.id when not matched then insert *",
    ):
        (told,) = spark.sql(f"explain extended {statement}").first() or ("",)
        assert "== Physical Plan ==\nHudiCounted" in told, told
        assert name in told
    assert table(spark, name) == START
    assert len(hudi(spark, name).timeline().commits) == 1


@pytest.mark.every_line
def test_other_statements_answer_what_they_did_before(spark: SparkSession, name: str) -> None:
    filled(spark, name)

    assert spark.sql(f"insert into {name} values (9, 'i', 1, 'x')").collect() == []
    absent = f"select s.* from {NEWS} left anti join {name} t on t.id = s.id"
    assert spark.sql(f"insert into {name} {absent}").collect() == []
    assert spark.sql(f"truncate table {name} partition (dt = 'x')").collect() == []
    assert spark.sql(f"truncate table {name}").collect() == []
