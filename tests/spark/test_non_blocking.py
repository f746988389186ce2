"""Writers without coordination on one bucket table: all commit, and readers resolve their rows."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyhudi
from pyhudi.errors import CommitConflict, HudiError, TableCorrupt
from pyhudi.format.filenames import parse_log_file_name
from pyhudi.spark import write_handlers
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.active import COMMITS
from pyhudi.timeline.table import open_table
from pyhudi.transactions.transaction import Transaction
from pyhudi.writes.write import write_changes
from tests.spark.racing import SlowInput, in_background
from tests.spark.tables import INDEX, OPTIONS, TYPE, HudiTable, Lake, refused
from tests.spark.test_stream_sink import Stream
from tests.spark.test_stream_sink import row as stream_row

pytestmark = pytest.mark.spark

MODE = "hoodie.write.concurrency.mode"
ALONE = {MODE: "single_writer"}
NON_BLOCKING = {
    MODE: "non_blocking_concurrency_control",
    TYPE: "MERGE_ON_READ",
    INDEX: "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.write.num.retries.on.conflict.failures": "0",
    "hoodie.compact.inline": "false",
}
MERGE = "hoodie.record.merge.mode"
ORDERS = ["EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"]


def row(key: int, name: str, ts: int = 1, day: str = "a") -> tuple[Any, ...]:
    return (key, name, ts, day)


def made(lake: Lake, order: str = ORDERS[0]) -> HudiTable:
    return lake.table(options={**OPTIONS, **NON_BLOCKING, MERGE: order})


def names(table: HudiTable) -> dict[int, str]:
    return {key: found[1] for key, found in table.rows().items()}


def groups(table: HudiTable) -> set[str]:
    """The file groups with logs, on disk."""
    found = (parse_log_file_name(path.name) for path in Path(table.path).glob("*/.*.log.*"))
    return {log.file_id for log in found if log is not None}


def race(
    table: HudiTable,
    folder: Path,
    slow: list[tuple[Any, ...]],
    meanwhile: Callable[[], object],
    operation: str = "upsert",
    **more: str,
) -> None:
    """Write ``slow``, a write that begins before ``meanwhile`` and commits after it."""
    rows = SlowInput(table.frame(slow), folder)
    with in_background(table.write, rows.df, operation, **more) as done:
        rows.wait_until_read()
        meanwhile()
        rows.go()
        done.result()


@pytest.mark.compiled
@pytest.mark.parametrize("order", ORDERS)
def test_racing_writers_of_the_same_buckets_both_commit(
    lake: Lake, tmp_path: Path, order: str
) -> None:
    table = made(lake, order)
    table.write([row(0, "first")], "insert")

    fast = [row(0, "fast", 3), row(1, "fast", 5), row(2, "fast", 5)]
    slow = [row(0, "slow", 2), row(1, "slow", 4), row(2, "slow", 6), row(3, "slow")]
    race(table, tmp_path / "1", slow, lambda: table.write(fast, "upsert"))

    told = {0: "fast", 1: "fast", 2: "fast", 3: "slow"}
    assert names(table) == told | ({2: "slow"} if order == ORDERS[0] else {})
    assert table.base_files() == []
    assert groups(table) == {f"0000000{n}-0000-0000-0000-000000000000-0" for n in (0, 1)}

    race(table, tmp_path / "2", [row(0, "", 9)], lambda: table.write([row(9, "x")]), "delete")
    race(table, tmp_path / "3", [row(8, "x")], lambda: table.write([row(1, "", 9)], None), "insert")
    assert sorted(names(table)) == [1, 2, 3, 8, 9]
    kept = names(table)
    pyhudi.compact(table.path)
    assert names(table) == kept
    assert len(table.base_files()) == 2


def test_a_delete_below_a_late_row_does_not_bring_the_deleted_one_back(
    lake: Lake, tmp_path: Path
) -> None:
    table = made(lake)
    table.write([row(0, "first", 10), row(1, "first", 10)], "insert")
    pyhudi.compact(table.path)
    late, again = [row(0, "late", 5)], {"hoodie.write.num.retries.on.conflict.failures": "1"}
    race(table, tmp_path / "1", [row(0, "", 1)], lambda: table.write(late), "delete", **again)
    assert names(table) == {1: "first"}


def test_a_late_row_above_the_delete_of_a_statement_does_not_bring_the_deleted_one_back(
    spark: SparkSession,
    lake: Lake,
    tmp_path: Path,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = made(lake)
    table.write([row(0, "first", 10), row(1, "first", 10)], "insert")
    pyhudi.compact(table.path)
    index = ", ".join(f"'{key}' = '{text}'" for key, text in NON_BLOCKING.items() if key != TYPE)
    spark.sql(f"create table {name} using pyhudi location '{table.path}' tblproperties ({index})")
    late = SlowInput(table.frame([row(0, "late", 5)]), tmp_path / "late")
    again = {"hoodie.write.num.retries.on.conflict.failures": "1"}
    seal, begun = Transaction.seal, list[Future[None]]()
    with ThreadPoolExecutor(1) as pool:

        def sealed(transaction: Transaction, *given: Any) -> None:
            if not begun:
                begun.append(pool.submit(table.write, late.df, "upsert", **again))
                late.wait_until_read()
            seal(transaction, *given)

        monkeypatch.setattr(Transaction, "seal", sealed)
        spark.sql(
            f"merge into {name} t using (select 0 id) s on t.id = s.id when matched then delete"
        )
        assert names(table) == {1: "first"}
        late.go()
        begun[0].result()
    assert names(table) == {0: "late", 1: "first"}


def test_a_delete_with_an_ordering_value_conflicts_with_no_late_row(
    lake: Lake, tmp_path: Path
) -> None:
    """Its commit says that it does not always win; without that, a writer would begin again."""
    table = made(lake)

    def marked(each: tuple[Any, ...], gone: bool) -> DataFrame:
        return table.frame([each]).withColumn("_hoodie_is_deleted", F.lit(gone))

    table.write(marked(row(0, "first", 10), False), "insert")
    pyhudi.compact(table.path)
    delete = SlowInput(marked(row(0, "", 20), True), tmp_path / "delete")
    with in_background(table.write, delete.df, "upsert") as done:
        delete.wait_until_read()
        table.write(marked(row(0, "late", 5), False), "upsert")
        delete.go()
        done.result()
    assert names(table) == {}


@pytest.mark.parametrize("compacts", [False, True], ids=["logs", "compacted"])
@pytest.mark.parametrize("order", ORDERS)
def test_a_reader_of_ranges_misses_no_write_that_completes_late(
    lake: Lake, tmp_path: Path, order: str, compacts: bool
) -> None:
    table = made(lake, order)
    table.write([row(0, "first"), row(1, "first")], "insert")
    followed: dict[int, str] = {}
    places: list[str] = ["earliest"]

    def follow() -> None:
        after = None if places[-1] == "earliest" else places[-1]
        checkpoint = pyhudi.commits(table.path, after=after).checkpoint
        assert checkpoint is not None
        ranged = {
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.read.begin.instanttime": places[-1],
            "hoodie.datasource.read.end.instanttime": checkpoint,
        }
        followed.update({each["id"]: each["name"] for each in table.df(**ranged).collect()})
        places.append(checkpoint)

    def meanwhile() -> None:
        follow()
        table.write([row(0, "fast", 5), row(1, "fast", 5), row(2, "fast", 5)], "upsert")
        follow()
        if compacts:
            pyhudi.compact(table.path)

    slow = [row(0, "slow", 4), row(1, "slow", 6), row(3, "slow")]
    race(table, tmp_path / "slow", slow, meanwhile)
    follow()
    assert followed == names(table)


@pytest.mark.parametrize("order", ORDERS)
def test_a_compaction_runs_between_the_writers(lake: Lake, tmp_path: Path, order: str) -> None:
    table = made(lake, order)
    table.write([row(n, "first") for n in range(4)], "insert")

    def meanwhile() -> None:
        table.write([row(0, "fast", 5), row(1, "fast", 5)], "upsert")
        pyhudi.compact(table.path)

    race(
        table, tmp_path / "slow", [row(0, "slow", 4), row(1, "slow", 6), row(7, "slow")], meanwhile
    )

    # By commit time a log that completes after the compaction is on top of its base file.
    told = {0: "slow", 1: "slow", 2: "first", 3: "first", 7: "slow"}
    assert names(table) == told | ({0: "fast"} if order == ORDERS[0] else {})
    before = names(table)
    pyhudi.compact(table.path)
    assert names(table) == before


@pytest.mark.parametrize("order", ORDERS)
def test_a_planned_compaction_never_changes_rows_when_it_runs(
    lake: Lake, tmp_path: Path, order: str
) -> None:
    table = made(lake, order)
    table.write([row(0, "first")], "insert")
    retries = {"hoodie.write.num.retries.on.conflict.failures": "1"}

    def meanwhile() -> None:
        table.write([row(0, "fast", 5)], "upsert")
        pyhudi.compact(table.path, op="schedule")

    race(table, tmp_path / "slow", [row(0, "slow", 4)], meanwhile, **retries)

    last = pyhudi.last_commit(table.spark)
    assert last is not None
    before = names(table)
    assert before == {0: "fast" if order == ORDERS[0] else "slow"}
    assert last.conflicts_retried == (0 if order == ORDERS[0] else 1)
    assert [each.fate.value for each in pyhudi.compact(table.path, op="run")] == ["compacted"]
    assert names(table) == before


def twins(lake: Lake) -> tuple[HudiTable, Path]:
    """A table with base files of one name in two partitions, and an archived commit; the second."""
    table = made(lake)
    keeps = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3",
             "hoodie.compact.inline.max.delta.commits": "1"}  # fmt: skip
    table.write([row(0, "first"), row(0, "first", day="b")], "insert")
    pyhudi.compact(table.path)
    one, other = (Path(table.path, path) for path in table.base_files())
    for ts in range(2, 6):
        table.write([row(0, "later", ts)], **{"hoodie.archive.automatic": "false"})
    pyhudi.archive(table.path, options={"hoodie.clean.commits.retained": "1", **keeps})
    assert one.name == other.name
    assert one.stem.rpartition("_")[2] not in table.instants()
    return table, other


def test_files_of_one_name_in_two_partitions_are_those_of_their_archived_commit(lake: Lake) -> None:
    table, _ = twins(lake)
    assert pyhudi.remove_orphans(table.path, older_than_hours=0, dry_run=True) == []


def test_a_lost_file_of_a_savepoint_is_noticed_beside_one_of_its_name(lake: Lake) -> None:
    table, file = twins(lake)
    instant = table.instants()[-1]
    pyhudi.savepoint(table.path, instant)
    file.unlink()
    with pytest.raises(TableCorrupt, match="which its savepoint keeps, is gone"):
        pyhudi.restore(table.path, instant)


def test_writes_that_replace_groups_are_refused_and_change_nothing(lake: Lake) -> None:
    table = made(lake)
    table.write([row(n, "first") for n in range(4)], "insert")
    for operation in ("insert_overwrite", "insert_overwrite_table", "delete_partition"):
        with refused("CONFIG_ERROR", table.path, MODE, operation, "Nothing was written."):
            table.write([row(1, "x")], operation)
    with refused("CONFIG_ERROR", table.path, MODE, "insert_overwrite_table"):
        table.write([row(1, "x")], mode="overwrite")
    with refused("CONFIG_ERROR", table.path, MODE, "SIMPLE"):
        table.write([row(1, "x")], "upsert", **{INDEX: "SIMPLE"})
    with refused("CONFIG_ERROR", table.path, "named for the buckets"):
        table.write([row(1, "x")], "upsert", **{INDEX: "SIMPLE"}, **ALONE)
    with refused("CONFIG_ERROR", table.path, "num.buckets"):
        table.write([row(1, "x", day="b")], **{"hoodie.bucket.index.num.buckets": "1"})
    new = lake.table("new", options={**OPTIONS, **NON_BLOCKING, TYPE: "COPY_ON_WRITE"})
    with refused("CONFIG_ERROR", lake.folder, MODE, "copy-on-write"):
        new.write([row(1, "x")])
    assert len(names(table)) == 4


def test_the_buckets_of_a_table_that_was_made_anew_are_looked_at_anew(lake: Lake) -> None:
    """Its file groups have the names of the old ones, and other keys."""
    tables = {count: made(lake) for count in ("8", "2")}
    for count, table in tables.items():
        table.options["hoodie.bucket.index.num.buckets"] = count
        shutil.rmtree(table.path, ignore_errors=True)
        table.write([row(n, "first") for n in range(40)])
        pyhudi.compact(table.path, spark=lake.spark)
        table.write([row(n, "second", 2) for n in range(40)])
    with refused("CONFIG_ERROR", lake.folder, "num.buckets", "8 buckets", "second row"):
        tables["8"].write([row(n, "third", 3) for n in range(40)])


@pytest.mark.parametrize("operation", ["delete_partition", "insert_overwrite"])
def test_a_bucket_whose_group_was_replaced_is_begun_again(lake: Lake, operation: str) -> None:
    """Under its old id the rows would be invisible."""
    table = made(lake)
    table.write([row(n, "first") for n in range(4)], "insert")
    rows = [row(0, "new", 2)]
    table.write(rows, operation, **ALONE)
    assert names(table) == ({0: "new"} if operation == "insert_overwrite" else {})

    table.write([row(n, "again", 3) for n in range(4)], "upsert")
    assert names(table) == dict.fromkeys(range(4), "again")
    more = {each for each in groups(table) if each.endswith("-000000000001-0")}
    assert len(more) == (1 if operation == "insert_overwrite" else 2)
    pyhudi.compact(table.path)
    assert names(table) == dict.fromkeys(range(4), "again")


def test_an_optimistic_writer_of_the_same_bucket_loses(lake: Lake, tmp_path: Path) -> None:
    table = made(lake)
    optimistic = {MODE: "optimistic_concurrency_control"}
    with pytest.raises(CommitConflict, match="bucket"):
        race(
            table, tmp_path / "1", [row(0, "slow")], lambda: table.write([row(0, "fast")]),
            **optimistic,
        )  # fmt: skip
    with pytest.raises(CommitConflict, match="changed the same file groups"):
        race(
            table, tmp_path / "2", [row(0, "slow")], lambda: table.write([row(0, "fast")]),
            **optimistic,
        )  # fmt: skip
    assert len(groups(table)) == 1


def test_a_statement_is_evaluated_again_if_rows_came_meanwhile(
    spark: SparkSession, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = {"primaryKey": "id", "preCombineField": "ts", "type": "mor", **NON_BLOCKING}
    properties["hoodie.write.num.retries.on.conflict.failures"] = "1"
    del properties[TYPE]
    listed = ", ".join(f"'{key}' = '{text}'" for key, text in properties.items())
    spark.sql(
        f"create table {name} (id long, n int, ts long) using pyhudi location '{tmp_path}/t' "
        f"tblproperties ({listed})"
    )
    spark.sql(f"insert into {name} values (1, 10, 1), (2, 20, 1)")
    left = [(1, 100, 2)]

    def late(*arguments: Any) -> Any:
        if left:
            frame = spark.createDataFrame([left.pop()], "id long, n int, ts long")
            frame.write.format("pyhudi").options(**NON_BLOCKING).mode("append").save(
                f"{tmp_path}/t"
            )
        return write_changes(*arguments)

    monkeypatch.setattr(write_handlers, "write_changes", late)
    spark.sql(f"update {name} set n = n + 1, ts = ts + 1")
    found = {r["id"]: r["n"] for r in spark.table(name).collect()}
    assert found == {1: 101, 2: 21}
    merge = (
        f"merge into {name} t using (select 1L id, 0 n, 9L ts union all select 3L, 0, 9L) s "
        "on t.id = s.id when matched then update set * when not matched then insert *"
    )
    assert not list((tmp_path / "t").glob("*.parquet"))
    opened = open_table(LocalStorage(str(tmp_path / "t")))
    timeline = opened.timeline()
    last = COMMITS.get(opened.storage, timeline, timeline.commits[-1])
    assert last.extra["pyhudi.conflict.retries"] == "1 of 1"
    # A row that only logs have is an updated one.
    (told,) = spark.sql(merge).collect()
    assert (told["num_updated_rows"], told["num_inserted_rows"]) == (1, 1)


def test_a_write_that_fails_leaves_no_log_in_a_new_bucket(lake: Lake) -> None:
    """Apache Hudi's readers would hide the rows that others add to it."""
    table = made(lake)
    table.write([row(0, "a", day="b")])
    broken = table.frame([row(n, "x") for n in range(9)]).selectExpr(
        "id", "if(id = 8, cast(assert_true(id < 0) as string), name) name", "ts", "dt"
    )
    with pytest.raises(HudiError):
        table.write(broken, "upsert")
    assert not list(Path(table.path).glob("a/.*.log.*"))
    table.write([row(n, "again") for n in range(1, 9)], "upsert")
    assert names(table) == {0: "a", **dict.fromkeys(range(1, 9), "again")}


def stream_options(name: str) -> Mapping[str, str]:
    named = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.streaming.checkpoint.identifier": name,
    }
    return {**OPTIONS, **NON_BLOCKING, **named}


def test_streams_write_to_the_same_buckets(spark: SparkSession, tmp_path: Path) -> None:
    first = Stream(spark, tmp_path, options=stream_options("a"))
    second = Stream(spark, tmp_path, "b", options=stream_options("b"))
    first.put([stream_row(1), stream_row(2)], [stream_row(1, "late", 9)])
    second.put([stream_row(1, "b", 5), stream_row(3, "b")])
    with in_background(first.run) as one, in_background(second.run) as other:
        one.result()
        other.result()
    second.forget(0)
    second.run()
    assert first.table() == [stream_row(1, "late", 9), stream_row(2), stream_row(3, "b")]
    assert first.commits() == 3
    assert not list(Path(first.path).glob("*/*.parquet"))
