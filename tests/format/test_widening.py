from __future__ import annotations

from typing import Any

import pytest

from pyhudi.errors import SchemaConflict
from pyhudi.format.widening import WIDENS, Fields, merged_type, paths, typed


def array(of: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": of, "containsNull": True}


def struct(**fields: Any) -> dict[str, Any]:
    named = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in fields.items()]
    return {"type": "struct", "fields": named}


def dictionary(key: Any, value: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [(narrow, wide) for narrow, row in WIDENS.items() for wide in sorted(row)]
    + [
        ("decimal(5,2)", "decimal(10,2)"),
        ("decimal(5,2)", "decimal(7,4)"),
    ],
)
def test_the_wider_of_two_types_holds_both_whichever_side_has_it(narrow: str, wide: str) -> None:
    assert merged_type("c", narrow, wide) == wide
    assert merged_type("c", wide, narrow) == wide


@pytest.mark.parametrize(
    "kind",
    [
        "string",
        "timestamp",
        array("integer"),
        dictionary("string", array("long")),
        struct(a="integer", b=struct(c="string")),
    ],
)
def test_equal_types_stay(kind: Any) -> None:
    assert merged_type("c", kind, kind) == kind


@pytest.mark.parametrize("fields", [Fields.ADDED, Fields.EITHER])
def test_parts_of_equal_types_stay_beside_a_new_field(fields: Fields) -> None:
    kinds = {"a": "integer", "b": "decimal(9,2)", "c": array("decimal(9,2)")}
    mine, given = struct(**kinds), struct(**dict(reversed(kinds.items())), new="long")
    assert merged_type("s", mine, given, fields) == struct(**kinds, new="long")
    assert merged_type("s", array(mine), array(given), fields) == array(struct(**kinds, new="long"))


def test_nullability_and_metadata_make_no_other_type() -> None:
    other = array("integer") | {"containsNull": False}
    assert merged_type("c", array("integer"), other) == array("integer")


@pytest.mark.parametrize(
    ("table", "incoming"),
    [
        ("string", "integer"),
        ("date", "timestamp"),
        ("timestamp", "timestamp_ntz"),
        ("decimal(10,2)", "decimal(9,4)"),
        ("decimal(10,2)", "double"),
        ("boolean", "integer"),
        ("string", array("string")),
        (array("integer"), dictionary("string", "integer")),
        (struct(a="integer", b="long"), struct(b="long", a="integer")),
    ],
)
def test_what_neither_side_holds_is_refused_by_its_column(table: Any, incoming: Any) -> None:
    with pytest.raises(SchemaConflict, match="Column 'price'") as refused:
        merged_type("price", table, incoming)
    assert refused.value.facts["ours"] == incoming
    assert refused.value.facts["theirs"] == table


@pytest.mark.parametrize(
    ("table", "incoming", "leaf", "theirs", "ours"),
    [
        (array("integer"), array("long"), "s.element", "int", "bigint"),
        (
            dictionary("string", "integer"),
            dictionary("string", array("long")),
            "s.value",
            "int",
            "array<bigint>",
        ),
        (struct(a="integer"), struct(a="integer", b="string"), "s.b", "absent", "string"),
        (struct(a="integer", b="string"), struct(a="integer"), "s.b", "string", "absent"),
        (
            struct(a="string", b=struct(c="date", d="integer")),
            struct(a="string", b=struct(c="date", d="string")),
            "s.b.d",
            "int",
            "string",
        ),
    ],
)
def test_a_difference_inside_a_column_is_told_by_its_leaf(
    table: Any, incoming: Any, leaf: str, theirs: str, ours: str
) -> None:
    words = f"Column '{leaf}' is {theirs} in the table but {ours} in the data"
    with pytest.raises(SchemaConflict, match=words) as refused:
        merged_type("s", table, incoming)
    assert refused.value.facts["column"] == leaf


def test_names_inside_a_struct_may_differ_in_case() -> None:
    assert merged_type("s", struct(A="integer"), struct(a="integer")) == struct(A="integer")


def test_nulls_without_a_type_take_the_type_of_the_table_at_any_depth() -> None:
    table = struct(a="integer", b=array(dictionary("string", "long")))
    assert typed("void", table) == table
    assert typed(struct(A="void", b=array("void")), table) == struct(
        A="integer", b=array(dictionary("string", "long"))
    )
    assert (
        typed(array(dictionary("void", "void")), table["fields"][1]["type"])
        == (table["fields"][1]["type"])
    )
    assert typed(struct(c="void"), table) == struct(c="void")
    assert typed("string", "long") == "string"


def deep(of: Any) -> dict[str, Any]:
    """``of`` inside a list, a struct and a map."""
    return array(struct(m=dictionary("string", of)))


@pytest.mark.parametrize("around", [lambda kind: kind, deep], ids=["plain", "deep"])
def test_a_new_field_of_the_data_comes_last_and_may_be_null(around: Any) -> None:
    new = struct(c="long", B="string", a="integer")
    new["fields"][0]["nullable"] = False
    merged = merged_type("s", around(struct(a="integer", b="string")), around(new), Fields.ADDED)
    assert merged == around(struct(a="integer", b="string", c="long"))


@pytest.mark.parametrize(("around", "path"), [(lambda k: k, "s.b"), (deep, "s.element.m.value.b")])
def test_a_field_that_the_data_lacks_stays_if_it_may_be_null(around: Any, path: str) -> None:
    table, less = around(struct(a="integer", b="string")), around(struct(a="integer", c="date"))
    with pytest.raises(SchemaConflict, match=rf"Column '{path}' of the table is missing") as told:
        merged_type("s", table, less, Fields.ADDED)
    assert (told.value.column, told.value.rule) == (path, "missing column")
    both = around(struct(a="integer", b="string", c="date"))
    assert merged_type("s", table, less, Fields.EITHER) == both

    required = struct(a="integer", b="string")
    required["fields"][1]["nullable"] = False
    with pytest.raises(SchemaConflict, match=rf"ALTER COLUMN {path} DROP NOT NULL"):
        merged_type("s", around(required), less, Fields.EITHER)


@pytest.mark.parametrize("fields", [Fields.ADDED, Fields.EITHER])
def test_fields_of_other_types_and_keys_of_maps_are_refused(fields: Fields) -> None:
    for table, incoming, said in (
        (struct(a="integer"), struct(a="long"), "'s.a' is int .*inside a column cannot widen"),
        (struct(a="integer"), struct(a="date"), "'s.a' is int .* but date"),
        (struct(a="integer"), array("integer"), "'s' is struct<a:int> .* but array<int>"),
        (
            dictionary(struct(a="integer"), "string"),
            dictionary(struct(a="integer", b="long"), "string"),
            "'s.key.b' is absent in the table but bigint",
        ),
    ):
        with pytest.raises(SchemaConflict, match=said):
            merged_type("s", table, incoming, fields)


def test_the_paths_inside_a_type() -> None:
    assert paths("integer") == frozenset()
    assert paths(deep(struct(A="long"))) == {
        "element",
        "element.m",
        "element.m.key",
        "element.m.value",
        "element.m.value.a",
    }
