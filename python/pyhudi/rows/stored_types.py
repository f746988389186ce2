"""Converts columns to the stored types, from Spark's rows and from files of older schemas.

The stored types follow spec/data_files.md D4: INT32 for byte and short, 3-level lists without null
elements (Apache Hudi cannot merge a file that has one), every field nullable.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import InvalidRecord
from pyhudi.rows.meta_columns import TEXT
from pyhudi.rows.spec import DELETE, KEY_COLUMN, FileNames, WriteSpec


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """The table's data columns with their stored types."""
    return pa.schema([pa.field(column.name, stored_type(column.type)) for column in schema])


def stored_type(kind: pa.DataType) -> pa.DataType:
    """The Arrow type whose Parquet form Hudi's readers and writers understand."""
    if pa.types.is_integer(kind) and kind.bit_width < 32:
        return pa.int32()
    if pa.types.is_large_string(kind):
        return TEXT
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_map(kind):
        return pa.map_(stored_type(kind.key_type), stored_type(kind.item_type))
    if _is_list(kind):
        return pa.list_(pa.field("element", stored_type(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(part.name, stored_type(part.type)) for part in kind])
    return kind


def required_names(schema: pa.Schema) -> frozenset[str]:
    """The columns that the table declares NOT NULL."""
    return frozenset(column.name for column in schema if not column.nullable)


def incoming_rows(
    batch: pa.RecordBatch, schema: pa.Schema, required: frozenset[str] = frozenset()
) -> list[pa.Array]:
    """The data columns of incoming rows in the stored ``schema``'s order; absent ones are null.

    ``InvalidRecord`` with ``column`` for a value that does not fit, a null list element, or a null
    in a ``required`` column of a row that is not to be deleted.
    """
    names = set(batch.schema.names)
    columns = []
    for wanted in schema:
        if wanted.name in names:
            array = _fitted(batch.column(wanted.name), wanted)
        else:
            array = pa.nulls(batch.num_rows, wanted.type)
        if array.null_count and wanted.name in required:
            _refuse_nulls(array, wanted.name, batch)
        if pa.types.is_nested(wanted.type):
            _refuse_null_elements(array, wanted.name)
        columns.append(array)
    return columns


def _refuse_nulls(array: pa.Array, column: str, batch: pa.RecordBatch) -> None:
    faults = pc.is_null(array)
    if DELETE in batch.schema.names:
        deleted = pc.fill_null(batch.column(DELETE), False)
        faults = pc.and_(faults, pc.invert(deleted))
    if pc.any(faults).as_py():
        raise InvalidRecord(
            f"A value of column '{column}' is null, but the table declares the column NOT NULL. "
            "Nothing was written. Fill in the column, filter these rows out, or let it be null by "
            f"ALTER TABLE ... ALTER COLUMN {column} DROP NOT NULL.",
            column=column,
        )


def incoming_keys(batch: pa.RecordBatch, spec: WriteSpec) -> pa.Array:
    """The record keys; ``InvalidRecord`` with the key's column if one is null."""
    given = KEY_COLUMN in batch.schema.names or spec.key_from is None
    keys = batch.column(KEY_COLUMN if given else spec.key_from)
    if keys.null_count:
        column = ",".join(spec.key_columns) or KEY_COLUMN
        raise InvalidRecord(
            f"{keys.null_count} row(s) have a null or empty record key (column '{column}'). "
            "Nothing was written. Filter these rows out or choose another key column.",
            column=column,
        )
    return keys if keys.type == TEXT else keys.cast(TEXT)


def _fitted(array: pa.Array, wanted: pa.Field) -> pa.Array:
    try:
        return converted(array, wanted.type, exact=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise InvalidRecord(
            f"A value of column '{wanted.name}' does not fit its type {wanted.type}: {reason}. "
            "Nothing was written. Correct the value or widen the column.",
            column=wanted.name,
        ) from error


def converted(
    array: pa.Array, kind: pa.DataType, exact: bool, names: FileNames | None = None
) -> pa.Array:
    """``array`` converted to ``kind``: structs by field name, lists and maps by their elements.

    ``names`` are the names of fields in ``array``, if they differ from those in ``kind``.

    ``exact`` refuses a value that changes; without it integers may round to floating point, as
    Avro's promotions do (spec/schema_evolution.md S2). Raises Arrow's own errors.
    """
    if array.type == kind and not names:
        return array
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        return _struct(array, kind, exact, names or {})
    if pa.types.is_map(kind) and pa.types.is_map(array.type):
        array = _compact(array)
        keys = converted(array.keys, kind.key_type, exact, _inside(names, "key"))
        items = converted(array.items, kind.item_type, exact, _inside(names, "value"))
        moved = pa.MapArray.from_arrays(array.offsets, keys, items)
        return _with_nulls_of(array, moved, kind)
    if _is_list(kind) and _is_list(array.type):
        array = _compact(array)
        held = converted(array.values, kind.value_type, exact, _inside(names, "element"))
        moved = pa.ListArray.from_arrays(_offsets32(array.offsets), held, type=kind)
        return _with_nulls_of(array, moved, kind)
    if not exact and (cast := _CASTS.get((_family(array.type), _family(kind)))):
        return cast(array, kind)
    rounds = pa.types.is_integer(array.type) and pa.types.is_floating(kind)
    return array.cast(kind, safe=exact or not rounds)


# ---- casts of ALTER TABLE (format/widening.py, CASTS), and of floats to texts, which Apache Hudi's
# writers make (spec/schema_evolution.md S2): each gives what Spark's CAST gives


def _as_text(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(array.type):
        # Java's text of a decimal: 0.00000012 is 1.2E-7.
        return pa.array([None if v is None else str(v) for v in array.to_pylist()], kind)
    return array.cast(kind)


def _as_java_text(array: pa.Array, kind: pa.DataType) -> pa.Array:
    values = array.to_numpy(zero_copy_only=False)
    texts = [java_text(value) for value in values]
    return pa.array(texts, kind, mask=np.asarray(pc.is_null(array)))


def java_text(value: np.floating[Any]) -> str:
    """Java's text of a float or double: 7.0, 0.001, 1.0E10."""
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or PLAIN_FROM <= abs(value) < PLAIN_BELOW:
        return np.format_float_positional(value, unique=True, trim="0")
    text = np.format_float_scientific(value, unique=True, trim="0", exp_digits=1)
    digits, exponent = text.split("e")
    return f"{digits}E{int(exponent)}"


def _as_decimal(array: pa.Array, kind: pa.Decimal128Type) -> pa.Array:
    return pa.array([_rounded(v, kind.precision, kind.scale) for v in array.to_pylist()], kind)


def _rounded(value: float | str | None, precision: int, scale: int) -> Decimal | None:
    """The value, rounded half up; null if it is no number or too large."""
    with localcontext() as context:
        context.prec = 80
        text = repr(value) if isinstance(value, float) else str(value).strip()
        if not NUMBER.fullmatch(text):
            return None
        try:
            found = Decimal(text)
            found = found.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
        except InvalidOperation:
            return None
        fits = found.is_finite() and abs(found) < Decimal(10) ** (precision - scale)
        return found if fits else None


def _as_day(array: pa.Array, kind: pa.DataType) -> pa.Array:
    days = pa.array([None if v is None else day_of(v) for v in array.to_pylist()], pa.int32())
    return days.cast(kind)


def day_of(text: str) -> int | None:
    """The date that a text begins with, as far as its parts go, in days since 1970; null if there
    is none. Python's own dates end with the year 9999, the calendar repeats after 400 years."""
    found = DAY.fullmatch(text.strip())
    if found is None:
        return None
    year, month, day = (int(part or 1) for part in found.groups())
    try:
        alike = datetime.date(year % 400 + 400, month, day).toordinal()
    except ValueError:
        return None
    return alike + (year // 400 - 1) * DAYS_OF_400_YEARS - EPOCH


def _as_day_text(array: pa.Array, kind: pa.DataType) -> pa.Array:
    days = array.view(pa.int32())
    four_digits = pc.and_(pc.greater_equal(days, FIRST_DAY), pc.less_equal(days, LAST_DAY))
    if pc.all(four_digits).as_py() is not False:
        return array.cast(kind)
    return pa.array([None if day is None else _day_text(day) for day in days.to_pylist()], kind)


def _day_text(day: int) -> str:
    """Java's text of a day, which has a sign before a year of more than four digits."""
    cycles, rest = divmod(day + EPOCH - 1, DAYS_OF_400_YEARS)
    alike = datetime.date.fromordinal(rest + 1)
    year = alike.year + 400 * cycles
    sign = "-" if year < 0 else "+" if year > LAST_YEAR else ""
    return f"{sign}{abs(year):04}-{alike:%m-%d}"


DAY = re.compile(r"([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII)
#: what Java writes without an exponent
PLAIN_FROM, PLAIN_BELOW = 1e-3, 1e7
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
DAYS_OF_400_YEARS = 146_097
#: the days of the years from 0 to 9999
FIRST_DAY, LAST_DAY, LAST_YEAR = -719_528, 2_932_896, 9_999
EPOCH = datetime.date(1970, 1, 1).toordinal()
_CASTS = {
    ("int", "text"): _as_text,
    ("decimal", "text"): _as_text,
    ("real", "text"): _as_java_text,
    ("day", "text"): _as_day_text,
    ("int", "decimal"): _as_decimal,
    ("real", "decimal"): _as_decimal,
    ("text", "decimal"): _as_decimal,
    ("text", "day"): _as_day,
}


def _family(kind: pa.DataType) -> str:
    """The kind of a type for ``_CASTS``; empty for others."""
    families = {
        "int": pa.types.is_integer,
        "real": pa.types.is_floating,
        "decimal": pa.types.is_decimal,
        "text": pa.types.is_string,
        "day": pa.types.is_date32,
    }
    return next((name for name, holds in families.items() if holds(kind)), "")


def with_leaves(array: pa.Array, change: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """``array`` with ``change``, which keeps types, applied inside structs, lists and maps."""
    kind = array.type
    if not pa.types.is_nested(kind):
        return change(array)
    array = _compact(array)
    if pa.types.is_struct(kind):
        parts = [with_leaves(array.field(at), change) for at in range(kind.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=pc.is_null(array))
    if pa.types.is_map(kind):
        keys, items = with_leaves(array.keys, change), with_leaves(array.items, change)
        return _with_nulls_of(array, pa.MapArray.from_arrays(array.offsets, keys, items), kind)
    held = with_leaves(array.values, change)
    moved = pa.ListArray.from_arrays(_offsets32(array.offsets), held, type=kind)
    return _with_nulls_of(array, moved, kind)


def _inside(names: FileNames | None, part: str) -> FileNames | None:
    return names[part][1] if names and part in names else None


def _struct(array: pa.StructArray, kind: pa.StructType, exact: bool, names: FileNames) -> pa.Array:
    array = _compact(array)
    parts = []
    for wanted in kind:
        own, inner = names.get(wanted.name, (wanted.name, None))
        at = array.type.get_field_index(own)
        if at < 0:
            parts.append(pa.nulls(len(array), wanted.type))
        else:
            parts.append(converted(array.field(at), wanted.type, exact, inner))
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=pc.is_null(array))


def _with_nulls_of(array: pa.Array, moved: pa.Array, kind: pa.DataType) -> pa.Array:
    """``moved``, built only from offsets, with the null bits of ``array`` (both start at 0)."""
    children = [moved.values]
    buffers = [array.buffers()[0] if array.null_count else None, moved.buffers()[1]]
    return pa.Array.from_buffers(kind, len(array), buffers, children=_as_child(children, kind))


def _as_child(children: list[pa.Array], kind: pa.DataType) -> list[pa.Array]:
    """Children with the field names and the nullability of ``kind``."""
    if not pa.types.is_map(kind):
        return children
    entries = children[0]
    parts = [kind.key_field, kind.item_field]
    arrays = [entries.field(0), entries.field(1)]
    return [pa.StructArray.from_arrays(arrays, fields=parts)]


def _compact(array: pa.Array) -> pa.Array:
    """``array`` with offset 0 and buffers that hold only its own rows, even if it was a slice."""
    return array if array.offset == 0 else pa.concat_arrays([array, array.slice(0, 0)])


def _offsets32(offsets: pa.Array) -> pa.Array:
    return offsets if offsets.type == pa.int32() else offsets.cast(pa.int32())


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _refuse_null_elements(array: pa.Array, column: str) -> None:
    if _has_null_element(array):
        raise InvalidRecord(
            f"A list in column '{column}' has a null element, which Apache Hudi could not merge "
            "later. Nothing was written. Remove the nulls, for example by array_compact.",
            column=column,
        )


def _has_null_element(array: pa.Array) -> bool:
    kind = array.type
    if _is_list(kind):
        # flatten() drops the elements of null lists and those outside the slice.
        held = array.flatten()
        return bool(held.null_count) or (pa.types.is_nested(held.type) and _has_null_element(held))
    if pa.types.is_map(kind):
        compact = _compact(array)
        if not pa.types.is_nested(kind.item_type):
            return False
        return _has_null_element(compact.items)
    if pa.types.is_struct(kind):
        return any(
            pa.types.is_nested(part.type) and _has_null_element(array.field(at))
            for at, part in enumerate(kind)
        )
    return False
