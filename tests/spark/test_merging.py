"""Which row of a key stays: ordering values, ties, deletes (spec/merging.md R1, R2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pyhudi
from pyhudi.errors import UnsupportedTable
from pyhudi.writes import operations
from pyhudi.writes import write as writing
from pyhudi.writes.collected import Collected
from pyhudi.writes.grouped import Grouped
from tests.spark.tables import (
    DELETED,
    INDEX,
    KEY,
    OPTIONS,
    ORDERING,
    PARTITION,
    TYPE,
    VERSION,
    HudiTable,
    Lake,
    model_of,
    refused,
)

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("way")]

# tests/rows/test_merge_rules.py and test_groups.py have the rules of one key's rows without Spark:
# one way is enough here. Which rows of a key meet is another matter, and differs by the way.
one_way = pytest.mark.parametrize("way", ["distributed"], indirect=True)

SOFT = f"id long, name string, ts long, dt string, {DELETED} boolean"


@one_way
def test_the_larger_ordering_value_wins_and_the_later_of_equals(lake: Lake) -> None:
    table = lake.table()
    table.write([(1, "a", 5, "x"), (2, "a", 5, "x"), (3, "a", 5, "x"), (4, "a", None, "x")])
    table.write([(1, "older", 4, "x"), (2, "tie", 5, "x"), (3, "newer", 6, "x"), (4, "b", 0, "x")])
    expected = [(1, "a", 5, "x"), (2, "tie", 5, "x"), (3, "newer", 6, "x"), (4, "b", 0, "x")]
    assert table.rows() == model_of(expected)

    table.write([(1, "null", None, "x")])
    assert table.rows() == model_of(expected), "no ordering value is below any"


def test_the_rows_of_a_key_within_one_batch_are_combined_by_the_same_rule(lake: Lake) -> None:
    table = lake.table()
    table.write([(1, "low", 1, "x"), (1, "high", 9, "x"), (1, "middle", 5, "x")])
    assert table.rows() == model_of([(1, "high", 9, "x")])

    table.write([(1, "older", 2, "x"), (1, "oldest", 1, "x"), (2, "p", 1, "x"), (2, "q", 2, "x")])
    assert table.rows() == model_of([(1, "high", 9, "x"), (2, "q", 2, "x")])


@one_way
def test_without_an_ordering_column_the_later_write_wins(lake: Lake) -> None:
    table = lake.table(options={KEY: "id", PARTITION: "dt"})
    table.write([(1, "a", 5, "x")])
    table.write([(1, "b", 1, "x")])

    assert table.rows() == model_of([(1, "b", 1, "x")])
    assert table.properties()["hoodie.record.merge.mode"] == "COMMIT_TIME_ORDERING"


@one_way
def test_commit_time_ordering_ignores_the_ordering_column(lake: Lake) -> None:
    table = lake.table(hoodie__record__merge__mode="COMMIT_TIME_ORDERING")
    table.write([(1, "a", 5, "x")])
    table.write([(1, "b", 1, "x")])

    assert table.rows() == model_of([(1, "b", 1, "x")])


@one_way
def test_several_ordering_columns_compare_one_after_the_other(lake: Lake) -> None:
    ddl = "id long, name string, day date, seq int"
    options = {KEY: "id", "hoodie.table.ordering.fields": "day,seq"}
    table = lake.table(options=options, ddl=ddl)
    frame = "id, name, cast(day as date) day, cast(seq as int) seq"
    text = "id long, name string, day string, seq int"

    def upsert(*rows: tuple[object, ...]) -> None:
        table.write(table.frame(rows, text).selectExpr(*_split(frame)))

    upsert((1, "a", "2024-01-02", 5), (2, "a", "2024-01-02", 5), (3, "a", "2024-01-02", 5))
    upsert((1, "day", "2024-01-03", 0), (2, "seq", "2024-01-02", 6), (3, "no", "2024-01-01", 9))

    assert {k: r[1] for k, r in table.rows().items()} == {1: "day", 2: "seq", 3: "a"}


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


@one_way
@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        ("string", "'9'", "'a'"),
        ("decimal(20,2)", "-1.50", "10.25"),
        ("double", "-1e300", "double('infinity')"),
        ("timestamp", "timestamp'1969-12-31 23:59:59.999999'", "timestamp'1970-01-01'"),
        ("date", "date'1969-01-01'", "date'2024-01-01'"),
    ],
)
def test_ordering_columns_of_every_type_compare(lake: Lake, kind: str, low: str, high: str) -> None:
    table = lake.table(options={KEY: "id", ORDERING: "o"}, ddl="")

    def upsert(name: str, one: str, two: str) -> None:
        sql = f"select * from values (1, '{name}', cast({one} as {kind})), (2, '{name}', "
        table.write(lake.spark.sql(f"{sql}cast({two} as {kind})) as t(id, name, o)"))

    upsert("a", low, high)
    upsert("b", high, low)
    assert {k: r[1] for k, r in table.rows().items()} == {1: "b", 2: "a"}


# ---- deletes


def test_a_row_marked_as_deleted_deletes_unless_it_is_older(lake: Lake) -> None:
    table = lake.table(ddl=SOFT)
    table.write([(i, "a", 5, "x", False) for i in range(4)])
    table.write(
        [
            (0, "", 6, "x", True),
            (1, "", 4, "x", True),
            (2, "b", 6, "x", None),
            (3, "", None, "x", True),
            (7, "", 9, "x", True),
        ]
    )

    assert {k: r[1] for k, r in table.rows().items()} == {1: "a", 2: "b"}


@one_way
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize(
    ("version", "types", "held", "older", "newer"),
    [
        ("9", ("long", "long"), (9, 1), (5, None), (9, 2)),
        ("9", ("long", "string"), (9, "b"), (None, "z"), (10, None)),
        ("9", ("decimal(20,18)",), ("1.000000000000000002",), ("1.000000000000000001",), ("1.1",)),
        ("6", ("decimal(38,20)",), ("123456789012345678.2",), ("123456789012345678.1",), ("2e17",)),
    ],
    ids=["null part", "null first", "fine decimal", "large decimal"],
)
def test_a_delete_that_is_older_loses_whatever_orders_it(
    lake: Lake, version: str, kind: str, types: tuple[str, ...], held: tuple[Any, ...],
    older: tuple[Any, ...], newer: tuple[Any, ...],
) -> None:  # fmt: skip
    names = [f"o{at}" for at in range(len(types))]
    ddl = f"id long, name string, dt string, {DELETED} boolean, " + ", ".join(
        f"{name} string" for name in names
    )
    options = {ORDERING: ",".join(names), TYPE: kind, VERSION: version}
    table = lake.table(ddl=ddl, **options)

    def write(*rows: tuple[Any, ...]) -> None:
        casts = [f"cast({name} as {of}) {name}" for name, of in zip(names, types, strict=True)]
        found = [(*row[:4], *(None if v is None else str(v) for v in row[4:])) for row in rows]
        frame = table.frame(found).selectExpr("id", "name", "dt", DELETED, *casts)
        table.write(frame, hoodie__compact__inline="false")

    write(*((key, "a", "x", False, *held) for key in (1, 2, 3)))
    write((1, "", "x", True, *older), (2, "", "x", True, *newer), (9, "", "x", True, *newer))
    assert {key: row[1] for key, row in table.rows().items()} == {1: "a", 3: "a"}
    if kind == "MERGE_ON_READ":
        lake.spark.sql(f"call pyhudi.system.run_compaction(table => '{table.path}')")
        assert sorted(table.rows()) == [1, 3]


def test_insert_and_delete_of_a_key_in_one_batch_follow_their_ordering_values(lake: Lake) -> None:
    table = lake.table(ddl=SOFT)
    table.write([
        (1, "in", 1, "x", False), (1, "", 2, "x", True),
        (2, "", 1, "x", True), (2, "in", 2, "x", False),
        (3, "in", 1, "x", False),
    ])  # fmt: skip
    assert sorted(table.rows()) == [2, 3]

    table.write(
        [
            (3, "", 3, "x", True),
            (3, "back", 4, "x", False),
            (2, "up", 3, "x", False),
            (2, "", 4, "x", True),
        ]
    )
    assert {k: r[1] for k, r in table.rows().items()} == {3: "back"}


@one_way
def test_an_added_delete_column_deletes_in_an_older_table(lake: Lake) -> None:
    table = lake.table(options={**OPTIONS, VERSION: "6"})
    table.write([(1, "a", 1, "x"), (2, "a", 1, "x")])
    table.write(table.frame([(1, "", 2, "x", True), (3, "c", 2, "x", False)], SOFT))

    assert sorted(table.rows()) == [2, 3]


@one_way
def test_the_operation_delete_deletes_whatever_the_ordering_says(lake: Lake) -> None:
    table = lake.table()
    table.write([(1, "a", 9, "x"), (2, "a", 9, "x")])
    table.write([(1, "", 0, "x"), (5, "", 0, "x")], "delete")

    assert sorted(table.rows()) == [2]


@one_way
def test_a_delete_needs_key_partition_and_ordering_columns_alone(lake: Lake) -> None:
    table = lake.table()
    table.write([(1, "a", 1, "x"), (2, "a", 1, "x")])
    table.write(table.frame([(1, "x")], "id long, dt string"), "delete")

    assert sorted(table.rows()) == [2]


@one_way
def test_a_deleted_key_can_come_back(lake: Lake) -> None:
    table = lake.table()
    table.write([(1, "a", 5, "x")])
    table.write([(1, "", 5, "x")], "delete")
    assert table.rows() == {}
    assert table.df().count() == 0

    table.write([(1, "again", 1, "x")])
    assert table.rows() == model_of([(1, "again", 1, "x")])


@one_way
def test_updates_keep_the_meta_columns_of_the_rows_that_they_leave_alone(lake: Lake) -> None:
    table = lake.table()
    table.write([(1, "a", 1, "x"), (2, "a", 1, "x")])
    table.write([(1, "b", 2, "x"), (2, "older", 0, "x")])

    first, second = table.instants()
    meta = table.df().select(
        "id", "_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key",
        "_hoodie_partition_path", "_hoodie_file_name",
    ).collect()  # fmt: skip
    found = {row[0]: row for row in meta}
    assert {k: row[1] for k, row in found.items()} == {1: second, 2: first}
    assert all(row[2].startswith(f"{row[1]}_") for row in meta)
    assert {row[3] for row in meta} == {"1", "2"}
    assert {row[4] for row in meta} == {"x"}
    (newest,) = {row[5] for row in meta}
    assert newest.endswith(f"_{second}.parquet")
    assert f"x/{newest}" in table.base_files()


COW: dict[str, str] = {}
MOR = {TYPE: "MERGE_ON_READ", "hoodie.compact.inline": "false"}


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_SIMPLE"])
def test_the_case_of_an_ordering_column_in_the_properties_does_not_count(
    lake: Lake, kind: str, index: str
) -> None:
    """Apache Hudi's CREATE TABLE records the name as it was typed."""
    ddl = f"id long, name string, s struct<x: long>, ts long, dt string, {DELETED} boolean"
    for number, (recorded, named) in enumerate([("TS", "ts"), ("S.X,Ts", "s.x,ts")]):
        options = {**OPTIONS, **MOR, TYPE: kind, INDEX: index, ORDERING: named}
        table = lake.table(f"t{number}", options=options, ddl=ddl)
        table.write([(n, "a", (5,), 5, "x", False) for n in (1, 2, 3)])
        table.change_property("hoodie.table.ordering.fields", recorded)
        table.write([(1, "older", (4,), 4, "x", False), (2, "newer", (6,), 6, "x", False)])
        table.write([(3, "older", (4,), 4, "x", True), (2, "older", (5,), 5, "x", True)])
        expected = {1: "a", 2: "newer", 3: "a"}
        assert {key: row[1] for key, row in table.rows().items()} == expected
        if kind == "MERGE_ON_READ":
            pyhudi.compact(table.path, spark=lake.spark)
            assert {key: row[1] for key, row in table.rows().items()} == expected


