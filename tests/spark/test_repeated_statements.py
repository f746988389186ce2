"""Statements that lost a race: evaluated again on the other commit's result, or given up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import pyhudi
from pyhudi.reads import pins
from pyhudi.spark import write_handlers
from pyhudi.writes.write import write_changes
from tests.archiver import archive
from tests.spark.tables import VERSION, listing
from tests.spark.test_row_changes import START, filled, hudi
from tests.spark.test_sql import COLUMNS, folder_of, table

pytestmark = pytest.mark.spark

Row = tuple[object, ...]
Meanwhile = Callable[..., None]

THEIRS: Row = (1, "theirs", 5, "x")
UPSERT = {"hoodie.spark.sql.insert.into.operation": "upsert"}
RETRIES = "hoodie.write.num.retries.on.conflict.failures"


@pytest.fixture
def meanwhile(spark: SparkSession, name: str, monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """Has others commit rows after a statement's scan, before its write: a batch for each time."""

    def commits(*batches: Sequence[Row]) -> None:
        left = list(batches)

        def late(*arguments: Any) -> Any:
            if left:
                spark.createDataFrame(left.pop(0), COLUMNS).writeTo(name).options(**UPSERT).append()
            return write_changes(*arguments)

        monkeypatch.setattr(write_handlers, "write_changes", late)

    return commits


def nothing_is_left(spark: SparkSession, name: str) -> bool:
    folder = folder_of(spark, name)
    return (
        not [f for f in listing(folder) if ".spool" in f]
        and not hudi(spark, name).timeline().pending
    )


NEWS = """(select 1L id, 'mine' name, 9L ts, 'x' dt union all select 2L, 'mine', 9L, 'x'
union all select 7L, 'mine', 9L, 'x')"""
#: statement, and what it makes of ids 1 and 2 and of new rows where id 1 is ``THEIRS`` by then
STATEMENTS: list[tuple[str, list[Row]]] = [
    (
        "update {t} set name = concat(name, '!'), ts = ts + 1 where dt = 'x'",
        [(1, "theirs!", 6, "x"), (2, "b!", 2, "x")],
    ),
    (
        "update {t} set name = 'far', ts = (select max(ts) + 1 from {t}) where id = 2",
        [THEIRS, (2, "far", 6, "x")],
    ),
    ("delete from {t} where ts < 5 and dt = 'x'", [THEIRS]),
    (
        """merge into {t} t using (with most as (select max(ts) ts from {t}) select * from most) s
        on t.ts = s.ts when matched then update set name = 'most'
        when not matched by source and t.dt = 'x' then delete""",
        [(1, "most", 5, "x")],
    ),
    (
        f"""merge into {{t}} t using {NEWS} s on t.id = s.id
        when matched and t.name = 'theirs' then update set name = concat(t.name, s.name)
        when matched then delete when not matched then insert *""",
        [(1, "theirsmine", 5, "x"), (7, "mine", 9, "x")],
    ),
]


@pytest.mark.parametrize("version", ["9", pytest.param("6", marks=pytest.mark.matrix)])
@pytest.mark.parametrize(("statement", "expected"), STATEMENTS)
def test_a_statement_that_lost_a_race_is_evaluated_on_what_the_winner_left(
    spark: SparkSession,
    name: str,
    meanwhile: Meanwhile,
    version: str,
    statement: str,
    expected: list[Row],
) -> None:
    filled(spark, name, **{VERSION.replace(".", "__"): version})
    meanwhile([THEIRS])

    spark.sql(statement.format(t=name))

    assert table(spark, name) == sorted([*expected, *START[2:]])
    assert len(hudi(spark, name).timeline().commits) == 3
    last = pyhudi.last_commit(spark)
    assert last is not None
    assert last.conflicts_retried == 1
    assert nothing_is_left(spark, name)


def test_a_merge_that_only_inserts_finds_the_key_that_another_brought_meanwhile(
    spark: SparkSession, name: str, meanwhile: Meanwhile
) -> None:
    filled(spark, name)
    meanwhile([(7, "theirs", 5, "x")])

    spark.sql(
        f"merge into {name} t using (select 7L id union all select 8L) s on t.id = s.id "
        "when not matched then insert (id, name, ts, dt) values (s.id, 'mine', 9L, 'x')"
    )

    assert table(spark, name) == [*START, (7, "theirs", 5, "x"), (8, "mine", 9, "x")]


def test_a_statement_without_its_rows_commits_nothing_the_second_time(
    spark: SparkSession, name: str, meanwhile: Meanwhile
) -> None:
    filled(spark, name)
    meanwhile([THEIRS])

    spark.sql(f"delete from {name} where name = 'a'")

    assert table(spark, name) == [THEIRS, *START[1:]]
    assert len(hudi(spark, name).timeline().commits) == 2
    assert nothing_is_left(spark, name)


