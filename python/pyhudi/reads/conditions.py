"""What Spark asks of rows: its ``sources.Filter`` as values, which name a column and literals.

A filter is one of the classes of `Filter`, a literal one of those of `Literal`. What has no class
here is `Unknown`: it keeps every file, and Spark evaluates it on the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

# ---- literals


@dataclass(frozen=True, slots=True)
class Null:
    """SQL's null."""


@dataclass(frozen=True, slots=True)
class Flag:
    """A boolean."""

    value: bool


@dataclass(frozen=True, slots=True)
class Whole:
    """A byte, short, int or bigint."""

    value: int


@dataclass(frozen=True, slots=True)
class Real:
    """A float or double: the text of the double of its value, since JSON has no NaN."""

    value: str


@dataclass(frozen=True, slots=True)
class Exact:
    """A decimal: its digits, without an exponent."""

    value: str


@dataclass(frozen=True, slots=True)
class Text:
    """A string."""

    value: str


@dataclass(frozen=True, slots=True)
class Day:
    """A date in days since 1970-01-01; Python's own dates end with the year 9999, Spark's do not.

    They count by the proleptic Gregorian calendar.
    """

    value: int


@dataclass(frozen=True, slots=True)
class Moment:
    """A timestamp in microseconds since the epoch, in UTC."""

    value: int


@dataclass(frozen=True, slots=True)
class LocalMoment:
    """A timestamp without a time zone, in microseconds since 1970-01-01 00:00."""

    value: int


@dataclass(frozen=True, slots=True)
class Bytes:
    """A binary, as base64."""

    value: str


Literal = Null | Flag | Whole | Real | Exact | Text | Day | Moment | LocalMoment | Bytes

# ---- filters


class Comparison(Enum):
    """How a column is compared; ``<=>`` is equality in which null equals null."""

    EQUAL = "="
    SAME = "<=>"
    GREATER = ">"
    AT_LEAST = ">="
    LESS = "<"
    AT_MOST = "<="


class TextPart(Enum):
    """Which part of a text is looked at."""

    START = "start"
    END = "end"
    ANYWHERE = "anywhere"


@dataclass(frozen=True, slots=True)
class Compare:
    """``column = value`` and its kin."""

    by: Comparison
    column: str
    value: Literal


@dataclass(frozen=True, slots=True)
class Among:
    """``column IN (values)``."""

    column: str
    values: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class HasText:
    """Whether a part of a string column is ``text``."""

    part: TextPart
    column: str
    text: str


@dataclass(frozen=True, slots=True)
class IsNull:
    """``column IS NULL``."""

    column: str


@dataclass(frozen=True, slots=True)
class IsNotNull:
    """``column IS NOT NULL``."""

    column: str


@dataclass(frozen=True, slots=True)
class AllOf:
    """AND, flat: a chain of any length is one of them, so that it nests no deeper."""

    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """OR, flat like `AllOf`."""

    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """NOT, which leaves null as it is."""

    child: Filter


@dataclass(frozen=True, slots=True)
class Unknown:
    """A filter that only Spark can evaluate."""


Filter = Compare | Among | HasText | IsNull | IsNotNull | AllOf | AnyOf | Not | Unknown
