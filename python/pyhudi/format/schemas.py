"""Avro, Spark and Arrow schemas of a table, and conversions between them (spec/timeline.md T8).

A Hudi table's schema is Avro JSON in each commit. A type without a counterpart is an error that
names its column; it never silently becomes a string.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from pyhudi.errors import SchemaConflict, UnsupportedTable

COMMIT_TIME = "_hoodie_commit_time"
COMMIT_SEQNO = "_hoodie_commit_seqno"
RECORD_KEY = "_hoodie_record_key"
PARTITION_PATH = "_hoodie_partition_path"
FILE_NAME = "_hoodie_file_name"
META_COLUMNS = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME)
# Columns that Hudi adds to some files; they never belong to a user.
HIDDEN_COLUMNS = frozenset((*META_COLUMNS, "_hoodie_operation"))

Json = Any
_TIMESTAMPS = ("timestamp-millis", "timestamp-micros")
_LOCAL_TIMESTAMPS = ("local-timestamp-millis", "local-timestamp-micros")
#: Apache Hudi's own types: to its readers a vector is an array of numbers, and a blob may lie
#: elsewhere; a schema without the logical type makes plain bytes or a struct of them for good
_HUDI_TYPES = ("vector", "blob", "variant")
_PRIMITIVES = {
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "binary",
    "null": "void",
}


def canonical_json(avro: Json) -> str:
    """The schema as JSON text without blanks, its keys in the given order, as in Hudi."""
    return json.dumps(avro, separators=(",", ":"), ensure_ascii=False)


def avro_to_spark(avro: Mapping[str, Json], with_meta_columns: bool = False) -> dict[str, Json]:
    """A Spark ``StructType`` in its JSON form from a table's Avro record.

    Meta columns are left out unless ``with_meta_columns``. ``UnsupportedTable`` names a column
    whose type Spark lacks.
    """
    struct = _struct_of(avro, {}, "", "")
    if not with_meta_columns:
        struct["fields"] = [f for f in struct["fields"] if f["name"] not in HIDDEN_COLUMNS]
    return struct


def with_meta_columns(struct: Mapping[str, Json]) -> dict[str, Json]:
    """A Spark struct with the five meta columns in front, as files have it."""
    meta = [_spark_field(name, "string", True) for name in META_COLUMNS]
    plain = [field for field in struct["fields"] if field["name"] not in HIDDEN_COLUMNS]
    return {"type": "struct", "fields": meta + plain}


def _spark_field(name: str, kind: Json, nullable: bool) -> dict[str, Json]:
    return {"name": name, "type": kind, "nullable": nullable, "metadata": {}}


def _struct_of(
    avro: Mapping[str, Json], named: dict[str, Json], namespace: str, column: str
) -> dict[str, Json]:
    if avro.get("type") != "record":
        raise _no_spark_type(avro, column)
    namespace = _remember(avro, named, namespace)
    fields = []
    for field in avro["fields"]:
        name = f"{column}.{field['name']}" if column else field["name"]
        kind, nullable = _to_spark(field["type"], named, namespace, name)
        fields.append(_spark_field(field["name"], kind, nullable))
    return {"type": "struct", "fields": fields}


def _remember(avro: Mapping[str, Json], named: dict[str, Json], namespace: str) -> str:
    """Register a named type; returns the namespace inside it."""
    name = avro["name"]
    space = name.rpartition(".")[0] or avro.get("namespace") or namespace
    named[name if "." in name else f"{space}.{name}"] = avro
    return str(space)


def _no_spark_type(avro: Json, column: str) -> UnsupportedTable:
    return UnsupportedTable(
        f"Column '{column or 'the table'}' has the Avro type {canonical_json(avro)}, which Spark "
        "cannot hold. Read the table without it through Apache Hudi.",
        feature="Avro type",
        column=column,
    )


def _to_spark(avro: Json, named: dict[str, Json], namespace: str, column: str) -> tuple[Json, bool]:
    """(Spark type, nullable) of one Avro type."""
    if isinstance(avro, list):
        branches = [branch for branch in avro if branch != "null"]
        nullable = len(branches) < len(avro)
        if len(branches) == 1:
            return _to_spark(branches[0], named, namespace, column)[0], nullable
        widened = {frozenset(("int", "long")): "long", frozenset(("float", "double")): "double"}
        if all(isinstance(branch, str) for branch in branches):
            wide = widened.get(frozenset(branches))
            if wide is not None:
                return wide, nullable
        raise _no_spark_type(avro, column)
    if isinstance(avro, str):
        if avro in _PRIMITIVES:
            return _PRIMITIVES[avro], avro == "null"
        known = named.get(avro) or named.get(f"{namespace}.{avro}")
        if known is None:
            raise _no_spark_type(avro, column)
        return _complex_to_spark(known, named, namespace, column), False
    return _complex_to_spark(avro, named, namespace, column), False


def _complex_to_spark(
    avro: Mapping[str, Json], named: dict[str, Json], namespace: str, column: str
) -> Json:
    kind, logical = avro["type"], avro.get("logicalType")
    if logical in _HUDI_TYPES:
        raise UnsupportedTable(
            f"Column '{column}' is of Apache Hudi's own type {logical}, which pyhudi does not "
            "support. Read and write the table with Apache Hudi.",
            feature=f"type {logical}",
            column=column,
        )
    if kind in ("fixed", "enum"):
        _remember(avro, named, namespace)
    if logical == "decimal" and kind in ("bytes", "fixed"):
        return f"decimal({avro['precision']},{avro.get('scale', 0)})"
    if kind == "int" and logical == "date":
        return "date"
    if kind == "long" and logical in _TIMESTAMPS:
        return "timestamp"
    if kind == "long" and logical in _LOCAL_TIMESTAMPS:
        return "timestamp_ntz"
    if kind == "record":
        return _struct_of(avro, named, namespace, column)
    if kind == "array":
        element, nullable = _to_spark(avro["items"], named, namespace, f"{column}.element")
        return {"type": "array", "elementType": element, "containsNull": nullable}
    if kind == "map":
        value, nullable = _to_spark(avro["values"], named, namespace, f"{column}.value")
        return {
            "type": "map",
            "keyType": "string",
            "valueType": value,
            "valueContainsNull": nullable,
        }
    if kind == "fixed":
        return "binary"
    if kind == "enum":
        return "string"
    return _to_spark(kind, named, namespace, column)[0]


_FROM_SPARK: dict[str, Json] = {
    "boolean": "boolean",
    "byte": "int",
    "short": "int",
    "integer": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
}
#: the key under which Spark 4 keeps the collation of a text column; its type is still ``string``
_COLLATIONS = "__COLLATIONS"
#: plain text's own; Spark 4.3 writes it out in SHOW CREATE TABLE
_PLAIN = "UTF8_BINARY"


def spark_to_avro(struct: Mapping[str, Json], table_name: str) -> dict[str, Json]:
    """The table's Avro record from a Spark struct, named as Hudi names it.

    Record ``<table>_record`` in namespace ``hoodie.<table>``; nullable columns are unions with
    default null. ``SchemaConflict`` names a column whose type Avro or Hudi lacks, such as ``void``,
    which Parquet cannot store, and a text with a collation, which would be lost.
    """
    name = _avro_name(table_name)
    return _record_of(struct, f"{name}_record", f"hoodie.{name}", "")


def _avro_name(text: str) -> str:
    """Avro names have letters, digits and underscores; Hudi replaces other characters by ``_``."""
    first = "_" if text[:1].isdigit() else ""
    return first + "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in text)


def _record_of(
    struct: Mapping[str, Json], name: str, namespace: str, column: str
) -> dict[str, Json]:
    fields = []
    for field in struct["fields"]:
        inner = f"{column}.{field['name']}" if column else field["name"]
        collations = field.get("metadata", {}).get(_COLLATIONS, {}).values()
        if any(not collation.endswith(f".{_PLAIN}") for collation in collations):
            raise _collated(inner)
        kind = _to_avro(field["type"], field["name"], f"{namespace}.{name}", inner)
        if field["nullable"]:
            fields.append({"name": field["name"], "type": ["null", kind], "default": None})
        else:
            fields.append({"name": field["name"], "type": kind})
    return {"type": "record", "name": name, "namespace": namespace, "fields": fields}


def _to_avro(kind: Json, name: str, namespace: str, column: str) -> Json:
    if isinstance(kind, str):
        kind = kind.removesuffix(f" collate {_PLAIN}")
        if kind.startswith("decimal"):
            return _decimal_to_avro(kind, f"{namespace}.{name}")
        if kind in _FROM_SPARK:
            return _FROM_SPARK[kind]
    elif kind["type"] == "struct":
        return _record_of(kind, name, namespace, column)
    elif kind["type"] == "array":
        element = _to_avro(kind["elementType"], name, namespace, f"{column}.element")
        return {"type": "array", "items": ["null", element] if kind["containsNull"] else element}
    elif kind["type"] == "map" and kind["keyType"] == "string":
        value = _to_avro(kind["valueType"], name, namespace, f"{column}.value")
        return {"type": "map", "values": ["null", value] if kind["valueContainsNull"] else value}
    raise _unfit(kind, column)


def _unfit(kind: Json, column: str) -> SchemaConflict:
    if kind == "void":
        why = f"Column '{column}' has no type: all its values are null. Cast it to a type."
    elif isinstance(kind, str) and " collate " in kind:
        return _collated(column)
    else:
        why = (
            f"Column '{column}' has the type {type_text(kind)}, which a Hudi table cannot hold. "
            "Cast it to another type or leave it out."
        )
    return SchemaConflict(why, column=column, ours=kind, theirs=None, rule="type")


def _collated(column: str) -> SchemaConflict:
    return SchemaConflict(
        f"Column '{column}' has a collation, which a Hudi table cannot keep: it would compare as "
        "plain text afterwards. Cast it to STRING COLLATE UTF8_BINARY.",
        column=column,
        ours="collation",
        theirs=None,
        rule="type",
    )


_SIMPLE = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


def type_text(kind: Json) -> str:
    """A type in Spark's JSON as SQL writes it: ``map<int,string>``; ``absent`` for none."""
    if kind is None:
        return "absent"
    if isinstance(kind, str):
        return _SIMPLE.get(kind, kind)
    if kind["type"] == "array":
        return f"array<{type_text(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{type_text(kind['keyType'])},{type_text(kind['valueType'])}>"
    if kind["type"] == "struct":
        inside = (f"{field['name']}:{type_text(field['type'])}" for field in kind["fields"])
        return f"struct<{','.join(inside)}>"
    return str(kind["type"])


