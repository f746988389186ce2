"""UPDATE, DELETE and MERGE on Hudi tables: rows, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from pyhudi.format.instants import Action
from pyhudi.spark import write_handlers
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.active import COMMITS
from pyhudi.timeline.table import Table, open_table
from pyhudi.writes.row_changes import spooled_changes
from tests import golden_tables
from tests.spark.tables import VERSION, HudiTable, listing
from tests.spark.test_operations import BUCKETS, INDEXES
from tests.spark.test_sql import COLUMNS, create, folder_of, table

pytestmark = pytest.mark.spark

Row = tuple[object, ...]

START: list[Row] = [
    (1, "a", 1, "x"),
    (2, "b", 1, "x"),
    (3, "c", 1, "y"),
    (4, "d", 1, "y"),
    (5, "e", 1, None),
]


def filled(spark: SparkSession, name: str, **properties: str) -> None:
    """The table of these tests; properties with dots as double underscores."""
    more = "".join(f", '{k.replace('__', '.')}' = '{v}'" for k, v in properties.items())
    create(spark, name, f"tblproperties (primaryKey = 'id', preCombineField = 'ts'{more})")
    spark.createDataFrame(START, COLUMNS).coalesce(1).writeTo(name).append()


def merge(spark: SparkSession, name: str, source: list[Row], clauses: str, on: str = "id") -> None:
    frame = spark.createDataFrame(source, "id bigint, name string, ts bigint, dt string")
    frame.createOrReplaceTempView("news")
    spark.sql(f"merge into {name} t using news s on t.{on} = s.{on} {clauses}")


def hudi(spark: SparkSession, name: str) -> Table:
    """The table as pyhudi's own modules see it."""
    return open_table(LocalStorage(str(folder_of(spark, name))))


SAMPLE = {
    ("SIMPLE", "9", "collected"),
    ("BUCKET", "8", "distributed"),
    ("GLOBAL_SIMPLE", "6", "distributed"),
}
MATRIX = [(i, v, w) for i in INDEXES for v in "689" for w in ("collected", "distributed")]


@pytest.mark.parametrize(
    ("index", "version", "way"),
    [pytest.param(*c, marks=() if c in SAMPLE else pytest.mark.matrix) for c in MATRIX],
    indirect=["way"],
)
def test_statements_change_a_table_as_they_change_a_list(
    spark: SparkSession, name: str, index: str, version: str, way: str
) -> None:
    more = {"hoodie.index.type": index, VERSION: version, **(BUCKETS if index == "BUCKET" else {})}
    filled(spark, name, **{key.replace(".", "__"): value for key, value in more.items()})

    spark.sql(f"delete from {name} where id = 2")
    assert table(spark, name) == [START[0], *START[2:]]

    spark.sql(f"update {name} set name = concat(name, '!'), ts = ts + 1 where dt = 'y' or id = 5")
    assert table(spark, name) == [
        (1, "a", 1, "x"), (3, "c!", 2, "y"), (4, "d!", 2, "y"), (5, "e!", 2, None),
    ]  # fmt: skip

    spark.sql(f"update {name} set dt = 'z' where id in (1, 4)")
    assert table(spark, name) == [
        (1, "a", 1, "z"), (3, "c!", 2, "y"), (4, "d!", 2, "z"), (5, "e!", 2, None),
    ]  # fmt: skip

    merge(
        spark,
        name,
        [(1, "one", 7, "z"), (3, "gone", 7, "y"), (4, "moved", 7, "v"), (9, "new", 7, "w")],
        """when matched and s.name = 'gone' then delete
        when matched then update set *
        when not matched then insert *
        when not matched by source then update set name = 'left'""",
    )
    assert table(spark, name) == [
        (1, "one", 7, "z"), (4, "moved", 7, "v"), (5, "left", 2, None), (9, "new", 7, "w"),
    ]  # fmt: skip

    spark.sql(f"delete from {name} where ts > 2")
    assert table(spark, name) == [(5, "left", 2, None)]
    assert spark.table(name).count() == 1


