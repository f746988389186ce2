"""Tables whose updates and deletes go to log files: statements, streams, and writes that fail."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import pyhudi
from pyhudi.errors import HudiError
from pyhudi.rows.log_writer import LogFileWriter
from pyhudi.timeline.active import COMMITS
from pyhudi.timeline.view import VIEWS
from tests.spark.tables import INDEX, OPTIONS, TYPE, VERSION, Lake, model_of, refused, rows_of
from tests.spark.test_stream_sink import Stream, row

pytestmark = [pytest.mark.spark, pytest.mark.compiled]

DUPLICATES = "hoodie.datasource.insert.dup.policy"
INLINE = "hoodie.compact.inline"
PERCENT = "hoodie.log.most.changed.percent"
MERGES = {"hoodie.log.compaction.blocks.threshold": "2"}
MOR = {**OPTIONS, TYPE: "MERGE_ON_READ", INLINE: "false"}
PROPERTIES = "type = 'mor', primaryKey = 'id', preCombineField = 'ts'"


def logs_of(folder: str) -> list[Path]:
    return sorted(Path(folder).glob("*/.*.log.*"))


@pytest.mark.parametrize("version", [6, 9])
def test_statements_change_rows_of_base_files_and_of_logs(
    spark: SparkSession, tmp_path: Path, name: str, version: int
) -> None:
    path = tmp_path / "t"
    spark.sql(
        f"create table {name} (id int, v string, ts int, p string) using pyhudi "
        f"partitioned by (p) location '{path}' tblproperties ({PROPERTIES}, "
        f"'hoodie.write.table.version' = '{version}', '{INLINE}' = 'false')"
    )
    spark.sql(f"insert into {name} select id, 'a', 1, concat('p', id % 2) from range(8)")
    bases = sorted(path.glob("*/*.parquet"))

    def changed(statement: str) -> int:
        return int(spark.sql(statement.replace("TABLE", name)).collect()[0][0])

    def table() -> dict[int, str]:
        return {r["id"]: r["v"] for r in spark.table(name).collect()}

    assert changed("update TABLE set v = 'b', ts = 2 where id in (1, 2, 3)") == 3
    assert changed("update TABLE set v = 'c' where v = 'b' and id > 1") == 2
    assert changed("delete from TABLE where id = 3") == 1, "a row of a log"
    assert changed("delete from TABLE where id = 4") == 1, "a row of a base file"
    assert changed(
        "merge into TABLE t using "
        "(select * from values (1, 'm'), (2, 'gone'), (5, 'm') as (id, v)) s "
        "on t.id = s.id when matched and s.v = 'gone' then delete "
        "when matched then update set v = s.v"
    ) == 3  # fmt: skip
    assert table() == {0: "a", 1: "m", 5: "m", 6: "a", 7: "a"}
    assert sorted(path.glob("*/*.parquet")) == bases, "no base file was written"
    assert changed("update TABLE set v = 'all'") == 5
    assert set(table().values()) == {"all"}


def test_statements_that_change_rows_must_see_all_of_them(spark: SparkSession, lake: Lake) -> None:
    kept = lake.table("kept", OPTIONS)
    logged = lake.table("logged", MOR)
    for table in (kept, logged):
        table.write([row(1, "a", 1), row(2, "a", 1)], "bulk_insert")
        table.write([row(1, "b", 2)])
    before = logged.rows()
    key = "hoodie.datasource.query.type"
    merge = (
        "merge into {} t using (select 2L id, 'n' name, 9L ts, '2024-01-01' dt) s on t.id = s.id "
    )
    statements = [
        "update {} set name = concat(name, '+') where id = 1",
        "delete from {} where name = 'a'",
        f"{merge} when matched then update set *",
        f"{merge} when not matched then insert *",
    ]
    spark.conf.set(key, "read_optimized")
    try:
        for statement in statements:
            with refused("CONFIG_ERROR", logged.path, "set to read_optimized"):
                spark.sql(statement.format(f"pyhudi.`{logged.path}`")).collect()
        spark.sql(statements[0].format(f"pyhudi.`{kept.path}`"))
    finally:
        spark.conf.unset(key)
    assert logged.rows() == before
    assert kept.rows()[1][1] == "b+", "of a table without logs such a read has all rows"


def test_small_groups_take_new_keys_as_long_as_they_have_no_logs(lake: Lake) -> None:
    table = lake.table(options=MOR)
    table.write(rows_of(0, 6, "a"), "insert")
    table.write(rows_of(6, 9, "b"), "insert")
    groups = {file.name.split("_")[0] for file in Path(table.path).glob("*/*.parquet")}
    assert len(groups) == 3, "one for each partition: the second insert filled them"
    table.write(rows_of(0, 3, "c", 2), "upsert")
    assert len(logs_of(table.path)) == 3
    table.write(rows_of(9, 12, "d"), "insert")
    groups = {file.name.split("_")[0] for file in Path(table.path).glob("*/*.parquet")}
    assert len(groups) == 6
    rows = [*rows_of(0, 3, "c", 2), *rows_of(3, 6, "a"), *rows_of(6, 9, "b"), *rows_of(9, 12, "d")]
    assert table.rows() == model_of(rows)


@pytest.mark.parametrize("percent", ["20", "100"])
def test_a_write_of_many_rows_of_a_large_file_writes_it_anew(
    spark: SparkSession, lake: Lake, percent: str
) -> None:
    table = lake.table(options={**MOR, PERCENT: percent, VERSION: "6" if percent == "20" else "9"})
    text = "concat(sha2(cast(id as string), 512), sha2(cast(-id as string), 512))"
    columns = ["id", f"{text} as name", "1L as ts", "'x' as dt"]
    rows = spark.range(40_000).selectExpr(*columns).coalesce(1)
    table.write(rows, "bulk_insert")
    newer = rows.selectExpr("id", "'new' as name", "2L as ts", "dt")
    table.write(newer.where("id % 4 = 0"), "upsert")
    names = {row.name: row["count"] for row in table.df().groupBy("name").count().collect()}
    assert names["new"] == 10_000
    assert table.df().count() == 40_000
    if percent == "100":
        assert (len(table.base_files()), len(logs_of(table.path))) == (1, 1)
        return
    assert (len(table.base_files()), logs_of(table.path)) == (2, []), "a fourth has changed"
    spark.sql(f"delete from pyhudi.`{table.path}` where id % 2 = 0")
    assert (len(table.base_files()), len(logs_of(table.path))) == (2, 1), "deletes have keys alone"
    assert table.df().count() == 20_000


def test_a_stream_writes_and_deletes_by_logs(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, options={**MOR, "hoodie.table.name": "t"})
    stream.ddl += ", _hoodie_is_deleted boolean"
    stream.put(
        [(*row(1), False), (*row(2), False), (*row(3), False)],
        [(*row(1, ts=2), True), (*row(2, "b", 2), False)],
    )
    stream.run()
    stream.forget(1)
    stream.run()
    assert stream.table() == [row(2, "b", 2), row(3)]
    assert stream.commits() == 2
    assert len(logs_of(stream.path)) == 1


@pytest.mark.parametrize("version", ["6", "9"])
def test_a_write_that_fails_leaves_no_log(
    lake: Lake, version: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.table(options={**MOR, VERSION: version})
    table.write(rows_of(0, 9, "a"), "bulk_insert")
    table.write(rows_of(0, 3, "b", 2), "upsert")
    before = logs_of(table.path)
    rows = rows_of(0, 9, "c", 3)

    def fail(self: LogFileWriter) -> None:
        raise OSError("no more room")

    if way == "collected":
        monkeypatch.setattr(LogFileWriter, "_flush", fail)
        broken = table.frame(rows)
    else:
        broken = table.frame(rows).selectExpr(
            "id", "if(id < 99, name, raise_error('boom')) name", "ts", "dt"
        )
        broken = broken.selectExpr(
            "id", "if(id = 8, cast(assert_true(id < 0) as string), name) name", "ts", "dt"
        )
    with pytest.raises(HudiError):
        table.write(broken, "upsert")
    assert logs_of(table.path) == before
    monkeypatch.undo()
    table.write(rows, "upsert")
    assert table.rows() == model_of(rows)


DAY = "2024-01-01"
SOURCE = "(select * from values (0L, 'c', 3L, '2024-01-01') as (id, name, ts, dt))"
#: how rows 0 and 1 of a table are changed -> the names of its rows afterwards
CHANGES = {
    "upsert": ["c", "c"],
    "delete": [],
    "update TABLE set name = 'c', ts = 3 where id = 0": ["c", "b"],
    "delete from TABLE where id = 0": ["b"],
    f"merge into TABLE t using {SOURCE} s on t.id = s.id when matched then delete": ["b"],
    f"insert into TABLE {SOURCE.replace('0L', '2L')}": ["b", "b", "c"],
}
WAYS = ("collected", "distributed")
CASES = [(change, beside, way) for change in CHANGES for beside in (False, True) for way in WAYS]
#: each change, and the deletes that find no base file in their partition
OFTEN = [*CASES[::3], *(("delete", False, way) for way in WAYS)]


@pytest.mark.parametrize(
    ("change", "beside", "way"),
    [pytest.param(*case, marks=() if case in OFTEN else pytest.mark.matrix) for case in CASES],
    indirect=["way"],
)
def test_a_group_of_logs_alone_is_compacted_before_a_write(
    spark: SparkSession, lake: Lake, name: str, way: str, beside: bool, change: str
) -> None:
    """As after Apache Hudi has rolled back the commit that began a group."""
    table = lake.table(options=MOR)
    table.write([(0, "a", 1, DAY), (1, "a", 1, DAY)], "bulk_insert")
    (base,) = Path(table.path).glob("*/*.parquet")
    begun = list(Path(table.path, ".hoodie", "timeline").glob("2*"))
    if beside:
        table.write([(7, "a", 1, DAY)], "bulk_insert")
    table.write([(0, "b", 2, DAY), (1, "b", 2, DAY)], "upsert")
    for gone in (base, *begun):
        gone.unlink()
    VIEWS.forget_all()
    COMMITS.forget_all()
    assert [table.rows()[key][1] for key in (0, 1)] == ["b", "b"]

    if "TABLE" in change:
        spark.sql(f"create table {name} using pyhudi location '{table.path}'")
        spark.sql(change.replace("TABLE", name))
    else:
        table.write([(0, "c", 3, DAY), (1, "c", 3, DAY)], change)
    found = table.rows()
    assert [row[1] for _, row in sorted(found.items())] == CHANGES[change] + ["a"] * beside
    assert [each.operation.lower() for each in pyhudi.history(table.path)][-2] == "compact"


def test_the_history_counts_the_rows_of_logs(lake: Lake) -> None:
    table = lake.table(options=MOR)
    table.write(rows_of(0, 6, "a"), "bulk_insert")
    table.write(rows_of(0, 4, "b", 2), "upsert")
    table.write(rows_of(4, 6, "x", 2), "delete")
    told = [(e.rows_inserted, e.rows_updated, e.rows_deleted) for e in pyhudi.history(table.path)]
    assert told == [(6, 0, 0), (0, 4, 0), (0, 0, 2)]


@pytest.mark.parametrize(
    ("index", "way"),
    [
        ("SIMPLE", "collected"),
        ("GLOBAL_SIMPLE", "distributed"),
        pytest.param("SIMPLE", "distributed", marks=pytest.mark.matrix),
        pytest.param("GLOBAL_SIMPLE", "collected", marks=pytest.mark.matrix),
    ],
    indirect=["way"],
)
def test_a_deleted_key_that_comes_back_has_its_old_home(lake: Lake, way: str, index: str) -> None:
    options = {**MOR, INDEX: index, "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}
    table = lake.table(options=options)
    table.write(rows_of(0, 9, "a"), "bulk_insert")
    table.write(rows_of(0, 6, "x"), "delete")
    bases = sorted(Path(table.path).glob("*/*.parquet"))
    model = model_of(rows_of(6, 9, "a"))
    table.write(rows_of(0, 2, "upserted"), "upsert")
    model |= model_of(rows_of(0, 2, "upserted"))
    assert table.rows() == model
    table.write(rows_of(2, 4, "inserted"), "insert", **{DUPLICATES: "fail"})
    model |= model_of(rows_of(2, 4, "inserted"))
    assert table.rows() == model
    assert sorted(Path(table.path).glob("*/*.parquet")) == bases
    with pytest.raises(HudiError, match="already has rows with these keys"):
        table.write(rows_of(2, 4, "again"), "insert", **{DUPLICATES: "fail"})
    table.write(rows_of(4, 6, "x"), "delete")
    assert pyhudi.history(table.path)[-1].rows_deleted == 0, "they were deleted before"


def test_statements_insert_keys_that_a_log_has_deleted(
    spark: SparkSession, tmp_path: Path, name: str, way: str
) -> None:
    spark.sql(
        f"create table {name} (id int, v string) using pyhudi location '{tmp_path}/t' "
        "tblproperties (type = 'mor', primaryKey = 'id')"
    )
    spark.sql(f"insert into {name} values (1, 'a'), (2, 'a'), (3, 'a')")
    spark.sql(f"delete from {name} where id < 3")
    bases = sorted((tmp_path / "t").glob("*.parquet"))
    merge = (
        f"merge into {name} t using (select * from values (1, 'm'), (4, 'm') as (id, v)) s "
        "on t.id = s.id and t.v = 'none' when not matched then insert *"
    )
    spark.sql(merge.replace("(4, 'm')", "(2, 'm')"))
    assert {r["id"]: r["v"] for r in spark.table(name).collect()} == {1: "m", 2: "m", 3: "a"}
    assert sorted((tmp_path / "t").glob("*.parquet")) == bases
    with pytest.raises(HudiError, match="keys that the table has already: 1"):
        spark.sql(merge)


def test_a_row_that_moved_and_was_updated_is_there_once(lake: Lake, way: str) -> None:
    options = {**MOR, INDEX: "GLOBAL_SIMPLE", "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}
    table = lake.table(options=options)
    table.write([(1, "a", 1, "x"), (2, "a", 1, "x")], "insert")
    table.write([(1, "b", 1, "y")], "upsert")
    table.write([(1, "c", 1, "y")], "upsert")
    assert table.rows() == {1: (1, "c", 1, "y"), 2: (2, "a", 1, "x")}
    table.write([(1, "d", 1, "x")], "upsert")
    table.write([(1, "e", 1, "z")], "upsert")
    assert table.rows() == {1: (1, "e", 1, "z"), 2: (2, "a", 1, "x")}


def test_a_table_is_compacted_after_so_many_delta_commits(lake: Lake) -> None:
    trigger = "hoodie.compact.inline.max.delta.commits"
    table = lake.table(options={**MOR, INLINE: "true", trigger: "3"})
    table.write(rows_of(0, 9, "a"), "bulk_insert")
    table.write(rows_of(0, 6, "b", 2), "upsert")
    assert [entry.operation for entry in pyhudi.history(table.path)] == ["bulk_insert", "upsert"]
    table.write(rows_of(3, 6, "x", 3), "delete")
    done = [entry.operation for entry in pyhudi.history(table.path)]
    assert done == ["bulk_insert", "upsert", "delete", "compact"]
    model = model_of([*rows_of(0, 3, "b", 2), *rows_of(6, 9, "a")])
    assert table.rows() == model
    assert table.rows(hoodie__datasource__query__type="read_optimized") == model
    table.write(rows_of(0, 3, "c", 4), "upsert")
    assert table.rows() == model | model_of(rows_of(0, 3, "c", 4))
    assert len(pyhudi.history(table.path)) == 5, "counted from the compaction on"


def test_a_write_merges_the_logs_alone_if_that_is_due(lake: Lake) -> None:
    due = {
        INLINE: "false",
        "hoodie.log.compaction.inline": "true",
        "hoodie.log.compaction.blocks.threshold": "3",
    }
    table = lake.table(options={**MOR, **due})
    table.write(rows_of(0, 9, "a"), "bulk_insert")
    table.write(rows_of(0, 6, "b", 2), "upsert")
    table.write(rows_of(4, 6, "x", 3), "delete")
    table.write(rows_of(0, 2, "c", 3), "upsert")
    done = [entry.operation for entry in pyhudi.history(table.path)]
    assert done == ["bulk_insert", "upsert", "delete", "upsert", "log_compact"]
    model = model_of([*rows_of(0, 2, "c", 3), *rows_of(2, 4, "b", 2), *rows_of(6, 9, "a")])
    assert table.rows() == model
    # The base files are as they were, and the next logs are on top.
    optimized = table.rows(hoodie__datasource__query__type="read_optimized")
    assert optimized == model_of(rows_of(0, 9, "a"))
    table.write(rows_of(0, 1, "d", 4), "upsert")
    model |= model_of(rows_of(0, 1, "d", 4))
    call = f"CALL pyhudi.system.run_compaction(table => '{table.path}', op => '{{}}')"
    told = lake.spark.sql(call.format("scheduleLogCompaction")).collect()
    assert {row["fate"] for row in told} == {"left"}
    assert "it has 2 logs to merge, below 5" in {row["why"] for row in told}
    step = "scheduleAndLogCompact"
    found = pyhudi.compact(table.path, spark=lake.spark, op=step, options=MERGES)
    assert "compacted" in {each.fate.value for each in found}
    assert table.rows() == model


@pytest.mark.parametrize("version", [9, 6])
def test_logs_with_other_names_of_columns_are_read_and_compacted(
    spark: SparkSession, tmp_path: Path, name: str, version: int
) -> None:
    path, properties = tmp_path / "t", f"{PROPERTIES}, '{INLINE}' = 'false', '{VERSION}' = "
    spark.sql(
        f"create table {name} (id int, a string, b int, ts int) using pyhudi location '{path}' "
        f"tblproperties ({properties} '{version}')"
    )

    def run(*statements: str) -> None:
        for statement in statements:
            spark.sql(statement.replace("TABLE", name))

    def compaction(step: str) -> list[str]:
        call = f"CALL pyhudi.system.run_compaction(table => '{path}', op => '{step}')"
        return [row["fate"] for row in spark.sql(call).collect()]

    def rows() -> list[tuple[object, ...]]:
        return sorted(map(tuple, spark.table(name).collect()))

    run(
        "insert into TABLE values (1, 'one', 1, 1), (2, 'two', 2, 1), (3, 'three', 3, 1)",
        "update TABLE set a = 'uno' where id = 1",
        "alter table TABLE rename column a to title",
        "update TABLE set title = 'due' where id = 2",
    )
    expected = [(1, "uno", 1, 1), (2, "due", 2, 1), (3, "three", 3, 1)]
    assert rows() == expected
    merged = partial(pyhudi.compact, str(path), op="scheduleAndLogCompact", options=MERGES)
    if version == 6:
        with pytest.raises(HudiError, match="the logs alone of a table of version 6"):
            merged()
    else:
        assert {each.fate.value for each in merged()} == {"left"}, "its logs have several names"
    assert compaction("schedule") == ["planned"]
    run("alter table TABLE drop column b", "alter table TABLE rename column title to name")
    run("alter table TABLE add columns (title string)")
    expected = [(*row[:2], 1, None) for row in expected]
    assert rows() == expected
    assert compaction("run") == ["compacted"], "a plan from before the columns changed"
    assert rows() == expected
    run("update TABLE set title = 'T' where name = 'due'", "delete from TABLE where id = 3")
    expected = [(1, "uno", 1, None), (2, "due", 1, "T")]
    assert rows() == expected
    if version == 9:
        assert {each.fate.value for each in merged()} == {"compacted"}, "they have one name"
        assert rows() == expected
    assert compaction("scheduleAndRun") == ["compacted"]
    assert rows() == expected
    run(
        "update TABLE set name = 'eins' where id = 1", "alter table TABLE rename column name to tag"
    )
    expected[0] = (1, "eins", 1, None)
    whole = {"class": "ALL", "sort.columns": "tag"}
    keys = {f"hoodie.clustering.plan.strategy.{key}": value for key, value in whole.items()}
    (one,) = pyhudi.cluster(str(path), spark=spark, options=keys)
    assert (one.fate.value, one.logs) == ("clustered", 1)
    assert rows() == expected
    assert [r.id for r in spark.table(name).where("tag = 'due' and title = 'T'").collect()] == [2]


@pytest.mark.parametrize("version", [9, 6])
def test_a_log_of_an_archived_commit_keeps_its_names_of_columns(
    spark: SparkSession, tmp_path: Path, name: str, version: int
) -> None:
    path, off = tmp_path / "t", "'hoodie.clean.automatic' = 'false', 'hoodie.archive.automatic'"
    spark.sql(
        f"create table {name} (id int, a string, ts int) using pyhudi location '{path}' "
        f"tblproperties ({PROPERTIES}, '{INLINE}' = 'false', {off} = 'false', "
        f"'{VERSION}' = '{version}')"
    )
    spark.sql(f"insert into {name} values (1, 'one', 1), (2, 'two', 1)")
    spark.sql(f"update {name} set a = 'uno' where id = 1")
    spark.sql(f"alter table {name} rename column a to title")
    for at in range(6):
        spark.sql(f"update {name} set title = 'due {at}' where id = 2")
    few = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4"}
    gone = pyhudi.archive(str(path), options={**few, "hoodie.cleaner.commits.retained": "1"})
    assert [each.fate.value for each in gone][:3] == ["archived"] * 3
    for _ in range(2):
        assert sorted(map(tuple, spark.table(name).collect())) == [
            (1, "uno", 1), (2, "due 5", 1),
        ]  # fmt: skip
        pyhudi.compact(str(path))
    assert not [each for each in pyhudi.compact(str(path)) if each.logs]


def test_a_key_that_comes_back_beside_a_planned_compaction_is_there_once(lake: Lake) -> None:
    table = lake.table(options={**MOR, "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"})
    table.write(rows_of(0, 6, "a"), "bulk_insert")
    table.write(rows_of(0, 3, "x"), "delete")
    call = f"CALL pyhudi.system.run_compaction(table => '{table.path}', op => '{{}}')"
    lake.spark.sql(call.format("schedule")).collect()
    table.write(rows_of(0, 3, "back"), "upsert")
    lake.spark.sql(call.format("run")).collect()
    model = model_of([*rows_of(0, 3, "back"), *rows_of(3, 6, "a")])
    assert table.rows() == model
    table.write(rows_of(0, 3, "again"), "upsert")
    assert table.rows() == model | model_of(rows_of(0, 3, "again"))


def test_a_key_that_comes_back_beside_a_planned_log_compaction_has_its_old_home(
    lake: Lake,
) -> None:
    latest = {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}
    table = lake.table(options={**MOR, **latest, **MERGES})
    table.write(rows_of(0, 6, "a"), "bulk_insert")
    table.write(rows_of(3, 6, "b"), "upsert")
    table.write(rows_of(0, 3, "x"), "delete")
    step = "scheduleLogCompaction"
    plans = pyhudi.compact(table.path, spark=lake.spark, op=step, options=MERGES)
    assert {each.fate.value for each in plans} == {"planned"}
    files = table.base_files()
    table.write(rows_of(0, 3, "back"), "upsert")
    assert table.base_files() == files, "no second base row of a key"
    model = model_of([*rows_of(0, 3, "back"), *rows_of(3, 6, "b")])
    assert table.rows() == model
    pyhudi.compact(table.path, spark=lake.spark, op="logCompact")
    assert table.rows() == model


def test_a_statement_sees_the_keys_in_the_log_of_a_bucket(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    spark.sql(
        f"create table {name} (id int, v string) using pyhudi location '{tmp_path}/t' "
        "tblproperties (type = 'mor', primaryKey = 'id', 'hoodie.index.type' = 'BUCKET', "
        "'hoodie.bucket.index.num.buckets' = '1', "
        "'hoodie.spark.sql.insert.into.operation' = 'upsert')"
    )
    spark.sql(f"insert into {name} values (1, 'a')")
    spark.sql(f"insert into {name} values (2, 'a')")
    assert len(list((tmp_path / "t").glob(".*.log.*"))) == 1, "the new key is in a log"
    with pytest.raises(HudiError, match="keys that the table has already: 2"):
        spark.sql(
            f"merge into {name} t using (select * from values (2, 'm') as (id, v)) s "
            "on t.id = s.id and t.v = 'none' when not matched then insert *"
        )
    assert {r["id"]: r["v"] for r in spark.table(name).collect()} == {1: "a", 2: "a"}


def test_a_delete_by_another_partition_reaches_a_row_of_a_log(lake: Lake) -> None:
    table = lake.table(options={**MOR, INDEX: "GLOBAL_SIMPLE"})
    table.write([(1, "a", 1, "x"), (2, "a", 1, "x")], "bulk_insert")
    table.write([(1, "b", 5, "x")], "upsert")
    table.write([(1, "c", 3, "y")], "delete")
    assert table.rows() == {2: (2, "a", 1, "x")}
