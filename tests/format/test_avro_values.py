from __future__ import annotations

import json
import struct
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest

from pyhudi.format.avro_values import decoder

INNER = {"type": "record", "name": "inner", "fields": [{"name": "x", "type": "int"}]}
FIXED = {"type": "fixed", "name": "dec", "size": 5, "logicalType": "decimal",
         "precision": 10, "scale": 2}  # fmt: skip
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "row",
    "namespace": "hoodie.t",
    "fields": [
        {"name": "flag", "type": "boolean"},
        {"name": "count", "type": ["null", "long"], "default": None},
        {"name": "real", "type": ["double", "null"]},
        {"name": "small", "type": "float"},
        {"name": "text", "type": ["null", "string"]},
        {"name": "raw", "type": "bytes"},
        {"name": "kind", "type": {"type": "enum", "name": "kind", "symbols": ["A", "B"]}},
        {"name": "price", "type": ["null", FIXED]},
        {"name": "again", "type": ["null", "dec"]},
        {"name": "bytes_price", "type": {"type": "bytes", "logicalType": "decimal",
                                         "precision": 12, "scale": 3}},
        {"name": "inner", "type": ["null", INNER]},
        {"name": "other", "type": ["null", "hoodie.t.inner"]},
        {"name": "list", "type": {"type": "array", "items": ["null", "long"]}},
        {"name": "map", "type": {"type": "map", "values": INNER["name"]}},
    ],
}  # fmt: skip
ROW: dict[str, Any] = {
    "flag": True,
    "count": -(1 << 62),
    "real": 1.5,
    "small": 0.25,
    "text": "grüße",
    "raw": b"\x00\xff",
    "kind": "B",
    "price": Decimal("-12.34"),
    "again": Decimal("0.07"),
    "bytes_price": Decimal("123456.789"),
    "inner": {"x": 300},
    "other": {"x": -1},
    "list": [1, None, 1 << 40],
    "map": {"k": {"x": 5}},
}


def encoded(schema: Any, value: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def test_values_of_every_type_are_as_another_writer_meant_them() -> None:
    data = encoded(SCHEMA, ROW)
    value, end = decoder(json.dumps(SCHEMA))(b"--" + data, 2)
    assert value == {**ROW, "map": [("k", {"x": 5})]}
    assert end == 2 + len(data)


def test_nulls_and_empty_collections() -> None:
    nullable = ("count", "real", "text", "price", "again", "inner", "other")
    row = {**ROW, **dict.fromkeys(nullable), "list": [], "map": {}}
    value, _ = decoder(json.dumps(SCHEMA))(encoded(SCHEMA, row), 0)
    assert value == {**row, "map": []}


def test_days_and_times_stay_numbers_and_milliseconds_become_microseconds() -> None:
    kinds = {"timestamp-micros": 7, "timestamp-millis": 7000, "local-timestamp-millis": 7000}
    for logical, wanted in kinds.items():
        schema = json.dumps({"type": "long", "logicalType": logical})
        assert decoder(schema)(encoded("long", 7), 0) == (wanted, 1)
    assert decoder('{"type": "int", "logicalType": "date"}')(encoded("int", -1), 0) == (-1, 1)


def test_a_block_of_items_may_say_its_bytes() -> None:
    # -2 items, 2 bytes, the items 1 and 2, the end
    assert decoder('{"type": "array", "items": "long"}')(b"\x03\x04\x02\x04\x00", 0) == ([1, 2], 5)


@pytest.mark.parametrize("kept", [0, 1, 7, 20, 40])
def test_a_record_cut_short_is_an_error(kept: int) -> None:
    data = encoded(SCHEMA, ROW)[:kept]
    with pytest.raises((IndexError, struct.error)):
        decoder(json.dumps(SCHEMA))(data, 0)


def test_a_type_without_a_meaning_is_refused() -> None:
    with pytest.raises(ValueError, match="without saying what it is"):
        decoder('{"type": "array", "items": "nothing"}')