def test_the_commit_counts_the_rows_that_changed(spark: SparkSession, name: str) -> None:
    filled(spark, name)
    merge(
        spark,
        name,
        [(1, "one", 2, "x"), (3, "gone", 2, "y"), (8, "new", 2, "x"), (9, "new", 2, "x")],
        """when matched and s.name = 'gone' then delete when matched then update set *
        when not matched then insert *""",
    )

    opened = hudi(spark, name)
    timeline = opened.timeline()
    latest = timeline.latest_commit
    assert latest is not None
    stats = COMMITS.get(opened.storage, timeline, latest).stats
    counts = [(s.num_inserts, s.num_updates, s.num_deletes) for s in stats]
    assert [sum(each) for each in zip(*counts, strict=True)] == [2, 1, 1]


def test_each_job_of_a_merge_but_sparks_own_says_what_it_does(
    spark: SparkSession, name: str
) -> None:
    filled(spark, name)
    context: Any = spark.sparkContext
    store = context._jsc.sc().statusStore()
    # The store keeps a thousand jobs, so their number says nothing late in a session.
    known = store.jobsList(None)
    before = known.apply(0).jobId() if known.size() else -1
    merge(spark, name, [(1, "one", 2, "y"), (8, "new", 2, "x")],
          "when matched then update set * when not matched then insert *")  # fmt: skip

    jobs = store.jobsList(None)  # the newest comes first
    ours = [job for job in map(jobs.apply, range(jobs.size())) if job.jobId() > before]
    python = [job for job in ours if "row_changes.py" in job.name() or "pyhudi" in job.name()]
    folder = folder_of(spark, name).name
    assert python
    assert all(f"pyhudi upsert {folder}: " in str(job.description()) for job in python)
    assert any("check the changes" in str(job.description()) for job in python)


def test_a_merge_that_only_inserts_leaves_the_others(spark: SparkSession, name: str) -> None:
    filled(spark, name)
    news: list[Row] = [(1, "other", 9, "x"), (7, "seven", 9, "x"), (8, "eight", 9, "w")]
    merge(spark, name, news, "when not matched then insert *")
    assert table(spark, name) == [*START, *news[1:]]


def test_a_statement_that_changes_nothing_commits_nothing(spark: SparkSession, name: str) -> None:
    filled(spark, name)
    before = listing(folder_of(spark, name))

    spark.sql(f"update {name} set name = 'never' where id = 77")
    merge(spark, name, [(77, "", 1, "x")], "when matched then delete")

    assert listing(folder_of(spark, name)) == before


def test_rows_are_found_again_by_the_numbers_of_their_files(spark: SparkSession, name: str) -> None:
    filled(spark, name)
    odd: list[Row] = [(6, "f", 1, "a b,c%2F"), (7, "g", 1, "x y")]
    spark.createDataFrame(odd, COLUMNS).coalesce(1).writeTo(name).append()
    files = "count(distinct `_file-number`), count(distinct _file), max(`_file-number`)"
    assert tuple(spark.sql(f"select {files} from {name}").collect()[0]) == (5, 5, 4)

    # Which partitions the source has is known once the statement runs: others are left out then.
    news = [(7, "seven", 2, "x y"), (6, "six", 2, "a b,c%2F"), (1, "not", 2, "x")]
    spark.createDataFrame(news, COLUMNS).createOrReplaceTempView("news")
    spark.sql(
        f"merge into {name} t using (select * from news where name != 'not') s "
        "on t.id = s.id and t.dt = s.dt when matched and s.id = 7 then delete "
        "when matched then update set *"
    )

    assert table(spark, name) == [*START, (6, "six", 2, "a b,c%2F")]


