from __future__ import annotations

import datetime
import json
import struct
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.format import avro_columns
from pyhudi.format.avro_bytes import encoder
from pyhudi.format.avro_columns import AvroColumns
from pyhudi.format.avro_values import decoder
from pyhudi.format.avro_writing import encode_columns
from pyhudi.format.schemas import avro_to_arrow, spark_to_avro

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


def test_what_is_encoded_here_is_decoded_by_another_library() -> None:
    kinds = {
        "flag": "boolean", "whole": "integer", "count": "long", "small": "float", "real": "double",
        "text": "string", "raw": "binary", "day": "date", "at": "timestamp",
        "local": "timestamp_ntz", "price": "decimal(10,2)",
    }  # fmt: skip
    fields = [{"name": n, "type": k, "nullable": True, "metadata": {}} for n, k in kinds.items()]
    for name, kind in (
        ("list", {"type": "array", "elementType": "long", "containsNull": True}),
        ("map", {"type": "map", "keyType": "string", "valueType": "double",
                 "valueContainsNull": True}),
        ("inner", {"type": "struct", "fields": fields[:3]}),
    ):  # fmt: skip
        fields.append({"name": name, "type": kind, "nullable": True, "metadata": {}})
    schema = spark_to_avro({"type": "struct", "fields": fields}, "t")
    utc = datetime.timezone.utc
    row = {
        "flag": True, "whole": -5, "count": -(1 << 63), "small": 0.5, "real": 1.25, "text": "ß",
        "raw": b"\x00", "day": datetime.date(1969, 12, 31),
        "at": datetime.datetime(2024, 1, 1, 0, 0, 0, 123456, utc),
        "local": datetime.datetime(1960, 1, 1), "price": Decimal("-1.50"),
        "list": [1, None], "map": [("k", 1.0), ("n", None)],
        "inner": {"flag": False, "whole": None, "count": 1 << 62},
    }  # fmt: skip
    for value in (row, dict.fromkeys(row)):
        out = bytearray()
        encoder(json.dumps(schema))(value, out)
        found = fastavro.schemaless_reader(BytesIO(bytes(out)), fastavro.parse_schema(schema), None)
        pairs = value["map"]
        assert found == {**value, "map": dict(pairs) if pairs else pairs}
        arrow = pa.array([value, None, value], avro_to_arrow_struct(schema))
        (by_columns,) = set(encode_columns({"x": arrow}, within(schema))) - {b"\x00"}
        assert by_columns == b"\x02" + bytes(out)
        again, end = decoder(json.dumps(schema))(bytes(out), 0)
        assert end == len(out)
        assert again["map"] == pairs


def avro_to_arrow_struct(schema: Any) -> pa.StructType:
    return pa.struct(list(avro_to_arrow(schema)))


def within(schema: Any) -> str:
    fields = [{"name": "x", "type": ["null", schema]}]
    return json.dumps({"type": "record", "name": "outer", "fields": fields})


@given(st.lists(st.tuples(st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
                          st.none() | st.text(max_size=9), st.none() | st.booleans())))  # fmt: skip
def test_columns_are_encoded_as_their_values_are(
    values: list[tuple[int | None, str | None, bool | None]],
) -> None:
    kinds = (("a", "long"), ("b", "string"), ("c", "boolean"))
    fields = [{"name": name, "type": ["null", kind]} for name, kind in kinds]
    schema = {"type": "record", "name": "r", "fields": fields}
    rows = [dict(zip("abc", value, strict=True)) for value in values]
    columns = {
        name: pa.array([row[name] for row in rows], kind)
        for name, kind in (("a", pa.int64()), ("b", pa.string()), ("c", pa.bool_()))
    }
    assert encode_columns(columns, json.dumps(schema)) == [encoded(schema, row) for row in rows]