def test_a_statement_that_loses_each_time_is_given_up(
    spark: SparkSession, name: str, meanwhile: Meanwhile
) -> None:
    filled(spark, name, **{RETRIES.replace(".", "__"): "1"})
    meanwhile([THEIRS], [(1, "theirs again", 6, "x")])

    with pytest.raises(AnalysisException, match=r"\[COMMIT_CONFLICT\]"):
        spark.sql(f"update {name} set name = 'ours' where id = 2")

    assert table(spark, name) == [(1, "theirs again", 6, "x"), *START[1:]]
    assert nothing_is_left(spark, name)


def test_a_statement_whose_columns_changed_meanwhile_is_given_up(
    spark: SparkSession, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(spark, name)
    wider = spark.createDataFrame([(*THEIRS, 1.5)], f"{COLUMNS}, tip double")

    def late(*arguments: Any) -> Any:
        if "tip" not in spark.table(name).columns:
            options = {"hoodie.datasource.write.operation": "upsert"}
            wider.write.format("pyhudi").options(**options).mode("append").save(
                str(folder_of(spark, name))
            )
        return write_changes(*arguments)

    monkeypatch.setattr(write_handlers, "write_changes", late)
    with pytest.raises(AnalysisException, match=r"\[COMMIT_CONFLICT\]"):
        spark.sql(f"update {name} set name = 'ours' where id = 2")

    *theirs, partition = THEIRS
    assert table(spark, name)[:2] == [(*theirs, 1.5, partition), (2, "b", 1, None, "x")]


def test_a_commit_elsewhere_after_the_scan_is_no_conflict(
    spark: SparkSession, name: str, meanwhile: Meanwhile
) -> None:
    filled(spark, name)
    meanwhile([(3, "theirs", 5, "y")])

    spark.sql(f"update {name} set name = 'ours' where id = 2")

    assert table(spark, name) == [
        START[0], (2, "ours", 1, "x"), (3, "theirs", 5, "y"), *START[3:],
    ]  # fmt: skip
    last = pyhudi.last_commit(spark)
    assert last is not None
    assert last.conflicts_retried == 0


PLUS = [
    "update {t} set ts = ts + 1 where dt = 'x'",
    """merge into {t} t using (select 1L id union all select 2L) s on t.id = s.id
    when matched then update set ts = t.ts + 1""",
]


@pytest.mark.parametrize("held", [True, False], ids=["evicted", "lost with the planner"])
@pytest.mark.parametrize("statement", [*PLUS, "delete from {t} where id = 1 and ts = 1"])
def test_a_statement_whose_pin_is_gone_loses_no_commit_in_between(
    spark: SparkSession,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    statement: str,
    held: bool,
) -> None:
    filled(spark, name)
    spooled, left = write_handlers.spooled_changes, [THEIRS]

    def late(*arguments: Any) -> Any:
        if left:
            spark.createDataFrame([left.pop()], COLUMNS).writeTo(name).options(**UPSERT).append()
            spark.table(name).count()
        return spooled(*arguments)

    monkeypatch.setattr(write_handlers, "spooled_changes", late)
    monkeypatch.setattr(pins.PinnedQueries, "_too_many", lambda self: True)
    if not held:
        monkeypatch.setattr(pins.PinnedQueries, "hold", lambda self, asked: None)
    spark.sql(statement.format(t=name))

    theirs = THEIRS if statement.startswith("delete") else (1, "theirs", 6, "x")
    second = START[1] if statement.startswith("delete") else (2, "b", 2, "x")
    assert table(spark, name) == [theirs, second, *START[2:]]
    assert nothing_is_left(spark, name)


def test_a_statement_keeps_what_it_read_while_its_pin_is_evicted_and_its_commit_archived(
    spark: SparkSession, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(spark, name)
    spark.createDataFrame([(6, "f", 1, "x")], COLUMNS).writeTo(name).options(**UPSERT).append()
    spooled, known = write_handlers.spooled_changes, hudi(spark, name)
    left = [known.timeline().commits[0].time]

    def late(*arguments: Any) -> Any:
        if left:
            archive(known, left.pop())
            spark.table(name).count()
        return spooled(*arguments)

    monkeypatch.setattr(write_handlers, "spooled_changes", late)
    monkeypatch.setattr(pins.PinnedQueries, "_too_many", lambda self: True)
    spark.sql(f"update {name} set name = 'ours' where id = 2")

    assert table(spark, name)[:2] == [START[0], (2, "ours", 1, "x")]
    last = pyhudi.last_commit(spark)
    assert last is not None
    assert last.conflicts_retried == 0


def test_statements_at_once_lose_no_update(spark: SparkSession, name: str) -> None:
    filled(spark, name, **{RETRIES.replace(".", "__"): "20"})

    def count(_: int) -> None:
        spark.sql(f"update {name} set ts = ts + 1 where id in (1, 2)")

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(count, range(6)))

    assert table(spark, name) == [(1, "a", 7, "x"), (2, "b", 7, "x"), *START[2:]]
    assert len(hudi(spark, name).timeline().commits) == 7
    assert nothing_is_left(spark, name)