def test_ordering_values_decide_in_updates_and_never_in_deletes(
    spark: SparkSession, name: str
) -> None:
    filled(spark, name)

    spark.sql(f"update {name} set name = 'older', ts = 0 where id = 1")
    assert table(spark, name) == START, "an older row does not replace a newer one"

    spark.sql(f"update {name} set name = 'same' where id = 1")
    merge(spark, name, [(3, "", 0, "y")], "when matched then delete")
    assert table(spark, name) == [(1, "same", 1, "x"), START[1], *START[3:]]


def test_times_before_1900_are_changed_as_all_others(spark: SparkSession, name: str) -> None:
    spark.sql(f"create table {name} (id bigint, day date, at timestamp) using pyhudi "
              "tblproperties (primaryKey = 'id')")  # fmt: skip
    spark.sql(f"insert into {name} values (1, date'2024-02-29', timestamp'2024-02-29 12:00:00')")
    spark.sql(f"update {name} set day = date'1500-02-28', at = timestamp'0001-01-02 03:04:05.6'")
    found = spark.table(name).selectExpr("cast(day as string)", "cast(at as string)").collect()
    assert list(map(tuple, found)) == [("1500-02-28", "0001-01-02 03:04:05.6")]


def test_commit_time_order_takes_every_update(spark: SparkSession, name: str) -> None:
    filled(spark, name, hoodie__record__merge__mode="COMMIT_TIME_ORDERING")
    spark.sql(f"update {name} set name = 'older', ts = 0 where id = 1")
    assert table(spark, name)[0] == (1, "older", 0, "x")


def test_deletes_of_whole_partitions_read_no_row(spark: SparkSession, name: str) -> None:
    filled(spark, name)
    spark.sql(f"delete from {name} where dt = 'x'")

    latest = hudi(spark, name).timeline().latest_commit
    assert latest is not None
    assert latest.action is Action.REPLACECOMMIT
    assert table(spark, name) == START[2:]


def test_rows_of_a_table_without_keys_change_too(spark: SparkSession, name: str) -> None:
    create(spark, name, properties="")
    spark.createDataFrame(START + START[:1], COLUMNS).coalesce(1).writeTo(name).append()

    spark.sql(f"update {name} set name = 'z' where id = 1")
    spark.sql(f"delete from {name} where id > 2")
    news = [(2, "two", 9, "x"), (8, "eight", 9, "x"), (8, "again", 9, "y")]
    merge(spark, name, news, "when matched then update set * when not matched then insert *")

    assert table(spark, name) == [
        (1, "z", 1, "x"), (1, "z", 1, "x"), (2, "two", 9, "x"), (8, "again", 9, "y"),
        (8, "eight", 9, "x"),
    ]  # fmt: skip
    keys = spark.table(name).select("_hoodie_record_key").distinct().count()
    assert keys == 5