KINDS = [COW, *({**MOR, VERSION: version} for version in "689")]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=["cow", "mor 6", "mor 8", "mor 9"])


@each_kind
def test_each_copy_of_a_key_is_changed_and_deleted(lake: Lake, kind: dict[str, str]) -> None:
    """Inserts look no key up: they may leave copies, here in two files."""
    table = lake.table(options={**OPTIONS, **kind})
    for name in ("a", "b"):
        rows = [(1, name, 1, "x"), (2, name, 1, "x")]
        table.write(rows, "insert", hoodie__parquet__small__file__limit="0")
    assert table.df().count() == 4

    table.write([(1, "c", 9, "x")], "upsert")
    assert sorted(r.name for r in table.df().collect()) == ["a", "b", "c", "c"]

    table.write([(1, "c", 10, "x")], "delete")
    assert sorted(r.name for r in table.df().collect()) == ["a", "b"]


COPIES = [(1, "a", 1, "x"), (1, "b", 2, "x"), (2, "c", 1, "x"), (2, "d", 1, "x"), (3, "e", 1, "x")]


def _filled_with_copies(lake: Lake, kind: dict[str, str], logged: bool = False) -> HudiTable:
    """A file that has the keys 1 and 2 twice, beside a log of row 3 if that is ``logged``."""
    table = lake.table(options={**OPTIONS, **kind})
    table.write(COPIES, "bulk_insert")
    if logged:
        table.write([(3, "e", 2, "x")])
    return table


