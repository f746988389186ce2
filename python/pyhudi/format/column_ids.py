"""Columns by their ids: a table's and a file's columns in a version of the schema.

An identified schema is a Spark struct as JSON, meta columns included, with an ``id`` in each
field's metadata and ``ids`` in each array (element) and map (key, value). It is internal: ``plain``
makes the schema for others.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from typing import Any

from pyhudi.format.schema_history import SchemaVersion
from pyhudi.format.schemas import HIDDEN_COLUMNS, META_COLUMNS, with_meta_columns
from pyhudi.format.spark_schema import Column, SparkSchema

Json = Any
#: a Spark struct as JSON, whose fields have ids
Identified = dict[str, Json]

ID, DOC, IDS = "id", "doc", "ids"
#: in a field's metadata: its name in the file, if that differs
FILE_NAME = "pyhudi.file_name"

_NO_VERSION = SchemaVersion(0, -1, ())
_TO_SPARK = {
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp-millis": "timestamp",
    "local-timestamp-micros": "timestamp_ntz",
    "local-timestamp-millis": "timestamp_ntz",
}
_FROM_SPARK = {
    "byte": "int",
    "short": "int",
    "integer": "int",
    "timestamp_ntz": "local-timestamp-micros",
}
_DECIMAL = re.compile(r"decimal(?:_fixed|_bytes)?\((\d+),\s*(\d+)\)(?:\[\d+\])?")


# -- from a version, and to one --------------------------------------------------------------------


def first_ids(schema: SparkSchema) -> Identified:
    """A schema without a history, numbered as in Hudi: level by level, from 0."""
    return identified(schema, _NO_VERSION)


def identified(schema: SparkSchema, version: SchemaVersion) -> Identified:
    """``schema`` with the ids that ``version`` has for its names; unknown names get new ids.

    Meta columns are put in front; columns that only ``version`` has are left out.
    """
    struct = with_meta_columns(schema.json())
    return _Numbering(version.max_column_id + 1).struct(struct, version.fields)


class _Numbering:
    """Gives known ids, and new ones in Hudi's order: a struct's fields before their own fields."""

    def __init__(self, next_id: int) -> None:
        self._next = next_id

    def new(self) -> int:
        self._next += 1
        return self._next - 1

    def struct(self, struct: Mapping[str, Json], known: Json) -> Identified:
        by_name = {f["name"].lower(): f for f in known}
        found = [by_name.get(f["name"].lower()) for f in struct["fields"]]
        ids = [self.new() if old is None else int(old["id"]) for old in found]
        fields = []
        for field, old, own in zip(struct["fields"], found, ids, strict=True):
            metadata: dict[str, Json] = {ID: own}
            doc = _doc_of(field["name"]) if old is None else old.get("doc")
            if doc is not None:
                metadata[DOC] = doc
            kind = self.type(field["type"], old["type"] if old is not None else None)
            fields.append({**field, "type": kind, "metadata": metadata})
        return {"type": "struct", "fields": fields}

    def type(self, kind: Json, known: Json) -> Json:
        if isinstance(kind, str):
            return kind
        known = known if isinstance(known, Mapping) else {}
        if kind["type"] == "struct":
            return self.struct(kind, known.get("fields", ()))
        if kind["type"] == "array":
            ids = [known["element_id"] if "element_id" in known else self.new()]
            element = self.type(kind["elementType"], known.get("element"))
            return {**kind, "elementType": element, IDS: ids}
        names = ("key_id", "value_id")
        ids = [known[name] if name in known else self.new() for name in names]
        key = self.type(kind["keyType"], known.get("key"))
        value = self.type(kind["valueType"], known.get("value"))
        return {**kind, "keyType": key, "valueType": value, IDS: ids}


def with_new_ids(kind: Json, next_id: int) -> Json:
    """The type of an added column, its inner parts numbered from ``next_id`` on."""
    return _Numbering(next_id).type(kind, None)


def _doc_of(name: str) -> str | None:
    return "" if name in META_COLUMNS else None


def version_of(
    struct: Identified, version_id: int, before: SchemaVersion | None, layout: int
) -> SchemaVersion:
    """The version for ``struct``; ids of ``before`` are never used again.

    Types that are the same in ``before`` keep their text. In layout 1 types have the names of Hudi
    0.15.
    """
    texts = dict(_texts(before.fields)) if before is not None else {}
    fields = tuple(_field(f, texts, layout) for f in struct["fields"])
    most = max((*all_ids(struct), before.max_column_id if before is not None else 0))
    return SchemaVersion(version_id, most, fields)


def _texts(fields: Json) -> Iterator[tuple[int, str]]:
    """(id, type) of every leaf."""
    for field in fields:
        yield from _texts_of(int(field["id"]), field["type"])


def _texts_of(own: int, kind: Json) -> Iterator[tuple[int, str]]:
    if isinstance(kind, str):
        yield own, kind
    elif kind["type"] == "record":
        yield from _texts(kind["fields"])
    elif kind["type"] == "array":
        yield from _texts_of(int(kind["element_id"]), kind["element"])
    else:
        yield from _texts_of(int(kind["key_id"]), kind["key"])
        yield from _texts_of(int(kind["value_id"]), kind["value"])


def _field(field: Mapping[str, Json], texts: Mapping[int, str], layout: int) -> dict[str, Json]:
    own = field["metadata"][ID]
    kind = _type(field["type"], own, texts, layout)
    found = {"id": own, "name": field["name"], "optional": field["nullable"], "type": kind}
    if DOC in field["metadata"]:
        found["doc"] = field["metadata"][DOC]
    return found


def _type(kind: Json, own: int, texts: Mapping[int, str], layout: int) -> Json:
    if isinstance(kind, str):
        known = texts.get(own)
        same = known is not None and _spark_name(known) in (None, kind)
        return known if same else _hudi_name(kind, layout)
    if kind["type"] == "struct":
        return {"type": "record", "fields": [_field(f, texts, layout) for f in kind["fields"]]}
    if kind["type"] == "array":
        return {
            "type": "array",
            "element_id": kind[IDS][0],
            "element": _type(kind["elementType"], kind[IDS][0], texts, layout),
            "element_optional": kind["containsNull"],
        }
    return {
        "type": "map",
        "key_id": kind[IDS][0],
        "key": _type(kind["keyType"], kind[IDS][0], texts, layout),
        "value_id": kind[IDS][1],
        "value": _type(kind["valueType"], kind[IDS][1], texts, layout),
        "value_optional": kind["valueContainsNull"],
    }


def _spark_name(text: str) -> str | None:
    """The type in Spark's JSON; None if only the Avro schema has it."""
    found = _DECIMAL.fullmatch(text)
    return f"decimal({found[1]},{found[2]})" if found else _TO_SPARK.get(text)


