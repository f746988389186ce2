"""Which types widen into which, as one table (spec/schema_evolution.md S2).

Types are Spark's JSON forms: a text for plain types, a dict for nested ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum, auto
from typing import Any

from pyhudi.errors import SchemaConflict
from pyhudi.format.schemas import type_text

#: narrower type -> wider types that every reader of Hudi tables supports
WIDENS: dict[str, frozenset[str]] = {
    "byte": frozenset({"integer", "long", "float", "double"}),
    "short": frozenset({"integer", "long", "float", "double"}),
    "integer": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
}

#: further changes of type that ALTER TABLE makes with a schema history, as Hudi's schema-on-read
#: does: a reader casts the values of old files. Numbers with a fraction have other texts in Java.
CASTS: dict[str, frozenset[str]] = {
    "byte": frozenset({"string", "decimal"}),
    "short": frozenset({"string", "decimal"}),
    "integer": frozenset({"string", "decimal"}),
    "long": frozenset({"string", "decimal"}),
    "float": frozenset({"decimal"}),
    "double": frozenset({"decimal"}),
    "decimal": frozenset({"string"}),
    "string": frozenset({"date", "decimal"}),
    "date": frozenset({"string"}),
}

NOT_INSIDE = "types inside a column cannot widen"
DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")


class Fields(Enum):
    """Which fields of a struct the data may have beside the table's."""

    SAME = auto()
    #: each of the table's, and new ones, which the table gets
    ADDED = auto()
    #: new ones, and not each of the table's: those that are absent are null
    EITHER = auto()


def merged_type(column: str, table: Any, incoming: Any, fields: Fields = Fields.SAME) -> Any:
    """The type that holds both. If there is none, ``SchemaConflict`` names the innermost part that
    differs, such as ``s.b.element``. Only whole columns widen, not their parts; structs may differ
    by ``fields``, wherever they are but in the key of a map."""
    if same_type(table, incoming):
        return table
    if _widens(incoming, table):
        return table
    if _widens(table, incoming):
        return incoming
    if fields is Fields.SAME:
        raise _conflict(column, table, incoming, "neither widens into the other")
    return _with_fields(column, table, incoming, fields)


def _with_fields(column: str, table: Any, incoming: Any, fields: Fields) -> Any:
    if isinstance(table, str) or isinstance(incoming, str) or table["type"] != incoming["type"]:
        raise _conflict(column, table, incoming, "neither widens into the other")
    if table["type"] == "struct":
        return {**table, "fields": _fields(column, table, incoming, fields)}
    part, name = ("valueType", "value") if table["type"] == "map" else ("elementType", "element")
    if part == "valueType" and not same_type(table["keyType"], incoming["keyType"]):
        raise _conflict(column, table, incoming, "neither widens into the other")
    return {**table, part: _part(f"{column}.{name}", table[part], incoming[part], fields)}


def _fields(column: str, table: Any, incoming: Any, fields: Fields) -> list[Any]:
    given = {field["name"].lower(): field for field in incoming["fields"]}
    found = []
    for field in table["fields"]:
        name = f"{column}.{field['name']}"
        mine = given.pop(field["name"].lower(), None)
        if mine is not None:
            field = {**field, "type": _part(name, field["type"], mine["type"], fields)}
        elif fields is Fields.ADDED:
            raise missing(name, field["type"])
        elif not field["nullable"]:
            raise missing(name, field["type"], required=True)
        found.append(field)
    return found + [{**field, "nullable": True} for field in given.values()]


def _part(column: str, table: Any, incoming: Any, fields: Fields) -> Any:
    if same_type(table, incoming):
        return table
    if _widens(table, incoming) or _widens(incoming, table):
        raise _differs(column, table, incoming, NOT_INSIDE)
    return _with_fields(column, table, incoming, fields)


def missing(
    column: str, kind: Any, required: bool = False, unknown: Sequence[str] = ()
) -> SchemaConflict:
    """The error for a ``column`` of the table, or a field such as ``s.b``, that the data lacks;
    ``required``: it may not be null. The data has columns that are ``unknown`` to the table."""
    advice = "set hoodie.write.set.null.for.missing.columns=true to write nulls."
    if required:
        advice = f"let it be null by ALTER TABLE ... ALTER COLUMN {column} DROP NOT NULL."
    if unknown:
        advice += (
            f" The data has {', '.join(map(repr, unknown))} instead, which the table lacks: if it "
            f"was renamed to '{column}', give it that name."
        )
    return SchemaConflict(
        f"Column '{column}' of the table is missing in the data. Add it, or {advice}",
        column=column,
        ours=None,
        theirs=kind,
        rule="missing column",
    )


