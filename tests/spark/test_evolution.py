"""Schemas that change from write to write (spec/schema_evolution.md S1 to S3)."""

from __future__ import annotations

import pytest

import pyhudi
from pyhudi.errors import SchemaConflict
from tests.spark.tables import DDL, KEY, MISSING, OPTIONS, ORDERING, TYPE, VERSION, Lake, refused
from tests.spark.test_change_data import frame
from tests.spark.test_incremental import changed

pytestmark = [pytest.mark.spark, pytest.mark.compiled]


def test_an_added_column_is_null_in_older_rows_and_survives_their_update(lake: Lake) -> None:
    table = lake.table()
    table.write([(1, "a", 1, "x"), (2, "a", 1, "x"), (3, "a", 1, "y")])
    wider = DDL + ", extra struct<p: int, q: array<string>>"
    table.write(table.frame([(1, "b", 2, "x", (7, ["s"]))], wider))

    rows = table.rows()
    assert rows[1][4] == (7, ["s"])
    assert rows[2][4] is None
    assert rows[3] == (3, "a", 1, "y", None)
    assert table.df().where("extra is null").count() == 2
    assert [r[0] for r in table.df().where("extra.p = 7").collect()] == [1]


def test_columns_are_matched_by_name_whatever_their_order_and_case(lake: Lake) -> None:
    table = lake.table()
    table.write([(1, "a", 1, "x")])
    table.write(table.frame([("y", 2, 2, "B")], "dt string, TS long, id long, Name string"))

    assert table.rows() == {1: (1, "a", 1, "x"), 2: (2, "B", 2, "y")}
    assert table.df().columns == ["id", "name", "ts", "dt"]


def test_a_missing_column_is_refused_unless_nulls_are_asked_for(lake: Lake) -> None:
    table = lake.table()
    table.write([(1, "a", 1, "x"), (2, "a", 1, "x")])
    fewer = table.frame([(1, 2, "x")], "id long, ts long, dt string")
    with refused("SCHEMA_CONFLICT", table.path, "'name'", MISSING):
        table.write(fewer)
    other = table.frame([(1, "b", 2, "x")], "id long, title string, ts long, dt string")
    with refused("SCHEMA_CONFLICT", table.path, "'name'", "The data has 'title' instead"):
        table.write(other)

    table.write(fewer, **{MISSING: "true"})
    assert table.rows() == {1: (1, None, 2, "x"), 2: (2, "a", 1, "x")}


WIDENINGS = [
    ("int", "long", "7", 7),
    ("int", "double", "7", 7.0),
    ("float", "double", "0.5", 0.5),
    ("long", "double", "7", 7.0),
    ("int", "float", "7", 7.0),
    ("byte", "int", "7", 7),
    ("short", "long", "7", 7),
    ("decimal(5,2)", "decimal(12,4)", "1.25", "1.2500"),
    ("decimal(18,2)", "decimal(20,2)", "1.25", "1.25"),
    ("decimal(5,2)", "decimal(7,2)", "1.25", "1.25"),
]


def test_a_widened_column_is_read_right_from_older_files_and_through_a_merge(lake: Lake) -> None:
    spark = lake.spark
    table = lake.table(
        options={KEY: "id", "hoodie.datasource.write.partitionpath.field": "id"}, ddl=""
    )
    narrow = ", ".join(f"cast({v} as {a}) as c{i}" for i, (a, _, v, _) in enumerate(WIDENINGS))
    wide = ", ".join(f"cast({v} as {b}) as c{i}" for i, (_, b, v, _) in enumerate(WIDENINGS))
    table.write(spark.sql(f"select id, {narrow} from values (1), (2) as t(id)"))
    table.write(spark.sql(f"select id, {wide} from values (3) as t(id)"))
    expected = [str(value) for *_, value in WIDENINGS]

    def texts() -> dict[int, list[str]]:
        return {r[0]: [str(v) for v in r[1:]] for r in table.df().collect()}

    assert texts() == {1: expected, 2: expected, 3: expected}
    kinds = [f.dataType.simpleString() for f in table.df().schema.fields[1:]]
    assert kinds == [spark.sql(f"select cast(null as {b})").dtypes[0][1] for _, b, *_ in WIDENINGS]
    for i, (_, _, value, _) in enumerate(WIDENINGS):
        assert table.df().where(f"c{i} = {value}").count() == 3, WIDENINGS[i]
        assert len(table.df().where(f"c{i} = {value}").collect()) == 3, WIDENINGS[i]
        assert table.df().where(f"c{i} > {value}").collect() == [], WIDENINGS[i]

    # The first file is rewritten in the wider types, narrow rows enter a wider table.
    table.write(spark.sql(f"select id, {narrow} from values (1), (3) as t(id)"))
    assert texts() == {1: expected, 2: expected, 3: expected}


