"""CALL: procedures in the catalog of paths; on Spark 3.5 pyhudi reads the statement itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

from pyhudi.clock import SystemClock
from pyhudi.errors import UnsupportedTable
from pyhudi.services import clean as clean_module
from pyhudi.storage.open import open_storage
from pyhudi.timeline.table import BACKUP, PROPERTIES, open_table
from tests.spark.test_sql import create, folder_of, table

pytestmark = [pytest.mark.spark, pytest.mark.every_line]

LOST = "00000000-0000-4000-8000-000000000000"
DEAD, LONG_AGO_S = "20240501123005123", 1714566605


@pytest.fixture(autouse=True)
def _old_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file may go as soon as it is old: no query has just begun."""
    monkeypatch.setattr(clean_module, "SPARED_MS", 0)


def left_by_a_dead_writer(folder: Path) -> None:
    hoodie = folder / ".hoodie"
    left = ("timeline", f"{DEAD}.commit.requested"), ("timeline", f"{DEAD}.inflight")
    for place, file in (*left, (".heartbeat", DEAD)):
        (hoodie / place).mkdir(exist_ok=True)
        (hoodie / place / file).touch()
        os.utime(hoodie / place / file, (LONG_AGO_S, LONG_AGO_S))


def pending(folder: Path) -> int:
    return len(open_table(open_storage(str(folder), {}, SystemClock())).timeline().pending)


@pytest.mark.parametrize("by", ["name", "path", "qualified name"])
def test_failed_writes_are_rolled_back_by_a_call(spark: SparkSession, name: str, by: str) -> None:
    create(spark, name)
    spark.sql(f"insert into {name} values (1, 'a', 1, 'x')")
    folder = folder_of(spark, name)
    left_by_a_dead_writer(folder)
    named = {"name": name, "path": str(folder), "qualified name": f"spark_catalog.default.{name}"}

    call = f"call pyhudi.system.clean_failed_writes(table => '{named[by]}')"
    (would,) = spark.sql(call.replace(")", ", dry_run => true)")).collect()
    assert (would.outcome, pending(folder)) == ("would be rolled back", 1)
    (told,) = spark.sql(call).collect()

    assert (told.instant, told.action, told.outcome) == (DEAD, "commit", "rolled back")
    assert told.rollback > DEAD
    assert told.files_deleted == 0
    assert pending(folder) == 0
    assert table(spark, name) == [(1, "a", 1, "x")]
    assert spark.sql(call).collect() == []


def test_what_a_session_says_holds_for_its_calls(spark: SparkSession, name: str) -> None:
    create(spark, name)
    spark.sql(f"insert into {name} values (1, 'a', 1, 'x')")
    left_by_a_dead_writer(folder_of(spark, name))
    spark.conf.set("hoodie.clean.failed.writes.policy", "NEVER")
    try:
        (told,) = spark.sql(f"call pyhudi.system.clean_failed_writes('{name}')").collect()
    finally:
        spark.conf.unset("hoodie.clean.failed.writes.policy")

    assert told.outcome == "policy NEVER: left alone"
    assert pending(folder_of(spark, name)) == 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("vacuum('trips')", "there is no procedure"),
        ("Rollback_To_Savepoint('trips', '1')", r"write: CALL pyhudi\.system\.restore\("),
        ("clean('trips', dryrun => true)", "(?i)dryrun"),
        ("clean('trips', true, dry_run => true)", "(?i)dry_run|more than once"),
        ("clean('trips', true, map(), 1, 2, 3)", "(?i)arguments|parameters"),
        ("savepoint()", "(?i)table"),
        ("clean_failed_writes('nowhere')", "nowhere"),
        ("clean_failed_writes('/nowhere/at/all')", "/nowhere/at/all"),
        ("clean_failed_writes(null)", "is not a table"),
        ("why('/nowhere/at/all', null)", "is not a record key"),
        ("why('/nowhere/at/all', '1')", "/nowhere/at/all"),
        ("clean('/nowhere/at/all', max_files => 0)", "/nowhere/at/all"),
        ("doctor('/nowhere/at/all')", "/nowhere/at/all"),
        ("sync_partitions('/nowhere/at/all')", "No Hive Metastore lists partitions"),
    ],
)
def test_a_call_for_nothing_says_so(spark: SparkSession, call: str, words: str) -> None:
    with pytest.raises(AnalysisException, match=words):
        spark.sql(f"call pyhudi.system.{call}")


def test_a_word_that_is_no_boolean_starts_no_service(spark: SparkSession, name: str) -> None:
    create(spark, name)
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        spark.sql(f"call pyhudi.system.clean('{name}', dry_run => 'perhaps')")


