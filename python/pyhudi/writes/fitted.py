"""Columns of incoming rows in the types of the table: structs by the names of their fields."""

from __future__ import annotations

import operator
from functools import reduce
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructField, StructType


def named(column: str) -> Column:
    """The column of exactly this name, with any characters."""
    return F.col("`" + column.replace("`", "``") + "`")


def fitted_column(given: StructField | None, name: str, kind: DataType) -> Column:
    """The column ``name`` of the table, of type ``kind``, from the ``given`` one, or null.

    A row fails with a message if a part of its value is null that the table declares NOT NULL.
    """
    if given is None:
        return F.lit(None).cast(kind).alias(name)
    value = named(given.name)
    fitted = _fitted(value, given.dataType, kind)
    fault = _null_inside(value, given.dataType, kind)
    if fault is not None:
        text = (
            f"A part of a value of column '{name}' is null, but the table declares that part NOT "
            "NULL. Fill it in, filter these rows out, or let it be null by ALTER TABLE ... ALTER "
            f"COLUMN {name}.<part> DROP NOT NULL."
        )
        fitted = F.when(fault, F.raise_error(F.lit(text))).otherwise(fitted)
    return fitted.alias(name)


def _null_inside(value: Column, given: DataType, wanted: DataType) -> Column | None:
    """Whether a part of ``value`` is null that may not be; None if that cannot happen.

    Elements of lists are not looked at: tasks refuse nulls among them in all tables.
    """
    if isinstance(given, StructType) and isinstance(wanted, StructType):
        known, faults = {field.name.lower(): field for field in given.fields}, []
        for field in wanted.fields:
            mine = known.get(field.name.lower())
            if mine is not None:
                part = value.getField(mine.name)
                if mine.nullable and not field.nullable:
                    faults.append(part.isNull())
                inner = _null_inside(part, mine.dataType, field.dataType)
                faults += [] if inner is None else [inner]
        return value.isNotNull() & reduce(operator.or_, faults) if faults else None
    if isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
        return _any_null(value, given.elementType, wanted.elementType, False)
    if isinstance(given, MapType) and isinstance(wanted, MapType):
        refused = given.valueContainsNull and not wanted.valueContainsNull
        return _any_null(F.map_values(value), given.valueType, wanted.valueType, refused)
    return None


def _any_null(items: Column, given: DataType, wanted: DataType, refused: bool) -> Column | None:
    """``_null_inside`` for the items of a list; ``refused``: nor may they be null themselves."""
    if _null_inside(F.lit(None), given, wanted) is None and not refused:
        return None

    def fault(item: Column) -> Column:
        inner = _null_inside(item, given, wanted)
        if inner is None:
            return item.isNull()
        return item.isNull() | inner if refused else inner

    return F.coalesce(F.exists(items, fault), F.lit(False))


def loose(kind: DataType) -> DataType:
    """``kind`` whose parts may all be null: Spark casts to no type that declares they are not."""
    if isinstance(kind, StructType):
        fields = [StructField(f.name, loose(f.dataType), True, f.metadata) for f in kind.fields]
        return StructType(fields)
    if isinstance(kind, ArrayType):
        return ArrayType(loose(kind.elementType), True)
    return (
        MapType(loose(kind.keyType), loose(kind.valueType), True)
        if isinstance(kind, MapType)
        else kind
    )


def _fitted(value: Column, given: DataType, wanted: DataType) -> Column:
    """``value`` as ``wanted``: the fields of structs by their names, absent ones as nulls."""
    if _names(given) == _names(wanted):
        return value.cast(loose(wanted))
    if isinstance(given, StructType) and isinstance(wanted, StructType):
        known = {field.name.lower(): field for field in given.fields}
        fields = []
        for field in wanted.fields:
            mine = known.get(field.name.lower())
            part = F.lit(None) if mine is None else value.getField(mine.name)
            kind = NullType() if mine is None else mine.dataType
            fields.append(_fitted(part, kind, field.dataType).alias(field.name))
        return F.when(value.isNotNull(), F.struct(*fields))
    if isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
        elements = given.elementType, wanted.elementType
        return F.transform(value, lambda each: _fitted(each, *elements))
    if isinstance(given, MapType) and isinstance(wanted, MapType):
        values = given.valueType, wanted.valueType
        return F.transform_values(value, lambda _, each: _fitted(each, *values))
    return value.cast(wanted)


def _names(kind: DataType) -> Any:
    """The names inside a type, in their order: types of the same names are cast as a whole."""
    if isinstance(kind, StructType):
        return [(field.name.lower(), _names(field.dataType)) for field in kind.fields]
    if isinstance(kind, ArrayType):
        return [_names(kind.elementType)]
    return [_names(kind.keyType), _names(kind.valueType)] if isinstance(kind, MapType) else None
