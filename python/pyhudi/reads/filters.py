"""Pruning by the filters that Spark pushes down (`reads/conditions.py`).

Every answer is "may match": a filter that cannot be decided keeps the files, and Spark evaluates it
again on the rows. Spark does not evaluate filters that are decided for every partition.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from itertools import product, repeat
from typing import Any, Final

import numpy as np

from pyhudi.errors import ConfigError
from pyhudi.format.keys import DEFAULT_PARTITION, partition_values
from pyhudi.format.spark_schema import type_at
from pyhudi.format.table_config import KeyGenerator, TableConfig
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
    Real,
    Text,
    TextPart,
    Unknown,
    Whole,
)
from pyhudi.reads.row_filters import columns_of
from pyhudi.rows.stored_types import NUMBER, day_of

#: column -> its value in a partition, None for null; columns that are absent are unknown
Values = Mapping[str, Any]

#: key generators whose folders do not show the columns' own values
NOT_BY_VALUE = frozenset({KeyGenerator.TIMESTAMP, KeyGenerator.CUSTOM, KeyGenerator.USER_PROVIDED})

MOMENTS: Mapping[str, type[Moment | LocalMoment]] = {
    "timestamp": Moment,
    "timestamp_ntz": LocalMoment,
}
COMPARE: Mapping[Comparison, Callable[[Any, Any], bool]] = {
    Comparison.EQUAL: lambda a, b: bool(a == b),
    Comparison.SAME: lambda a, b: bool(a == b),
    Comparison.GREATER: lambda a, b: bool(a > b),
    Comparison.AT_LEAST: lambda a, b: bool(a >= b),
    Comparison.LESS: lambda a, b: bool(a < b),
    Comparison.AT_MOST: lambda a, b: bool(a <= b),
}
FIND: Mapping[TextPart, Callable[[str, str], bool]] = {
    TextPart.START: str.startswith,
    TextPart.END: str.endswith,
    TextPart.ANYWHERE: str.__contains__,
}


def may_match(condition: Filter, values: Values) -> bool | None:
    """True or False if the partition values decide the filter, None if they do not.

    The folder that several texts share decides a filter if all of them give the same answer.
    """
    unclear = [name for name, value in values.items() if value is ONE_OF_DEFAULT]
    answers = {
        _judged(condition, {**values, **dict(zip(unclear, each, strict=True))})
        for each in product(OF_DEFAULT, repeat=len(unclear))
    }
    return answers.pop() if len(answers) == 1 else None


def _judged(condition: Filter, values: Values) -> bool | None:
    match condition:
        case AllOf(filters):
            answers = [_judged(each, values) for each in filters]
            return False if False in answers else None if None in answers else True
        case AnyOf(filters):
            answers = [_judged(each, values) for each in filters]
            return True if True in answers else None if None in answers else False
        case Not(child):
            # SQL's NOT of unknown is unknown: null operands are left to Spark.
            inner = _judged(child, values)
            return None if inner is None or _touches_null(child, values) else not inner
        case Unknown():
            return None
    return _of_value(condition, values[condition.column]) if condition.column in values else None


def _of_value(condition: Compare | Among | HasText | IsNull | IsNotNull, value: Any) -> bool | None:
    match condition:
        case IsNull():
            return value is None
        case IsNotNull():
            return value is not None
        case Compare(Comparison.SAME, _, literal) if value is None or literal == Null():
            return value is None and literal == Null()
    if value is None:
        return False
    kind, own = _own(value)
    match condition:
        case Among(_, literals):
            if not all(isinstance(each, kind) for each in literals):
                return None
            return any(_plain(each) == own for each in literals if isinstance(each, kind))
        case HasText(part, _, text):
            return FIND[part](value, text) if kind is Text else None
        case Compare(by, _, literal):
            return COMPARE[by](own, _plain(literal)) if isinstance(literal, kind) else None


#: a text column's values in Hive's default partition: a row may have the folder's name as its value
OF_DEFAULT = (None, "", DEFAULT_PARTITION)
#: stands for one of them
ONE_OF_DEFAULT = object()


def _plain(literal: Literal) -> Any:
    match literal:
        case Null():
            return None
        case Exact(digits):
            return Decimal(digits)
        case Real(text):
            return _ordered(float(text))
    return literal.value


Value = bool | int | float | str | Decimal | Day | Moment | LocalMoment


def _own(
    value: Value,
) -> tuple[type[Flag | Whole | Real | Text | Day | Exact | Moment | LocalMoment], Any]:
    """The class of the literals that a partition's value compares with, and what it is there."""
    match value:
        case Day() | Moment() | LocalMoment():
            return type(value), value.value
        case Decimal():
            return Exact, value
        case float():
            return Real, _ordered(value)
        case bool():
            return Flag, value
        case int():
            return Whole, value
    return Text, value