def test_a_call_tells_the_life_of_a_key(spark: SparkSession, name: str) -> None:
    create(spark, name)
    spark.sql(f"insert into {name} values (1, 'a', 1, 'x'), (2, 'b', 1, 'y')")
    spark.sql(f"update {name} set name = 'c', ts = 2 where id = 1")
    spark.sql(f"delete from {name} where id = 1")

    call = f"call pyhudi.system.why(table => '{name}', key => '1')"
    found = spark.sql(call).collect()
    assert [row.what for row in found] == ["inserted", "updated", "deleted", "now"]
    assert [row.partition for row in found] == ["dt=x", "dt=x", "dt=x", ""]
    path = folder_of(spark, name)
    by_path = f"call pyhudi.system.why('{path}', '1', partition => 'dt=y', carried => true)"
    (only,) = spark.sql(by_path).collect()
    assert "Looked in the partition 'dt=y'" in only.reason


def test_a_call_measures_the_health_that_sql_reads_as_a_table(
    spark: SparkSession, name: str
) -> None:
    create(spark, name)
    spark.sql(f"insert into {name} values (1, 'a', 1, 'x')")
    left_by_a_dead_writer(folder_of(spark, name))
    called = {
        row.measure: row for row in spark.sql(f"call pyhudi.system.health('{name}')").collect()
    }
    assert (called["pending commit"].level, called["small files"].value) == ("warn", 1.0)
    assert set(called) == {row.measure for row in spark.table(f"{name}.health").collect()}


def test_a_call_advises_on_the_shape_of_a_table(spark: SparkSession, name: str) -> None:
    create(spark, name)
    spark.sql("set hoodie.parquet.small.file.limit=0")
    try:
        for i in range(12):
            spark.sql(f"insert into {name} values ({i}, 'a', {i}, 'x')")
    finally:
        spark.conf.unset("hoodie.parquet.small.file.limit")
    (only,) = spark.sql(f"call pyhudi.system.advise('{name}')").collect()
    assert only.aspect == "target file size"
    assert only.evidence.startswith("12 commits added 12 files")
    assert "hoodie.clustering.inline=true" in only.follow
    assert spark.table(f"{name}.advice").collect() == [only]
    spark.sql(f"call pyhudi.system.cluster('{name}')")
    assert spark.sql(f"call pyhudi.system.advise('{name}')").collect() == []


def test_the_catalog_of_paths_lists_its_procedures(spark: SparkSession) -> None:
    if spark.version < "4.1":
        with pytest.raises(ParseException):
            spark.sql("show procedures in pyhudi")
        pytest.skip("SHOW PROCEDURES came with Spark 4.1")
    for place in ("pyhudi", "pyhudi.system"):
        listed = spark.sql(f"show procedures in {place}").collect()
        assert {row.catalog for row in listed} == {"pyhudi"}
        names = {row.procedure_name for row in listed}
        assert names == {
            "advise", "archive", "bins", "clean", "clean_failed_writes", "cluster",
            "delete_savepoint", "doctor", "health", "put_back", "remove_orphans", "restore",
            "run_compaction", "run_services", "savepoint", "show_compaction",
            "sync_partitions", "why",
        }  # fmt: skip


def test_a_clean_is_called_with_its_options(spark: SparkSession, name: str) -> None:
    create(spark, name)
    for i in range(4):
        spark.sql(f"insert into {name} values (1, 'a', {i}, 'x')")
    dry = f"call pyhudi.system.clean(table => '{name}', dry_run => true, options => "
    keep = "map('hoodie.clean.commits.retained', '1'))"

    would = spark.sql(dry + keep).collect()
    assert [row.fate for row in would] == ["would be deleted", "would be deleted", "kept"]
    done = spark.sql(dry.replace("true", "false") + keep).collect()

    assert [row.fate for row in done] == ["deleted", "deleted", "kept"]
    assert done[0].partition == would[0].partition
    assert done[0].file == would[0].file
    assert "rewrote it before" in done[0].why
    assert not (folder_of(spark, name) / done[0].partition / done[0].file).exists()
    assert table(spark, name) == [(1, "a", 3, "x")]
    assert spark.sql(f"call pyhudi.system.clean('{name}')").collect() == []
    with pytest.raises(Exception, match="hoodie.clean.commits.retained"):
        spark.sql(
            f"call pyhudi.system.clean('{name}', true, map('hoodie.clean.commit.retained', '1'))"
        )


def test_an_archive_is_called_for(spark: SparkSession, name: str) -> None:
    create(spark, name)
    for i in range(5):
        spark.sql(f"insert into {name} values (1, 'a', {i}, 'x')")
    few = "map('hoodie.keep.min.commits', '2', 'hoodie.keep.max.commits', '3', "
    few += "'hoodie.clean.commits.retained', '1')"
    call = f"call pyhudi.system.archive('{name}', dry_run => "

    would = spark.sql(f"{call}true, options => {few})").collect()
    done = spark.sql(f"{call}false, options => {few})").collect()

    assert [row.fate for row in would].count("would be archived") == 3
    assert [row.instant for row in done if row.fate == "archived"] == [
        row.instant for row in would if row.fate == "would be archived"
    ]
    assert table(spark, name) == [(1, "a", 4, "x")]