def _names(table: HudiTable) -> list[str]:
    return sorted(row.name for row in table.df().collect())


@each_kind
def test_each_copy_in_one_file_is_changed_and_deleted(lake: Lake, kind: dict[str, str]) -> None:
    table = _filled_with_copies(lake, kind)
    table.write([(1, "u", 9, "x"), (3, "u", 9, "x")])
    assert _names(table) == ["c", "d", "u", "u", "u"]
    table.write([(2, "", 9, "x")], "delete")
    assert _names(table) == ["u", "u", "u"]
    if kind:
        pyhudi.compact(table.path)
        assert _names(table) == ["u", "u", "u"]


@one_way
def test_copies_beside_a_log_are_changed_by_their_positions(lake: Lake) -> None:
    table = _filled_with_copies(lake, MOR, logged=True)
    table.write([(1, "u", 9, "x")])
    table.write([(2, "", 9, "x")], "delete")
    assert len(table.base_files()) == 1
    assert _names(table) == ["e", "u", "u"]
    pyhudi.compact(table.path)
    assert _names(table) == ["e", "u", "u"]


def test_a_key_of_several_dead_rows_comes_back_once(lake: Lake) -> None:
    table = _filled_with_copies(lake, MOR, logged=True)
    table.write([(2, "", 9, "x")], "delete")
    table.write([(2, "again", 9, "x")])
    assert sorted(_names(table)) == ["a", "again", "b", "e"]
    pyhudi.compact(table.path)
    table.write([(2, "changed", 10, "x")])
    assert sorted(_names(table)) == ["a", "b", "changed", "e"]


