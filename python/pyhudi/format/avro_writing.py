"""Encodes the rows of Arrow columns as bare Avro records, column by column.

The inverse of ``avro_columns.py``, for the schemas that pyhudi makes. Each column gives the bytes
of all its values and their lengths, perhaps in several parts. The parts are put together once,
record by record. Lists and maps are encoded value by value (``avro_bytes.py``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.format.avro_bytes import encoder

Octets = npt.NDArray[np.uint8]
Lengths = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Encoded:
    """The bytes of values, one after the other, and the length of each."""

    octets: Octets
    lengths: Lengths


def encode_columns(columns: Mapping[str, pa.Array], schema: str) -> list[bytes]:
    """A record of ``schema``, Avro's JSON, for each row; ``KeyError`` if a field has no column."""
    found = joined(_parts(columns, schema))
    raw, ends = found.octets.tobytes(), np.cumsum(found.lengths).tolist()
    return [raw[start:end] for start, end in zip([0, *ends][:-1], ends, strict=True)]


def framed_columns(columns: Mapping[str, pa.Array], schema: str) -> bytes:
    """The same records one after the other, each behind its length as a big-endian int32."""
    parts = _parts(columns, schema)
    lengths = np.sum([part.lengths for part in parts], axis=0)
    heads = Encoded(lengths.astype(">i4").view(np.uint8), np.full(len(lengths), 4, np.int64))
    return joined([heads, *parts]).octets.tobytes()


def _parts(columns: Mapping[str, pa.Array], schema: str) -> list[Encoded]:
    named: dict[str, Any] = {}
    fields = json.loads(schema)["fields"]
    return [part for f in fields for part in _value(f["type"], columns[f["name"]], named)]


def plain(kind: str, array: pa.Array) -> list[Encoded]:
    """The parts of a column without nulls whose values are of Avro's plain type ``kind``."""
    return _PLAIN[kind](array)


def same(octets: bytes, rows: int) -> Encoded:
    """The same bytes for each of ``rows`` values."""
    held = np.tile(np.frombuffer(octets, np.uint8), rows)
    return Encoded(held, np.full(rows, len(octets), np.int64))


def only_at(there: npt.NDArray[np.bool_], parts: Sequence[Encoded]) -> list[Encoded]:
    """``parts`` of the rows ``there``, with nothing for the other rows."""
    found = []
    for part in parts:
        lengths = np.zeros(len(there), np.int64)
        lengths[there] = part.lengths
        found.append(Encoded(part.octets, lengths))
    return found


def _value(kind: Any, array: pa.Array, named: dict[str, Any]) -> list[Encoded]:
    """The parts of a column's values, in their order."""
    if isinstance(kind, list):
        return _nullable(kind, array, named)
    if isinstance(kind, str) and kind not in _PLAIN:
        kind = named[kind.rpartition(".")[2]]
    if isinstance(kind, str):
        return _PLAIN[kind](array)
    name, logical = kind["type"], kind.get("logicalType")
    if name == "record":
        named[kind["name"].rpartition(".")[2]] = kind
        return [
            part
            for field in kind["fields"]
            for part in _value(field["type"], array.field(field["name"]), named)
        ]
    if name == "fixed" and logical == "decimal":
        return [_decimals(array, kind["size"])]
    if name in ("array", "map"):
        return [_slowly(kind, array)]
    if name in _PLAIN and logical in (None, *_NUMBERS):
        return _PLAIN[name](array)
    raise ValueError(f"values of the type {name} ({logical}) are not written")


def _nullable(kinds: list[Any], array: pa.Array, named: dict[str, Any]) -> list[Encoded]:
    null = kinds.index("null")
    if len(kinds) != 2:
        raise ValueError(f"the union {kinds} is not one of a type with null")
    there = np.asarray(array.is_valid())
    inner = _value(kinds[1 - null], array if there.all() else array.drop_null(), named)
    branch = np.where(there, np.uint8(2 * (1 - null)), np.uint8(2 * null))
    branches = Encoded(branch.astype(np.uint8), np.ones(len(array), np.int64))
    return [branches, *only_at(there, inner)]