def _hudi_name(kind: str, layout: int) -> str:
    found = _DECIMAL.fullmatch(kind)
    if found is not None:
        precision, scale = int(found[1]), int(found[2])
        if layout == 1:
            return f"decimal({precision}, {scale})"
        size = next(n for n in range(1, 17) if (1 << (8 * n - 1)) >= 10**precision)
        return f"decimal_fixed({precision}, {scale})[{size}]"
    return _FROM_SPARK.get(kind, kind)


# -- identified schemas ----------------------------------------------------------------------------


def all_ids(kind: Json) -> Iterator[int]:
    """Every id in an identified type."""
    if isinstance(kind, str):
        return
    yield from kind.get(IDS, ())
    for field in kind.get("fields", ()):
        yield field["metadata"][ID]
        yield from all_ids(field["type"])
    for part in ("elementType", "keyType", "valueType"):
        yield from all_ids(kind.get(part, ""))


def set_apart(kind: Json, ids: Container[int]) -> Json:
    """An identified type in which the fields of ``ids`` have ids that no table's column has."""
    if isinstance(kind, str):
        return kind
    found = dict(kind)
    for part in ("elementType", "keyType", "valueType"):
        if part in kind:
            found[part] = set_apart(kind[part], ids)
    if "fields" in kind:
        found["fields"] = [_set_apart(field, ids) for field in kind["fields"]]
    return found


def _set_apart(field: Mapping[str, Json], ids: Container[int]) -> dict[str, Json]:
    own = field["metadata"][ID]
    metadata = {**field["metadata"], ID: -1 - own} if own in ids else field["metadata"]
    return {**field, "type": set_apart(field["type"], ids), "metadata": metadata}


