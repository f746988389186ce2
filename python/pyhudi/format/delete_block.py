"""Delete blocks: keys to delete, each with an ordering value (spec/log_files.md L5).

Workers read it, so this module and what it imports need only pyarrow.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from pyhudi.errors import UnsupportedTable
from pyhudi.format.avro_values import Decode, decoder, item_spans
from pyhudi.format.avro_writing import Encoded, joined, only_at, plain, same
from pyhudi.format.corruption import corrupt

RULE = "a delete block holds keys with ordering values (spec/log_files.md L5)"
VERSION = 3
_HEAD = ">ii"
_HEAD_BYTES = 8

#: the kinds of ordering values, in the order of the union's branches after null
_KINDS: tuple[tuple[str, Any], ...] = (
    ("boolean", "boolean"),
    ("int", "int"),
    ("long", "long"),
    ("float", "float"),
    ("double", "double"),
    ("bytes", "bytes"),
    ("string", "string"),
    ("date", "int"),
    (
        "decimal",
        {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15},
    ),
    ("time", "long"),
    ("timestamp", "long"),
)


@dataclass(frozen=True, slots=True)
class Deleted:
    """A key to delete, and the ordering values of the delete, each with its kind.

    Without ordering values, ``order`` is empty, the delete always wins.
    """

    key: str
    order: tuple[tuple[str, Any], ...]


def deleted_keys(content: bytes | memoryview[int], path: str) -> list[Deleted]:
    """The deletes of a block, in its order.

    ``UnsupportedTable`` for a block from before Hudi 0.14, which holds serialized Java objects;
    ``TableCorrupt`` with ``path`` for one that does not decode.
    """
    return [each for each, _ in _deletes(content, path)]


def delete_records(content: bytes | memoryview[int], path: str) -> list[bytes]:
    """The deletes of a block as the bytes of their records; errors as of ``deleted_keys``."""
    return [record for _, record in _deletes(content, path)]


def _deletes(content: bytes | memoryview[int], path: str) -> list[tuple[Deleted, bytes]]:
    try:
        version, size = struct.unpack_from(_HEAD, content)
        _check(version, path)
        data = bytes(content[_HEAD_BYTES : _HEAD_BYTES + size])
        if len(data) != size:
            raise ValueError(f"it announces {size} bytes and has {len(data)}")
        found = list(item_spans(_decoder(), data, 0))
        if any(each["key"] is None for each, _, _ in found):
            raise ValueError("a delete has no key")
    except (struct.error, IndexError, ValueError) as error:
        raise corrupt(path, RULE, f"a block does not decode ({error!r})") from error
    return [(Deleted(e["key"], _order(e["order"])), data[start:end]) for e, start, end in found]


def _check(version: int, path: str) -> None:
    if version == VERSION:
        return
    what = "which pyhudi does not know"
    if 0 < version < VERSION:
        what = "as Apache Hudi wrote them before 0.14: its content are Java objects"
    raise UnsupportedTable(
        f"{path} has a delete block of version {version}, {what}. Let Apache Hudi compact the "
        "table, then read it again.",
        feature=f"delete blocks of version {version}",
    )


def _order(value: dict[str, Any] | None) -> tuple[tuple[str, Any], ...]:
    if value is None:
        return ()
    ((kind, held),) = value.items()
    if kind != "several":
        return () if (kind, held) == ("int", 0) else ((kind, held),)
    parts: list[dict[str, Any] | None] = held or []
    if len(parts) == 1:
        return _order(parts[0])
    # Among several values an int 0 is one like others.
    return tuple(next(iter(each.items())) if each else ("null", None) for each in parts)


def _decoder() -> Decode:
    """Avro's bytes hold no names, so each wrapper's field is named after its kind here."""
    wrappers = [_record(f"{kind}_value", (kind, form)) for kind, form in _KINDS]
    names = [f"{kind}_value" for kind, _ in _KINDS]
    local = _record("local_value", ("date", "int"))
    several = ["null", {"type": "array", "items": ["null", *names, local]}]
    order = ["null", *wrappers, _record("several_values", ("several", several))]
    text = ["null", "string"]
    each = _record("delete", ("key", text), ("partition", text), ("order", order))
    return decoder(json.dumps(each))


def _record(name: str, *fields: tuple[str, Any]) -> dict[str, Any]:
    held = [{"name": field, "type": kind} for field, kind in fields]
    return {"type": "record", "name": name, "fields": held}


def delete_content(keys: pa.Array, partition: str, order: Sequence[pa.Array]) -> bytes:
    """The content of a block that deletes ``keys`` of one partition; ``deleted_keys`` reads it.

    ``order`` has the ordering columns, a value a key. A delete without a value, and every delete
    without ordering columns, wins in any case: it has the int 0, since Apache Hudi 0.15.0 reads no
    null. ``ValueError`` for a type that does not order. Values that are ``inexact`` come changed.
    """
    rows = len(keys)
    there = same(_branch(1), rows)
    paths = pa.array([partition] * rows, pa.string())
    values = _ordering(order, rows)
    record = joined([there, *plain("string", keys), there, *plain("string", paths), *values])
    return records_content(record.octets.tobytes(), rows)


def inexact(order: Sequence[pa.Array]) -> np.ndarray:
    """For each row whether ``delete_content`` would change its ordering values.

    It holds no null among several values, and of a decimal 15 digits before the point and after.
    """
    there = np.array([np.asarray(each.is_valid()) for each in order])
    found = np.asarray(there.any(axis=0) & ~there.all(axis=0))
    for each in order:
        if pa.types.is_decimal(each.type) and not _holds(each.type):
            wide = Context(prec=76)
            values = each.to_pylist()
            cut = [v is not None and not _is_held(v, wide) for v in values]
            found |= np.array(cut, np.bool_)
    return found


def _holds(kind: pa.Decimal128Type) -> bool:
    """Whether a block holds each decimal of a type."""
    return bool(kind.scale <= _DECIMAL_SCALE and kind.precision - kind.scale <= _DECIMAL_SCALE)


def _is_held(value: Decimal, wide: Context) -> bool:
    scaled = value.scaleb(_DECIMAL_SCALE, wide)
    return scaled == scaled.to_integral_value(context=wide) and abs(value) < 10**_DECIMAL_SCALE


def records_content(records: bytes, count: int) -> bytes:
    """The content of a block of ``count`` deletes, whose records follow one another."""
    # A list is its number of items, the items, and an end of 0.
    head = joined(plain("long", pa.array([count]))).octets.tobytes() if count else b""
    data = head + records + b"\x00"
    return struct.pack(_HEAD, VERSION, len(data)) + data


def _ordering(order: Sequence[pa.Array], rows: int) -> list[Encoded]:
    """The rows' ordering values: one, a list of several, or the int 0 where there is none."""
    there = np.zeros(rows, np.bool_)
    for each in order:
        there |= np.asarray(each.is_valid())
    held = [each.filter(pa.array(there)) for each in order]
    count = int(there.sum())
    if len(order) > 1:
        head = _branch(len(_KINDS) + 1) + _branch(1) + bytes([2 * len(order)])
        parts = [p for each in held for p in _wrapped(each)]
        inner = [same(head, count), *parts, same(b"\x00", count)]
    else:
        inner = [p for each in held for p in _wrapped(each)]
    none = same(_branch(2) + b"\x00", rows - count)
    return [*only_at(there, inner), *only_at(~there, [none])]


