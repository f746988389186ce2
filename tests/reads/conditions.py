"""Filters as tests write them down: Python's values as literals."""

from __future__ import annotations

import datetime

from pyhudi.reads.conditions import (
    Among,
    Compare,
    Comparison,
    Day,
    Filter,
    Flag,
    Literal,
    Null,
    Real,
    Text,
    Whole,
)

EPOCH = datetime.date(1970, 1, 1)


def literal(value: bool | int | float | str | datetime.date | None) -> Literal:
    """The literal of a value of Python's."""
    match value:
        case None:
            return Null()
        case bool():
            return Flag(value)
        case int():
            return Whole(value)
        case float():
            return Real(str(value))
        case str():
            return Text(value)
    return Day((value - EPOCH).days)


def compare(column: str, by: str, value: bool | int | float | str | datetime.date | None) -> Filter:
    """``column by value``, as ``day = 'mon'``."""
    return Compare(Comparison(by), column, literal(value))


def among(column: str, *values: bool | int | float | str | datetime.date | None) -> Filter:
    """``column IN (values)``."""
    return Among(column, tuple(map(literal, values)))
