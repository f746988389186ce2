"""What Spark's SQL tab shows of reads and commits, as its status store has it."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.spark.tables import KEY, Lake, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.compiled]

COMMIT, SCAN = "pyhudi commit", "BatchScan"
ROWS = ("rows inserted", "rows updated", "rows deleted")


def shown(spark: SparkSession, node: str) -> dict[str, str]:
    """The numbers at the last node of this name: name of each, and its text."""
    jvm: Any = spark._jvm
    as_java = jvm.scala.collection.JavaConverters
    spark._jsc.sc().listenerBus().waitUntilEmpty(60_000)
    store = spark._jsparkSession.sharedState().statusStore()
    for execution in reversed(list(as_java.seqAsJavaList(store.executionsList()))):
        values = dict(as_java.mapAsJavaMap(store.executionMetrics(execution.executionId())))
        graph = store.planGraph(execution.executionId())
        for each in as_java.seqAsJavaList(graph.allNodes()):
            if each.name().startswith(node):
                metrics = as_java.seqAsJavaList(each.metrics())
                return {m.name(): values.get(m.accumulatorId(), "") for m in metrics}
    raise AssertionError(f"no query of this session shows {node}")


def changed(spark: SparkSession) -> tuple[str, ...]:
    """Rows inserted, updated and deleted by the last commit, as the tab has them."""
    found = shown(spark, COMMIT)
    return tuple(found[name] for name in ROWS)


def test_every_way_of_a_commit_shows_what_it_did(lake: Lake, name: str) -> None:
    spark, table = lake.spark, lake.table()
    table.write(rows_of(0, 6, "a"))
    first = shown(spark, COMMIT)
    assert changed(spark) == ("6", "0", "0")
    assert (first["files written"], first["conflicts retried"]) == ("3", "0")
    assert first["size of files written"].endswith("KiB")
    assert first["wait for the lock"].endswith("s")

    upserts = "tblproperties ('hoodie.spark.sql.insert.into.operation' = 'upsert')"
    spark.sql(f"create table {name} using pyhudi location '{table.path}' {upserts}")
    for statement, counts in (
        (f"insert into {name} values (0, 'b', 2, '2024-01-01'), (9, 'b', 2, 'x')", ("1", "1", "0")),
        (f"update {name} set name = 'c' where id < 2", ("0", "2", "0")),
        (f"delete from {name} where id = 9", ("0", "0", "1")),
    ):
        spark.sql(statement)
        assert changed(spark) == counts, statement
    spark.sql(f"truncate table {name}")
    assert shown(spark, COMMIT)["files written"] == "0"


def test_a_scan_shows_what_it_read_and_what_it_left_out(lake: Lake) -> None:
    table = lake.table()
    table.write(rows_of(0, 6, "a"))

    table.df().where("dt = '2024-01-02'").collect()

    found = shown(lake.spark, SCAN)
    assert (found["files read"], found["files pruned"], found["partitions read"]) == ("1", "2", "1")
    assert found["size of files read"].endswith("KiB")
    assert found["number of output rows"] == "2"


def test_a_join_reads_the_partitions_that_its_other_side_has(lake: Lake) -> None:
    table = lake.table()
    table.write(rows_of(0, 6, "a"))
    days = lake.table("days", options={KEY: "day"}, ddl="day string, w int")
    days.write([("2024-01-02", 1), ("2024-01-03", 2), ("2024-01-09", 2)])

    few = days.df().where("w = 2")
    joined = table.df().join(few.hint("broadcast"), F.col("dt") == F.col("day"))

    assert sorted(row.id for row in joined.collect()) == [2, 5]
    found = shown(lake.spark, f"{SCAN} pyhudi.`{table.path}`")
    assert (found["files read"], found["files pruned"]) == ("1", "2")


@pytest.mark.parametrize(
    ("kind", "number"),
    [("long", "{}"), ("date", "date_from_unix_date({})"), ("timestamp", "timestamp_micros({})")],
)
def test_a_join_on_keys_reads_the_files_whose_footers_have_a_value_within_their_bounds(
    lake: Lake, kind: str, number: str
) -> None:
    table = lake.table(options={KEY: "k"}, ddl=f"k {kind}, v long")
    for low in (0, 100, 200, 300):
        rows = lake.spark.range(low, low + 100).selectExpr(
            f"{number.format('cast(id as int)')} k", "id v"
        )
        table.write(rows.coalesce(1), "bulk_insert")
    lone = lake.spark.createDataFrame([(120, 1), (390, 2), (None, 3), (500, 4)], "n int, w int")
    few = lone.selectExpr(f"{number.format('n')} k", "w")

    for where, values, read in (("w > 0", [120, 390], "2"), ("w > 2", [], "0")):
        joined = table.df().join(few.where(where).hint("broadcast"), "k")
        assert sorted(row.v for row in joined.collect()) == values
        found = shown(lake.spark, f"{SCAN} pyhudi.`{table.path}`")
        assert (found["files read"], found["files pruned"]) == (read, str(4 - int(read)))