def joined(parts: Sequence[Encoded]) -> Encoded:
    """The values of all parts, row by row."""
    lengths = np.sum([part.lengths for part in parts], axis=0)
    starts = np.cumsum(lengths) - lengths
    octets = np.empty(int(lengths.sum()), np.uint8)
    for part in parts:
        if len(part.octets) == len(starts) and (part.lengths == 1).all():
            octets[starts] = part.octets
            starts = starts + 1
            continue
        own = np.cumsum(part.lengths) - part.lengths
        places = np.repeat(starts - own, part.lengths) + np.arange(len(part.octets))
        octets[places] = part.octets
        starts = starts + part.lengths
    return Encoded(octets, lengths)


def _numbers(values: Lengths) -> Encoded:
    """Numbers in Avro's variable length."""
    left = ((values << 1) ^ (values >> 63)).view(np.uint64)
    most = max(1, -(-int(left.max(initial=0)).bit_length() // 7))
    if most == 1:
        return Encoded(left.astype(np.uint8), np.ones(len(values), np.int64))
    parts = left[:, None] >> np.arange(0, 7 * most, 7, dtype=np.uint64)
    more = parts[:, 1:] > 0
    octets = (parts & np.uint64(0x7F)).astype(np.uint8)
    octets[:, :-1] |= more.view(np.uint8) << np.uint8(7)
    there = np.insert(more, 0, True, axis=1)
    return Encoded(octets[there], there.sum(axis=1))


def _longs(array: pa.Array) -> list[Encoded]:
    if pa.types.is_date32(array.type):
        array = array.view(pa.int32())
    elif pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("us", array.type.tz)).view(pa.int64())
    return [_numbers(np.asarray(array).astype(np.int64))]


def _floats(array: pa.Array) -> list[Encoded]:
    return _rows(np.ascontiguousarray(np.asarray(array.cast(pa.float32()), "<f4")))


def _doubles(array: pa.Array) -> list[Encoded]:
    return _rows(np.ascontiguousarray(np.asarray(array.cast(pa.float64()), "<f8")))


def _flags(array: pa.Array) -> list[Encoded]:
    return _rows(np.asarray(array).astype(np.uint8))


def _rows(values: npt.NDArray[Any]) -> list[Encoded]:
    size = values.dtype.itemsize
    return [Encoded(values.view(np.uint8), np.full(len(values), size, np.int64))]


def _texts(array: pa.Array) -> list[Encoded]:
    raw = array.cast(pa.large_binary())
    _, offsets, data = raw.buffers()
    bounds = np.frombuffer(offsets, np.int64)[raw.offset : raw.offset + len(raw) + 1]
    held = np.frombuffer(data, np.uint8) if data is not None else _EMPTY
    lengths = np.diff(bounds)
    octets = held[bounds[0] : bounds[-1]] if len(bounds) else _EMPTY
    return [_numbers(lengths), Encoded(octets, lengths)]


def _decimals(array: pa.Array, size: int) -> Encoded:
    """Arrow's little-endian numbers of 16 bytes as big-endian ones of ``size``."""
    held = np.frombuffer(array.buffers()[1], np.uint8).reshape(-1, 16)
    rows = held[array.offset : array.offset + len(array), :size][:, ::-1]
    return Encoded(np.ascontiguousarray(rows).reshape(-1), np.full(len(array), size, np.int64))


def _slowly(kind: Any, array: pa.Array) -> Encoded:
    encode, values = encoder(json.dumps(kind)), []
    for value in array.to_pylist():
        out = bytearray()
        encode(value, out)
        values.append(bytes(out))
    octets = np.frombuffer(b"".join(values), np.uint8)
    return Encoded(octets, np.array([len(each) for each in values], np.int64))


_EMPTY = np.zeros(0, np.uint8)
_NUMBERS = (
    "date",
    "timestamp-micros",
    "local-timestamp-micros",
)
_PLAIN = {
    "boolean": _flags,
    "int": _longs,
    "long": _longs,
    "float": _floats,
    "double": _doubles,
    "string": _texts,
    "bytes": _texts,
}
