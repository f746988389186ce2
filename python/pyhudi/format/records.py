"""Frozen dataclasses to and from Avro records, by their annotations alone.

A field ``time_taken`` is Avro's ``timeTaken``, unless its metadata has another name. Absent and
null values become the type's empty value, or ``None`` if the annotation allows it. So plans of all
Hudi versions can be read by field name, as in Avro's resolution.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from pyhudi.format.avro_file import read_record, write_record
from pyhudi.format.corruption import corrupt

T = TypeVar("T")
Convert = Callable[[Any], Any]


def avro_name(name: str, default: Any = dataclasses.MISSING) -> Any:
    """A dataclass field whose Avro name does not follow from its own."""
    return dataclasses.field(default=default, metadata={"avro": name})


def parse_record(kind: type[T], data: bytes, path: str) -> T:
    """The ``kind`` in an Avro container; ``TableCorrupt`` with ``path`` if there is none."""
    return from_record(kind, read_record(data, path), path)


def render_record(schema_name: str, value: Any) -> bytes:
    """The Avro container of a dataclass, by the packaged schema of that name."""
    return write_record(schema_name, to_record(value))


def from_record(kind: type[T], record: Mapping[str, Any], path: str) -> T:
    """A dataclass from a decoded record; ``TableCorrupt`` if a value has another type."""
    try:
        annotation: Any = kind
        built: T = _decoder(annotation)(record)
    except (TypeError, ValueError, AttributeError, KeyError) as cause:
        rule = f"the file holds a {kind.__name__}"
        raise corrupt(path, rule, f"a value is of another kind ({cause})") from cause
    return built


def to_record(value: Any) -> dict[str, Any]:
    """The record of a dataclass, by Avro names."""
    encoded: dict[str, Any] = _encode(value)
    return encoded


@lru_cache(maxsize=128)
def _fields(kind: type[Any]) -> tuple[tuple[str, str, Any], ...]:
    """(own name, Avro name, annotation) of each field."""
    hints = get_type_hints(kind)
    return tuple(
        (field.name, field.metadata.get("avro") or _camel(field.name), hints[field.name])
        for field in dataclasses.fields(kind)
    )


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


@lru_cache(maxsize=512)
def _decoder(annotation: Any) -> Convert:
    """A function from a decoded Avro value to a value of the annotated type."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        inner = _decoder(next(a for a in arguments if a is not type(None)))
        return lambda value: None if value is None else inner(value)
    if origin is tuple:
        element = _decoder(arguments[0])
        return lambda value: tuple(element(item) for item in value or ())
    if origin is not None and issubclass(origin, Mapping):
        item = _decoder(arguments[1])
        return lambda value: {key: item(inner) for key, inner in (value or {}).items()}
    if dataclasses.is_dataclass(annotation):
        return _record_decoder(annotation)
    plain = getattr(annotation, "__supertype__", annotation)  # a NewType's own type
    return _scalar_decoder(plain)


def _record_decoder(kind: Any) -> Convert:
    parts = [(avro, _decoder(annotation)) for _, avro, annotation in _fields(kind)]

    def decode(record: Mapping[str, Any]) -> Any:
        return kind(*[convert(record.get(avro)) for avro, convert in parts])

    return decode


def _scalar_decoder(kind: type[Any]) -> Convert:
    def decode(value: Any) -> Any:
        if value is None:
            return kind()
        if not isinstance(value, kind):
            raise TypeError(f"{value!r} where {kind.__name__} belongs")
        return value

    return decode


def _encode(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {avro: _encode(getattr(value, name)) for name, avro, _ in _fields(type(value))}
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _encode(item) for key, item in value.items()}
    return value
