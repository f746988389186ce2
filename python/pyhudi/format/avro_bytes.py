"""Encodes plain values as bare Avro, by the schemas that pyhudi makes (``format/schemas.py``).

Workers write change logs with it: they have pyarrow, and no library for Avro. The inverse is
``avro_values.py``; dates may be days or dates, times microseconds or datetimes.
"""

from __future__ import annotations

import datetime
import json
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import Any

#: (value, the bytes that it is added to); ``ValueError`` or ``TypeError`` if it does not fit
Encode = Callable[[Any, bytearray], None]

_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_MICRO = datetime.timedelta(microseconds=1)


def encoder(schema: str) -> Encode:
    """The encoder of one value of an Avro schema's JSON; ``ValueError`` for an unknown type."""
    return _encoder(json.loads(schema), {})


def _encoder(kind: Any, named: dict[str, Encode]) -> Encode:
    if isinstance(kind, list):
        return _nullable(kind, named)
    if isinstance(kind, str):
        name = kind.rpartition(".")[2]
        if kind not in _PLAIN and name not in named:
            raise ValueError(f"the schema uses the type {kind} without saying what it is")
        return _PLAIN.get(kind) or named[name]
    name, logical = kind["type"], kind.get("logicalType")
    if not isinstance(name, str):
        return _encoder(name, named)
    if name == "record":
        fields: list[tuple[str, Encode]] = []
        # The names are known by their last part: pyhudi's schemas use no two of them.
        named[kind["name"].rpartition(".")[2]] = partial(_record, fields)
        fields += [(field["name"], _encoder(field["type"], named)) for field in kind["fields"]]
        return partial(_record, fields)
    if name == "array":
        return partial(_items, _encoder(kind["items"], named))
    if name == "map":
        return partial(_items, partial(_pair, _encoder(kind["values"], named)))
    if name == "fixed":
        form = partial(_decimal, int(kind["scale"]), int(kind["size"]))
        return form if logical == "decimal" else _raw
    if logical == "date":
        return _day
    if logical in ("timestamp-micros", "local-timestamp-micros"):
        return _micros
    if logical is not None:
        raise ValueError(f"values of the type {logical} are not written")
    return _encoder(name, named)


def _nullable(branches: list[Any], named: dict[str, Encode]) -> Encode:
    if len(branches) != 2 or "null" not in branches:
        raise ValueError(f"the union {branches} is not one of a type with null")
    null = branches.index("null")
    inner = _encoder(branches[1 - null], named)
    none, some = bytes([2 * null]), bytes([2 * (1 - null)])

    def encode(value: Any, out: bytearray) -> None:
        if value is None:
            out += none
        else:
            out += some
            inner(value, out)

    return encode


def _record(fields: list[tuple[str, Encode]], value: Mapping[str, Any], out: bytearray) -> None:
    for name, encode in fields:
        encode(value.get(name), out)


def put_long(value: int, out: bytearray) -> None:
    """Add a number in Avro's variable length."""
    left = (value << 1) ^ (value >> 63)
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)


def _flag(value: bool, out: bytearray) -> None:
    out.append(int(value))


def _packed(form: str, value: float, out: bytearray) -> None:
    out += struct.pack(form, value)


def _raw(value: bytes, out: bytearray) -> None:
    out += value


def _bytes(value: bytes, out: bytearray) -> None:
    put_long(len(value), out)
    out += value


def _text(value: str, out: bytearray) -> None:
    _bytes(value.encode("utf-8"), out)


def _decimal(scale: int, size: int, value: Decimal, out: bytearray) -> None:
    digits = int(value.scaleb(scale))
    out += digits.to_bytes(size, "big", signed=True)


def _day(value: int | datetime.date, out: bytearray) -> None:
    put_long(value if isinstance(value, int) else value.toordinal() - _EPOCH_DAY, out)


def _micros(value: int | datetime.datetime, out: bytearray) -> None:
    if isinstance(value, datetime.datetime):
        zoned = value if value.tzinfo else value.replace(tzinfo=datetime.timezone.utc)
        value = (zoned - _EPOCH) // _MICRO
    put_long(value, out)


def _pair(encode: Encode, value: tuple[str, Any], out: bytearray) -> None:
    _text(value[0], out)
    encode(value[1], out)


def _items(encode: Encode, value: Any, out: bytearray) -> None:
    if value:
        put_long(len(value), out)
        for each in value:
            encode(each, out)
    out.append(0)


_PLAIN: Mapping[str, Encode] = {
    "boolean": _flag,
    "int": put_long,
    "long": put_long,
    "float": partial(_packed, "<f"),
    "double": partial(_packed, "<d"),
    "string": _text,
    "bytes": _bytes,
}
