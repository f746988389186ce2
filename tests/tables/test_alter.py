"""Changes of columns as values: what each makes of a schema, and the rules that refuse others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pyhudi.errors import SchemaConflict
from pyhudi.format.column_ids import all_ids, first_ids, plain
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.tables.column_changes import Altered, ColumnChange, altered
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


def add(column: str, kind: Any = "long", **more: Any) -> ColumnChange:
    return ColumnChange("add", column, type=kind, **more)


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
        add("x", "short"), ColumnChange("type", "X", type="long"), ColumnChange("nullable", "n"),
    )  # fmt: skip
    columns = plain(found.columns).columns
    assert (columns[-2].name, columns[-2].type) == ("x", "long")
    assert columns[-1].name == "p", "partition columns stay last"
    assert [c.nullable for c in columns] == [c.name in "nx" for c in columns]
    assert [f["nullable"] for f in NOW["fields"]] == [False] * 7, "what was given stays"
    assert not found.by_ids, "names are enough to read old files"


def test_ids_stay_with_their_columns_and_are_given_once() -> None:
    assert max(all_ids(first_ids(SparkSchema.parse(NOW)))) == LAST_ID
    old = column(after(), "n")["metadata"]["id"]

    found = after(
        ColumnChange("rename", "n", to="N2"),
        ColumnChange("drop", "m"),
        add("m", mapped(struct(z="long"))),
        add("n"),
    )

    assert column(found, "N2")["metadata"]["id"] == old
    assert sorted(all_ids(column(found, "m")["type"])) == [19, 20, 21]
    assert [column(found, name)["metadata"]["id"] for name in "mn"] == [18, 22]
    assert found.by_ids


def test_columns_move_and_come_in_between() -> None:
    found = after(
        ColumnChange("position", "n", position=""),
        ColumnChange("position", "key", position="S"),
        add("x", position="n"),
        ColumnChange("position", "s.y", position=""),
    )
    assert plain(found.columns).names == ("n", "x", "o", "s", "key", "a", "m", "p")
    assert list(shape(column(found, "s")["type"])) == ["y", "x"]
    assert [f["name"] for f in found.columns["fields"]][4:6] == ["_hoodie_file_name", "n"]
    assert found.by_ids


def test_what_is_inside_of_a_column_changes_alike() -> None:
    found = after(
        add("s.z"),
        ColumnChange("rename", "s.x", to="w"),
        ColumnChange("drop", "s.y"),
        ColumnChange("type", "s.w", type="long"),
        add("a.element.y", "string", position=""),
        ColumnChange("type", "a.element.x", type="double"),
        ColumnChange("type", "m.value", type="double"),
        ColumnChange("nullable", "m.value"),
    )
    shapes = {name: shape(column(found, name)["type"]) for name in "sam"}
    assert shapes == {
        "s": {"w": "long", "z": "long"}, "a": [{"y": "string", "x": "double"}], "m": ["double"],
    }  # fmt: skip
    assert column(found, "m")["type"]["valueContainsNull"]
    assert found.by_ids


@pytest.mark.parametrize(
    ("refused", "rule"),
    [
        (add("N"), "already a column named 'N'"),
        (add("x", nullable=False), "have no value"),
        (add("n.x"), "no struct to add it to"),
        (add("1x"), "cannot store"),
        (add("_hoodie_operation"), "Hudi's own"),
        (add("x", position="y"), "no column 'y' at the same level"),
        (ColumnChange("position", "P", position=""), "partition columns stay after the others"),
        (ColumnChange("type", "n", type="short"), "may only widen"),
        (ColumnChange("type", "key", type="long"), "keys and partition paths"),
        (ColumnChange("type", "p", type="long"), "keys and partition paths"),
        (ColumnChange("type", "s", type="long"), "may only widen"),
        (ColumnChange("type", "s.z", type="long"), "no such column"),
        (ColumnChange("nullable", "key"), "never null"),
        (ColumnChange("nullable", "m.key"), "never null"),
        (ColumnChange("rename", "n", to="O"), "already a column named 'O'"),
        (ColumnChange("rename", "n", to="1n"), "cannot store"),
        (ColumnChange("rename", "m.value", to="v"), "have fixed names"),
        (ColumnChange("rename", "key", to="k"), "the record key uses it"),
        (ColumnChange("rename", "P", to="q"), "the partition path uses it"),
        (ColumnChange("drop", "o"), "the ordering of rows uses it"),
        (ColumnChange("drop", "a.element.x"), "at least one column"),
        (ColumnChange("drop", "none"), "no such column"),
        (ColumnChange("default", "s"), "'default' is not supported yet"),
    ],
)
def test_a_refused_change_names_its_column_and_rule(refused: ColumnChange, rule: str) -> None:
    with pytest.raises(SchemaConflict, match=rule) as found:
        after(refused)
    assert found.value.facts["column"] in (refused.column, refused.to)


def test_a_refused_change_names_the_types() -> None:
    with pytest.raises(SchemaConflict, match="'m.value' cannot be altered from float to int: "):
        after(ColumnChange("type", "m.value", type="integer"))


def test_a_part_of_the_key_keeps_its_name() -> None:
    config = replace(CONFIG, record_key_fields=("s.x",))
    for name in ("s", "S.x"):
        with pytest.raises(SchemaConflict, match="the record key uses it"):
            altered(
                first_ids(SparkSchema.parse(NOW)), LAST_ID, [ColumnChange("drop", name)], config
            )
    altered(first_ids(SparkSchema.parse(NOW)), LAST_ID, [ColumnChange("drop", "s.y")], config)