def _precision(kind: str) -> tuple[int, int]:
    inside = kind.removeprefix("decimal").strip("()").split(",")
    return (10, 0) if inside == [""] else (int(inside[0]), int(inside[1]))


def _decimal_to_avro(kind: str, namespace: str) -> dict[str, Json]:
    precision, scale = _precision(kind)
    # The smallest number of bytes whose signed range has the precision; Hudi's merge needs that.
    size = next(n for n in range(1, 17) if (1 << (8 * n - 1)) >= 10**precision)
    return {
        "type": "fixed",
        "name": "fixed",
        "namespace": namespace,
        "size": size,
        "logicalType": "decimal",
        "precision": precision,
        "scale": scale,
    }


_TO_ARROW: dict[str, Callable[[], pa.DataType]] = {
    "boolean": pa.bool_,
    "byte": pa.int8,
    "short": pa.int16,
    "integer": pa.int32,
    "long": pa.int64,
    "float": pa.float32,
    "double": pa.float64,
    "string": pa.string,
    "binary": pa.binary,
    "date": pa.date32,
    "timestamp": lambda: pa.timestamp("us", "UTC"),
    "timestamp_ntz": lambda: pa.timestamp("us"),
    "void": pa.null,
}


def spark_to_arrow(struct: Mapping[str, Json]) -> pa.Schema:
    """The Arrow schema of a Spark struct: microseconds (UTC, or none for ntz), decimal128.

    ``SchemaConflict`` names a column whose type has no counterpart.
    """
    return pa.schema([_arrow_field(field, field["name"]) for field in struct["fields"]])