def _ordered(number: float) -> tuple[bool, float]:
    """A number as Spark compares it: NaN equals itself and is the largest."""
    return (True, 0.0) if math.isnan(number) else (False, number)


def _touches_null(condition: Filter, values: Values) -> bool:
    match condition:
        case AllOf(filters) | AnyOf(filters):
            return any(_touches_null(each, values) for each in filters)
        case Not(child):
            return _touches_null(child, values)
        case IsNull() | IsNotNull() | Compare(Comparison.SAME) | Unknown():
            return False
    return values.get(condition.column, "") is None


def or_null(condition: Filter) -> Filter:
    """A filter that Spark makes while a query runs, for the rows that it means.

    On newer lines of Spark UPDATE and MERGE first ask which values their rows have in a column, and
    read the files of these alone. Null is one of them, where SQL's ``IN`` is never true of null.
    """
    match condition:
        case Among(column, values) if Null() in values:
            some = tuple(each for each in values if each != Null())
            return AnyOf((IsNull(column), Among(column, some)))
    return condition


def texts_of(config: TableConfig, partition_path: str) -> list[str | None] | None:
    """The partition columns' texts in a path of this table; None if it does not show them."""
    return partition_values(
        config.partition_fields,
        partition_path,
        hive_style=config.hive_style,
        url_encode=config.url_encode,
        slash_separated_dates=config.slash_separated_dates,
    )


def typed_values(
    config: TableConfig, types: Mapping[str, Any], partition_path: str
) -> dict[str, Any]:
    """Column -> value of a partition, for columns whose text has exactly one value."""
    if config.key_generator in NOT_BY_VALUE or config.drop_partition_columns:
        return {}
    texts = texts_of(config, partition_path)
    if texts is None:
        return {}
    found: dict[str, Any] = {}
    for name, text in zip(config.partition_fields, texts, strict=True):
        kind = type_at(types, name)
        if config.slash_separated_dates and kind == "string" and "/" in (text or ""):
            continue  # a slash and a dash cannot be told apart
        value = _parsed(kind, text)
        if value is not _UNKNOWN:
            found[name] = value
    return found


#: stands for a text that is no value of its column, or not surely
_UNKNOWN = object()


def _parsed(kind: Any, text: str | None) -> Any:
    if kind is None:
        return _UNKNOWN
    if text is None or text == DEFAULT_PARTITION:
        return ONE_OF_DEFAULT if kind == "string" else None
    try:
        if kind == "string":
            return text
        if kind in ("integer", "long", "short", "byte"):
            return int(text) if str(int(text)) == text else _UNKNOWN
        if kind == "date":
            day = day_of(text) if DAY.fullmatch(text) else None
            return _UNKNOWN if day is None else Day(day)
        if kind in ("float", "double"):
            return _real(text, kind)
        if kind in MOMENTS:
            # Microseconds or milliseconds, by the column's Avro type, which is not known here; as
            # milliseconds a large number would be after the year 5138. Hudi's SQL writes a text.
            sure = str(int(text)) == text and (abs(int(text)) >= 10**14 or text == "0")
            return MOMENTS[kind](int(text)) if sure else _UNKNOWN
        if isinstance(kind, str) and kind.startswith("decimal"):
            found = Decimal(text)
            return found if found.is_finite() else _UNKNOWN
    except (ValueError, InvalidOperation):
        return _UNKNOWN
    if kind == "boolean" and text in ("true", "false"):
        return text == "true"
    return _UNKNOWN


