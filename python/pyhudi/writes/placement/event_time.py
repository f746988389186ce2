"""Ordering values as Spark compares them, where rivals meet before their file group merges them.

The order is that of ``rows/ordering.py``: two ways of comparing would keep two different rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, DoubleType, FloatType, IntegerType

from pyhudi.config import MergeMode, Operation
from pyhudi.rows.spec import DELETE
from pyhudi.writes.write_context import Write


def value_of(name: str, called: Mapping[str, str] | None = None) -> Column:
    """An ordering value; of a dotted name the field, of a column that is ``called`` otherwise."""
    root, *inside = name.split(".")
    column = F.col(f"`{(called or {}).get(root, root)}`")
    return reduce(lambda outer, field: outer.getField(field), inside, column)


def order_of(
    rows: DataFrame, names: Sequence[str], called: Mapping[str, str] | None = None
) -> Column:
    """A struct that compares as the ordering values of a row do."""
    values = [value_of(name, called) for name in names]
    parts = [_comparable(rows, value) for value in values]
    return F.struct(*[part.alias(f"o{at}") for at, part in enumerate(parts)])


def by_event_time(write: Write) -> bool:
    """Whether the larger ordering value wins."""
    return write.config.merge_mode is MergeMode.EVENT_TIME_ORDERING


def forced(write: Write, rows: DataFrame) -> Column:
    """Whether a row deletes in any case: it has no ordering value, or the operation is delete."""
    if write.operation is Operation.DELETE:
        return F.lit(True)
    names = write.ordering_fields
    if DELETE not in rows.columns or not names or not by_event_time(write):
        return F.lit(False)
    values = [value_of(name) for name in names]
    zero = _zero(_kind(rows, values[0]))
    if len(values) == 1 and zero is not None:
        return F.col(DELETE) & (F.coalesce(values[0], zero) == zero)
    nulls = [value.isNull() for value in values]
    return reduce(lambda a, b: a & b, nulls, F.col(DELETE))


def _kind(rows: DataFrame, value: Column) -> DataType:
    return rows.select(value).schema.fields[0].dataType


def _zero(kind: DataType) -> Column | None:
    """What null counts as, None where it is smaller than any value."""
    if isinstance(kind, DateType):
        return F.lit("1970-01-01").cast("date")
    return F.lit(0) if isinstance(kind, IntegerType) else None


def _comparable(rows: DataFrame, value: Column) -> Column:
    """``value`` as it compares: of an int or a date 0 for null; -0.0 is smaller than 0.0."""
    kind = _kind(rows, value)
    zero = _zero(kind)
    if zero is not None:
        return F.coalesce(value, zero)
    if isinstance(kind, DoubleType | FloatType):
        # Spark itself holds the two zeros for equal.
        above = F.when(value.cast("string") == "-0.0", 0).otherwise(1)
        return F.when(value.isNotNull(), F.struct(value.alias("v"), above.alias("above")))
    return value
