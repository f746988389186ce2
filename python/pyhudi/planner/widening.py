"""Which types widen into which, as one table (FORMAT.md section 9).

Types are Spark's JSON forms: a text for plain types, a dict for nested ones.
"""

from __future__ import annotations

import re
from typing import Any

from pyhudi.errors import SchemaConflict

#: narrower type -> wider types that every reader of Hudi tables resolves
WIDENS: dict[str, frozenset[str]] = {
    "byte": frozenset({"integer", "long", "float", "double"}),
    "short": frozenset({"integer", "long", "float", "double"}),
    "integer": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
}

DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")


def merged_type(column: str, table: Any, incoming: Any) -> Any:
    """The type that holds both; ``SchemaConflict`` where there is none."""
    if same_type(table, incoming):
        return table
    if _widens(incoming, table):
        return table
    if _widens(table, incoming):
        return incoming
    raise SchemaConflict(
        f"Column '{column}' is {shown(table)} in the table but {shown(incoming)} in the data, "
        "and neither widens into the other. Cast the column before writing.",
        column=column,
        ours=incoming,
        theirs=table,
        rule="type does not fit",
    )


def _widens(narrow: Any, wide: Any) -> bool:
    if not isinstance(narrow, str) or not isinstance(wide, str):
        return False
    small, large = DECIMAL.fullmatch(narrow), DECIMAL.fullmatch(wide)
    if small and large:
        p1, s1, p2, s2 = (int(x) for x in (*small.groups(), *large.groups()))
        return s2 >= s1 and p2 - s2 >= p1 - s1
    return wide in WIDENS.get(narrow, frozenset())


def same_type(a: Any, b: Any) -> bool:
    """Equal but for nullability, metadata and the names of elements."""
    if isinstance(a, str) or isinstance(b, str):
        return bool(a == b)
    if a["type"] != b["type"]:
        return False
    if a["type"] == "array":
        return same_type(a["elementType"], b["elementType"])
    if a["type"] == "map":
        return same_type(a["keyType"], b["keyType"]) and same_type(a["valueType"], b["valueType"])
    ours = [(f["name"], f["type"]) for f in a["fields"]]
    theirs = [(f["name"], f["type"]) for f in b["fields"]]
    return len(ours) == len(theirs) and all(
        n == m and same_type(x, y) for (n, x), (m, y) in zip(ours, theirs, strict=True)
    )


def shown(kind: Any) -> str:
    """A type as an error names it; ``absent`` for none."""
    if kind is None:
        return "absent"
    return kind if isinstance(kind, str) else str(kind["type"])
