"""Which row of a key stays under a global index, whose rivals Spark compares (spec/merging.md R1).

The other indexes leave rivals to their file group, so both must give the same row.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.spark.tables import DELETED, INDEX, OPTIONS, ORDERING, TYPE, Lake

pytestmark = pytest.mark.spark

GLOBAL = {INDEX: "GLOBAL_SIMPLE"}
LATEST = {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}
MOR = {**OPTIONS, TYPE: "MERGE_ON_READ", "hoodie.compact.inline": "false"}


def ddl(kind: str) -> str:
    return f"id long, name string, ts {kind}, dt string, {DELETED} boolean"


@pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_SIMPLE"])
def test_by_commit_time_the_later_row_of_a_batch_wins_over_a_delete_without_order(
    lake: Lake, index: str
) -> None:
    table = lake.table(ddl=ddl("long"), **LATEST, **{INDEX: index})
    table.write([(1, "gone", None, "x", True), (1, "back", 1, "x", False)])
    assert {key: row[1] for key, row in table.rows().items()} == {1: "back"}


@pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_SIMPLE"])
def test_null_is_0_among_ints_of_one_batch(lake: Lake, index: str) -> None:
    table = lake.table(ddl=ddl("int"), **{INDEX: index})
    table.write([(1, "null", None, "x", False), (1, "less", -1, "x", False)])
    table.write([(2, "zero", 0, "x", True), (2, "more", 3, "x", False)])
    assert {key: row[1] for key, row in table.rows().items()} == {1: "null"}


#: ordering values of the row that is there, and of one that comes from another partition, and
#: whether that one deletes; which one stays
CASES: dict[str, tuple[tuple[Any, Any, bool, str | None], ...]] = {
    "int": (
        (-1, None, False, "new"),
        (1, None, False, "old"),
        (5, 0, True, None),
        (5, 4, True, "old"),
    ),
    "date": (("1969-07-20", None, False, "new"), ("1969-07-20", None, True, None)),
    "double": (
        (0.0, -0.0, False, "old"),
        (-0.0, 0.0, False, "new"),
        (float("nan"), 1.0, False, "old"),
        (None, -1.0, False, "new"),
        (5.0, None, True, None),
    ),
}


@pytest.mark.parametrize(
    ("kind", "type_of"),
    [("COPY_ON_WRITE", "int"), ("COPY_ON_WRITE", "date"), ("MERGE_ON_READ", "double")],
)
def test_rows_move_by_the_order_of_their_values(lake: Lake, kind: str, type_of: str) -> None:
    cases = dict(enumerate(CASES[type_of]))
    written = "string" if type_of == "date" else type_of
    table = lake.table(ddl=ddl(written), **{**GLOBAL, TYPE: kind})

    def write(*rows: Any) -> None:
        frame = table.frame(rows)
        table.write(frame.withColumn("ts", frame["ts"].cast(type_of)))

    write(*((at, "old", held, "x", False) for at, (held, *_) in cases.items()))
    write(*((at, "new", comes, "y", gone) for at, (_, comes, gone, _) in cases.items()))
    wanted = {at: stays for at, (*_, stays) in cases.items() if stays}
    assert {key: row[1] for key, row in table.rows().items()} == wanted


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("types", ["int, int", "date, bigint"])
def test_a_row_leaves_its_partition_whatever_types_order_it(
    lake: Lake, kind: str, types: str
) -> None:
    """Among several ordering values null is 0 for an int, but a delete without any wins."""
    one, other = types.split(", ")
    columns = f"id long, name string, ts string, ts2 {other}, dt string, {DELETED} boolean"
    options = {**MOR, **GLOBAL, TYPE: kind, ORDERING: "ts,ts2"}
    table = lake.table(options=options, ddl=columns)

    def write(*rows: Any) -> None:
        values = {5: "1970-01-06", 6: "1970-01-07"} if one == "date" else {}
        frame = table.frame([(n, v, values.get(ts, ts and str(ts)), ts, *more)
                             for n, v, ts, *more in rows])  # fmt: skip
        table.write(frame.withColumn("ts", frame["ts"].cast(one)))

    write(*((n, "a", 5, "x", False) for n in range(4)))
    write((0, "moved", 6, "y", False), (1, "", None, "x", True), (2, "", None, "y", True))
    assert {key: row[1] for key, row in table.rows().items()} == {0: "moved", 3: "a"}
    write((0, "back", 6, "x", False))
    assert {key: row[1] for key, row in table.rows().items()} == {0: "back", 3: "a"}


@pytest.mark.parametrize("way_of_death", ["moved", "deleted in two partitions"])
def test_a_row_that_arrives_has_the_old_home_of_its_key_in_that_partition(
    lake: Lake, way_of_death: str
) -> None:
    table = lake.table(options={**MOR, **GLOBAL, **LATEST})
    table.write([(1, "a", 1, "x"), (2, "a", 1, "x")], "insert")
    table.write([(1, "b", 1, "y"), (3, "b", 1, "y")], "upsert")
    wanted = "x"
    if way_of_death != "moved":
        table.write([(1, "", 1, "y")], "delete")
        wanted = "y"
    files = table.base_files()
    table.write([(1, "c", 1, wanted)], "upsert")
    assert table.base_files() == files, "a second base row would come to life in Apache Hudi"
    assert table.rows()[1] == (1, "c", 1, wanted)
    table.write([(1, "d", 1, "z")], "upsert")
    assert {key: row[1] for key, row in table.rows().items()} == {1: "d", 2: "a", 3: "b"}
