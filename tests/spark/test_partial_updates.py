"""Upserts of some values, and deletes that a column of change data marks (spec/merging.md R2, R6).

The model merges row by row; Apache Hudi reads and writes such tables in integration/.
"""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import AnalysisException

import pyhudi
from tests.spark.tables import (
    DS,
    INDEX,
    KEY,
    ORDERING,
    PARTITION,
    TYPE,
    HudiTable,
    Lake,
    listing,
    settings,
)

pytestmark = [pytest.mark.spark, pytest.mark.compiled]

PAYLOAD = DS + "payload.class"
DDL = "id long, a string, n long, s struct<x: int>, ts long, Op string, dt string"
NAMES = ("id", "a", "n", "s", "ts", "Op", "dt")
PARTIAL = {PAYLOAD: "PartialUpdateAvroPayload", ORDERING: "ts"}
LATEST = {PAYLOAD: "OverwriteNonDefaultsWithLatestAvroPayload"}
DMS = {PAYLOAD: "AWSDmsAvroPayload"}
MOR = {TYPE: "MERGE_ON_READ", "hoodie.compact.inline": "false"}
BUCKETS = {INDEX: "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
MISSING = "hoodie.write.set.null.for.missing.columns"
Row = tuple[Any, ...]


def table_of(lake: Lake, **more: str) -> HudiTable:
    return lake.table(options={KEY: "id", PARTITION: "dt", **more}, ddl=DDL)


def row(
    key: int, a: str | None, n: int | None, ts: int, op: str = "I", x: int | None = None
) -> Row:
    return key, a, n, None if x is None else (x,), ts, op, "x"


def told(table: HudiTable) -> dict[int, tuple[Any, ...]]:
    """By id: a, n, the part of s, and the ordering value."""
    return {
        r["id"]: (r["a"], r["n"], r["s"] and r["s"]["x"], r["ts"]) for r in table.df().collect()
    }


@pytest.mark.parametrize(
    "index", [{}, BUCKETS, {INDEX: "BLOOM"}], ids=["simple", "bucket", "bloom"]
)
@pytest.mark.parametrize("kind", [{}, MOR], ids=["cow", "mor"])
def test_null_leaves_the_value_that_was_there(
    lake: Lake, way: str, kind: dict[str, str], index: dict[str, str]
) -> None:
    table = table_of(lake, **PARTIAL, **kind, **index)
    table.write([row(k, f"a{k}", k, 10, x=k) for k in range(4)], "upsert")
    table.write([row(0, None, 20, 20), row(1, "b1", None, 20, x=21), row(9, None, 9, 20)], "upsert")
    table.write([row(2, "late", None, 5), row(3, None, None, 30), row(3, "b3", 5, 30)], "upsert")
    expected = {
        0: ("a0", 20, 0, 20),
        1: ("b1", 1, 21, 20),
        2: ("a2", 2, 2, 10),
        3: ("b3", 5, 3, 30),
        9: (None, 9, None, 20),
    }
    assert told(table) == expected
    if kind:
        pyhudi.compact(table.path)
        assert told(table) == expected


@pytest.mark.parametrize("kind", [{}, MOR], ids=["cow", "mor"])
def test_the_values_of_the_loser_fill_the_winner(lake: Lake, kind: dict[str, str]) -> None:
    """A late row changes the row that stays, so an incremental read has it."""
    table = table_of(lake, **PARTIAL, **kind)
    table.write([row(0, None, 1, 10), row(1, "a1", 1, 10)], "upsert")
    table.write([row(0, "late", 2, 5), row(1, "late", 2, 5)], "upsert")
    assert told(table) == {0: ("late", 1, None, 10), 1: ("a1", 1, None, 10)}


@pytest.mark.parametrize("kind", [{}, MOR], ids=["cow", "mor"])
def test_the_columns_of_a_frame_are_enough(lake: Lake, kind: dict[str, str]) -> None:
    table = table_of(lake, **LATEST, **kind)
    table.write([row(0, "a0", 1, 10, x=7), row(1, "a1", 1, 10)], "upsert")
    some = table.frame([(0, 5, "x"), (2, 6, "x")], "id long, n long, dt string")
    table.write(some, "upsert")
    assert told(table) == {
        0: ("a0", 5, 7, 10),
        1: ("a1", 1, None, 10),
        2: (None, 6, None, None),
    }


def test_a_struct_is_one_value(lake: Lake) -> None:
    """A part that the frame lacks would be null from then on."""
    ddl = "id long, s struct<x: int, y: int>"
    table = lake.table(options={KEY: "id", **LATEST}, ddl=ddl)
    table.write([(1, (1, 2))], "upsert")
    some = table.frame([(1, (5,))], "id long, s struct<x: int>")
    with pytest.raises(AnalysisException, match="'s.y' of the table is missing"):
        table.write(some, "upsert")
    table.write([(1, (5, None)), (2, None)], "upsert")
    assert {row.id: row.s for row in table.df().collect()} == {1: (5, None), 2: None}


def test_a_frame_without_the_ordering_column_is_refused_by_event_time(lake: Lake) -> None:
    """Its rows would lose, and say nothing."""
    table = table_of(lake, **PARTIAL)
    table.write([row(0, "a0", 1, 10)], "upsert")
    some = table.frame([(0, 5, "x")], "id long, n long, dt string")
    with pytest.raises(AnalysisException, match="'a' of the table is missing"):
        table.write(some, "upsert")
    some = table.frame([(0, 5, 11, "x")], "id long, n long, ts long, dt string")
    table.write(some, "upsert")
    assert told(table) == {0: ("a0", 5, None, 11)}


@pytest.mark.parametrize("kind", [{}, MOR], ids=["cow", "mor"])
@pytest.mark.parametrize("rules", [PARTIAL, LATEST], ids=["event", "commit"])
def test_a_deleted_row_gives_no_values(
    lake: Lake, kind: dict[str, str], rules: dict[str, str]
) -> None:
    """Logs would give them, so such a write compacts the file group first."""
    table = table_of(lake, **rules, **kind)
    table.write([row(0, "a0", 1, 10), row(1, "a1", 1, 10)], "upsert")
    table.write([row(0, None, None, 11)], "delete")
    table.write([row(0, None, 5, 12), row(1, None, 6, 12)], "upsert")
    assert told(table) == {0: (None, 5, None, 12), 1: ("a1", 6, None, 12)}


@pytest.mark.parametrize("kind", [{}, MOR], ids=["cow", "mor"])
def test_a_statement_sets_null(lake: Lake, kind: dict[str, str]) -> None:
    table = table_of(lake, **PARTIAL, **kind)
    table.write([row(0, "a0", 1, 10), row(1, "a1", 1, 10), row(2, "a2", 2, 10)], "upsert")
    table.write([row(1, None, 7, 11)], "upsert")
    sql, named = table.spark.sql, f"pyhudi.`{table.path}`"
    sql(f"update {named} set a = null where id < 2")
    assert told(table) == {0: (None, 1, None, 10), 1: (None, 7, None, 11), 2: ("a2", 2, None, 10)}
    sql(f"update {named} set n = 8 where id = 2")
    sql(
        f"merge into {named} t using (select 0 as id, 'b' as a) s on t.id = s.id "
        "when matched then update set a = s.a, n = null"
    )
    sql(f"delete from {named} where id = 1")
    assert told(table) == {0: ("b", None, None, 10), 2: ("a2", 8, None, 10)}


def test_a_statement_sets_null_in_rows_that_only_logs_have(lake: Lake) -> None:
    """Rows that a MERGE inserts beside logs may have nulls: nothing was there."""
    table = table_of(lake, **PARTIAL, **MOR, **BUCKETS)
    table.write([row(0, "a0", 1, 10)], "upsert")
    table.write([row(1, "a1", 1, 10)], "upsert")
    sql, named = table.spark.sql, f"pyhudi.`{table.path}`"
    logs = len([path for path in listing(table.path) if ".log." in path])
    with settings(table.spark, BUCKETS):
        sql(
            f"merge into {named} t using (select 2 as id, 'x' as dt) s on t.id = s.id "
            "when not matched then insert (id, a, n, s, ts, Op, dt) "
            "values (s.id, null, 2, null, 10, 'I', s.dt)"
        )
        assert len([path for path in listing(table.path) if ".log." in path]) == logs + 1
        sql(f"update {named} set a = null where id = 1")
    assert told(table) == {
        0: ("a0", 1, None, 10),
        1: (None, 1, None, 10),
        2: (None, 2, None, 10),
    }


@pytest.mark.parametrize("kind", [{}, MOR], ids=["cow", "mor"])
def test_a_column_of_change_data_marks_deletes(lake: Lake, way: str, kind: dict[str, str]) -> None:
    table = table_of(lake, **DMS, **kind)
    table.write([row(k, f"a{k}", k, 10, None if k == 3 else "I") for k in range(5)], "upsert")
    table.write(
        [row(0, None, None, 11, "D"), row(1, "b", 1, 11, "U"), row(7, "c", 1, 1, "D")], "upsert"
    )
    assert {key: a for key, (a, *_) in told(table).items()} == {1: "b", 2: "a2", 3: "a3", 4: "a4"}
    named = f"pyhudi.`{table.path}`"
    table.spark.sql(f"update {named} set Op = 'D' where id = 2")
    table.write([row(1, None, None, 12, "D"), row(1, "again", 2, 13, "I")], "upsert")
    table.write([row(3, "inserted", 2, 13, "D"), row(8, "d", 2, 13, "I")], "insert")
    found = sorted(told(table).items())
    assert [(key, a) for key, (a, *_) in found] == [(1, "again"), (3, "a3"), (4, "a4"), (8, "d")]


def test_what_would_find_no_row_to_take_values_from_is_refused(lake: Lake) -> None:
    table = table_of(lake, **PARTIAL, **MOR, **BUCKETS)
    table.write([row(0, "a0", 1, 10)], "upsert")
    change, mode = [row(0, None, 2, 11)], "NON_BLOCKING_CONCURRENCY_CONTROL"
    with pytest.raises(AnalysisException, match="that another writer deletes meanwhile"):
        table.write(change, "upsert", hoodie__write__concurrency__mode=mode)
    with pytest.raises(AnalysisException, match="only an upsert combines"):
        table.write(change, "insert", hoodie__combine__before__insert="true")
    assert told(table) == {0: ("a0", 1, None, 10)}
    other = lake.table("u", {**table.options, INDEX: "GLOBAL_SIMPLE"}, DDL)
    with pytest.raises(AnalysisException, match="may move to another partition"):
        other.write(change, "upsert")
    assert not listing(other.path)
