"""Changes of columns as values: what each makes of a schema, and the rules that refuse others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pyhudi.errors import SchemaConflict
from pyhudi.format.column_ids import all_ids, first_ids, plain
from pyhudi.format.column_tree import Path
from pyhudi.format.spark_schema import Column, SparkSchema
from pyhudi.payloads import DELETE_FIELD, DELETE_MARKER
from pyhudi.tables.column_changes import (
    AddColumn,
    After,
    Altered,
    ColumnChange,
    DropColumn,
    First,
    LoosenColumn,
    MoveColumn,
    Position,
    RefusedChange,
    RenameColumn,
    RetypeColumn,
    Unserved,
    altered,
    unseen_by_name,
)
from tests.transactions.world import World

# key column "key", partition column "p"
CONFIG = replace(World().table().config, ordering_fields=("o",))


def field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": False, "metadata": {}}


def struct(**columns: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": [field(*column) for column in columns.items()]}


def array(element: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": False}


def mapped(value: Any) -> dict[str, Any]:
    kinds = {"keyType": "string", "valueType": value, "valueContainsNull": False}
    return {"type": "map", **kinds}


NOW = struct(
    key="integer",
    p="integer",
    o="long",
    n="integer",
    s=struct(x="integer", y="string"),
    a=array(struct(x="integer")),
    m=mapped("float"),
)
#: the greatest id in NOW: 12 columns with the meta columns, 2 + 1 + 1 + 2 inside them
LAST_ID = 17


def at(column: str) -> Path:
    return tuple(column.split("."))


def add(column: str, kind: Any = "long", position: Position | None = None) -> ColumnChange:
    return AddColumn(at(column), kind, True, position)


def retype(column: str, kind: str) -> ColumnChange:
    return RetypeColumn(at(column), kind)


def rename(column: str, to: str) -> ColumnChange:
    return RenameColumn(at(column), to)


def move(column: str, position: Position) -> ColumnChange:
    return MoveColumn(at(column), position)


def loosen(column: str) -> ColumnChange:
    return LoosenColumn(at(column))


def drop(column: str) -> ColumnChange:
    return DropColumn(at(column))


def after(*changes: ColumnChange) -> Altered:
    return altered(first_ids(SparkSchema.parse(NOW)), LAST_ID, changes, CONFIG)


def shape(kind: Any) -> Any:
    """A type as names and types alone."""
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        return {f["name"]: shape(f["type"]) for f in kind["fields"]}
    return [shape(kind.get("elementType", kind.get("valueType")))]


def column(found: Altered, name: str) -> dict[str, Any]:
    return next(f for f in found.columns["fields"] if f["name"] == name)


def test_changes_apply_in_their_order() -> None:
    found = after(
        add("x", "short"), retype("X", "long"), loosen("n"),
    )  # fmt: skip
    columns = plain(found.columns).columns
    assert (columns[-2].name, columns[-2].type) == ("x", "long")
    assert columns[-1].name == "p", "partition columns stay last"
    assert [c.nullable for c in columns] == [c.name in "nx" for c in columns]
    assert [f["nullable"] for f in NOW["fields"]] == [False] * 7, "what was given stays"
    assert not found.by_ids, "names are enough to read old files"


def test_a_name_that_older_files_have_for_another_column_needs_ids() -> None:
    columns = first_ids(SparkSchema.parse(NOW))
    assert altered(columns, LAST_ID, [add("Old")], CONFIG, {"old"}).by_ids
    assert not altered(columns, LAST_ID, [add("new")], CONFIG, {"old"}).by_ids


def test_ids_stay_with_their_columns_and_are_given_once() -> None:
    assert max(all_ids(first_ids(SparkSchema.parse(NOW)))) == LAST_ID
    old = column(after(), "n")["metadata"]["id"]

    found = after(
        rename("n", "N2"),
        drop("m"),
        add("m", mapped(struct(z="long"))),
        add("n"),
    )

    assert column(found, "N2")["metadata"]["id"] == old
    assert sorted(all_ids(column(found, "m")["type"])) == [19, 20, 21]
    assert [column(found, name)["metadata"]["id"] for name in "mn"] == [18, 22]
    assert found.by_ids


def test_columns_move_and_come_in_between() -> None:
    found = after(
        move("n", First()),
        move("key", After("S")),
        add("x", position=After("n")),
        move("s.y", First()),
    )
    assert plain(found.columns).names == ("n", "x", "o", "s", "key", "a", "m", "p")
    assert list(shape(column(found, "s")["type"])) == ["y", "x"]
    assert [f["name"] for f in found.columns["fields"]][4:6] == ["_hoodie_file_name", "n"]
    assert found.by_ids


def test_what_is_inside_of_a_column_changes_alike() -> None:
    found = after(
        add("s.z"),
        rename("s.x", "w"),
        drop("s.y"),
        retype("s.w", "long"),
        add("a.element.y", "string", position=First()),
        retype("a.element.x", "double"),
        retype("m.value", "double"),
        loosen("m.value"),
    )
    shapes = {name: shape(column(found, name)["type"]) for name in "sam"}
    assert shapes == {
        "s": {"w": "long", "z": "long"}, "a": [{"y": "string", "x": "double"}], "m": ["double"],
    }  # fmt: skip
    assert column(found, "m")["type"]["valueContainsNull"]
    assert found.by_ids


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("integer", "string"), ("long", "decimal(20,0)"), ("double", "decimal(10,2)"),
        ("decimal(10,2)", "string"), ("string", "date"), ("string", "decimal(5,1)"),
        ("date", "string"),
    ],
)  # fmt: skip
def test_a_type_may_be_cast_with_a_history(old: str, new: str) -> None:
    current = first_ids(SparkSchema((Column("key", "string"), Column("c", old))))
    found = altered(current, LAST_ID, [retype("c", new)], CONFIG)
    assert column(found, "c")["type"] == new
    assert found.by_ids


@pytest.mark.parametrize(
    ("old", "new"), [("double", "string"), ("date", "long"), ("string", "long")]
)
def test_a_type_that_readers_do_not_cast_alike_stays(old: str, new: str) -> None:
    current = first_ids(SparkSchema((Column("key", "string"), Column("c", old))))
    with pytest.raises(SchemaConflict, match="may only widen"):
        altered(current, LAST_ID, [retype("c", new)], CONFIG)


@pytest.mark.parametrize(
    ("refused", "rule"),
    [
        (add("N"), "already a column named 'N'"),
        (AddColumn(("x",), "long", False, None), "have no value"),
        (add("n.x"), "no struct to add it to"),
        (add("1x"), "cannot store"),
        (add("_hoodie_operation"), "Hudi's own"),
        (add("x", position=After("y")), "no column 'y' at the same level"),
        (move("P", First()), "partition columns stay after the others"),
        (retype("n", "short"), "may only widen"),
        (retype("key", "long"), "keys and partition paths"),
        (retype("p", "long"), "keys and partition paths"),
        (retype("s", "long"), "may only widen"),
        (retype("s.z", "long"), "no such column"),
        (loosen("key"), "never null"),
        (loosen("m.key"), "never null"),
        (rename("n", "O"), "already a column named 'O'"),
        (rename("n", "1n"), "cannot store"),
        (rename("m.value", "v"), "have fixed names"),
        (rename("key", "k"), "the record key uses it"),
        (rename("P", "q"), "the partition path uses it"),
        (drop("o"), "the ordering of rows uses it"),
        (drop("a.element.x"), "at least one column"),
        (drop("none"), "no such column"),
        (RefusedChange(("s",), Unserved.DEFAULT), "only CREATE TABLE gives"),
        (RefusedChange(("s", "x"), Unserved.NOT_NULL), "cannot become NOT NULL"),
    ],
)
def test_a_refused_change_names_its_column_and_rule(refused: ColumnChange, rule: str) -> None:
    with pytest.raises(SchemaConflict, match=rule) as found:
        after(refused)
    named = {".".join(refused.column), getattr(refused, "to", None)}
    assert found.value.facts["column"] in named


def test_a_refused_change_names_the_types() -> None:
    with pytest.raises(SchemaConflict, match="'m.value' cannot be altered from float to int: "):
        after(retype("m.value", "integer"))


def test_a_part_of_the_key_keeps_its_name() -> None:
    config = replace(CONFIG, record_key_fields=("s.x",))
    for name in ("s", "S.x"):
        with pytest.raises(SchemaConflict, match="the record key uses it"):
            altered(first_ids(SparkSchema.parse(NOW)), LAST_ID, [drop(name)], config)
    altered(first_ids(SparkSchema.parse(NOW)), LAST_ID, [drop("s.y")], config)


def test_a_column_that_marks_deletes_keeps_its_name_and_type() -> None:
    """Under another name its rows would be no deletes any more, and nobody would say so."""
    mark = {DELETE_FIELD: "n", DELETE_MARKER: "1"}
    config = replace(CONFIG, raw={**CONFIG.raw, **mark})
    changes = [
        (rename("N", "op"), "the mark of deletes uses it"),
        (drop("n"), "the mark of deletes uses it"),
        (retype("n", "double"), "the mark of deletes is compared as text"),
    ]
    for change, rule in changes:
        with pytest.raises(SchemaConflict, match=rule):
            altered(first_ids(SparkSchema.parse(NOW)), LAST_ID, [change], config)
        after(change)


def test_a_name_with_a_dot_is_no_path() -> None:
    """`s.z` in backquotes is one name: it never lands inside of ``s``."""
    with pytest.raises(SchemaConflict, match="cannot store"):
        after(AddColumn(("s.z",), "long", True, None))
    for change in (DropColumn(("s.x",)), RenameColumn(("s.x",), "z"), LoosenColumn(("s.x",))):
        with pytest.raises(SchemaConflict, match="no such column"):
            after(change)


def test_renamed_and_dropped_columns_are_those_that_names_do_not_show() -> None:
    changes = [add("more"), rename("s.x", "w"), retype("n", "long"), DropColumn(at("m"))]
    assert unseen_by_name(changes) == ["s.x", "m"]
    assert unseen_by_name([add("more"), MoveColumn(at("n"), First())]) == []
