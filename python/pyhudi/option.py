"""What an option is: a key of Hudi's, a type, and how text becomes a value of that type."""

from __future__ import annotations

import dataclasses
import types
import typing
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pyhudi.choices import SYNONYMS, offered
from pyhudi.errors import ConfigError


class Scope(str, Enum):
    TABLE = "table"
    WRITER = "writer"
    SESSION = "session"


@dataclass(frozen=True, slots=True)
class Option:
    """One row of the table: ``name`` is the field, ``default`` its typed value."""

    name: str
    type: Any
    default: object
    key: str
    scope: Scope
    why: str
    aliases: tuple[str, ...]
    minimum: int

    @property
    def keys(self) -> tuple[str, ...]:
        """Hudi's key and its aliases, in order of preference."""
        return (self.key, *self.aliases)

    def parse(self, key: str, text: str) -> object:
        """The typed value of ``text``, given under ``key``; ``ConfigError`` if it has none."""
        base, text = _without_none(self.type), text.strip()
        if text == "" and base is not self.type:
            return None
        try:
            value = _convert(base, text)
        except ValueError as expected:
            raise ConfigError(
                f"'{key}' is '{text}', but it must be {expected}. Correct the value.", key=key
            ) from None
        if isinstance(value, (int, float)) and value < self.minimum:
            raise ConfigError(
                f"'{key}' is {text}, but it must be at least {self.minimum}. Correct the value.",
                key=key,
            )
        return value


def _without_none(kind: Any) -> Any:
    """``X`` for ``X | None``; other types as they are."""
    if isinstance(kind, types.UnionType):
        return next(part for part in kind.__args__ if part is not type(None))
    return kind


def _convert(kind: Any, text: str) -> object:
    """``text`` as a ``kind``; the ``ValueError`` says what was expected."""
    if kind is str:
        return text
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise ValueError("true or false")
        return text.lower() == "true"
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            raise ValueError("a whole number" if kind is int else "a number") from None
    if isinstance(kind, type) and issubclass(kind, Enum):
        words = {str(member.value).lower(): member for member in offered(kind)}
        words |= {name.lower(): member for name, member in SYNONYMS.get(kind, {}).items()}
        if (found := words.get(text.rsplit(".", 1)[-1].lower())) is None:
            raise ValueError(f"one of {', '.join(str(member.value) for member in offered(kind))}")
        return found
    return tuple(part.strip() for part in text.split(",") if part.strip())


def option(default: Any, key: str, scope: Scope, why: str, *aliases: str, minimum: int = 0) -> Any:
    """A dataclass field that is a row of the option table."""
    row = {"key": key, "scope": scope, "why": why, "aliases": aliases, "minimum": minimum}
    return field(default=default, metadata=row)


def rows_of(table: type[Any]) -> tuple[Option, ...]:
    """The options that the dataclass ``table`` declares, in its order."""
    kinds = typing.get_type_hints(table)
    return tuple(
        Option(name=each.name, type=kinds[each.name], default=each.default, **each.metadata)
        for each in dataclasses.fields(table)
        if each.metadata
    )
