"""One JSON form for the rows of every engine, so that answers compare as plain values.

Numbers, booleans and text stand for themselves; a type that JSON lacks is a one-key object:
``{"decimal": "1.50"}``, ``{"micros": 0}`` (both timestamp types), ``{"date": "2024-01-01"}``,
``{"base64": "AQI="}``, ``{"float": "NaN"}``, ``{"map": [[key, value], ...]}`` sorted by key.
A struct is an object by field name. Types are named as Spark's ``simpleString`` names them.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

META_COLUMNS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """What one engine returned: ``schema`` as (name, type) pairs and canonical ``rows``."""

    schema: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]

    def without_meta(self) -> Answer:
        """The same answer without the five ``_hoodie_*`` columns, sorted by the whole row."""
        schema = tuple((n, t) for n, t in self.schema if n not in META_COLUMNS)
        bare = [{k: v for k, v in row.items() if k not in META_COLUMNS} for row in self.rows]
        return Answer(schema, tuple(sort_rows(bare)))


def difference(seen: Answer, wanted: Answer) -> str:
    """What sets two answers apart, in a few lines; empty when they are equal."""
    if seen.schema != wanted.schema:
        ours, theirs = dict(seen.schema), dict(wanted.schema)
        names = dict.fromkeys([*ours, *theirs])
        apart = [n for n in names if ours.get(n) != theirs.get(n)] or ["order of columns"]
        return "schema: " + "; ".join(f"{n}: {ours.get(n)} not {theirs.get(n)}" for n in apart)
    if seen.rows == wanted.rows:
        return ""
    missing = [row for row in wanted.rows if row not in seen.rows]
    extra = [row for row in seen.rows if row not in wanted.rows]
    return (
        f"{len(seen.rows)} rows for {len(wanted.rows)}, {len(missing)} missing, {len(extra)} "
        f"unexpected; first missing {missing[:1]}, first unexpected {extra[:1]}"
    )


def plain(value: Any) -> Any:
    """One Python value, as PySpark collects it or PyArrow lists it, in canonical form.

    Naive datetimes are taken as UTC: peers run in that zone. A ``dict`` is a struct here;
    ``spark_value`` and ``from_arrow`` turn maps into ``{"map": ...}`` before they get this far.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, decimal.Decimal):
        return {"decimal": f"{value:f}"}
    if isinstance(value, datetime.datetime):
        offset = value.utcoffset() or datetime.timedelta()
        return {"micros": (value.replace(tzinfo=None) - offset - _EPOCH) // _MICROSECOND}
    if isinstance(value, datetime.date):
        return {"date": value.isoformat()}
    if isinstance(value, (bytes, bytearray)):
        return {"base64": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    raise TypeError(f"no canonical form for {type(value).__name__}")


def canonical_map(pairs: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    """A map value: pairs in canonical form, sorted by key, since engines keep no order."""
    items = [[plain(k), plain(v)] for k, v in pairs]
    return {"map": sorted(items, key=json.dumps)}


def sort_rows(rows: Iterable[Row]) -> list[Row]:
    """Rows by partition path, then record key where they have them, then by all their text."""

    def order(row: Row) -> tuple[str, str, str]:
        partition = str(row.get("_hoodie_partition_path", ""))
        return (
            partition,
            str(row.get("_hoodie_record_key", "")),
            json.dumps(row, sort_keys=True),
        )

    return sorted(rows, key=order)


def from_arrow(table: pa.Table) -> Answer:
    """The canonical answer for an Arrow table."""
    schema = tuple((f.name, spark_type(f.type)) for f in table.schema)
    columns = {f.name: table.column(f.name).to_pylist() for f in table.schema}
    types = {f.name: f.type for f in table.schema}
    rows = [
        {name: _arrow_value(columns[name][i], types[name]) for name in columns}
        for i in range(table.num_rows)
    ]
    return Answer(schema, tuple(sort_rows(rows)))


def _arrow_value(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_map(kind):
        pairs = [
            (_arrow_value(k, kind.key_type), _arrow_value(v, kind.item_type)) for k, v in value
        ]
        return canonical_map(pairs)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_arrow_value(v, kind.value_type) for v in value]
    if pa.types.is_struct(kind):
        return {f.name: _arrow_value(value[f.name], f.type) for f in kind}
    return plain(value)


_SPARK_NAMES = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.string_view(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.binary_view(): "binary",
    pa.date32(): "date",
}


def spark_type(kind: pa.DataType) -> str:
    """Spark's name for an Arrow type; Arrow's own name where Spark has none."""
    if kind in _SPARK_NAMES:
        return _SPARK_NAMES[kind]
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{spark_type(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{spark_type(kind.key_type)},{spark_type(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return "struct<" + ",".join(f"{f.name}:{spark_type(f.type)}" for f in kind) + ">"
    return str(kind)
