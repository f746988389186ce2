from __future__ import annotations

from typing import Any

import pytest

from pyhudi.errors import SchemaConflict
from pyhudi.format.widening import WIDENS, merged_type, typed


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
