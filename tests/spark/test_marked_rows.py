"""Rows that a statement leaves with ``_hoodie_is_deleted`` true: deletes, as in an upsert."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyhudi.writes.placement import assign
from tests.spark.tables import DELETED, OPERATION

pytestmark = pytest.mark.spark

COLUMNS = f"id bigint, v string, ts bigint, p string, {DELETED} boolean"
#: written by bulk_insert, which keeps rows that are marked
START = [
    (1, "a", 5, "x", False),
    (2, "b", 5, "x", None),
    (3, "c", 5, "x", False),
    (4, "d", 5, "x", False),
    (5, "e", 5, "x", True),
]
TABLES = {
    "copy on write": "type = 'cow', preCombineField = 'ts'",
    "version 6": "type = 'mor', preCombineField = 'ts', 'hoodie.write.table.version' = '6'",
    "version 9": "type = 'mor', preCombineField = 'ts'",
    "written anew": "type = 'mor', preCombineField = 'ts', 'hoodie.log.most.changed.percent' = '1'",
}
GLOBAL = "'hoodie.index.type' = 'GLOBAL_SIMPLE'"
BUCKETS = "'hoodie.index.type' = 'BUCKET', 'hoodie.bucket.index.num.buckets' = '1'"


class Marked:
    """A table with the rows of ``START``, and its statements."""

    def __init__(self, spark: SparkSession, name: str, path: Path, properties: str) -> None:
        self._spark, self._name = spark, name
        spark.sql(
            f"create table {name} ({COLUMNS}) using pyhudi partitioned by (p) location '{path}' "
            f"tblproperties ({properties}, 'hoodie.compact.inline' = 'false')"
        )
        rows = spark.createDataFrame(START, COLUMNS).coalesce(1)
        rows.write.format("pyhudi").option(OPERATION, "bulk_insert").mode("append").save(str(path))

    def says(self, statement: str) -> tuple[int, ...]:
        """The numbers that a statement answers."""
        (row,) = self._spark.sql(statement.replace("TABLE", self._name)).collect()
        return tuple(row)

    def ids(self) -> list[int]:
        return sorted(row["id"] for row in self._spark.table(self._name).collect())


@pytest.mark.parametrize("kind", TABLES)
def test_a_row_that_a_statement_marks_is_deleted(
    spark: SparkSession, tmp_path: Path, name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "written anew":
        monkeypatch.setattr(assign, "LARGE_BYTES", 0)
    table = Marked(spark, name, tmp_path / "t", f"primaryKey = 'id', {TABLES[kind]}")
    assert table.ids() == [1, 2, 3, 4, 5]

    assert table.says("update TABLE set v = 'kept the mark' where id = 5") == (1,)
    assert table.says(f"update TABLE set {DELETED} = true, ts = 6 where id = 1") == (1,)
    assert table.ids() == [2, 3, 4]

    merged = table.says(
        "merge into TABLE t using (select * from values (2, true), (3, false), (8, true), (9, null)"
        f" as (id, gone)) s on t.id = s.id when matched then update set {DELETED} = s.gone "
        f"when not matched then insert (id, v, ts, p, {DELETED}) values (s.id, 'n', 1, 'x', s.gone)"
    )
    assert merged == (3, 1, 1, 1), "affected, updated, deleted, inserted"
    assert table.ids() == [3, 4, 9], "the new row 8 is dropped"

    table.says(f"update TABLE set {DELETED} = true, ts = 4 where id = 4")
    assert table.ids() == [3, 4, 9], "the stored row has a larger ordering value"


def test_a_marked_row_is_deleted_where_it_is_whatever_partition_it_names(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    properties = f"primaryKey = 'id', preCombineField = 'ts', {GLOBAL}"
    for kind in ("cow", "mor"):
        own = f"{name}_{kind}"
        table = Marked(spark, own, tmp_path / kind, f"{properties}, type = '{kind}'")
        moves = f"update TABLE set p = 'y', {DELETED} = id = 1, ts = 6 where id in (1, 2)"
        assert table.says(moves) == (2,)
        assert table.ids() == [2, 3, 4, 5]
        places = dict(spark.table(own).select("id", "_hoodie_partition_path").collect())
        assert places[2].endswith("y")


def test_a_marked_row_of_a_table_without_keys_is_deleted(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    for kind in ("cow", "mor"):
        table = Marked(spark, f"{name}_{kind}", tmp_path / kind, f"type = '{kind}'")
        assert table.says(f"update TABLE set {DELETED} = true where id = 1") == (1,)
        merging = (
            "merge into TABLE t using (select 2L id union all select 9L) s on t.id = s.id "
            f"when matched then update set {DELETED} = true when not matched then "
            f"insert (id, v, ts, p, {DELETED}) values (s.id, 'n', 1, 'x', true)"
        )
        assert table.says(merging) == (1, 0, 1, 0)
        assert table.ids() == [3, 4, 5]


def test_a_marked_new_row_is_in_no_bucket_and_no_upsert_keeps_one(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    for kind in ("cow", "mor"):
        path = tmp_path / kind
        spark.sql(
            f"create table {name}_{kind} ({COLUMNS}) using pyhudi location '{path}' "
            f"tblproperties (primaryKey = 'id', type = '{kind}', {BUCKETS}, "
            "'hoodie.spark.sql.insert.into.operation' = 'upsert')"
        )
        spark.sql(f"insert into {name}_{kind} values (1, 'a', 1, 'x', null)")
        merging = (
            f"merge into {name}_{kind} t using (select 9L id) s on t.id = s.id when not matched "
            f"then insert (id, v, ts, p, {DELETED}) values (s.id, 'n', 1, 'x', true)"
        )
        assert [tuple(row) for row in spark.sql(merging).collect()] == [(0, 0, 0, 0)]
        assert [row["id"] for row in spark.table(f"{name}_{kind}").collect()] == [1]
        spark.sql(f"insert into {name}_{kind} values (1, 'a', 1, 'x', true)")
        assert spark.table(f"{name}_{kind}").collect() == []
