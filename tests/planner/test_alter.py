"""Changes of columns as values: what each makes of a schema, and the rules that refuse others."""

from __future__ import annotations

from typing import Any

import pytest

from pyhudi.errors import SchemaConflict
from pyhudi.planner.alter import altered
from tests.transactions.world import World

CONFIG = World().table().config  # key column "key", partition column "p"


def schema(**columns: str) -> dict[str, Any]:
    fields = [{"name": n, "type": t, "nullable": False, "metadata": {}} for n, t in columns.items()]
    return {"type": "struct", "fields": fields}


NOW = schema(key="integer", p="integer", n="integer", s="string")


def test_changes_apply_in_their_order() -> None:
    changes: list[dict[str, Any]] = [
        {"change": "add", "column": "x", "type": "integer", "nullable": True},
        {"change": "type", "column": "X", "type": "long"},
        {"change": "nullable", "column": "n"},
    ]
    found = altered(NOW, changes, CONFIG)
    assert [(f["name"], f["type"]) for f in found["fields"]][-1] == ("x", "long")
    assert [f["nullable"] for f in found["fields"]] == [False, False, True, False, True]
    assert [f["nullable"] for f in NOW["fields"]] == [False] * 4, "what was given stays"


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"change": "add", "column": "N", "type": "long", "nullable": True}, "of this name"),
        ({"change": "add", "column": "x", "type": "long", "nullable": False}, "have no value"),
        ({"change": "add", "column": "s.x", "type": "long", "nullable": True}, "inside a struct"),
        ({"change": "add", "column": "1x", "type": "long", "nullable": True}, "cannot store"),
        ({"change": "type", "column": "n", "type": "short"}, "may only widen"),
        ({"change": "type", "column": "key", "type": "long"}, "keys and partitions"),
        ({"change": "type", "column": "p", "type": "long"}, "keys and partitions"),
        ({"change": "type", "column": "s.x", "type": "long"}, "no such column"),
        ({"change": "nullable", "column": "key"}, "never null"),
        ({"change": "drop", "column": "s"}, "'drop' of a column is not there yet"),
    ],
)
def test_a_refused_change_names_its_column_and_rule(change: dict[str, Any], rule: str) -> None:
    with pytest.raises(SchemaConflict, match=rule) as refused:
        altered(NOW, [change], CONFIG)
    assert refused.value.facts["column"] == change["column"]
