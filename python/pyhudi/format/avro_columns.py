"""Decodes many bare Avro records at once, column by column, into Arrow.

Each field is read for all records together: ``at`` has the position of each record and moves on. A
log of 20,000 changes takes a twentieth of the time that its records take one by one. Lists and maps
are the exception: their values are decoded by ``avro_values.py``.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.format.avro_values import decoder
from pyhudi.format.schemas import avro_to_arrow

Octets = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]

#: of texts that are copied together; the processor's cache holds the index for them
_AT_ONCE_BYTES: Final = 1 << 18
_MILLIS = ("timestamp-millis", "local-timestamp-millis")


class AvroColumns:
    """The decoder of one schema's records."""

    def __init__(self, schema: str) -> None:
        """``ValueError`` if ``schema`` is no record's."""
        self._record = json.loads(schema)
        if not isinstance(self._record, dict) or self._record.get("type") != "record":
            raise ValueError("the schema is not that of a record")
        self._named: dict[str, Any] = {}

    @property
    def names(self) -> list[str]:
        """The names of the fields."""
        return [field["name"] for field in self._record["fields"]]

    @property
    def defaults(self) -> list[str]:
        """The names of the fields with a default other than null."""
        fields = self._record["fields"]
        return [field["name"] for field in fields if field.get("default") is not None]

    def decode(
        self,
        data: bytes | memoryview[int],
        starts: Positions,
        ends: Positions,
        wanted: Collection[str] | None = None,
    ) -> dict[str, pa.Array]:
        """The fields of the records that begin at ``starts``, by name; the ``wanted`` ones if told.

        ``ValueError`` or ``IndexError`` if one does not end where ``ends`` says.
        """
        octets, found = np.frombuffer(data, np.uint8), {}
        at = starts.astype(np.int64, copy=True)
        for field in self._fields():
            if wanted is None or field["name"] in wanted:
                found[field["name"]] = self._read(field["type"], octets, at)
            else:
                self._skip(field["type"], octets, at)
        if not np.array_equal(at, ends):
            raise ValueError("a record does not end where the next one begins")
        return found

    def _fields(self) -> Any:
        self._remember(self._record)
        return self._record["fields"]

    def _remember(self, kind: dict[str, Any]) -> None:
        self._named[kind["name"].rpartition(".")[2]] = kind

    def _read(self, kind: Any, data: Octets, at: Positions) -> pa.Array:
        """One value for each position in ``at``, which moves on to the ends of the values."""
        if isinstance(kind, list):
            return self._union(kind, data, at)
        if isinstance(kind, str):
            if kind in _PLAIN:
                return _PLAIN[kind](data, at)
            return self._read(self._named[kind.rpartition(".")[2]], data, at)
        name, logical = kind["type"], kind.get("logicalType")
        if not isinstance(name, str):
            return self._read(name, data, at)
        if name in ("record", "enum", "fixed"):
            self._remember(kind)
        if name == "record":
            parts = [self._read(field["type"], data, at) for field in kind["fields"]]
            return pa.StructArray.from_arrays(parts, [field["name"] for field in kind["fields"]])
        if name == "enum":
            return pa.array(kind["symbols"], pa.string()).take(pa.array(_longs(data, at)))
        if name == "fixed":
            raw = _fixed(data, at, kind["size"])
            return _decimals(raw, kind) if logical == "decimal" else _binaries(raw)
        if name in ("array", "map") or (logical == "decimal" and name == "bytes"):
            return self._slowly(kind, data, at)
        if logical == "date":
            return pa.array(_longs(data, at).astype(np.int32)).view(pa.date32())
        if logical in _TIMES:
            scale = 1000 if logical in _MILLIS else 1
            return pa.array(_longs(data, at) * scale).view(_TIMES[logical])
        return self._read(name, data, at)

    def _skip(self, kind: Any, data: Octets, at: Positions) -> None:
        """Move ``at`` on to the ends of values; those of texts and numbers are not built."""
        if isinstance(kind, list):
            branch = _branches(kind, data, at)
            for number, each in enumerate(kind):
                mask = branch == number
                # Also a branch that no value has may define a type that others name.
                inside = at if mask.all() else at[mask]
                self._skip(each, data, inside)
                at[mask] = inside
        elif kind in ("string", "bytes"):
            at += _sizes(data, at)
        elif isinstance(kind, dict) and kind["type"] in ("int", "long"):
            _longs(data, at)
        else:
            self._read(kind, data, at)

    def _union(self, kinds: list[Any], data: Octets, at: Positions) -> pa.Array:
        branch = _branches(kinds, data, at)
        found: pa.Array | None = None
        for number, kind in enumerate(kinds):
            if kind == "null":
                continue
            if found is not None:
                raise ValueError(f"the union {kinds} is not one of a type with null")
            mask = branch == number
            if mask.all():
                found = self._read(kind, data, at)
                continue
            inside = at[mask]
            values = self._read(kind, data, inside)
            at[mask] = inside
            picks = np.where(mask, np.cumsum(mask) - 1, 0)
            found = values.take(pa.array(picks, mask=~mask))
        return found if found is not None else pa.nulls(len(at))

    def _slowly(self, kind: Any, data: Octets, at: Positions) -> pa.Array:
        known = [each for name, each in self._named.items() if name != self._record["name"]]
        decode = decoder(json.dumps(_with_names(kind, known)))
        raw, values = data.tobytes(), []
        for number, position in enumerate(at.tolist()):
            value, at[number] = decode(raw, position)
            values.append(value)
        field = {"name": "x", "type": _with_names(kind, known)}
        arrow = avro_to_arrow({"type": "record", "name": "r", "fields": [field]})
        return pa.array(values, arrow.field(0).type)