def columns_of(
    schema: Any, values: list[Any], wanted: list[str] | None = None
) -> list[dict[str, Any]]:
    """The values as the decoder by columns gives them, with something in front of each."""
    data, starts, ends = b"", [], []
    for value in values:
        data += b"\xff\x80"
        starts.append(len(data))
        data += encoded(schema, value)
        ends.append(len(data))
    found = AvroColumns(json.dumps(schema)).decode(
        data, np.array(starts, np.int64), np.array(ends, np.int64), wanted
    )
    return pa.table(found).to_pylist()


def test_records_decoded_by_columns_are_those_decoded_one_by_one() -> None:
    nullable = ("count", "real", "text", "price", "again", "inner", "other")
    bare = {**ROW, **dict.fromkeys(nullable), "list": [], "map": {}}
    rows = [ROW, bare, {**ROW, "text": "", "count": 0, "price": Decimal("99999999.99")}, bare]
    found = columns_of(SCHEMA, rows)
    assert found == [{**row, "map": list(row["map"].items())} for row in rows]


@pytest.mark.parametrize("name", [field["name"] for field in SCHEMA["fields"]])
def test_a_wanted_field_is_decoded_without_the_others(name: str) -> None:
    nullable = ("count", "real", "text", "price", "again", "inner", "other")
    bare = {**ROW, **dict.fromkeys(nullable), "list": [], "map": {}}
    for rows in ([ROW, bare, ROW], [bare]):
        wanted = [{name: row[name]} for row in columns_of(SCHEMA, rows)]
        assert columns_of(SCHEMA, rows, [name]) == wanted


@given(st.lists(st.tuples(st.integers(-(1 << 63), (1 << 63) - 1), st.none() | st.text(max_size=9),
                          st.floats(allow_nan=False), st.none() | st.booleans())),
       st.sampled_from([1, 12, 1 << 18]))  # fmt: skip
def test_any_values_survive_the_decoder_by_columns(
    values: list[tuple[int, str | None, float, bool | None]], at_once_bytes: int
) -> None:
    kinds = (("a", "long"), ("b", ["null", "string"]), ("c", "double"), ("d", ["boolean", "null"]))
    fields = [{"name": name, "type": kind} for name, kind in kinds]
    schema = {"type": "record", "name": "r", "fields": fields}
    rows = [dict(zip("abcd", value, strict=True)) for value in values]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(avro_columns, "_AT_ONCE_BYTES", at_once_bytes)
        assert columns_of(schema, rows) == rows


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_record_that_ends_elsewhere_is_an_error_by_columns_too(cut: int) -> None:
    data = encoded(SCHEMA, ROW)
    columns = AvroColumns(json.dumps(SCHEMA))
    with pytest.raises((ValueError, IndexError)):
        columns.decode(data, np.array([0]), np.array([len(data) - cut]))
    with pytest.raises((ValueError, IndexError)):
        columns.decode(data[:-cut], np.array([0]), np.array([len(data) - cut]))
    with pytest.raises((ValueError, IndexError)):
        columns.decode(data[:-cut], np.array([0]), np.array([len(data) - cut]), ())


@pytest.mark.parametrize("kind", ["string", ["null", "string"]], ids=["bare", "union"])
def test_an_unwanted_text_with_a_length_below_0_is_an_error(kind: Any) -> None:
    fields = [{"name": "a", "type": kind}]
    columns = AvroColumns(json.dumps({"type": "record", "name": "r", "fields": fields}))
    data = b"\x02" * isinstance(kind, list) + b"\x01"
    with pytest.raises(ValueError, match="does not fit"):
        columns.decode(data, np.array([0]), np.array([len(data)]), ())


@pytest.mark.parametrize(
    "kind",
    [["null", "long"], {"type": "enum", "name": "kind", "symbols": ["A", "B"]}],
    ids=["union", "enum"],
)
def test_a_number_below_0_is_no_branch_and_no_symbol(kind: Any) -> None:
    with pytest.raises(IndexError, match="has no"):
        decoder(json.dumps(kind))(b"\x01\x02", 0)
