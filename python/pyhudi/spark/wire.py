"""Frozen dataclasses to JSON and back, strictly: both sides read the same.

An unknown or missing key and a value of another type are errors, never defaults. They show that jar
and package have different versions; a field that one of them ignored would silently change a
result. Where a value may be of one of several classes, its ``kind`` names the class.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Callable, Hashable, Iterable, Mapping
from enum import Enum
from typing import Any, Final, TypeVar

from pyhudi.errors import SetupError

T = TypeVar("T")

#: JSON that another module parses: a Spark schema
Tree = Mapping[str, Any]
Reader = Callable[[Any], Any]
#: key of the class's name, in a value that may be of one of several classes
KIND: Final = "kind"


class _Misfit(Exception):
    """JSON that is no value of its type: what is wrong, and the place in what is read."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.place = ""

    def inside(self, step: str) -> _Misfit:
        """The same, as seen from one step further out."""
        self.place = step + self.place
        return self


def decode(kind: type[T], value: Any, where: str) -> T:
    """``value``, as ``json.loads`` gives it, as a ``kind``; ``where`` names it in an error.

    ``SetupError`` names the first place that does not fit.
    """
    try:
        return typing.cast(T, _reader(typing.cast(Any, kind))(value))
    except _Misfit as misfit:
        raise SetupError(
            f"{where}{misfit.place} {misfit.what}: the jar and the Python package of pyhudi have "
            "different versions. Install one version of both.",
        ) from None


def encode(value: Any) -> str:
    """The JSON of a value made of dataclasses, enums, tuples and JSON's own types."""
    return json.dumps(value, default=_plain)


def members(kind: Any) -> tuple[Any, ...]:
    """The types of which a value of ``kind`` has one, but None."""
    args = typing.get_args(kind) if _is_union(kind) else (kind,)
    return tuple(arg for arg in args if arg is not types.NoneType)


def shape(kind: Any, inside: frozenset[Any] = frozenset()) -> Any:
    """The form of ``kind`` in JSON, as a text or a dict of its fields: equal if the JSON is.

    A class ``inside`` itself is its name.
    """
    if kind in inside:
        return kind.__name__
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return {name: shape(inner, inside | {kind}) for name, inner in fields_of(kind).items()}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return " | ".join(sorted(str(each.value) for each in kind))
    if kind in (Tree, Any):
        return "tree" if kind == Tree else "any"
    args = typing.get_args(kind)
    if not args:
        return kind.__name__
    if _is_union(kind):
        return [[arg.__name__, shape(arg, inside)] for arg in args]
    if typing.get_origin(kind) is tuple:
        inner = [shape(arg, inside) for arg in args if arg is not Ellipsis]
        return {"each": inner[0]} if Ellipsis in args else {"in order": inner}
    return {"by name": shape(args[1], inside)}


def _misfit_unless(kind: type, value: Any) -> None:
    # In Python a bool is an int, but in JSON it is not.
    if type(value) is not kind:
        raise _Misfit(f"is {type(value).__name__}, not {kind.__name__}")


