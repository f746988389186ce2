"""A data file that was lost or cut off is told, by every statement, and nothing is changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import pyhudi
from pyhudi.errors import HistoryExpired, TableCorrupt
from pyhudi.format.instants import InstantTime
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import open_table
from pyhudi.timeline.view import VIEWS
from tests.archiver import archive
from tests.spark.tables import HudiTable, Lake, listing, rows_of
from tests.undoing import Undoing

pytestmark = [pytest.mark.spark, pytest.mark.compiled]

DAMAGES: dict[str, Callable[[Path], None]] = {
    "lost": os.unlink,
    "empty": lambda path: os.truncate(path, 0),
    "cut off": lambda path: os.truncate(path, path.stat().st_size // 2),
}


def damaged(lake: Lake, damage: str, version: str = "9") -> tuple[HudiTable, str]:
    """A table of three partitions, the file of one of which is damaged."""
    table = lake.table(hoodie__write__table__version=version)
    table.write(rows_of(0, 9, "a"), "bulk_insert")
    lost = table.base_files()[0]
    DAMAGES[damage](Path(table.path) / lost)
    return table, lost


def new_session(table: HudiTable) -> None:
    """Forget what this process knows of the table, as a new one would."""
    VIEWS.forget(LocalStorage(table.path))


READS: dict[str, Callable[[HudiTable], object]] = {
    "rows": lambda table: table.df().collect(),
    "count": lambda table: table.df().count(),
    "minimum": lambda table: table.df().agg(F.min("ts"), F.max("id")).collect(),
    "time travel": lambda table: table.df(as__of__instant=table.instants()[0]).collect(),
    "files": lambda table: pyhudi.Table(table.path).files(),
}
WRITES: dict[str, Callable[[HudiTable], object]] = {
    "upsert": lambda table: table.write(rows_of(0, 9, "b", 2), "upsert"),
    "insert": lambda table: table.write(rows_of(20, 23, "b", 2), "insert"),
    "bulk_insert": lambda table: table.write(rows_of(20, 23, "b", 2), "bulk_insert"),
    "delete": lambda table: table.write(rows_of(0, 9, "a"), "delete"),
    "UPDATE": lambda table: table.spark.sql(f"update pyhudi.`{table.path}` set name = 'u'"),
    "DELETE": lambda table: table.spark.sql(f"delete from pyhudi.`{table.path}` where ts = 1"),
    "MERGE": lambda table: table.spark.sql(
        f"merge into pyhudi.`{table.path}` t using (select 1L as id, 'm' as name) s "
        "on t.id = s.id when matched then update set name = s.name"
    ),
}


@pytest.mark.parametrize(("version", "damage"), list(zip("689", DAMAGES, strict=True)))
def test_every_statement_of_a_new_session_tells_of_a_damaged_file(
    lake: Lake, version: str, damage: str
) -> None:
    table, lost = damaged(lake, damage, version)
    before = listing(table.path)
    for name, statement in {**READS, **WRITES}.items():
        new_session(table)
        with pytest.raises(TableCorrupt) as told:
            statement(table)
        assert lost in str(told.value), name
        assert table.instants()[0] in str(told.value), name
        after = listing(table.path)
        assert {p for p in after if p.endswith((".parquet", "commit"))} == {
            p for p in before if p.endswith((".parquet", "commit"))
        }, name


@pytest.mark.parametrize(
    ("damage", "way"),
    [*((damage, "collected") for damage in DAMAGES), ("cut off", "distributed")],
    indirect=["way"],
)
def test_the_session_that_knows_a_file_tells_of_its_damage_on_one_line(
    lake: Lake, damage: str, way: str
) -> None:
    """It has listed the table already, so the file is found damaged where it is read."""
    table = lake.table()
    table.write(rows_of(0, 9, "a"), "bulk_insert")
    lost = Path(table.path) / table.base_files()[0]
    data = lost.read_bytes()
    for name, statement in {"rows": READS["rows"], **WRITES}.items():
        if "insert" in name or (name in ("DELETE", "MERGE") and damage != "lost"):
            continue
        lost.write_bytes(data)
        new_session(table)
        assert table.df().count() == 9
        DAMAGES[damage](lost)
        with pytest.raises(TableCorrupt) as told:
            statement(table)
        message = str(told.value)
        assert message.startswith("[TABLE_CORRUPT]"), f"{name}: {message}"
        assert lost.name in message, name
        assert "\tat " not in message, name
        assert len(message.splitlines()) == 1, name
    assert len(table.instants()) == 1


def test_a_whole_file_that_cannot_be_read_is_not_called_lost(lake: Lake) -> None:
    table = lake.table()
    table.write(rows_of(0, 9, "a"), "bulk_insert")
    frame = table.df()
    assert frame.count() == 9
    broken = Path(table.path) / table.base_files()[0]
    broken.write_bytes(bytes(broken.stat().st_size))
    with pytest.raises(Exception, match=broken.name) as told:
        frame.collect()
    assert "TABLE_CORRUPT" not in str(told.value)


def test_a_file_of_a_storage_that_does_not_answer_is_not_called_lost(spark: SparkSession) -> None:
    """No server listens on port 1; the address is that of a base file."""
    jvm: Any = spark._jvm
    url = "webhdfs://127.0.0.1:1/t/0a1b-0_0-1-1_20240101000000000.parquet"
    path = jvm.org.apache.spark.paths.SparkPath.fromUrlString(url)
    hosts = spark.sparkContext._gateway.new_array(jvm.String, 0)  # type: ignore[attr-defined]
    constants = getattr(getattr(jvm.scala.collection.immutable, "Map$"), "MODULE$").empty()
    datasources = jvm.org.apache.spark.sql.execution.datasources
    file = datasources.PartitionedFile(None, path, 0, 1, hosts, 0, 1, constants)
    failed, conf = jvm.java.io.IOException("the read failed"), jvm.org.apache.hadoop.conf
    assert jvm.io.pyhudi.HudiDamage.of(file, conf.Configuration(), failed).isEmpty()


def test_a_query_that_a_clean_overtakes_is_told_so(lake: Lake) -> None:
    table = lake.table()
    table.write(rows_of(0, 9, "a"), "bulk_insert")
    frame = table.df()
    old = [Path(table.path) / name for name in table.base_files()]
    assert frame.count() == 9
    frame._jdf.queryExecution().executedPlan()
    table.write(rows_of(0, 9, "b", 2), "upsert")
    for path in old:
        path.unlink()
    with pytest.raises(HistoryExpired, match="was cleaned before the query read it"):
        frame.collect()
    assert table.df().collect() != []


def test_an_older_version_and_another_rollback_explain_no_lost_file(lake: Lake) -> None:
    table = lake.table()
    table.write(rows_of(0, 9, "a"), "bulk_insert")
    old = set(table.base_files())
    table.write(rows_of(0, 9, "b", 2), "upsert")
    frame = table.df()
    assert frame.count() == 9
    frame._jdf.queryExecution().executedPlan()
    new = set(table.base_files()) - old
    table.write(rows_of(10, 19, "c"), "bulk_insert")
    opened = open_table(LocalStorage(table.path))
    last = opened.timeline().commits[-1].time
    for step in Undoing(opened, InstantTime("20991231000000000")).rollback(last):
        step()  # of another commit
    for name in new:
        (Path(table.path) / name).unlink()
    with pytest.raises(TableCorrupt, match="is not there, though the query was planned with it"):
        frame.collect()
    archive(opened, *(commit.time for commit in opened.timeline().commits))
    with pytest.raises(TableCorrupt, match="is not there, though the query was planned with it"):
        frame.collect()


@pytest.mark.parametrize("version", ["6", "9"])
@pytest.mark.parametrize("ended", [False, True], ids=["pending", "completed"])
def test_a_query_that_a_restore_overtakes_is_told_so(lake: Lake, version: str, ended: bool) -> None:
    table = lake.table(hoodie__write__table__version=version)
    table.write(rows_of(0, 9, "a"), "bulk_insert")
    table.write(rows_of(10, 19, "b"), "bulk_insert")
    frame = table.df()
    assert frame.count() == 18
    frame._jdf.queryExecution().executedPlan()
    opened = open_table(LocalStorage(table.path))
    saved, last = (commit.time for commit in opened.timeline().commits)
    steps = list(Undoing(opened, InstantTime("20991231000000000")).restore(saved, [last]))
    for step in steps if ended else steps[:6]:
        step()

    told = f"restore 20991231000000000{'' if ended else ' is pending'}"
    with pytest.raises(HistoryExpired, match=told) as expired:
        frame.collect()
    assert ("is pending" in str(expired.value)) is not ended
    assert len(table.df().collect()) == 9


@pytest.mark.parametrize(
    ("setting", "damage"), [("ignoreMissingFiles", "lost"), ("ignoreCorruptFiles", "cut off")]
)
def test_a_session_that_passes_over_broken_files_is_told_of_a_tables_own(
    lake: Lake, setting: str, damage: str
) -> None:
    table = lake.table()
    table.write(rows_of(0, 9, "a"), "bulk_insert")
    lost = Path(table.path) / table.base_files()[0]
    key = f"spark.sql.files.{setting}"
    table.spark.conf.set(key, "true")
    try:
        assert len(table.df().collect()) == 9
        DAMAGES[damage](lost)
        with pytest.raises(TableCorrupt, match=lost.name):
            table.df().collect()
    finally:
        table.spark.conf.unset(key)


def test_an_overwrite_is_a_way_out(lake: Lake) -> None:
    table, lost = damaged(lake, "lost")
    new_session(table)
    other = [row for row in rows_of(0, 9, "b", 2) if row[3] == lost.split("/")[0]]
    table.write(other, "insert_overwrite")
    kept = {row[0]: row for row in rows_of(0, 9, "a")}
    assert table.rows() == kept | {row[0]: row for row in other}
    new_session(table)
    assert table.df().count() == 9


def test_a_file_that_is_put_back_is_read_again(lake: Lake) -> None:
    table = lake.table()
    table.write(rows_of(0, 9, "a"), "bulk_insert")
    path = Path(table.path) / table.base_files()[0]
    data = path.read_bytes()
    path.unlink()
    new_session(table)
    with pytest.raises(TableCorrupt):
        table.df().collect()
    path.write_bytes(data)
    assert len(table.rows()) == 9
