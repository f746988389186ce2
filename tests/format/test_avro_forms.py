"""Which Avro records the shim's reader decodes, and how it is told of their fields."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from pyhudi.format.avro_forms import fields_of


def schema(**kinds: Any) -> str:
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    return json.dumps({"type": "record", "name": "row", "fields": fields})


def logical(name: str, plain: str) -> dict[str, Any]:
    return {"type": plain, "logicalType": name}


def decimal(**more: Any) -> dict[str, Any]:
    return {"logicalType": "decimal", "precision": 9, "scale": 2, **more}


@pytest.mark.parametrize(
    ("kind", "arrow", "form", "scale"),
    [
        ("boolean", pa.bool_(), "boolean", 1),
        ("int", pa.int32(), "number", 1),
        (logical("date", "int"), pa.date32(), "number", 1),
        ("long", pa.int64(), "number", 1),
        (logical("timestamp-micros", "long"), pa.timestamp("us", "UTC"), "number", 1),
        (logical("timestamp-millis", "long"), pa.timestamp("us", "UTC"), "number", 1000),
        (logical("local-timestamp-micros", "long"), pa.timestamp("us"), "number", 1),
        (logical("local-timestamp-millis", "long"), pa.timestamp("us"), "number", 1000),
        ("float", pa.float32(), "float", 1),
        ("double", pa.float64(), "double", 1),
        ("string", pa.string(), "text", 1),
        ({"type": "string", "avro.java.string": "String"}, pa.string(), "text", 1),
        ("bytes", pa.binary(), "text", 1),
        (decimal(type="bytes"), pa.decimal128(9, 2), "text", 1),
        (decimal(type="fixed", name="d", size=4), pa.decimal128(9, 2), ["fixed", 4], 1),
    ],
)
def test_a_plain_value_is_read_into_a_column_of_its_type(
    kind: Any, arrow: pa.DataType, form: Any, scale: int
) -> None:
    text = schema(k="string", v=kind, n=["null", kind])
    wanted = pa.struct([("n", arrow), ("v", arrow)])
    found = json.loads(fields_of(text, wanted) or "null")
    assert found == [[-1, "text", 1], [1, form, scale], [0, ["union", "null", form], scale]]


def test_a_value_that_nobody_wants_is_passed_over_whatever_it_is() -> None:
    inner = {"type": "record", "name": "x.inner", "fields": [{"name": "a", "type": "long"}]}
    text = schema(
        items={"type": "array", "items": ["null", "int"]},
        pairs={"type": "map", "values": "double"},
        inner=inner,
        again=["null", "inner"],
        colour={"type": "enum", "name": "colour", "symbols": ["red"]},
        hash={"type": "fixed", "name": "hash", "size": 16},
        late="string",
    )
    found = json.loads(fields_of(text, pa.struct([("late", pa.string())])) or "null")
    assert [form for _, form, _ in found] == [
        ["array", ["union", "null", "number"]],
        ["map", "double"],
        ["record", "number"],
        ["union", "null", ["record", "number"]],
        "number",
        ["fixed", 16],
        "text",
    ]
    assert [at for at, _, _ in found] == [-1] * 6 + [0]


def test_a_column_that_no_field_has_needs_none() -> None:
    assert fields_of(schema(k="string"), pa.struct([("late", pa.int64())])) == '[[-1,"text",1]]'


@pytest.mark.parametrize(
    ("kind", "arrow"),
    [
        ("int", pa.int64()),
        ("int", pa.int16()),
        ("float", pa.float64()),
        ("long", pa.timestamp("us", "UTC")),
        (logical("timestamp-micros", "long"), pa.timestamp("us")),
        (logical("time-micros", "long"), pa.time64("us")),
        (decimal(type="bytes"), pa.decimal128(10, 2)),
        ({"type": "fixed", "name": "f", "size": 4}, pa.binary()),
        ({"type": "enum", "name": "e", "symbols": ["a"]}, pa.string()),
        (["int", "string"], pa.int32()),
        (["null"], pa.null()),
        ({"type": "array", "items": "int"}, pa.list_(pa.int32())),
        (
            {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]},
            pa.struct([("a", pa.int32())]),
        ),
    ],
)
def test_a_value_that_must_be_converted_or_has_parts_is_for_pythons_workers(
    kind: Any, arrow: pa.DataType
) -> None:
    assert fields_of(schema(v=kind), pa.struct([("v", arrow)])) is None


def test_a_schema_that_is_none_or_contains_itself_is_for_pythons_workers() -> None:
    wanted = pa.struct([("v", pa.string())])
    node = {"type": "record", "name": "n", "fields": [{"name": "next", "type": ["null", "n"]}]}
    for text in ("", "[]", '"string"', '{"type": "enum"}', schema(v="string", n=node)):
        assert fields_of(text, wanted) is None
    twice = [{"name": "v", "type": "string"}] * 2
    assert fields_of(json.dumps({"type": "record", "name": "r", "fields": twice}), wanted) is None
