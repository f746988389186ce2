"""The ordering values of rows and deletes in logs (spec/log_files.md L5)."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.rows.log_spec import MergeSpec

#: an ordering value that does not compare with the column's
MISFIT: Final = object()


def kind_of(spec: MergeSpec, path: str) -> pa.DataType:
    """The type of an ordering column; a dotted name is a field of a struct."""
    kind: pa.DataType = spec.ordering
    for name in path.split("."):
        kind = kind.field(name).type
    return kind


def ordering_columns(held: pa.StructArray, spec: MergeSpec) -> list[pa.Array]:
    """The ordering values in ``held``, an array of ``spec.ordering``."""
    return [pc.struct_field(held, path.split(".")) for path in spec.ordering_paths]


def ordering_value(kind: pa.DataType, named: str, value: object) -> object:
    """A delete's ordering value as one of an ordering column of type ``kind``; ``MISFIT`` if the
    two do not compare, so that the delete wins. ``None`` stands for null among several values."""
    if named == "null":
        return None
    families = {
        "boolean": pa.types.is_boolean,
        "int": lambda each: pa.types.is_integer(each) or pa.types.is_date(each),
        "long": lambda each: pa.types.is_integer(each) or pa.types.is_timestamp(each),
        "float": pa.types.is_floating,
        "double": pa.types.is_floating,
        "bytes": pa.types.is_binary,
        "string": pa.types.is_string,
        "date": pa.types.is_date,
        "decimal": pa.types.is_decimal,
        "timestamp": pa.types.is_timestamp,
    }
    if named not in families or not families[named](kind):
        return MISFIT
    try:
        held = pa.scalar(value, kind)
        # Python has no days after the year 9999; Arrow takes their numbers as well.
        return value if pa.types.is_temporal(kind) else held.as_py()
    except (pa.ArrowException, OverflowError, TypeError):
        return MISFIT
