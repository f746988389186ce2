"""Filters that Spark pushes down (``reads/conditions.py``), evaluated on columns of rows.

An answer is Spark's own, null included, or there is none. So no text is cut, and no float compared:
Spark's NaN equals itself, and its 0.0 equals -0.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.reads.conditions import (
    AllOf,
    Among,
    AnyOf,
    Compare,
    Comparison,
    Day,
    Exact,
    Filter,
    Flag,
    HasText,
    IsNotNull,
    IsNull,
    Literal,
    LocalMoment,
    Moment,
    Not,
    Null,
    Text,
    TextPart,
    Whole,
)

_COMPARE: Mapping[Comparison, Callable[..., pa.BooleanArray]] = {
    Comparison.EQUAL: pc.equal,
    Comparison.GREATER: pc.greater,
    Comparison.AT_LEAST: pc.greater_equal,
    Comparison.LESS: pc.less,
    Comparison.AT_MOST: pc.less_equal,
}
_FIND: Mapping[TextPart, Callable[..., pa.BooleanArray]] = {
    TextPart.START: pc.starts_with,
    TextPart.END: pc.ends_with,
    TextPart.ANYWHERE: pc.match_substring,
}


def parts_of(filters: Iterable[Filter]) -> Iterator[Filter]:
    """The filters that must all be true of a row, without AND."""
    for each in filters:
        if isinstance(each, AllOf):
            yield from parts_of(each.filters)
        else:
            yield each


def columns_of(condition: Filter) -> set[str]:
    """The columns that a filter names."""
    match condition:
        case AllOf(filters) | AnyOf(filters):
            return set().union(*map(columns_of, filters))
        case Not(child):
            return columns_of(child)
        case Compare() | Among() | HasText() | IsNull() | IsNotNull():
            return {condition.column}
    return set()


def evaluated(condition: Filter, columns: Mapping[str, pa.Array]) -> pa.BooleanArray | None:
    """The filter's value for each row, null as in SQL; None if only Spark can tell."""
    match condition:
        case AllOf(filters):
            return _folded(pc.and_kleene, filters, columns)
        case AnyOf(filters):
            return _folded(pc.or_kleene, filters, columns)
        case Not(child):
            inner = evaluated(child, columns)
            return None if inner is None else pc.invert(inner)
        case IsNull(name) if name in columns:
            return columns[name].is_null()
        case IsNotNull(name) if name in columns:
            return columns[name].is_valid()
        case Compare(by, name, literal) if name in columns:
            return _compared(by, columns[name], literal)
        case Among(name, literals) if name in columns:
            return _among(columns[name], literals)
        case HasText(part, name, text) if name in columns:
            column = columns[name]
            return _FIND[part](column, text) if pa.types.is_string(column.type) else None
    return None


def _folded(
    join: Callable[..., pa.BooleanArray],
    filters: Sequence[Filter],
    columns: Mapping[str, pa.Array],
) -> pa.BooleanArray | None:
    found: pa.BooleanArray | None = None
    for each in filters:
        one = evaluated(each, columns)
        if one is None:
            return None
        found = one if found is None else join(found, one)
    return found


def _compared(by: Comparison, column: pa.Array, literal: Literal) -> pa.BooleanArray | None:
    if by is Comparison.SAME:
        if literal == Null():
            return column.is_null()
        found = _compared(Comparison.EQUAL, column, literal)
        return None if found is None else pc.fill_null(found, False)
    told = _told(column, [literal])
    if told is None:
        return None
    values, (value,) = told
    return _COMPARE[by](values, value)


def _among(column: pa.Array, literals: Sequence[Literal]) -> pa.BooleanArray | None:
    some = [each for each in literals if each != Null()]
    told = _told(column, some)
    if told is None:
        return None
    values, wanted = told
    found = pc.is_in(values, value_set=pa.array([each.as_py() for each in wanted], values.type))
    # No row equals null, but whether a row is among values of which one is null is unknown.
    unknown = values.is_null() if len(some) == len(literals) else pc.invert(found)
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), found)


def _told(column: pa.Array, literals: Sequence[Literal]) -> tuple[pa.Array, list[Any]] | None:
    """The column and the literals as values of one type; None if Spark would compare otherwise."""
    kind = column.type
    expected: type[Literal]
    if pa.types.is_boolean(kind):
        expected, column = Flag, column.cast(pa.int64())
    elif pa.types.is_integer(kind):
        expected, column = Whole, column.cast(pa.int64())
    elif pa.types.is_string(kind):
        expected = Text
    elif pa.types.is_date32(kind):
        expected, column = Day, column.view(pa.int32()).cast(pa.int64())
    elif pa.types.is_timestamp(kind) and kind.unit == "us":
        expected, column = LocalMoment if kind.tz is None else Moment, column.view(pa.int64())
    elif pa.types.is_decimal(kind):
        expected = Exact
    else:
        return None
    if not all(isinstance(each, expected) for each in literals):
        return None
    values: list[Any] = [each.value for each in literals]  # type: ignore[union-attr]
    try:
        if expected is Exact:
            values = [Decimal(each) for each in values]
        elif expected is Flag:
            values = [int(each) for each in values]
        return column, [pa.scalar(value, column.type) for value in values]
    except (pa.ArrowException, InvalidOperation, OverflowError):
        return None