def _with_names(kind: Any, known: list[Any]) -> Any:
    """``kind`` with the definitions of the named types that it uses."""
    by_name = {each["name"].rpartition(".")[2]: each for each in known}

    def whole(part: Any) -> Any:
        if isinstance(part, str):
            return (
                whole(by_name.pop(name)) if (name := part.rpartition(".")[2]) in by_name else part
            )
        if isinstance(part, list):
            return [whole(each) for each in part]
        if part.get("name"):
            by_name.pop(part["name"].rpartition(".")[2], None)
        keys = ("type", "items", "values")
        found = {**part, **{key: whole(part[key]) for key in keys if key in part}}
        if "fields" in part:
            found["fields"] = [{**f, "type": whole(f["type"])} for f in part["fields"]]
        return found

    return whole(kind)


def _longs(data: Octets, at: Positions) -> Positions:
    """Numbers in Avro's variable length."""
    octet = data[at]
    at += 1
    raw = (octet & 0x7F).astype(np.uint64)
    left = np.flatnonzero(octet & 0x80)
    shift = 7
    while len(left):
        if shift > 63:
            raise ValueError("a number has more than ten bytes")
        octet = data[at[left]]
        at[left] += 1
        raw[left] |= (octet & 0x7F).astype(np.uint64) << np.uint64(shift)
        left = left[(octet & 0x80) != 0]
        shift += 7
    half = (raw >> np.uint64(1)).astype(np.int64)
    return half ^ -(raw & np.uint64(1)).astype(np.int64)


def _fixed(data: Octets, at: Positions, size: int) -> Octets:
    """``size`` bytes of each record, as rows."""
    found: Octets = data[at[:, None] + np.arange(size)]
    at += size
    return found


def _numbers(data: Octets, at: Positions, form: str) -> pa.Array:
    raw = np.ascontiguousarray(_fixed(data, at, np.dtype(form).itemsize))
    return pa.array(raw.view(form).reshape(len(at)))


def _flags(data: Octets, at: Positions) -> pa.Array:
    return pa.array(_fixed(data, at, 1)[:, 0] != 0)


def _branches(kinds: list[Any], data: Octets, at: Positions) -> Positions:
    """For each value of a union the number of its type."""
    branch = _longs(data, at)
    if ((branch < 0) | (branch >= len(kinds))).any():
        raise ValueError("a union has no such branch")
    return branch


def _sizes(data: Octets, at: Positions) -> Positions:
    """The lengths of values that have one."""
    sizes = _longs(data, at)
    if (sizes < 0).any() or (len(sizes) and (at + sizes).max() > len(data)):
        raise ValueError("a text does not fit into its record")
    return sizes


def _spans(data: Octets, at: Positions) -> tuple[pa.Buffer, pa.Buffer]:
    """The offsets and the bytes of values with a length."""
    sizes = _sizes(data, at)
    offsets = np.zeros(len(at) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    octets = np.empty(offsets[-1], np.uint8)
    begins, first = at - offsets[:-1], 0
    # An index takes eight bytes a byte, so some rows at a time.
    while first < len(at):
        most = np.searchsorted(offsets, offsets[first] + _AT_ONCE_BYTES, side="right")
        last = max(first + 1, int(most) - 1)
        low, high = offsets[first], offsets[last]
        places = np.repeat(begins[first:last], sizes[first:last]) + np.arange(low, high)
        octets[low:high] = data[places]
        first = last
    at += sizes
    return pa.py_buffer(offsets), pa.py_buffer(octets)


def _texts(data: Octets, at: Positions) -> pa.Array:
    offsets, octets = _spans(data, at)
    found = pa.StringArray.from_buffers(len(at), offsets, octets)
    found.validate(full=True)
    return found


def _blobs(data: Octets, at: Positions) -> pa.Array:
    offsets, octets = _spans(data, at)
    return pa.Array.from_buffers(pa.binary(), len(at), [None, offsets, octets])


def _binaries(raw: Octets) -> pa.Array:
    rows, size = raw.shape
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(size)
    octets = pa.py_buffer(np.ascontiguousarray(raw))
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), octets])


def _decimals(raw: Octets, kind: dict[str, Any]) -> pa.Array:
    """Big-endian numbers of any size as Arrow's little-endian ones of 16 bytes."""
    rows, size = raw.shape
    wide = np.where(raw[:, :1] & 0x80, np.uint8(0xFF), np.uint8(0)).repeat(16, axis=1)
    wide[:, : min(size, 16)] = raw[:, ::-1][:, :16]
    form = pa.decimal128(kind["precision"], kind.get("scale", 0))
    return pa.Array.from_buffers(form, rows, [None, pa.py_buffer(np.ascontiguousarray(wide))])


_TIMES = {
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-millis": pa.timestamp("us"),
}
_PLAIN = {
    "null": lambda data, at: pa.nulls(len(at)),
    "boolean": _flags,
    "int": lambda data, at: pa.array(_longs(data, at)).cast(pa.int32()),
    "long": lambda data, at: pa.array(_longs(data, at)),
    "float": lambda data, at: _numbers(data, at, "<f4"),
    "double": lambda data, at: _numbers(data, at, "<f8"),
    "string": _texts,
    "bytes": _blobs,
}
