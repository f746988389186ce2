"""Avro object container files that hold one record, the form of Hudi's plans and metadata.

This module reads the container itself, so that a writer's schema is parsed once per distinct text
and not once per file: timelines repeat a few schemas thousands of times. Values have the writer's
field names; callers take the fields that they know, as in Avro's resolution by name.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from io import BytesIO
from typing import Any

import fastavro

from pyhudi.format.corruption import corrupt

MAGIC = b"Obj\x01"
_RULE = "a timeline file is one Avro record in an object container"
_CODECS = ("null", "deflate")


@lru_cache(maxsize=64)
def packaged_schema(name: str) -> dict[str, Any]:
    """The Avro schema of Apache Hudi 1.2.0 called ``name``, e.g. ``HoodieCleanerPlan``."""
    text = (files("pyhudi.format") / "avro" / f"{name}.avsc").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


@lru_cache(maxsize=64)
def _packaged(name: str) -> tuple[Any, bytes, bytes]:
    """(parsed schema, container header, sync marker) of a packaged schema."""
    schema = packaged_schema(name)
    text = json.dumps(schema, separators=(",", ":")).encode()
    # Any 16 bytes can be the marker; with a hash of the schema equal records give equal files.
    sync = hashlib.md5(text, usedforsecurity=False).digest()
    entries = ((b"avro.schema", text), (b"avro.codec", b"null"))
    header = MAGIC + _long(len(entries))
    for key, value in entries:
        header += _long(len(key)) + key + _long(len(value)) + value
    return fastavro.parse_schema(schema), header + _long(0) + sync, sync


@lru_cache(maxsize=256)
def _parsed(text: bytes) -> Any:
    return fastavro.parse_schema(json.loads(text))


def is_avro(data: bytes) -> bool:
    """Whether ``data`` begins like an Avro object container."""
    return data[:4] == MAGIC


def read_record(data: bytes, path: str) -> dict[str, Any]:
    """The first record of the container, as a dict by field name.

    ``TableCorrupt`` if it is not a container, is cut short, or has no record.
    """
    try:
        return _read(data)
    except Exception as cause:  # errors of fastavro, struct, zlib and json
        detail = f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
        raise corrupt(path, _RULE, f"{len(data)} bytes do not decode ({detail})") from cause


def _read(data: bytes) -> dict[str, Any]:
    if not is_avro(data):
        raise ValueError("the magic bytes are missing")
    meta: dict[bytes, bytes] = {}
    count, at = _read_long(data, 4)
    while count:
        if count < 0:
            _, at = _read_long(data, at)
        for _ in range(abs(count)):
            key, at = _read_bytes(data, at)
            meta[key], at = _read_bytes(data, at)
        count, at = _read_long(data, at)
    sync, at = data[at : at + 16], at + 16
    records, at = _read_long(data, at)
    if records < 1:
        raise ValueError("there is no record")
    block, at = _read_bytes(data, at)
    if data[at : at + 16] != sync or len(sync) != 16:
        raise ValueError("the block's sync marker is missing")
    codec = meta.get(b"avro.codec", b"null").decode()
    if codec not in _CODECS:
        raise ValueError(f"the codec '{codec}' is not one of {', '.join(_CODECS)}")
    if codec == "deflate":
        block = zlib.decompress(block, wbits=-15)
    return read_datum(block, meta[b"avro.schema"])


def read_datum(data: bytes, schema_text: bytes) -> dict[str, Any]:
    """One bare record (no container) written with the schema of this JSON text."""
    value = fastavro.schemaless_reader(BytesIO(data), _parsed(schema_text), None)
    if not isinstance(value, dict):
        raise ValueError("the value is not a record")
    return value


def write_datum(name: str, record: Mapping[str, Any]) -> bytes:
    """The bare bytes of one ``record`` of the packaged schema ``name``.

    Fields that the schema lacks are left out: they come from writers of other versions.
    ``ValueError`` if the record does not fit the schema.
    """
    return _datum(name, record, strict=False)


def write_record(name: str, record: Mapping[str, Any]) -> bytes:
    """The container of one ``record`` of the packaged schema ``name``.

    ``ValueError`` if the record does not fit the schema.
    """
    _, header, sync = _packaged(name)
    block = _datum(name, record, strict=True)
    return header + _long(1) + _long(len(block)) + block + sync


def _datum(name: str, record: Mapping[str, Any], strict: bool) -> bytes:
    body, (schema, _, _) = BytesIO(), _packaged(name)
    try:
        fastavro.schemaless_writer(body, schema, dict(record), strict_allow_default=strict)
    except (ValueError, TypeError, AttributeError, KeyError, OverflowError) as cause:
        raise ValueError(f"the record does not fit {name}: {cause}") from cause
    return body.getvalue()


def _long(value: int) -> bytes:
    """Avro's zigzag variable-length integer."""
    zigzag = (value << 1) ^ (value >> 63)
    out = bytearray()
    while zigzag > 0x7F:
        out.append((zigzag & 0x7F) | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def _read_long(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            raise ValueError("an integer has more than ten bytes")


def _read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = _read_long(data, at)
    if length < 0 or at + length > len(data):
        raise ValueError("the file is cut short")
    return data[at : at + length], at + length