def avro_to_arrow(avro: Mapping[str, Json], with_meta_columns: bool = False) -> pa.Schema:
    """The Arrow schema of a table's Avro record; errors as in ``avro_to_spark``."""
    return spark_to_arrow(avro_to_spark(avro, with_meta_columns))


def _arrow_field(field: Mapping[str, Json], column: str) -> pa.Field:
    return pa.field(field["name"], _arrow_type(field["type"], column), field["nullable"])


def _arrow_type(kind: Json, column: str) -> pa.DataType:
    if isinstance(kind, str):
        if kind.startswith("decimal"):
            return pa.decimal128(*_precision(kind))
        if kind in _TO_ARROW:
            return _TO_ARROW[kind]()
    elif kind["type"] == "struct":
        return pa.struct([_arrow_field(f, f"{column}.{f['name']}") for f in kind["fields"]])
    elif kind["type"] == "array":
        element = _arrow_type(kind["elementType"], f"{column}.element")
        return pa.list_(pa.field("element", element, kind["containsNull"]))
    elif kind["type"] == "map":
        key = _arrow_type(kind["keyType"], f"{column}.key")
        value = _arrow_type(kind["valueType"], f"{column}.value")
        return pa.map_(key, pa.field("value", value, kind["valueContainsNull"]))
    raise _unfit(kind, column)
