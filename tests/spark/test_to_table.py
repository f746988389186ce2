"""``toTable`` of a table that is not there: Spark makes it without the stream's options."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import pyhudi
from pyhudi.errors import ConfigError
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import open_table
from tests.spark.tables import KEY, ORDERING, PARTITION, TYPE
from tests.spark.test_stream_sink import Stream, ended, row

pytestmark = pytest.mark.spark

KEYED = {KEY: "id", ORDERING: "ts"}


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    """Two batches; the second one changes a row of the first one."""
    found = Stream(spark, tmp_path, options=KEYED)
    found.put([row(1), row(2, dt="y")], [row(1, "b", 2)])
    return found


def rows_of(spark: SparkSession, name: str) -> list[tuple[object, ...]]:
    return sorted(map(tuple, spark.table(name).select("id", "name", "ts", "dt").collect()))


@pytest.mark.every_line
def test_a_new_table_gets_the_options_of_its_stream(stream: Stream, name: str) -> None:
    writer = stream.writer(**{TYPE: "MERGE_ON_READ"}).partitionBy("dt")
    ended(writer.trigger(availableNow=True).toTable(name))
    assert rows_of(stream.spark, name) == [row(1, "b", 2), row(2, dt="y")]
    told = {r.key: r.value for r in stream.spark.sql(f"show tblproperties {name}").collect()}
    assert (told["primaryKey"], told["preCombineField"], told["type"]) == ("id", "ts", "mor")
    assert [r.partition for r in stream.spark.sql(f"show partitions {name}").collect()] == [
        "dt=x",
        "dt=y",
    ]


def test_options_for_the_commits_are_none_of_the_table(stream: Stream, name: str) -> None:
    writer = stream.writer().option("hoodie.datasource.write.commitmeta.key.prefix", "job.")
    ended(writer.option("job.id", "7").trigger(availableNow=True).toTable(name))
    last = pyhudi.last_commit(stream.spark)
    assert last is not None
    assert last.metadata["job.id"] == "7"


def test_a_stream_without_options_makes_a_table_without_a_key(stream: Stream, name: str) -> None:
    stream.options = {}
    ended(stream.writer().trigger(availableNow=True).toTable(name))
    assert rows_of(stream.spark, name) == [row(1), row(1, "b", 2), row(2, dt="y")]


@pytest.mark.parametrize("place", ["elsewhere", "by path"])
def test_a_new_table_outside_the_warehouse_gets_them_too(
    stream: Stream, name: str, place: str
) -> None:
    writer = stream.writer(**{PARTITION: "dt"})
    if place == "elsewhere":
        writer = writer.option("path", stream.path)
    named = name if place == "elsewhere" else f"pyhudi.`{stream.path}`"
    ended(writer.trigger(availableNow=True).toTable(named))
    assert stream.table() == rows_of(stream.spark, named) == [row(1, "b", 2), row(2, dt="y")]
    config = open_table(LocalStorage(stream.path)).config
    assert (config.record_key_fields, config.partition_fields) == (("id",), ("dt",))


@pytest.mark.parametrize(
    "options", [{KEY: "nothing"}, {"recordKeyy": "id"}, {TYPE: "MERGE"}], ids=str
)
@pytest.mark.parametrize("place", ["managed", "elsewhere", "by path"])
def test_options_that_do_not_fit_leave_no_table(
    stream: Stream, name: str, place: str, options: dict[str, str]
) -> None:
    stream.options = options
    writer = stream.writer()
    if place == "elsewhere":
        writer = writer.option("path", stream.path)
    with pytest.raises(ConfigError):
        writer.toTable(f"pyhudi.`{stream.path}`" if place == "by path" else name)
    assert not stream.spark.catalog.tableExists(name)
    warehouse = Path(str(stream.spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:"))
    for folder in (warehouse / name, Path(stream.path)):
        assert not (folder / ".hoodie" / "hoodie.properties").exists()
    stream.options = KEYED
    ended(stream.writer().trigger(availableNow=True).toTable(name))
    assert rows_of(stream.spark, name) == [row(1, "b", 2), row(2, dt="y")]


def test_a_table_of_a_statement_keeps_what_it_was_made_with(stream: Stream, name: str) -> None:
    stream.spark.sql(f"create table {name} (id long, name string, ts long, dt string) using pyhudi")
    with pytest.raises(ConfigError, match="was created with"):
        ended(stream.writer().trigger(availableNow=True).toTable(name))
    assert stream.spark.catalog.tableExists(name)


def test_a_query_that_does_not_start_finds_its_table_later(stream: Stream, name: str) -> None:
    with pytest.raises(AnalysisException, match="[Cc]omplete"):
        stream.writer().outputMode("complete").toTable(name)
    ended(stream.writer().trigger(availableNow=True).toTable(name))
    assert rows_of(stream.spark, name) == [row(1, "b", 2), row(2, dt="y")]