@one_way
@pytest.mark.parametrize("version", ["6", "9"])
def test_copies_that_no_position_tells_apart_for_good_are_compacted_first(
    lake: Lake, version: str
) -> None:
    """In version 6 beside any log; in later ones beside a planned compaction."""
    table = _filled_with_copies(lake, {**MOR, VERSION: version}, logged=True)
    if version == "9":
        pyhudi.compact(table.path, op="schedule")
    table.write([(1, "u", 9, "x")])
    assert _names(table) == ["c", "d", "e", "u", "u"]
    done = [entry.operation for entry in pyhudi.history(table.path) if entry.operation]
    assert done[-2:] == ["compact", "upsert"]


@one_way
def test_copies_are_refused_where_no_compaction_can_run(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _filled_with_copies(lake, {**MOR, VERSION: "6"}, logged=True)
    monkeypatch.setattr(writing, "compacted_first", lambda *given: False)
    files = sorted(Path(table.path).glob("x/*"))
    with pytest.raises(UnsupportedTable, match="has the key '1' more than once") as refusal:
        table.write([(1, "u", 9, "x")])
    assert "Nothing was written. Compact the table" in str(refusal.value)
    assert sorted(Path(table.path).glob("x/*")) == files
    assert _names(table) == ["a", "b", "c", "d", "e"]


@one_way
def test_a_compaction_planned_meanwhile_takes_no_file_whose_copies_are_in_a_log(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _filled_with_copies(lake, MOR, logged=True)
    commit = operations.commit

    def planned_before(*given: Any) -> Any:
        monkeypatch.setattr(operations, "commit", commit)
        pyhudi.compact(table.path, op="schedule")
        return commit(*given)

    monkeypatch.setattr(operations, "commit", planned_before)
    table.write([(1, "u", 9, "x")])
    assert _names(table) == ["c", "d", "e", "u", "u"]
    done = [entry.operation for entry in pyhudi.history(table.path) if entry.operation]
    assert done[-2:] == ["compact", "upsert"]


@one_way
@pytest.mark.parametrize("version", ["6", "9"])
def test_copies_in_the_base_file_of_a_bucket_are_changed_and_deleted(
    lake: Lake, version: str
) -> None:
    bucket = {INDEX: "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
    table = lake.table(options={**OPTIONS, **MOR, VERSION: version, **bucket})
    table.write(COPIES, "bulk_insert")
    assert len(_names(table)) == 5
    table.write([(1, "u", 9, "x"), (7, "n", 9, "x")])
    assert _names(table) == ["c", "d", "e", "n", "u", "u"]


def test_the_way_under_test_is_the_way_taken(
    lake: Lake, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = []
    for kind in (Collected, Grouped):

        def noted(*args: object, name: str = kind.__name__, function: Any = kind.of) -> object:
            taken.append(name)
            return function(*args)

        monkeypatch.setattr(kind, "of", noted)

    lake.table().write([(1, "a", 5, "x")])

    assert taken == ["Collected" if way == "collected" else "Grouped"]


DROP_DUPLICATES = "hoodie.datasource.write.insert.drop.duplicates"


@pytest.mark.parametrize("operation", [None, "upsert", "insert"])
def test_dropped_duplicates_leave_what_is_there(lake: Lake, operation: str | None) -> None:
    """As Hudi 1.2.0, whose upsert becomes an insert by this option."""
    table = lake.table()
    table.write([(1, "a", 1, "p")])
    rows = [(1, "b", 5, "p"), (3, "n", 5, "p"), (3, "o", 6, "p"), (3, "q", 1, "q")]
    table.write(rows, operation, **{DROP_DUPLICATES: "true"})
    found = sorted(map(tuple, table.df().collect()))
    assert found == [(1, "a", 1, "p"), (3, "o", 6, "p"), (3, "q", 1, "q")]

    with refused("CONFIG_ERROR", table.path, DROP_DUPLICATES, "bulk_insert"):
        table.write(rows, "bulk_insert", **{DROP_DUPLICATES: "true"})


def test_rows_marked_as_deleted_are_kept_by_bulk_insert_alone(lake: Lake) -> None:
    """As Hudi 1.2.0 with its row writer, the default."""
    rows = [(1, "a", 1, "p", True), (2, "a", 1, "p", False), (3, "a", 1, "p", None)]
    for operation in ("insert", "upsert", "insert_overwrite", "insert_overwrite_table"):
        table = lake.table(operation, ddl=SOFT)
        table.write(rows, operation)
        assert sorted(table.rows()) == [2, 3], operation
    table = lake.table("bulk", ddl=SOFT)
    table.write(rows, "bulk_insert")
    assert sorted(table.rows()) == [1, 2, 3]