def test_a_widened_ordering_column_still_decides(lake: Lake) -> None:
    table = lake.table(options={KEY: "id", ORDERING: "ts"}, ddl="id int, name string, ts int")
    table.write([(1, "a", 5), (2, "a", 5)])
    table.write(table.frame([(1, "b", 4), (2, "b", 2**40)], "id int, name string, ts long"))

    assert table.rows() == {1: (1, "a", 5), 2: (2, "b", 2**40)}


@pytest.mark.parametrize("wider", ["bigint", "float"])
def test_an_ordering_column_that_widens_changes_no_row_of_logs(lake: Lake, wider: str) -> None:
    """Null is 0 among ints and less than any bigint, and of a float both large values are equal."""
    options = {KEY: "id", ORDERING: "ts", TYPE: "MERGE_ON_READ", "hoodie.compact.inline": "false"}
    table = lake.table(options=options, ddl="id int, name string, ts int")
    table.write([(1, "a", None), (2, "a", -5), (3, "a", 16_777_217)])
    table.write([(1, "b", -3), (2, "b", None), (3, "b", 16_777_216)])
    names = {1: "a", 2: "b", 3: "a"}
    statement = f"ALTER TABLE pyhudi.`{table.path}` ALTER COLUMN ts TYPE {wider}"
    with pytest.raises(SchemaConflict, match="while logs have rows"):
        lake.spark.sql(statement)
    assert {key: row[1] for key, row in table.rows().items()} == names
    pyhudi.compact(table.path)
    lake.spark.sql(statement)
    assert {key: row[1] for key, row in table.rows().items()} == names
    # The past was in ints.
    first, second, *_ = table.instants()
    changes = frame(table, first).collect()
    assert [(each["op"], each["before"]["id"]) for each in changes] == [("u", 2)]
    latest = lake.spark.read.format("pyhudi").options(**changed(first, second)).load(table.path)
    assert [row["id"] for row in latest.collect()] == [2]


def test_rows_of_logs_that_an_overwrite_replaces_are_those_of_the_older_type(lake: Lake) -> None:
    """The write that widens the ordering column replaces all logs; null is 0 among ints alone."""
    options = {KEY: "id", ORDERING: "ts", TYPE: "MERGE_ON_READ", "hoodie.compact.inline": "false"}
    table = lake.table(options=options, ddl="id int, name string, ts int")
    table.write([(1, "a", None), (2, "a", -5)])
    table.write([(1, "b", -3), (2, "b", None)])
    wider = lake.spark.createDataFrame([(3, "c", 1)], "id int, name string, ts bigint")
    table.write(wider, "insert_overwrite_table")
    _, second, _ = table.instants()
    gone = frame(table, second).where("op = 'd'").collect()
    assert {each["before"]["id"]: each["before"]["name"] for each in gone} == {1: "a", 2: "b"}


def test_a_type_that_does_not_fit_is_refused_by_its_column(lake: Lake) -> None:
    table = lake.table(options={**OPTIONS, VERSION: "8"})
    table.write([(1, "a", 1, "x")])
    for kind in ("string", "array<long>", "struct<a: int>"):
        wrong = lake.spark.sql(
            f"select 2L as id, 'n' as name, cast(null as {kind}) as ts, 'x' as dt"
        )
        with refused("SCHEMA_CONFLICT", table.path, "'ts'", "bigint"):
            table.write(wrong)


def test_time_travel_shows_the_schema_of_the_time(lake: Lake) -> None:
    table = lake.table()
    table.write([(1, "a", 1, "x")])
    table.write(table.frame([(2, "b", 1, "x", 5)], DDL + ", extra int"))

    first, _ = table.instants()
    assert table.df(as__of__instant=first).columns == ["id", "name", "ts", "dt"]
    assert table.rows(as__of__instant=first) == {1: (1, "a", 1, "x")}
    assert table.rows() == {1: (1, "a", 1, "x", None), 2: (2, "b", 1, "x", 5)}