def paths(kind: Any, above: str = "") -> frozenset[str]:
    """The dotted paths of all parts inside a type, in lower case; none of a plain one."""
    named = {f"{above}{name}": part for name, part in _inside(kind).items()}
    return frozenset(named).union(*(paths(part, f"{path}.") for path, part in named.items()))


def _conflict(column: str, table: Any, incoming: Any, why: str) -> SchemaConflict:
    for name, ours, theirs in _parts(table, incoming):
        inside = f"{column}.{name}"
        if ours is None or theirs is None:
            return _differs(inside, ours, theirs, "a struct's fields cannot be added or dropped")
        if not same_type(ours, theirs):
            widens = _widens(ours, theirs) or _widens(theirs, ours)
            return _conflict(inside, ours, theirs, NOT_INSIDE if widens else why)
    return _differs(column, table, incoming, why)


def _parts(a: Any, b: Any) -> list[tuple[str, Any, Any]]:
    """(name, type, type) of the parts of two types of one kind; ``None`` for a missing part."""
    if isinstance(a, str) or isinstance(b, str) or a["type"] != b["type"]:
        return []
    ours, theirs = _inside(a), _inside(b)
    return [(name, ours.get(name), theirs.get(name)) for name in {**ours, **theirs}]


def _inside(kind: Any) -> dict[str, Any]:
    """Name -> type of the parts of a type, in their order; none of a plain one."""
    if isinstance(kind, str):
        return {}
    if kind["type"] == "array":
        return {"element": kind["elementType"]}
    if kind["type"] == "map":
        return {part: kind[f"{part}Type"] for part in ("key", "value")}
    return {field["name"].lower(): field["type"] for field in kind["fields"]}


def _differs(column: str, table: Any, incoming: Any, why: str) -> SchemaConflict:
    return SchemaConflict(
        f"Column '{column}' is {type_text(table)} in the table but {type_text(incoming)} in the "
        f"data, and {why}. Cast it to the table's type before writing.",
        column=column,
        ours=incoming,
        theirs=table,
        rule="type does not fit",
    )


def typed(incoming: Any, table: Any) -> Any:
    """``incoming`` with the table's type in place of each ``void``, the type of nulls alone."""
    if incoming == "void":
        return table
    if isinstance(incoming, str) or isinstance(table, str) or incoming["type"] != table["type"]:
        return incoming
    if incoming["type"] == "struct":
        known = {f["name"].lower(): f["type"] for f in table["fields"]}
        fields = [
            {**f, "type": typed(f["type"], known.get(f["name"].lower(), f["type"]))}
            for f in incoming["fields"]
        ]
        return {**incoming, "fields": fields}
    parts = ("elementType",) if incoming["type"] == "array" else ("keyType", "valueType")
    return {**incoming, **{part: typed(incoming[part], table[part]) for part in parts}}


def _widens(narrow: Any, wide: Any) -> bool:
    if not isinstance(narrow, str) or not isinstance(wide, str):
        return False
    small, large = DECIMAL.fullmatch(narrow), DECIMAL.fullmatch(wide)
    if small and large:
        p1, s1, p2, s2 = (int(x) for x in (*small.groups(), *large.groups()))
        return s2 >= s1 and p2 - s2 >= p1 - s1
    return wide in WIDENS.get(narrow, frozenset())


def casts(old: Any, new: Any) -> bool:
    """Whether readers cast the values of old files from ``old`` to ``new``."""
    if not isinstance(old, str) or not isinstance(new, str):
        return False
    before, after = ("decimal" if DECIMAL.fullmatch(kind) else kind for kind in (old, new))
    return after in CASTS.get(before, frozenset())


def same_type(a: Any, b: Any) -> bool:
    """Equal except for nullability, metadata, the names of elements and the case of names."""
    if isinstance(a, str) or isinstance(b, str):
        return bool(a == b)
    if a["type"] != b["type"]:
        return False
    if a["type"] == "array":
        return same_type(a["elementType"], b["elementType"])
    if a["type"] == "map":
        return same_type(a["keyType"], b["keyType"]) and same_type(a["valueType"], b["valueType"])
    ours = [(f["name"].lower(), f["type"]) for f in a["fields"]]
    theirs = [(f["name"].lower(), f["type"]) for f in b["fields"]]
    return len(ours) == len(theirs) and all(
        n.lower() == m.lower() and same_type(x, y)
        for (n, x), (m, y) in zip(ours, theirs, strict=True)
    )
