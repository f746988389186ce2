"""The columns of a table after a new definition has replaced it in place.

Rule: they are those of the definition, in its order. One is the table's column of that name, if
their types fit; the wider type wins. Every other column of the table ends. One of the same name and
another type has an id of its own, so old files keep their columns for time travel
(spec/schema_evolution.md S4).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from pyspark.sql.types import StructType

from pyhudi.errors import SchemaConflict, TableExists
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.format.widening import Fields, merged_type, typed
from pyhudi.tables.columns import check_names, roles_of
from pyhudi.timeline.table import Table
from pyhudi.writes.fitted import loose


@dataclass(frozen=True, slots=True)
class Redefined:
    """The columns from now on, and the names in lower case of those that end."""

    schema: SparkSchema
    gone: frozenset[str]


def redefined(table: Table, current: SparkSchema, given: StructType) -> Redefined:
    """What becomes of the columns of ``current``.

    ``TableExists`` if a column would end that places, orders or deletes rows: the table's
    properties name it.
    """
    known = current.by_lower_name()
    # As in CREATE TABLE AS SELECT: a query that gives no nulls does not say that none may come.
    columns = SparkSchema.parse(json.loads(loose(given).json())).columns
    columns = tuple(
        replace(c, type=typed(c.type, known.get(c.lower_name, c).type)) for c in columns
    )
    stored = SparkSchema(columns).as_stored(table.config.name)
    gone = set(known) - set(stored.by_lower_name())
    kept = []
    for column in stored.columns:
        old = known.get(column.lower_name)
        try:
            if old is not None:
                kind = merged_type(column.name, old.type, column.type, Fields.ADDED)
                kept.append(replace(old, type=kind))
                continue
        except SchemaConflict:
            gone.add(column.lower_name)
        check_names(SparkSchema((column,)))
        kept.append(column)
    _refuse_serving(table, current, gone)
    return Redefined(SparkSchema(tuple(kept)), frozenset(gone))


def _refuse_serving(table: Table, current: SparkSchema, gone: set[str]) -> None:
    config = table.config
    for role, fields in roles_of(config).items():
        for root in (path.split(".")[0].lower() for path in fields):
            if root in gone:
                name = current.by_lower_name()[root].name
                raise TableExists(
                    f"{config.name} cannot be replaced in place, since {role} uses column "
                    f"'{name}', and the new definition has none of this name and type. Nothing "
                    "was written. Drop the table first.",
                    path=table.storage.root,
                )
