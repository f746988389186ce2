"""How the values of an Avro record lie in its bytes, for a reader that decodes rows by itself.

The shim's reader knows no schema: it gets the fields of a block's records as short forms, and for
each field the column that takes it. Here it is decided which blocks it may read.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

#: the form of a value that is only passed over, or read as it is
_FORMS: Final = {
    "null": "null",
    "boolean": "boolean",
    "int": "number",
    "long": "number",
    "float": "float",
    "double": "double",
    "string": "text",
    "bytes": "text",
}
_ARROW: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
_TIMES: Final = {
    "timestamp-micros": (pa.timestamp("us", "UTC"), 1),
    "timestamp-millis": (pa.timestamp("us", "UTC"), 1000),
    "local-timestamp-micros": (pa.timestamp("us"), 1),
    "local-timestamp-millis": (pa.timestamp("us"), 1000),
}


@lru_cache(maxsize=256)
def fields_of(schema: str, wanted: pa.StructType) -> str | None:
    """The fields of a record of ``schema`` in their order, as JSON; None if another reader must.

    Each is ``[column, form, scale]``: the number of the column of ``wanted`` that takes it, or -1,
    and what its numbers are multiplied by. A wanted column that no field has is null. A wanted
    field needs exactly the type of its column: what has to be converted is not for that reader, nor
    is a value with parts.
    """
    try:
        record = json.loads(schema)
        names = [field["name"] for field in record["fields"]]
        if record["type"] != "record" or len(set(names)) != len(names):
            return None
        known: dict[str, Any] = {}
        found = []
        for field in record["fields"]:
            form = _form(field["type"], known)
            at, scale = wanted.get_field_index(field["name"]), 1
            if at >= 0:
                value = _value(field["type"])
                if value is None or value[0] != wanted.field(at).type:
                    return None
                scale = value[1]
            found.append([at, form, scale])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return json.dumps(found, separators=(",", ":"))


def _value(kind: Any) -> tuple[pa.DataType, int] | None:
    """The Arrow type and the scale of a plain value, which may be null."""
    if isinstance(kind, list):
        some = [each for each in kind if each != "null"]
        return _value(some[0]) if len(some) == 1 else None
    if isinstance(kind, str):
        plain = _ARROW.get(kind)
        return None if plain is None else (plain, 1)
    name, logical = kind["type"], kind.get("logicalType")
    if logical == "decimal" and name in ("bytes", "fixed"):
        return pa.decimal128(kind["precision"], kind.get("scale", 0)), 1
    if logical == "date" and name == "int":
        return pa.date32(), 1
    if logical in _TIMES and name == "long":
        return _TIMES[logical]
    return _value(name) if isinstance(name, str | list) and name not in ("fixed", "enum") else None


def _form(kind: Any, known: dict[str, Any]) -> Any:
    """``kind`` without names; ``KeyError`` for a type that contains itself."""
    if isinstance(kind, list):
        return ["union", *(_form(each, known) for each in kind)]
    if isinstance(kind, str):
        return _FORMS[kind] if kind in _FORMS else known[kind.rpartition(".")[2]]
    name = kind["type"]
    if name == "array":
        return ["array", _form(kind["items"], known)]
    if name == "map":
        return ["map", _form(kind["values"], known)]
    if name not in ("record", "enum", "fixed"):
        return _form(name, known)
    form: Any
    if name == "record":
        form = ["record", *(_form(each["type"], known) for each in kind["fields"])]
    else:
        form = "number" if name == "enum" else ["fixed", kind["size"]]
    known[kind["name"].rpartition(".")[2]] = form
    return form
