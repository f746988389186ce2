"""A query keeps to the state it was opened in, and a new one sees what anybody committed since."""

from __future__ import annotations

import shutil

import pytest
from pyspark.sql import DataFrame, SparkSession

from pyhudi.reads import pins
from pyhudi.storage.local import LocalStorage
from tests.spark.tables import HudiTable, Lake, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.compiled]


def somebody_else_writes(lake: Lake, table: HudiTable, lo: int, hi: int) -> None:
    """A commit of which this process hears nothing: it is made on a copy, and its files moved."""
    copy = lake.table("copy")
    shutil.copytree(table.path, copy.path)
    copy.write(rows_of(lo, hi, "b"))
    shutil.copytree(copy.path, table.path, dirs_exist_ok=True)
    shutil.rmtree(copy.path)


def ids(df: DataFrame) -> list[int]:
    return sorted(row["id"] for row in df.collect())


@pytest.fixture
def three(lake: Lake) -> HudiTable:
    table = lake.table()
    table.write(rows_of(0, 3, "a"))
    return table


@pytest.fixture
def listings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The listings of timelines, as they happen."""
    found: list[str] = []
    listed = LocalStorage.list

    def counted(self: LocalStorage, folder: str, *known: object) -> object:
        if folder.startswith(".hoodie"):
            found.append(folder)
        return listed(self, folder, *known)  # type: ignore[arg-type]

    monkeypatch.setattr(LocalStorage, "list", counted)
    return found


def test_one_query_lists_the_timeline_once(three: HudiTable, listings: list[str]) -> None:
    assert ids(three.df().where("dt = '2024-01-01' and id >= 0")) == [0]
    assert len(listings) == 1
    assert three.df().where("dt = '2024-01-01'").count() == 1
    assert len(listings) == 2
    frame = three.df()
    assert ids(frame.alias("l").join(frame.alias("r"), "id").select("id")) == [0, 1, 2]
    assert (frame.count(), len(listings)) == (3, 3)


def test_a_new_read_sees_what_another_process_committed(lake: Lake, three: HudiTable) -> None:
    opened, cached = three.df(), three.df().cache()
    assert (ids(opened), ids(cached)) == ([0, 1, 2], [0, 1, 2])
    somebody_else_writes(lake, three, 3, 6)

    assert ids(three.df()) == list(range(6))
    assert three.df().count() == 6
    path = f"pyhudi.`{three.path}`"
    assert lake.spark.sql(f"select count(*) from {path} where dt > '2024'").first()[0] == 6
    assert (ids(opened), ids(cached), opened.count()) == ([0, 1, 2], [0, 1, 2], 3)
    cached.unpersist()


def test_a_catalog_table_and_a_view_of_a_query_are_resolved_anew_in_each_statement(
    spark: SparkSession, lake: Lake, three: HudiTable, name: str
) -> None:
    spark.sql(f"create table {name} using pyhudi location '{three.path}'")
    spark.sql(f"create or replace temp view by_name as select * from {name}")
    spark.sql(f"create or replace temp view by_path using pyhudi options (path '{three.path}')")
    spark.table(name).createOrReplaceTempView("of_table")
    three.df().createOrReplaceTempView("of_frame")
    frame = spark.table(name)
    everything = (name, "by_name", "by_path", "of_table", "of_frame")
    assert [spark.table(each).count() for each in everything] == [3] * 5
    somebody_else_writes(lake, three, 3, 6)

    for fresh in (name, "by_name"):
        assert spark.table(fresh).count() == 6, fresh
        assert spark.sql(f"select count(*) from {fresh} where dt > '2024'").first()[0] == 6
    # These views are plans, resolved when they were made; those of plain Parquet keep to its files.
    for pinned in ("by_path", "of_frame"):
        assert spark.table(pinned).count() == 3, pinned
    # Since 4.1 Spark loads a catalog's table again whenever such a plan is analyzed.
    assert spark.table("of_table").count() == (6 if spark.version >= "4.1" else 3)
    assert (ids(frame), frame.count()) == ([0, 1, 2], 3)
    for view in everything[1:]:
        spark.catalog.dropTempView(view)


def test_scans_of_one_state_are_equal_however_often_it_was_opened(
    spark: SparkSession, three: HudiTable
) -> None:
    settings = {
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.adaptive.enabled": "false",
    }
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:

        def shared(left: DataFrame, right: DataFrame) -> bool:
            joined = left.alias("l").join(right.alias("r"), "id")
            return "ReusedExchange" in str(joined._jdf.queryExecution().executedPlan())  # type: ignore[operator]

        before = three.df()
        assert shared(before, three.df())
        chosen = "dt = '2024-01-01' and id >= 0"
        assert shared(before.where(chosen), three.df().where(chosen))
        assert not shared(before.where(chosen), three.df().where("dt = '2024-01-02' and id >= 0"))
        three.write(rows_of(3, 6, "b"))
        assert not shared(before, three.df())
        assert shared(before, three.df(as__of__instant=three.instants()[0])) is False
    finally:
        for key in settings:
            spark.conf.unset(key)


def test_a_frame_that_was_forgotten_is_read_as_of_its_instant(
    three: HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = three.df()
    monkeypatch.setattr(pins.PinnedQueries, "_too_many", lambda self: True)
    three.write(rows_of(3, 6, "b"))
    assert three.df().count() == 6
    assert opened.where("dt = '2024-01-01' or id = 1").count() == 2
    assert ids(opened.where("dt = '2024-01-01'")) == [0]
    assert (ids(opened), opened.count()) == ([0, 1, 2], 3)
