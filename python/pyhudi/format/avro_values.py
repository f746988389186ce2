"""Decodes bare Avro records to plain values, by a schema that comes with them.

Workers read change logs with it: they have pyarrow, and no library for Avro. Dates stay days,
times microseconds, and maps lists of pairs, as ``pyarrow.array`` takes them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import partial
from typing import Any

#: (bytes, position) -> (value, position after it); ``IndexError`` or ``struct.error`` at the end
Decode = Callable[[bytes, int], tuple[Any, int]]

# Texts: a compiled form cannot be sent to workers by value.
_FLOAT, _DOUBLE = "<f", "<d"
_MILLIS = ("timestamp-millis", "local-timestamp-millis")


def decoder(schema: str) -> Decode:
    """The decoder of one value of an Avro schema's JSON; ``ValueError`` for an unknown type."""
    return _decoder(json.loads(schema), {}, "")


def _decoder(kind: Any, named: dict[str, Decode], namespace: str) -> Decode:
    if isinstance(kind, list):
        return _union([_decoder(each, named, namespace) for each in kind])
    if isinstance(kind, str):
        if kind in _PLAIN:
            return _PLAIN[kind]
        return _later(named, kind if "." in kind else f"{namespace}.{kind}")
    name = kind["type"]
    if not isinstance(name, str):
        return _decoder(name, named, namespace)
    logical = kind.get("logicalType")
    if name in ("record", "enum", "fixed"):
        return _named(kind, named, namespace)
    if name == "array":
        return partial(_items, _decoder(kind["items"], named, namespace))
    if name == "map":
        pair = partial(_pair, _decoder(kind["values"], named, namespace))
        return partial(_items, pair)
    if logical == "decimal":
        return partial(_decimal, _bytes, int(kind.get("scale", 0)))
    if logical in _MILLIS:
        return _millis
    return _decoder(name, named, namespace)


def _named(kind: Mapping[str, Any], named: dict[str, Decode], namespace: str) -> Decode:
    name = kind["name"]
    space = name.rpartition(".")[0] or kind.get("namespace") or namespace
    full = f"{space}.{name.rpartition('.')[2]}"
    if kind["type"] == "record":
        # A record may name itself inside, so its name is there before its fields are.
        fields: list[tuple[str, Decode]] = []
        named[full] = partial(_record, fields)
        fields += [(f["name"], _decoder(f["type"], named, space)) for f in kind["fields"]]
    elif kind["type"] == "enum":
        named[full] = partial(_symbol, tuple(kind["symbols"]))
    else:
        raw: Decode = partial(_fixed, int(kind["size"]))
        scaled = kind.get("logicalType") == "decimal"
        named[full] = partial(_decimal, raw, int(kind.get("scale", 0))) if scaled else raw
    return named[full]


def _later(named: Mapping[str, Decode], full: str) -> Decode:
    short = full.rpartition(".")[2]
    for name in (full, *(each for each in named if each.rpartition(".")[2] == short)):
        if name in named:
            return named[name]
    raise ValueError(f"the schema uses the type {full} without saying what it is")


def _union(branches: list[Decode]) -> Decode:
    def decode(data: bytes, at: int) -> tuple[Any, int]:
        branch, at = _long(data, at)
        if branch < 0:
            raise IndexError(f"a union has no branch {branch}")
        return branches[branch](data, at)

    return decode


def _record(fields: list[tuple[str, Decode]], data: bytes, at: int) -> tuple[Any, int]:
    found = {}
    for name, decode in fields:
        found[name], at = decode(data, at)
    return found, at


def _long(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    value, shift = byte & 0x7F, 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = _long(data, at)
    end = at + length
    if length < 0 or end > len(data):
        raise IndexError(f"{length} bytes do not fit")
    return data[at:end], end


def _fixed(size: int, data: bytes, at: int) -> tuple[bytes, int]:
    if at + size > len(data):
        raise IndexError(f"{size} bytes do not fit")
    return data[at : at + size], at + size


def _text(data: bytes, at: int) -> tuple[str, int]:
    found, at = _bytes(data, at)
    return found.decode("utf-8"), at


def _decimal(raw: Decode, scale: int, data: bytes, at: int) -> tuple[Decimal, int]:
    found, at = raw(data, at)
    return Decimal(int.from_bytes(found, "big", signed=True)).scaleb(-scale), at


def _millis(data: bytes, at: int) -> tuple[int, int]:
    found, at = _long(data, at)
    return found * 1000, at


def _flag(data: bytes, at: int) -> tuple[bool, int]:
    return bool(data[at]), at + 1


def _null(data: bytes, at: int) -> tuple[None, int]:
    return None, at


def _unpacked(form: str, size: int, data: bytes, at: int) -> tuple[float, int]:
    return struct.unpack_from(form, data, at)[0], at + size


def _symbol(symbols: tuple[str, ...], data: bytes, at: int) -> tuple[str, int]:
    found, at = _long(data, at)
    if found < 0:
        raise IndexError(f"an enum has no symbol {found}")
    return symbols[found], at


def _pair(value: Decode, data: bytes, at: int) -> tuple[tuple[str, Any], int]:
    key, at = _text(data, at)
    found, at = value(data, at)
    return (key, found), at


def _items(item: Decode, data: bytes, at: int) -> tuple[list[Any], int]:
    found = []
    count, at = _long(data, at)
    while count:
        if count < 0:
            _, at = _long(data, at)
        for _ in range(abs(count)):
            each, at = item(data, at)
            found.append(each)
        count, at = _long(data, at)
    return found, at


def item_spans(item: Decode, data: bytes, at: int) -> Iterator[tuple[Any, int, int]]:
    """The items of the array at ``at``, each with where its bytes begin and end."""
    count, at = _long(data, at)
    while count:
        if count < 0:
            _, at = _long(data, at)
        for _ in range(abs(count)):
            start = at
            each, at = item(data, at)
            yield each, start, at
        count, at = _long(data, at)


_PLAIN: Mapping[str, Decode] = {
    "null": _null,
    "boolean": _flag,
    "int": _long,
    "long": _long,
    "float": partial(_unpacked, _FLOAT, 4),
    "double": partial(_unpacked, _DOUBLE, 8),
    "string": _text,
    "bytes": _bytes,
}
