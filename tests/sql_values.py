"""Types and values of the random tables: their order, their widening and their texts.

Values are Python's own: float for FLOAT and DOUBLE, Decimal, date, a datetime in UTC for TIMESTAMP
and a local one for TIMESTAMP_NTZ, a tuple of the fields' values for a struct, a tuple for an array
and a dict for a map. A type is written as Spark's ``simpleString`` writes it.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import zoneinfo
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Row = tuple[Any, ...]
Number = float | decimal.Decimal

#: a simple type -> those that it may be widened to
WIDER: dict[str, tuple[str, ...]] = {
    "int": ("bigint", "double"),
    "bigint": (),
    "float": ("double",),
    "double": (),
    "decimal(9,2)": ("decimal(12,2)", "decimal(12,4)"),
    "decimal(12,2)": ("decimal(14,4)",),
    "decimal(12,4)": (),
    "decimal(14,4)": (),
    "string": (),
    "boolean": (),
    "date": (),
    "timestamp": (),
    "timestamp_ntz": (),
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a field of a struct; ``kind`` is its type."""

    name: str
    kind: str


def is_struct(kind: str) -> bool:
    return kind.startswith("struct<")


def is_simple(kind: str) -> bool:
    """Whether values of the type can be compared with each other."""
    return kind in WIDER


def parts(kind: str) -> tuple[str, ...]:
    """What is between the angle brackets of a type, split at its own commas."""
    found, depth = [""], 0
    for letter in kind[kind.index("<") + 1 : -1]:
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return tuple(found)


def fields(kind: str) -> tuple[Column, ...]:
    """The fields of a struct."""
    return tuple(Column(*part.split(":", 1)) for part in parts(kind))


def struct(columns: Sequence[Column]) -> str:
    """The type of a struct with these fields."""
    return "struct<" + ",".join(f"{each.name}:{each.kind}" for each in columns) + ">"


def converted(kind: str) -> Callable[[Any], Any]:
    """What widening to ``kind`` does to a value: decimals get its scale."""
    if kind == "double":
        return float
    if not kind.startswith("decimal"):
        return lambda value: value
    scale = decimal.Decimal(1).scaleb(-int(kind.rstrip(")").split(",")[1]))
    return lambda value: value.quantize(scale)


def order(a: Any, b: Any) -> int:
    """Spark's order of two values: NaN is equal to itself and above all others, -0.0 is 0.0."""
    odd, other = (isinstance(each, float) and math.isnan(each) for each in (a, b))
    if odd or other:
        return int(odd) - int(other)
    return int(a > b) - int(a < b)


# ---- as SQL


def literal(value: Any, kind: str) -> str:
    """A value as SQL writes it, in every session time zone."""
    if value is None:
        return f"cast(null as {sql_type(kind)})"
    if is_struct(kind):
        given = (
            f"'{each.name}', {literal(part, each.kind)}"
            for each, part in zip(fields(kind), value, strict=True)
        )
        return f"named_struct({', '.join(given)})"
    if kind.startswith("array<"):
        (of,) = parts(kind)
        return f"cast(array({', '.join(literal(each, of) for each in value)}) as {sql_type(kind)})"
    if kind.startswith("map<"):
        pairs = (
            literal(each, of)
            for pair in value.items()
            for each, of in zip(pair, parts(kind), strict=True)
        )
        return f"cast(map({', '.join(pairs)}) as {sql_type(kind)})"
    return _simple_literal(value, kind)


def _simple_literal(value: Any, kind: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dt.datetime):
        zone = " UTC" if kind == "timestamp" else ""
        return f"{kind}'{value.isoformat(' ')}{zone}'"
    if isinstance(value, dt.date):
        return f"date'{value.isoformat()}'"
    text = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'" if kind == "string" else f"cast('{text}' as {kind})"


def values_clause(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    """``values (...), (...)``."""
    texts = (
        ", ".join(literal(v, c.kind) for v, c in zip(row, columns, strict=True)) for row in rows
    )
    return "values " + ", ".join(f"({text})" for text in texts)


def sql_type(kind: str) -> str:
    """A type as SQL takes it: with odd names quoted."""
    if is_struct(kind):
        inner = (f"{quoted(each.name)}:{sql_type(each.kind)}" for each in fields(kind))
        return f"struct<{', '.join(inner)}>"
    return kind


def quoted(path: str) -> str:
    """The name of a column, or the path of a field in one, as SQL takes it."""
    return ".".join(name if name.isascii() else f"`{name}`" for name in path.split("."))


# ---- as texts


def text_of(value: Any, kind: str, zone: str) -> str:
    """A value as ``cast(... as string)`` gives it in the session time zone ``zone``."""
    if value is None:
        return "null"
    if is_struct(kind):
        given = zip(fields(kind), value, strict=True)
        return "{" + ", ".join(text_of(part, each.kind, zone) for each, part in given) + "}"
    if kind.startswith("array<"):
        (of,) = parts(kind)
        return "[" + ", ".join(text_of(each, of, zone) for each in value) + "]"
    if kind.startswith("map<"):
        key, of = parts(kind)
        pairs = (f"{text_of(k, key, zone)} -> {text_of(v, of, zone)}" for k, v in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (float, decimal.Decimal)):
        return _number_text(value)
    if isinstance(value, dt.datetime):
        return _time_text(value, zone if kind == "timestamp" else "UTC")
    return str(value)


def _number_text(value: Number) -> str:
    """Java's text of a number: large and small doubles have an exponent."""
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[repr(value)]
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return f"{decimal.Decimal(repr(value)):f}"
    sign, digits, _ = decimal.Decimal(repr(value)).normalize().as_tuple()
    rest = "".join(map(str, digits[1:])) or "0"
    return f"{'-' * sign}{digits[0]}.{rest}E{decimal.Decimal(repr(value)).adjusted()}"


def _time_text(value: dt.datetime, zone: str) -> str:
    local = value.replace(tzinfo=dt.timezone.utc).astimezone(zoneinfo.ZoneInfo(zone))
    text = local.replace(tzinfo=None).isoformat(" ")
    return text.rstrip("0") if "." in text else text