def test_a_clustering_is_called_for(spark: SparkSession, name: str) -> None:
    create(spark, name)
    spark.sql("set hoodie.parquet.small.file.limit=0")
    try:
        for i in range(4):
            spark.sql(f"insert into {name} values ({i}, 'a', {i}, 'x')")
    finally:
        spark.conf.unset("hoodie.parquet.small.file.limit")
    rows = table(spark, name)
    before = spark.table(f"{name}.files").count()

    would = spark.sql(f"call pyhudi.system.cluster(table => '{name}', dry_run => true)").collect()
    assert spark.table(f"{name}.files").count() == before
    done = spark.sql(f"call pyhudi.system.cluster('{name}')").collect()

    assert before == len(would) == len(done) == 4
    assert {row.fate for row in would} == {"would be clustered"}
    assert {row.fate for row in done} == {"clustered"}
    assert spark.table(f"{name}.files").count() == 1
    assert table(spark, name) == rows


def test_orphans_are_only_listed_unless_told_otherwise(spark: SparkSession, name: str) -> None:
    create(spark, name)
    spark.sql(f"insert into {name} values (1, 'a', 1, 'x')")
    (first,) = spark.table(f"{name}.history").collect()
    lost = folder_of(spark, name) / "dt=x" / f"{LOST}-0_0-0-0_{int(first.instant) + 1}.parquet"
    lost.write_bytes(b"PAR1")
    os.utime(lost, (0, 0))

    listed = spark.sql(f"call pyhudi.system.remove_orphans('{name}')").collect()
    assert [(row.file, row.fate) for row in listed] == [(lost.name, "would be moved")]
    assert lost.exists()
    moved = spark.sql(f"call pyhudi.system.remove_orphans('{name}', dry_run => false)").collect()
    assert [row.fate for row in moved] == ["moved"]
    assert not lost.exists()
    assert table(spark, name) == [(1, "a", 1, "x")]


def test_a_call_keeps_to_its_budget(spark: SparkSession, name: str) -> None:
    create(spark, name)
    for i in range(5):
        spark.sql(f"insert into {name} values (1, 'a', {i}, 'x')")
    keep = "options => map('hoodie.clean.commits.retained', '1')"
    call = f"call pyhudi.system.clean('{name}', {keep}, "

    by_files = spark.sql(f"{call}max_files => 1)").collect()
    assert [row.fate for row in by_files] == ["deleted", *["left for later"] * 2, "kept"]
    by_bytes = spark.sql(f"{call}max_bytes => 1)").collect()
    assert [row.fate for row in by_bytes] == ["deleted", "left for later", "kept"]
    with pytest.raises(Exception, match="'max_bytes' is 0"):
        spark.sql(f"{call}max_bytes => 0)")
    round_ = f"call pyhudi.system.run_services('{name}', {keep}, services => 'clean, archive', "
    turns = spark.sql(f"{round_}budget_s => 60, max_cpu_minutes => 5)").collect()
    assert [(row.service, row.done, row.error) for row in turns] == [
        ("clean", 1, ""), ("archive", 0, "")
    ]  # fmt: skip


def test_a_clustering_by_tasks_stops_after_its_cpu_time(spark: SparkSession, name: str) -> None:
    create(spark, name)
    spark.sql("set hoodie.parquet.small.file.limit=0")
    try:
        for i in range(4):
            spark.sql(f"insert into {name} values ({i}, 'a', {i}, '{'xy'[i % 2]}')")
    finally:
        spark.conf.unset("hoodie.parquet.small.file.limit")
    call = f"call pyhudi.system.cluster('{name}', max_cpu_minutes => "
    some = spark.sql(f"{call}0.000001)").collect()
    assert sorted(row.fate for row in some) == ["clustered", "clustered", "left", "left"]
    assert "the time of this run was used up" in " ".join(row.why for row in some)
    rest = spark.sql(f"{call}60)").collect()
    assert [row.fate for row in rest].count("clustered") == 2
    assert len(table(spark, name)) == 4


