"""Pruning by the filters that Spark pushes down, as JSON of its ``sources.Filter``.

Every answer is "may match": a filter that cannot be decided keeps the files, and Spark evaluates it
again on the rows. Spark does not evaluate filters that are decided for every partition.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

from pyhudi.errors import ConfigError
from pyhudi.format.keys import DEFAULT_PARTITION, partition_values
from pyhudi.format.table_config import KeyGenerator, TableConfig

FilterJson = Mapping[str, Any]
#: column -> its value in a partition, None for null; columns that are absent are unknown
Values = Mapping[str, Any]

#: key generators whose folders do not show the columns' own values
NOT_BY_VALUE = frozenset({KeyGenerator.TIMESTAMP, KeyGenerator.CUSTOM, KeyGenerator.USER_PROVIDED})

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: bool(a == b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    "startswith": lambda a, b: str(a).startswith(b),
    "endswith": lambda a, b: str(a).endswith(b),
    "contains": lambda a, b: b in str(a),
}


def may_match(condition: FilterJson, values: Values) -> bool | None:
    """True or False if the partition values decide the filter, None if they do not.

    The folder that null and the empty text share decides a filter if both give the same answer.
    """
    unclear = [name for name, value in values.items() if value is NULL_OR_EMPTY]
    answers = {
        _judged(condition, {**values, **dict(zip(unclear, each, strict=True))})
        for each in product((None, ""), repeat=len(unclear))
    }
    return answers.pop() if len(answers) == 1 else None


def _judged(condition: FilterJson, values: Values) -> bool | None:
    op = condition["op"]
    if op in ("and", "or"):
        left = _judged(condition["left"], values)
        right = _judged(condition["right"], values)
        if op == "and":
            return False if left is False or right is False else _both(left, right)
        return True if left is True or right is True else _both(left, right, any_of=True)
    if op == "not":
        # SQL's NOT of unknown is unknown: null operands are left to Spark.
        inner = _judged(condition["child"], values)
        return None if inner is None or _touches_null(condition["child"], values) else not inner
    column = str(condition.get("column"))
    if column not in values:
        return None
    value = values[column]
    if op == "isnull":
        return value is None
    if op == "isnotnull":
        return value is not None
    if op == "<=>" and (value is None or condition.get("value") is None):
        return value is None and condition.get("value") is None
    if value is None:
        return False if op in COMPARE or op == "in" else None
    if op == "in":
        wanted = [_typed(v, value) for v in condition["values"]]
        return None if _UNKNOWN in wanted else value in wanted
    compare = COMPARE.get("=" if op == "<=>" else op)
    wanted_one = _typed(condition.get("value"), value)
    if compare is None or wanted_one is _UNKNOWN:
        return None
    return compare(value, wanted_one)


_UNKNOWN = object()
#: stands for a text column's value in Hive's default partition
NULL_OR_EMPTY = object()


def _typed(literal: Any, like: Any) -> Any:
    """A literal of the filter in the type of the partition's value; unknown if it does not fit."""
    if isinstance(like, bool):
        return literal if isinstance(literal, bool) else _UNKNOWN
    if isinstance(like, int):
        return literal if isinstance(literal, int) and not isinstance(literal, bool) else _UNKNOWN
    if isinstance(like, datetime.date):
        try:
            return datetime.date.fromisoformat(str(literal))
        except ValueError:
            return _UNKNOWN
    return literal if isinstance(literal, str) else _UNKNOWN


def _both(left: bool | None, right: bool | None, any_of: bool = False) -> bool | None:
    if left is None or right is None:
        return None
    return (left or right) if any_of else (left and right)


def _touches_null(condition: FilterJson, values: Values) -> bool:
    if condition["op"] in ("and", "or"):
        return _touches_null(condition["left"], values) or _touches_null(condition["right"], values)
    if condition["op"] == "not":
        return _touches_null(condition["child"], values)
    if condition["op"] in ("isnull", "isnotnull", "<=>"):
        return False
    return values.get(condition.get("column", ""), "") is None


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
        if config.slash_separated_dates and types.get(name) == "string" and "/" in (text or ""):
            continue  # a slash and a dash cannot be told apart
        value = _parsed(types.get(name), text)
        if value is not _UNKNOWN:
            found[name] = value
    return found


def _parsed(kind: Any, text: str | None) -> Any:
    if text is None or text == DEFAULT_PARTITION:
        return NULL_OR_EMPTY if kind == "string" else None
    try:
        if kind == "string":
            return text
        if kind in ("integer", "long", "short", "byte"):
            return int(text) if str(int(text)) == text else _UNKNOWN
        if kind == "date":
            return datetime.date.fromisoformat(text)
    except ValueError:
        return _UNKNOWN
    if kind == "boolean" and text in ("true", "false"):
        return text == "true"
    return _UNKNOWN


def kept_partitions(
    config: TableConfig,
    types: Mapping[str, Any],
    partitions: Sequence[str],
    filters: Sequence[FilterJson],
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
    filters: Sequence[FilterJson],
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


def decided_by_partition(
    config: TableConfig,
    types: Mapping[str, Any],
    partitions: Sequence[str],
    filters: Sequence[FilterJson],
) -> bool:
    """Whether every filter is decided, for every partition, by the partition alone."""
    return all(decided_filters(config, types, partitions, filters))


def require_whole_partitions(
    config: TableConfig,
    types: Mapping[str, Any],
    partitions: Sequence[str],
    filters: Sequence[FilterJson],
) -> None:
    """``ConfigError`` if the filters of an overwrite or delete choose a part of a partition."""
    if not decided_by_partition(config, types, partitions, filters):
        raise ConfigError(
            "The condition does not choose whole partitions, and only whole ones are overwritten. "
            "Name partition columns only, or change single rows by UPDATE, DELETE or MERGE.",
            key="where",
        )


def matching_partitions(
    config: TableConfig,
    types: Mapping[str, Any],
    partitions: Sequence[str],
    filters: Sequence[FilterJson],
) -> list[str]:
    """Partitions for which every filter is certainly true."""
    found = []
    for partition in partitions:
        values = typed_values(config, types, partition)
        if all(may_match(f, values) is True for f in filters):
            found.append(partition)
    return found
