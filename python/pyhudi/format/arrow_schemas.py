"""The Spark schema of an Arrow schema, which was read from a data file's footer."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pyhudi.errors import UnsupportedTable
from pyhudi.format.schemas import META_COLUMNS

_PLAIN: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
}


def arrow_to_spark(schema: pa.Schema) -> dict[str, Any]:
    """A Spark StructType as JSON, without Hudi's meta columns; every column nullable.

    ``UnsupportedTable`` names a column whose type Spark does not have.
    """
    fields = [_field(f) for f in schema if f.name not in META_COLUMNS]
    return {"type": "struct", "fields": fields}


def _field(field: pa.Field) -> dict[str, Any]:
    kind = _type(field.type, field.name)
    return {"name": field.name, "type": kind, "nullable": True, "metadata": {}}


def _type(kind: pa.DataType, column: str) -> Any:
    if kind in _PLAIN:
        return _PLAIN[kind]
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_fixed_size_binary(kind):
        return "binary"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = _type(kind.value_type, column)
        return {"type": "array", "elementType": element, "containsNull": True}
    if pa.types.is_map(kind):
        return {
            "type": "map",
            "keyType": _type(kind.key_type, column),
            "valueType": _type(kind.item_type, column),
            "valueContainsNull": True,
        }
    if pa.types.is_struct(kind):
        return {"type": "struct", "fields": [_field(kind.field(i)) for i in range(kind.num_fields)]}
    raise UnsupportedTable(
        f"Column '{column}' is stored as {kind}, which Spark cannot read. Read the table with "
        "another engine.",
        feature=f"column type {kind}",
    )