def test_rows_with_lists_that_are_declared_without_nulls_are_changed(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As ``split`` and ``collect_list`` give them; statements read them as lists with nulls."""
    items = "split('a,b', ',') items", "named_struct('m', map('k', id), 'e', array(id)) place"
    made = spark.range(4).selectExpr("id", "'x' dt", "1 ts", "'n' name", *items)
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.table.ordering.fields": "ts",
    }
    made.write.format("pyhudi").options(**options).save(str(tmp_path / "t"))
    name = f"pyhudi.`{tmp_path}/t`"
    spark.sql(f"update {name} set name = 'u' where id = 1")
    spark.sql(f"update {name} set items = array('c') where id = 2")
    merge(spark, name, [(3, "m", 5, "x")], "when matched then update set name = s.name")
    found = spark.table(name).selectExpr("id", "name", "items", "place.m['k']", "place.e")
    assert [tuple(row) for row in found.orderBy("id").collect()] == [
        (0, "n", ["a", "b"], 0, [0]),
        (1, "u", ["a", "b"], 1, [1]),
        (2, "n", ["c"], 2, [2]),
        (3, "m", ["a", "b"], 3, [3]),
    ]


def test_rows_with_keys_of_several_columns_leave_their_buckets(
    spark: SparkSession, name: str
) -> None:
    more = {"primaryKey": "id,name", "hoodie.index.type": "BUCKET", **BUCKETS}
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in more.items())
    create(spark, name, f"tblproperties ({properties})")
    rows: list[Row] = [(key, "a", 1, "x") for key in range(6)]
    spark.createDataFrame(rows, COLUMNS).coalesce(1).writeTo(name).append()
    held = spark.table(name).select("_hoodie_file_name").distinct().count()
    assert held == 2, "the keys are in both buckets"

    spark.sql(f"delete from {name} where id in (2, 3)")
    assert table(spark, name) == [*rows[:2], *rows[4:]]

    spark.sql(f"update {name} set dt = 'y' where id > 3")
    merge(spark, name, [(0, "a", 0, ""), (1, "a", 0, "")], "when matched then delete")
    assert table(spark, name) == [(4, "a", 1, "y"), (5, "a", 1, "y")]


KNOWN_KEY = """merge into {t} t using (select 2 id) s on t.id = s.id + 100
    when matched then delete
    when not matched then insert (id, name, ts, dt) values (2, 'n', 1, 'x')"""
ONLY_INSERTS = """merge into {t} t using (select 2 id) s on t.id = s.id + 100
    when not matched then insert (id, name, ts, dt) values (2, 'n', 1, 'x')"""
KEY_TWICE = """merge into {t} t using (select * from values (8, 'p'), (8, 'q') v(id, name)) s
    on t.id = s.id when not matched then insert (id, name, ts, dt) values (s.id, s.name, 1, 'x')"""
TWO_FOR_ONE = """merge into {t} t using (select * from values (1, 'p'), (1, 'q') v(id, name)) s
    on t.id = s.id when matched then update set name = s.name"""


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        (
            "update {t} set id = id + 10 where id = 3",
            "would change record keys, such as '3' to '13'",
        ),
        ("update {t} set id = null where id = 3", "would change record keys"),
        (KNOWN_KEY, "keys that the table has already: 2"),
        (ONLY_INSERTS, "keys that the table has already: 2"),
        (KEY_TWICE, "more than one row with the key '8'"),
        (KEY_TWICE + " when not matched by source then delete", "with the key '8'"),
        (TWO_FOR_ONE, "MERGE_CARDINALITY_VIOLATION"),
        ("update {t} set ts = 'many' where id = 1", "CANNOT_SAFELY_CAST"),
        ("update {t} set nothing = 1", "nothing"),
    ],
)
def test_what_cannot_be_done_is_refused_and_changes_no_row(
    spark: SparkSession, name: str, statement: str, says: str
) -> None:
    filled(spark, name)

    with pytest.raises(Exception, match=re.escape(says)):
        spark.sql(statement.format(t=name))

    assert table(spark, name) == START
    folder = folder_of(spark, name)
    assert not [f for f in listing(folder) if ".spool" in f], "the spool is gone"
    assert hudi(spark, name).timeline().pending == ()


OF_SOURCE = """merge into {t} t using (select {id} id) s on t.id = s.id
    when {when} then update set name = 'u'"""
DOUBLED = "The table has more than one row with the key '1'.*insert.into.operation is upsert"


@pytest.mark.parametrize("type", ["cow", "mor"])
@pytest.mark.parametrize(
    "statement",
    [
        "update {t} set name = 'u'",
        OF_SOURCE.format(t="{t}", id=1, when="matched"),
        OF_SOURCE.format(t="{t}", id=7, when="not matched by source"),
    ],
)
def test_rows_of_one_key_that_inserts_have_doubled_are_named_as_the_tables_own(
    spark: SparkSession, name: str, statement: str, type: str
) -> None:
    filled(spark, name, type=type)
    spark.sql(f"insert into {name} values (1, 'again', 1, 'x')")
    before = table(spark, name)

    with pytest.raises(Exception, match=DOUBLED):
        spark.sql(statement.format(t=name))
    assert table(spark, name) == before

    spark.sql(f"delete from {name} where id = 1")
    spark.sql(f"insert into {name} values (1, 'once', 1, 'x')")
    spark.sql(statement.format(t=name))
    assert "u" in {row[1] for row in table(spark, name)}


OF_THREE = (
    "update {t} set name = 'u' where id = '3'",
    OF_SOURCE.format(t="{t}", id="'3'", when="matched"),
    "delete from {t} where id = '3'",
)
BY_NULL = (
    "partitioned by (n) tblproperties (primaryKey = 'id')",
    "tblproperties (primaryKey = 'id', preCombineField = 'n')",
)


@pytest.mark.every_line
@pytest.mark.parametrize("statement", OF_THREE, ids=("update", "merge", "delete"))
@pytest.mark.parametrize("made", BY_NULL, ids=("partition", "order"))
def test_rows_are_changed_whose_files_spark_finds_by_null(
    spark: SparkSession, name: str, made: str, statement: str
) -> None:
    spark.sql(f"create table {name} (id string, name string, n int) using pyhudi {made}")
    spark.sql(f"insert into {name} values ('1', 'a', 1), ('3', 'c', null)")

    spark.sql(statement.format(t=name))

    left = [] if statement.startswith("delete") else [("3", "u", None)]
    assert table(spark, name) == [("1", "a", 1), *left]


NEW_IN_TWO = """merge into {t} t using (select * from values (8, 'x'), (8, 'y') v(id, dt)) s
    on t.id = s.id when not matched then insert (id, name, ts, dt) values (s.id, 'n', 1, s.dt)"""
MOVED_AND_NEW = """merge into {t} t using (select * from values (2), (300) v(id)) s
    on t.id = s.id when matched then update set dt = 'z'
    when not matched then insert (id, name, ts, dt) values (2, 'n', 1, 'w')"""


@pytest.mark.parametrize(("statement", "key"), [(NEW_IN_TWO, 8), (MOVED_AND_NEW, 2)])
def test_under_a_global_index_a_key_arrives_in_one_partition_alone(
    spark: SparkSession, name: str, statement: str, key: int
) -> None:
    filled(spark, name, hoodie__index__type="GLOBAL_SIMPLE")
    with pytest.raises(Exception, match=f"more than one row with the key '{key}'"):
        spark.sql(statement.format(t=name))
    assert table(spark, name) == START


@pytest.mark.parametrize("statement", ["delete from {t}", "update {t} set name = 'x'"])
def test_rows_of_files_that_the_table_never_had_are_not_taken_for_new_ones(
    spark: SparkSession, name: str, statement: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(spark, name)

    def elsewhere(spooled: DataFrame, homes: Mapping[int, str]) -> DataFrame:
        strangers = {n: path.replace("/", "/stranger-") for n, path in homes.items()}
        return spooled_changes(spooled, strangers)

    monkeypatch.setattr(write_handlers, "spooled_changes", elsewhere)
    with pytest.raises(Exception, match=r"\[WRITE_FAILED\] 2 rows to change"):
        spark.sql(statement.format(t=name) + " where id in (1, 3)")

    assert table(spark, name) == START


def test_a_table_that_cannot_be_written_says_so_before_it_is_read(
    spark: SparkSession, name: str, tmp_path: Path
) -> None:
    unpacked = golden_tables.BY_NAME["h120_v9-mor_compacted"].unzip(tmp_path)
    spark.sql(f"create table {name} using pyhudi location '{unpacked}'")
    HudiTable(spark, str(unpacked), {}, "").change_property("hoodie.record.merge.mode", "CUSTOM")
    with pytest.raises(Exception, match="merge.mode=CUSTOM"):
        spark.sql(f"delete from {name} where 1 = 2")
