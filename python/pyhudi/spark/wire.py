"""Frozen dataclasses to JSON and back, strictly: both sides read the same.

An unknown or missing key and a value of another type are errors, never defaults. They show that jar
and package have different versions; a field that one of them ignored would silently change a
result.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Hashable, Mapping
from enum import Enum
from typing import Any, TypeVar

from pyhudi.errors import SetupError

T = TypeVar("T")

#: JSON that another module parses: a Spark schema, a filter, a change of a column
Tree = Mapping[str, Any]


def decode(kind: type[T], value: Any, where: str) -> T:
    """``value``, as ``json.loads`` gives it, as a ``kind``; ``where`` names it in an error.

    ``SetupError`` names the first place that does not fit.
    """
    return typing.cast(T, _decoded(kind, value, where))


def encode(value: Any) -> str:
    """The JSON of a value made of dataclasses, enums, tuples and JSON's own types."""
    return json.dumps(value, default=_plain)


def shape(kind: Any) -> Any:
    """The form of ``kind`` in JSON, as a text or a dict of its fields: equal if the JSON is."""
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return {name: shape(inner) for name, inner in _fields(kind).items()}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return " | ".join(sorted(str(each.value) for each in kind))
    if kind in (Tree, Any):
        return "tree" if kind == Tree else "any"
    args = typing.get_args(kind)
    if not args:
        return kind.__name__
    if _is_union(kind):
        return [shape(arg) for arg in args]
    if typing.get_origin(kind) is tuple:
        inner = [shape(arg) for arg in args if arg is not Ellipsis]
        return {"each": inner[0]} if Ellipsis in args else {"in order": inner}
    return {"by name": shape(args[1])}


def _decoded(kind: Any, value: Any, where: str) -> Any:
    if dataclasses.is_dataclass(kind):
        return _object(kind, value, where)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _member(kind, value, where)
    if kind is Any:
        return value
    if kind == Tree:
        return _typed(dict, value, where)
    args = typing.get_args(kind)
    if not args:
        return _typed(kind, value, where)
    if _is_union(kind):
        (some,) = (arg for arg in args if arg is not types.NoneType)
        return None if value is None else _decoded(some, value, where)
    if typing.get_origin(kind) is tuple:
        return _tuple(args, value, where)
    return {
        key: _decoded(args[1], each, f"{where}.{key}")
        for key, each in _typed(dict, value, where).items()
    }


def _object(kind: Any, value: Any, where: str) -> Any:
    given, fields = _typed(dict, value, where), _fields(kind)
    if given.keys() != fields.keys():
        unknown = sorted(given.keys() - fields.keys())
        missing = sorted(fields.keys() - given.keys())
        told = [f"has the unknown '{unknown[0]}'"] if unknown else []
        told += [f"lacks '{missing[0]}'"] if missing else []
        raise _mismatch(f"{where} {' and '.join(told)}")
    return kind(**{name: _decoded(fields[name], given[name], f"{where}.{name}") for name in fields})


def _tuple(args: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    given = _typed(list, value, where)
    kinds = [args[0]] * len(given) if args[-1] is Ellipsis else list(args)
    if len(kinds) != len(given):
        raise _mismatch(f"{where} has {len(given)} values instead of {len(kinds)}")
    return tuple(
        _decoded(kind, each, f"{where}[{at}]")
        for at, (kind, each) in enumerate(zip(kinds, given, strict=True))
    )


def _member(kind: type[Enum], value: Any, where: str) -> Enum:
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(str(each.value) for each in kind)
        raise _mismatch(f"{where} is {value!r}, which is not one of {known}") from None


def _typed(kind: Any, value: Any, where: str) -> Any:
    # In Python a bool is an int, but in JSON it is not.
    if type(value) is not kind:
        raise _mismatch(f"{where} is {type(value).__name__}, not {kind.__name__}")
    return value


@functools.cache
def _fields(kind: Hashable) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _is_union(kind: Any) -> bool:
    return typing.get_origin(kind) in (typing.Union, types.UnionType)


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _mismatch(what: str) -> SetupError:
    return SetupError(
        f"{what}: the jar and the Python package of pyhudi have different versions. Install one "
        "version of both.",
    )