@functools.cache
def _reader(kind: Any) -> Reader:
    """What reads values of one type, made once: a filter may have a hundred thousand literals."""
    if dataclasses.is_dataclass(kind):
        return _object(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return functools.partial(_member, kind)
    if kind is Any:
        return lambda value: value
    args = typing.get_args(kind)
    if kind == Tree or not args:
        plain = getattr(kind, "__supertype__", kind)  # of a NewType
        return functools.partial(_plain_value, dict if kind == Tree else plain)
    if _is_union(kind):
        several = members(kind)
        some = _one_of(several) if len(several) > 1 else _reader(several[0])
        return (lambda value: None if value is None else some(value)) if _has_none(kind) else some
    if typing.get_origin(kind) is tuple:
        return _sequence(_reader(args[0])) if Ellipsis in args else _row(tuple(map(_reader, args)))
    return _by_name(_reader(args[1]))


def _plain_value(kind: type, value: Any) -> Any:
    _misfit_unless(kind, value)
    return value


def _object(kind: Any, *tags: str) -> Reader:
    fields = fields_of(kind)
    expected = {*fields, *tags}
    readers: dict[str, Reader] = {}

    def read(value: Any) -> Any:
        _misfit_unless(dict, value)
        if value.keys() != expected:
            unknown, missing = sorted(value.keys() - expected), sorted(expected - value.keys())
            told = [f"has the unknown '{unknown[0]}'"] if unknown else []
            told += [f"lacks '{missing[0]}'"] if missing else []
            raise _Misfit(" and ".join(told))
        if not readers:  # later than the class's own, since it may be inside itself
            readers.update((name, _reader(inner)) for name, inner in fields.items())
        found = []
        for name, inner in readers.items():
            try:
                found.append(inner(value[name]))
            except _Misfit as misfit:
                raise misfit.inside(f".{name}") from None
        return kind(*found)

    return read


def _one_of(kinds: tuple[Any, ...]) -> Reader:
    readers = {kind.__name__: _object(kind, KIND) for kind in kinds}

    def read(value: Any) -> Any:
        _misfit_unless(dict, value)
        reader = readers.get(str(value.get(KIND)))
        if reader is None:
            raise _unlisted(value.get(KIND), readers).inside(f".{KIND}")
        return reader(value)

    return read


def _sequence(inner: Reader) -> Reader:
    def read(value: Any) -> tuple[Any, ...]:
        _misfit_unless(list, value)
        found: list[Any] = []
        try:
            found.extend(map(inner, value))
        except _Misfit as misfit:
            raise misfit.inside(f"[{len(found)}]") from None
        return tuple(found)

    return read


def _row(readers: tuple[Reader, ...]) -> Reader:
    def read(value: Any) -> tuple[Any, ...]:
        _misfit_unless(list, value)
        if len(value) != len(readers):
            raise _Misfit(f"has {len(value)} values instead of {len(readers)}")
        found: list[Any] = []
        try:
            found.extend(inner(each) for inner, each in zip(readers, value, strict=True))
        except _Misfit as misfit:
            raise misfit.inside(f"[{len(found)}]") from None
        return tuple(found)

    return read


def _by_name(inner: Reader) -> Reader:
    def read(value: Any) -> dict[str, Any]:
        _misfit_unless(dict, value)
        found = {}
        for key, each in value.items():
            try:
                found[key] = inner(each)
            except _Misfit as misfit:
                raise misfit.inside(f".{key}") from None
        return found

    return read


def _member(kind: type[Enum], value: Any) -> Enum:
    try:
        return kind(value)
    except ValueError:
        raise _unlisted(value, (each.value for each in kind)) from None


def _unlisted(value: Any, known: Iterable[Any]) -> _Misfit:
    return _Misfit(f"is {value!r}, which is not one of {', '.join(map(str, known))}")


def fields_of(kind: Any) -> dict[str, Any]:
    """The types of a dataclass's fields, by their names."""
    return _fields_of(kind)


@functools.cache
def _fields_of(kind: Hashable) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _is_union(kind: Any) -> bool:
    return typing.get_origin(kind) in (typing.Union, types.UnionType)


def _has_none(kind: Any) -> bool:
    return types.NoneType in typing.get_args(kind)


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    return {
        name: _named(kind, getattr(value, name)) for name, kind in fields_of(type(value)).items()
    }


def _named(kind: Any, value: Any) -> Any:
    """``value`` with the name of its class where ``kind`` leaves several open."""
    if isinstance(value, tuple) and Ellipsis in typing.get_args(kind):
        inner = typing.get_args(kind)[0]
        return [_named(inner, each) for each in value] if _is_union(inner) else value
    several = len(members(kind)) > 1 and value is not None
    return {KIND: type(value).__name__, **_plain(value)} if several else value