def without_ids(kind: Json) -> Json:
    """The plain type for Spark; for a table's schema only the user's columns."""
    if isinstance(kind, str):
        return kind
    found = {key: value for key, value in kind.items() if key != IDS}
    for part in ("elementType", "keyType", "valueType"):
        if part in found:
            found[part] = without_ids(found[part])
    if "fields" in found:
        found["fields"] = [
            {**field, "type": without_ids(field["type"]), "metadata": {}}
            for field in found["fields"]
            if field["name"] not in HIDDEN_COLUMNS
        ]
    return found


def plain(columns: Identified) -> SparkSchema:
    """The user's columns without their ids."""
    return SparkSchema.parse(without_ids(columns))


def held_columns(table: Identified, file: Identified) -> SparkSchema:
    """The table's columns as a file holds them: of the file's types, told by ids.

    The metadata of a column, or of a field in one, has its ``FILE_NAME`` where that is not the
    table's. A column that the file lacks, though it has another one of that name, gets a name that
    the file does not have.
    """
    own = {**table, "fields": [f for f in table["fields"] if f["name"] not in HIDDEN_COLUMNS]}
    return SparkSchema.parse(_held_struct(own, file))


def _held_struct(table: Identified, file: Identified) -> dict[str, Json]:
    by_id = {f["metadata"][ID]: f for f in file["fields"]}
    names = {f["name"].lower() for f in file["fields"]}
    taken = names | {f["name"].lower() for f in table["fields"]}
    fields = []
    for field in table["fields"]:
        mine = by_id.get(field["metadata"][ID])
        name, kind = field["name"], without_ids(field["type"])
        if mine is not None:
            name, kind = mine["name"], _held_type(field["type"], mine["type"])
        elif name.lower() in names:
            while name.lower() in taken:
                name += "_"
            taken.add(name.lower())
        metadata = {FILE_NAME: name} if name != field["name"] else {}
        fields.append({**field, "type": kind, "metadata": metadata})
    return {"type": "struct", "fields": fields}


def _held_type(table: Json, file: Json) -> Json:
    if isinstance(table, str) or isinstance(file, str) or table["type"] != file["type"]:
        return without_ids(file)
    if table["type"] == "struct":
        return _held_struct(table, file)
    found = without_ids(file)
    for part in ("elementType", "keyType", "valueType"):
        if part in found:
            found[part] = _held_type(table[part], file[part])
    return found


def shape_of(version: SchemaVersion) -> SparkSchema:
    """The columns of a version by their names; a type tells its fields, and is else a string."""
    own = [field for field in version.fields if field["name"] not in META_COLUMNS]
    return SparkSchema.parse(_shape({"type": "record", "fields": own}))


def _shape(kind: Json) -> Json:
    if isinstance(kind, str):
        return "string"
    if kind["type"] == "record":
        fields = [
            {"name": f["name"], "type": _shape(f["type"]), "nullable": True, "metadata": {}}
            for f in kind["fields"]
        ]
        return {"type": "struct", "fields": fields}
    if kind["type"] == "array":
        return {"type": "array", "elementType": _shape(kind["element"]), "containsNull": True}
    key, value = _shape(kind["key"]), _shape(kind["value"])
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def file_name(column: Column) -> str:
    """The name that a file has for a column of ``held_columns``."""
    return str(column.metadata.get(FILE_NAME, column.name))


def names_in_file(held: SparkSchema) -> dict[str, Json] | None:
    """``held_columns`` as ``FileNames`` of ``rows/spec.py``; None if nothing differs."""
    return _names_inside(held.json())


def _names_inside(kind: Json) -> dict[str, Json] | None:
    if isinstance(kind, str):
        return None
    parts = {part: f"{part}Type" for part in ("element", "key", "value")}
    named = {part: (part, _names_inside(kind.get(key, ""))) for part, key in parts.items()}
    for field in kind.get("fields", ()):
        own = field["metadata"].get(FILE_NAME, field["name"])
        named[field["name"]] = (own, _names_inside(field["type"]))
    found = {name: (own, inner) for name, (own, inner) in named.items() if own != name or inner}
    return found or None