DAY: Final = re.compile(r"[+-]?\d{4,7}-\d\d-\d\d", re.ASCII)
NO_DIGITS: Final = frozenset({"NaN", "Infinity", "-Infinity"})


def _real(text: str, kind: str) -> Any:
    if text not in NO_DIGITS and not NUMBER.fullmatch(text):
        return _UNKNOWN
    with np.errstate(over="ignore"):
        return float(np.float32(text)) if kind == "float" else float(text)


def kept_partitions(
    config: TableConfig,
    types: Mapping[str, Any],
    partitions: Sequence[str],
    filters: Sequence[Filter],
) -> list[str]:
    """Partitions that may hold rows for which every filter is true."""
    if not filters or not config.partition_fields:
        return list(partitions)
    kept = []
    for partition in partitions:
        values = typed_values(config, types, partition)
        if all(may_match(f, values) is not False for f in filters):
            kept.append(partition)
    return kept


def decided_filters(
    config: TableConfig,
    types: Mapping[str, Any],
    partitions: Sequence[str],
    filters: Sequence[Filter],
) -> list[bool]:
    """For each filter whether it is decided, for every partition, by the partition alone."""
    decided = [True] * len(filters)
    for partition in partitions if filters else ():
        values = typed_values(config, types, partition)
        decided = [
            known and may_match(condition, values) is not None
            for known, condition in zip(decided, filters, strict=True)
        ]
    return decided


def _outcomes(
    config: TableConfig,
    types: Mapping[str, Any],
    partitions: Sequence[str],
    filters: Sequence[Filter],
) -> Iterator[tuple[str, Iterator[bool | None]]]:
    """Each partition with what ``may_match`` says of each filter, as far as it is asked for."""
    for partition in partitions:
        values = typed_values(config, types, partition)
        yield partition, map(may_match, filters, repeat(values))


def decided_by_partition(
    config: TableConfig,
    types: Mapping[str, Any],
    partitions: Sequence[str],
    filters: Sequence[Filter],
) -> bool:
    """Whether every filter is decided, for every partition, by the partition alone."""
    return all(decided_filters(config, types, partitions, filters))


def require_whole_partitions(
    config: TableConfig,
    types: Mapping[str, Any],
    partitions: Sequence[str],
    filters: Sequence[Filter],
) -> None:
    """``ConfigError`` if the filters of an overwrite or delete choose a part of a partition."""
    for partition, outcomes in _outcomes(config, types, partitions, filters):
        if any(outcome is None for outcome in outcomes):
            raise _undecided(config, partition, filters)


def _undecided(config: TableConfig, partition: str, filters: Sequence[Filter]) -> ConfigError:
    named = {name.lower() for each in filters for name in columns_of(each)}
    if named and named <= {name.lower() for name in config.partition_fields}:
        return ConfigError(
            f"The folder '{partition}' does not say for sure which values its rows have in "
            f"{', '.join(config.partition_fields)}, so it is open whether the statement means it. "
            "Nothing was changed. Delete single rows by DELETE, replace the partitions of new "
            "rows with spark.sql.sources.partitionOverwriteMode=dynamic, or delete folders by "
            "their names with hoodie.datasource.write.partitions.to.delete.",
            key="where",
        )
    return ConfigError(
        "The condition does not choose whole partitions, and only whole ones are overwritten. "
        "Name partition columns only, or change single rows by UPDATE, DELETE or MERGE.",
        key="where",
    )


def matching_partitions(
    config: TableConfig,
    types: Mapping[str, Any],
    partitions: Sequence[str],
    filters: Sequence[Filter],
) -> list[str]:
    """Partitions for which every filter is certainly true."""
    every = _outcomes(config, types, partitions, filters)
    return [
        partition for partition, outcomes in every if all(outcome is True for outcome in outcomes)
    ]


def spared_partitions(
    config: TableConfig,
    types: Mapping[str, Any],
    partitions: Sequence[str],
    filters: Sequence[Filter],
) -> list[str]:
    """Partitions for which a filter is certainly not true."""
    every = _outcomes(config, types, partitions, filters)
    return [
        partition for partition, outcomes in every if any(outcome is False for outcome in outcomes)
    ]
