"""Every operation under every index and table version, against a dict that does the same."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from pyhudi.writes.placement.constants import ints
from tests.spark.tables import (
    DS,
    INDEX,
    KEY,
    OPERATION,
    OPTIONS,
    PARTITION,
    TYPE,
    VERSION,
    WAYS,
    Lake,
    model_of,
    refused,
    rows_of,
)

pytestmark = pytest.mark.spark

BUCKETS = {"hoodie.bucket.index.num.buckets": "2"}


INDEXES = ("SIMPLE", "BLOOM", "BUCKET", "GLOBAL_SIMPLE", "GLOBAL_BLOOM")
COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"
MATRIX = [
    (index, version, way, kind)
    for index in INDEXES
    for version in "689"
    for way in WAYS
    for kind in (COW, MOR)
]
SAMPLE = {
    ("SIMPLE", "9", "collected", COW),
    ("SIMPLE", "6", "distributed", COW),
    ("BLOOM", "8", "distributed", COW),
    ("BUCKET", "6", "distributed", COW),
    ("GLOBAL_SIMPLE", "9", "distributed", COW),
    ("SIMPLE", "6", "collected", MOR),
    ("BUCKET", "9", "distributed", MOR),
    ("GLOBAL_BLOOM", "8", "distributed", MOR),
}


@pytest.mark.parametrize(
    ("index", "version", "way", "kind"),
    [pytest.param(*c, marks=() if c in SAMPLE else pytest.mark.matrix) for c in MATRIX],
    indirect=["way"],
)
def test_each_operation_does_to_the_table_what_it_does_to_a_dict(
    lake: Lake, index: str, version: str, way: str, kind: str
) -> None:
    options = {**OPTIONS, INDEX: index, VERSION: version, TYPE: kind}
    if index == "BUCKET":
        options |= BUCKETS
    table = lake.table("all", options)
    model = model_of(rows_of(0, 20, "a"))
    table.write(model.values(), "insert")
    assert table.rows() == model

    newer = rows_of(15, 25, "b", 2)
    model |= model_of(newer)
    table.write(newer, "upsert")
    assert table.rows() == model

    table.write(rows_of(0, 5, "older", 0), "upsert")
    assert table.rows() == model, "an older arrival loses"

    table.write(rows_of(18, 22, "gone", 0), "delete")
    model = {key: row for key, row in model.items() if not 18 <= key < 22}
    assert table.rows() == model

    bulk = rows_of(100, 104, "bulk")
    model |= model_of(bulk)
    table.write(bulk, "bulk_insert")
    assert table.rows() == model

    fresh = [r for r in rows_of(200, 206, "over") if r[3] == "2024-01-02"]
    model = {k: r for k, r in model.items() if r[3] != "2024-01-02"} | model_of(fresh)
    table.write(fresh, "insert_overwrite")
    assert table.rows() == model

    delete = {f"{DS}partitions.to.delete": "2024-01-03"}
    table.write(table.frame(rows_of(0, 1, "x")), "delete_partition", **delete)
    model = {k: r for k, r in model.items() if r[3] != "2024-01-03"}
    assert table.rows() == model

    model = model_of(rows_of(0, 4, "last"))
    table.write(model.values(), "insert_overwrite_table")
    assert table.rows() == model
    assert table.df().count() == len(model)
    assert table.properties()["hoodie.table.version"] == version


@pytest.mark.parametrize("index", ["GLOBAL_SIMPLE", "GLOBAL_BLOOM"])
def test_a_global_index_moves_a_row_to_its_new_partition(lake: Lake, index: str) -> None:
    table = lake.table(options={**OPTIONS, INDEX: index})
    model = model_of(rows_of(0, 6, "a"))
    table.write(model.values(), "insert")

    moved = [(1, "moved", 2, "2024-02-01"), (2, "stays", 2, model[2][3])]
    table.write(moved)
    assert table.rows() == {**model, **model_of(moved)}

    table.write([(1, "too old", 1, "2024-03-01")])
    assert table.rows() == {**model, **model_of(moved)}, "an older arrival does not move a row"

    table.write([(1, "", 9, "elsewhere")], "delete")
    assert sorted(table.rows()) == [0, 2, 3, 4, 5], "a delete finds its key in any partition"


def test_a_global_index_keeps_one_of_the_rows_of_a_key_that_arrive_for_two_partitions(
    lake: Lake,
) -> None:
    table = lake.table(options={**OPTIONS, INDEX: "GLOBAL_SIMPLE"})
    table.write([(1, "a", 1, "x"), (1, "b", 2, "y"), (2, "c", 1, "x")])
    assert table.rows() == model_of([(1, "b", 2, "y"), (2, "c", 1, "x")])

    table.write([(2, "d", 3, "z"), (2, "e", 2, "x")])
    assert table.rows() == model_of([(1, "b", 2, "y"), (2, "d", 3, "z")])


def test_a_global_index_can_leave_a_row_where_it_is(lake: Lake) -> None:
    table = lake.table(
        options={**OPTIONS, INDEX: "GLOBAL_SIMPLE"},
        hoodie__simple__index__update__partition__path="false",
    )
    table.write([(1, "a", 1, "x"), (2, "b", 1, "y")], "insert")
    table.write([(1, "c", 2, "y")])

    found = table.df().select("id", "name", "_hoodie_partition_path").collect()
    assert sorted(map(tuple, found)) == [(1, "c", "x"), (2, "b", "y")]


def test_the_partitioned_index_treats_a_key_in_another_partition_as_another_row(
    lake: Lake,
) -> None:
    table = lake.table()
    table.write([(1, "a", 1, "x")])
    table.write([(1, "b", 2, "y")])

    assert sorted(map(tuple, table.df().collect())) == [(1, "a", 1, "x"), (1, "b", 2, "y")]


# ---- save modes and defaults


def test_the_four_save_modes(lake: Lake) -> None:
    table = lake.table()
    first, second = rows_of(0, 3, "a"), rows_of(2, 5, "b", 2)
    table.write(first, mode="error")
    with refused("TABLE_EXISTS", table.path, table.path):
        table.write(second, mode="error")
    table.write(second, mode="ignore")
    assert table.rows() == model_of(first)

    table.write(second, mode="append")
    assert table.rows() == model_of(first + second)

    table.write(second, mode="overwrite")
    assert table.rows() == model_of(second)
    for mode in ("ignore", "overwrite", "append"):
        other = lake.table(mode)
        other.write(first, mode=mode)
        assert other.rows() == model_of(first), f"{mode} makes a table where there is none"


def test_overwriting_can_spare_the_partitions_that_are_not_written(lake: Lake) -> None:
    table = lake.table()
    table.write(rows_of(0, 6, "a"))
    fresh = [(9, "b", 1, "2024-01-01")]
    table.write(fresh, mode="overwrite", hoodie__datasource__overwrite__mode="dynamic")

    kept = [r for r in rows_of(0, 6, "a") if r[3] != "2024-01-01"]
    assert table.rows() == model_of(kept + fresh)


def test_a_write_upserts_where_there_is_a_key_and_inserts_where_there_is_none(lake: Lake) -> None:
    keyed, keyless = lake.table("keyed"), lake.table("keyless", {PARTITION: "dt"})
    for table in (keyed, keyless):
        table.write([(1, "a", 1, "x")])
        table.write([(1, "b", 2, "x")])

    assert keyed.rows() == model_of([(1, "b", 2, "x")])
    found = sorted(map(tuple, keyless.df().collect()))
    assert found == [(1, "a", 1, "x"), (1, "b", 2, "x")]


def test_a_table_remembers_its_options(lake: Lake) -> None:
    table = lake.table()
    table.write(rows_of(0, 3, "a"))
    table.options = {}
    table.write([(1, "b", 2, "2024-01-02"), (2, "older", 0, "2024-01-03")])

    assert table.rows() == model_of([*rows_of(0, 3, "a"), (1, "b", 2, "2024-01-02")])


def test_partition_by_names_the_partition_columns_of_a_new_table(lake: Lake) -> None:
    table = lake.table(options={KEY: "id"})
    table.frame(rows_of(0, 3, "a")).write.format("pyhudi").partitionBy("dt").options(
        **table.options
    ).save(table.path)

    assert table.properties()["hoodie.table.partition.fields"] == "dt"
    assert {f.split("/")[0] for f in table.base_files()} == {f"2024-01-0{i}" for i in (1, 2, 3)}


def test_delete_partition_takes_a_pattern_or_the_partitions_of_its_rows(lake: Lake) -> None:
    table = lake.table()
    table.write([(i, "a", 1, dt) for i, dt in enumerate(("a1", "a2", "b1", "c1"))])
    table.write(table.frame([]), "delete_partition", **{f"{DS}partitions.to.delete": "a*"})
    assert sorted(table.rows()) == [2, 3]

    table.write([(0, "", 0, "c1")], "delete_partition")
    assert sorted(table.rows()) == [2]


# ---- duplicates among inserts


def test_inserts_may_repeat_a_key_or_drop_it_or_fail(lake: Lake) -> None:
    table = lake.table()
    table.write([(1, "a", 1, "x"), (2, "a", 1, "x")], "insert")
    policy = "hoodie.datasource.insert.dup.policy"
    table.write([(2, "b", 1, "x"), (3, "b", 1, "x")], "insert", **{policy: "drop"})
    assert table.rows() == model_of([(1, "a", 1, "x"), (2, "a", 1, "x"), (3, "b", 1, "x")])

    with pytest.raises(Exception, match=r"^\[INVALID_RECORD\] .*: 3\."):
        table.write([(3, "c", 1, "x"), (4, "c", 1, "x")], "insert", **{policy: "fail"})
    assert sorted(table.rows()) == [1, 2, 3]

    table.write([(3, "d", 1, "x")], "insert")
    assert sorted(row[1] for row in table.df().where("id = 3").collect()) == ["b", "d"]


@pytest.mark.parametrize("operation", ["insert", "bulk_insert", "insert_overwrite_table"])
def test_rows_of_one_key_are_made_one_before_an_insert_only_if_asked(
    lake: Lake, operation: str
) -> None:
    rows = [(1, "new", 2, "x"), (1, "old", 1, "x"), (2, "b", 1, "x")]
    table = lake.table("combined")
    table.write(rows, operation, hoodie__combine__before__insert="true")
    assert table.rows() == model_of([rows[0], rows[2]])

    plain = lake.table("plain")
    plain.write(rows, operation)
    assert sorted(map(tuple, plain.df().collect())) == sorted(rows)


@pytest.mark.usefixtures("way")
def test_rows_inserted_into_a_file_that_is_there_are_made_one_as_well(lake: Lake) -> None:
    table = lake.table()
    table.write([(1, "a", 1, "x")])
    rows = [(2, "new", 2, "x"), (2, "old", 1, "x")]

    table.write(rows, "insert", hoodie__combine__before__insert="true")

    assert sorted(map(tuple, table.df().collect())) == [(1, "a", 1, "x"), rows[0]]


# ---- empty input


@pytest.mark.parametrize(
    "operation", ["upsert", "insert", "bulk_insert", "delete", "insert_overwrite"]
)
def test_an_empty_frame_changes_no_row(lake: Lake, operation: str) -> None:
    table = lake.table()
    table.write([], operation)
    assert table.rows() == {}
    assert table.df().columns == ["id", "name", "ts", "dt"]

    table.write(rows_of(0, 3, "a"))
    table.write([], operation)
    assert table.rows() == model_of(rows_of(0, 3, "a"))


def test_an_empty_overwrite_empties_the_table(lake: Lake) -> None:
    table = lake.table()
    table.write(rows_of(0, 3, "a"))
    table.write([], mode="overwrite")

    assert table.rows() == {}
    assert table.df().count() == 0


def test_a_nondeterministic_input_is_evaluated_once(lake: Lake) -> None:
    table = lake.table()
    table.write(rows_of(0, 50, "a"))
    drawn = table.df().withColumn("name", F.expr("uuid()")).withColumn("ts", F.lit(2).cast("long"))
    table.write(drawn)

    found = table.rows()
    assert len(found) == 50
    assert {row[2] for row in found.values()} == {2}


def test_a_table_can_be_read_and_written_in_one_statement(lake: Lake) -> None:
    table = lake.table()
    table.write(rows_of(0, 6, "a"))
    table.write(table.df().where("id < 3").withColumn("name", F.lit("self")), mode="overwrite")

    assert {k: r[1] for k, r in table.rows().items()} == dict.fromkeys(range(3), "self")


def test_the_commit_keeps_the_options_with_its_prefix(lake: Lake) -> None:
    table = lake.table(options={**OPTIONS, VERSION: "6"})
    table.write(rows_of(0, 3, "a"), "bulk_insert", _my__note="from a test")

    (commit,) = table.instants()
    text = (lake.folder / "t" / ".hoodie" / f"{commit}.commit").read_text()
    assert "from a test" in text
    assert OPERATION not in text


def test_a_plan_without_numbers_is_an_empty_array(lake: Lake) -> None:
    """A merge into a table without files; Spark 4 refuses to cast the empty text to an int."""
    rows = lake.spark.range(1).select(ints([]).alias("none"), ints([3, -1]).alias("two"))
    assert rows.collect() == [([], [3, -1])]