def test_a_broken_table_is_repaired_and_its_repair_undone(spark: SparkSession, name: str) -> None:
    create(spark, name)
    spark.sql(f"insert into {name} values (1, 'a', 1, 'x')")
    folder = folder_of(spark, name)
    lost = folder / "dt=x" / ".hoodie_partition_metadata"
    lost.unlink()
    call = "call pyhudi.system"

    would = spark.sql(f"{call}.doctor('{folder}')").collect()
    assert [row.treatment for row in would] == ["would be repaired"]
    assert not lost.exists()
    (done,) = spark.sql(f"{call}.doctor(table => '{name}', dry_run => false)").collect()
    assert (done.kind, done.treatment) == (would[0].kind, "repaired")
    assert lost.exists()
    assert spark.sql(f"{call}.doctor('{name}')").collect() == []

    (kept,) = spark.sql(f"{call}.bins('{name}')").collect()
    assert (kept.name, kept.files) == (done.bin, 1)
    (back,) = spark.sql(f"{call}.put_back('{name}', '{kept.name}')").collect()
    assert back.outcome == "put back"
    assert not lost.exists()
    assert spark.sql(f"{call}.bins('{name}')").collect() == []
    with pytest.raises(Exception, match="has no bin"):
        spark.sql(f"{call}.put_back('{name}', '7')")
    assert table(spark, name) == [(1, "a", 1, "x")]


def test_a_table_that_does_not_open_is_repaired_by_its_path(spark: SparkSession, name: str) -> None:
    create(spark, name)
    spark.sql(f"insert into {name} values (1, 'a', 1, 'x')")
    folder = folder_of(spark, name)
    whole = (folder / PROPERTIES).read_bytes()
    (folder / BACKUP).write_bytes(whole)
    (folder / PROPERTIES).write_bytes(whole[: len(whole) // 3])

    would = spark.sql(f"call pyhudi.system.doctor('{folder}')").collect()
    assert "would be repaired" in {row.treatment for row in would}
    done = spark.sql(f"call pyhudi.system.doctor('{folder}', dry_run => false)").collect()
    assert {row.treatment for row in done} == {"repaired"}
    assert table(spark, name) == [(1, "a", 1, "x")]


def test_a_restore_is_called_for(spark: SparkSession, name: str) -> None:
    create(spark, name)
    for i in range(3):
        spark.sql(f"insert into {name} values (1, 'a', {i}, 'x')")
    listed = spark.sql(f"select instant from {name}.history order by instant").collect()
    first, *later = (row.instant for row in listed)
    call = "call pyhudi.system.restore"

    would = spark.sql(f"{call}('{name}', '{first}', true)").collect()
    assert {row.fate for row in would} == {"would be undone"}
    assert table(spark, name) == [(1, "a", 2, "x")]
    done = spark.sql(f"{call}(table => '{name}', instant => '{first}', fence => true)").collect()

    assert [row.commit for row in done] == later[::-1]
    assert {row.fate for row in done} == {"undone"}
    assert table(spark, name) == [(1, "a", 0, "x")]
    assert spark.sql(f"{call}('{name}', '{first}')").collect() == []
    with pytest.raises(Exception, match="is no completed commit"):
        spark.sql(f"{call}('{name}', '20200101000000000')")
    spark.sql(f"insert into {name} values (2, 'b', 5, 'x')")
    assert table(spark, name) == [(1, "a", 0, "x"), (2, "b", 5, "x")]


def test_a_savepoint_is_called_for_and_deleted(spark: SparkSession, name: str) -> None:
    create(spark, name)
    for i in range(3):
        spark.sql(f"insert into {name} values (1, 'a', {i}, 'x')")
    (first, _, newest) = (
        r.instant
        for r in spark.sql(f"select instant from {name}.history order by instant").collect()
    )
    call = "call pyhudi.system"

    (kept,) = spark.sql(f"{call}.savepoint('{name}', '{first}', 'a backup')").collect()
    (last,) = spark.sql(f"{call}.savepoint(table => '{name}')").collect()
    spark.sql(f"{call}.clean('{name}', false, map('hoodie.clean.commits.retained', '1'))")

    assert (kept.instant, kept.files, kept.comment) == (first, 1, "a backup")
    assert last.instant == newest
    old = spark.sql(f"select id, ts from {name} version as of '{first}'").collect()
    assert len(old) == 1
    (left,) = spark.sql(f"{call}.delete_savepoint('{name}', '{first}')").collect()
    assert left.instant == newest
    with pytest.raises(Exception, match="has no savepoint"):
        spark.sql(f"{call}.delete_savepoint('{name}', '{first}')")


def test_a_call_without_a_catalog_is_for_the_current_one(spark: SparkSession, name: str) -> None:
    create(spark, name)
    spark.sql(f"insert into {name} values (1, 'a', 1, 'x')")
    call = f"call system.health(table => 'spark_catalog.default.{name}')"
    spark.sql("use pyhudi")
    try:
        if spark.version < "4":  # its grammar has no CALL
            with pytest.raises(UnsupportedTable, match=r"write: CALL pyhudi\.system\.health\("):
                spark.sql(call)
        else:
            assert spark.sql(call).count() > 9
    finally:
        spark.sql("use spark_catalog")