def _wrapped(values: pa.Array) -> list[Encoded]:
    """The union of null and the wrapper for the type of ``values``."""
    kind, form = _form_of(values.type)
    number = [name for name, _ in _KINDS].index(kind) + 1
    there = np.asarray(values.is_valid())
    held = values if there.all() else values.drop_null()
    inner = _decimals(held) if kind == "decimal" else plain(form, held)
    branch = np.where(there, np.uint8(2 * number), np.uint8(0)).astype(np.uint8)
    return [Encoded(branch, np.ones(len(values), np.int64)), *only_at(there, inner)]


def _form_of(kind: pa.DataType) -> tuple[str, str]:
    """The wrapper of an Arrow type, and the plain Avro type in it."""
    for fits, found in _WRAPPERS:
        if fits(kind):
            return found
    raise ValueError(f"a column of the type {kind} does not order rows")


def _decimals(held: pa.Array) -> list[Encoded]:
    # What the scale does not hold is rounded up, so that a delete wins a tie.
    wide = Context(prec=76, rounding=ROUND_CEILING)
    scaled = (each.scaleb(_DECIMAL_SCALE, wide) for each in held.to_pylist())
    numbers = [int(each.to_integral_value(context=wide)) for each in scaled]
    raw = [each.to_bytes(each.bit_length() // 8 + 1, "big", signed=True) for each in numbers]
    return plain("bytes", pa.array(raw, pa.binary()))


def _branch(number: int) -> bytes:
    """The number of a union's branch in Avro's form; below 64."""
    return bytes([2 * number])


_DECIMAL_SCALE = 15
# Apache Hudi's readers compare days and times as numbers, and fail on their own wrappers.
_WRAPPERS = (
    (pa.types.is_boolean, ("boolean", "boolean")),
    (lambda kind: pa.types.is_integer(kind) and kind.bit_width < 64, ("int", "int")),
    (pa.types.is_integer, ("long", "long")),
    (pa.types.is_float32, ("float", "float")),
    (pa.types.is_float64, ("double", "double")),
    (pa.types.is_binary, ("bytes", "bytes")),
    (pa.types.is_string, ("string", "string")),
    (pa.types.is_date32, ("int", "int")),
    (pa.types.is_decimal, ("decimal", "bytes")),
    (pa.types.is_timestamp, ("long", "long")),
)
