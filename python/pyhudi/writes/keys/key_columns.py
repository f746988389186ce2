"""The columns that place a row: they must exist, and their texts must not change.

A key or a path is text made of a value. If a column widened from ``int`` to ``double``, the key
``1`` would become ``1.0`` and miss its row.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.types import StructType

from pyhudi.config import Operation, WriteOptions
from pyhudi.errors import SchemaConflict
from pyhudi.format.schemas import type_text
from pyhudi.format.spark_schema import SparkSchema, SparkType
from pyhudi.format.table_config import TableConfig
from pyhudi.format.widening import same_type, typed
from pyhudi.index.kinds import kind_of
from pyhudi.tables.columns import find_field

#: types whose values have equal texts
INTEGRAL = ("byte", "short", "integer", "long")


def with_key_columns(
    schema: SparkSchema,
    incoming: StructType,
    current: SparkSchema,
    config: TableConfig,
    operation: Operation,
    options: WriteOptions,
) -> SparkSchema:
    """``schema``, whose key columns hold the values of ``incoming`` in a delete too.

    ``ConfigError`` if the data lack a column that places rows, ``SchemaConflict`` if a change of
    such a column's type would change the texts of its values.
    """
    stored = StructType.fromJson(current.json())
    wider: dict[str, SparkType] = {}
    for path, role in _placing(config, operation, options).items():
        theirs = find_field(stored, path, role)[1].dataType.jsonValue()
        ours = typed(find_field(incoming, path, role)[1].dataType.jsonValue(), theirs)
        if same_type(ours, theirs):
            continue
        if ours not in INTEGRAL or theirs not in INTEGRAL:
            raise SchemaConflict(
                f"The {role} '{path}' is {type_text(theirs)} in the table but {type_text(ours)} "
                "in the data. Its values would have other texts, and rows would not be found "
                "again. Cast it to the table's type before writing.",
                column=path,
                ours=ours,
                theirs=theirs,
                rule="type of a key",
            )
        if INTEGRAL.index(ours) > INTEGRAL.index(theirs) and "." not in path:
            wider[path.lower()] = ours
    return SparkSchema(
        tuple(
            replace(column, type=wider.get(column.lower_name, column.type))
            for column in schema.columns
        )
    )


def _placing(config: TableConfig, operation: Operation, options: WriteOptions) -> dict[str, str]:
    """Column -> its role, of those that a write needs."""
    keys = dict.fromkeys(config.record_key_fields, "record key column")
    if operation is Operation.DELETE and kind_of(options).everywhere:
        return keys
    return {**dict.fromkeys(config.partition_fields, "partition column"), **keys}
