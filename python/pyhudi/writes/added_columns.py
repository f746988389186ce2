"""Columns that the rows have and the table has not, or the other way round.

``check_added``: those that a write adds to a table without a schema history, where names tell
columns apart (spec/schema_evolution.md S4). ``check_analysed``: those that another writer dropped
after Spark had fitted the rows of a statement to the table (RFC-82).
"""

from __future__ import annotations

import json

from pyspark.sql.types import StructType

from pyhudi.errors import SchemaConflict
from pyhudi.format.schemas import type_text
from pyhudi.format.spark_schema import Column, SparkSchema
from pyhudi.format.widening import merged_type, paths, same_type
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.schema import declared_schemas
from pyhudi.timeline.schema_history import SchemaHistory
from pyhudi.timeline.table import Table
from pyhudi.writes.prepare import own_columns


def check_added(
    table: Table, timeline: Timeline, before: SparkSchema | None, after: SparkSchema
) -> None:
    """``SchemaConflict`` for a new column of whose name older files have one that is no such type.

    Apache Hudi's writers may have dropped it by name. Its readers would take it for the new one,
    and fail.
    """
    known = before.by_lower_name() if before is not None else {}
    added = [column for column in after.columns if column.lower_name not in known]
    if before is None or not added or SchemaHistory(table, timeline).current() is not None:
        return
    for declared in declared_schemas(table, timeline):
        held = declared.by_lower_name()
        for column in added:
            old = held.get(column.lower_name)
            if old is not None and not _holds(column, old):
                raise SchemaConflict(
                    f"Column '{column.name}' is {type_text(column.type)} in the data, but older "
                    f"files of the table have a column of this name, which is "
                    f"{type_text(old.type)} and was dropped by another writer. Readers could not "
                    "tell them apart. Nothing was written. Use another name, or add the column by "
                    f"ALTER TABLE ... ADD COLUMNS ({column.name} ...) first, which keeps both "
                    "apart.",
                    column=column.name,
                    ours=column.type,
                    theirs=old.type,
                    rule="a column that was dropped",
                )


def check_analysed(given: StructType, current: SparkSchema) -> None:
    """``SchemaConflict`` if the table has lost a column since Spark fitted the rows to it.

    ``given`` are the columns of the rows, which would bring it back.
    """
    had = paths(json.loads(own_columns(given).json()))
    gone = min(had - paths(current.json()), default=None)
    if gone is not None:
        raise SchemaConflict(
            "Another writer has altered the table's columns since Spark analysed this statement: "
            f"'{gone}' is gone. Nothing was written. Adapt the statement to the new columns and "
            "run it again.",
            column=gone,
            ours=gone,
            theirs=None,
            rule="concurrent schema change",
        )


def _holds(column: Column, old: Column) -> bool:
    """Whether readers can read values of ``old`` as those of ``column``."""
    try:
        return same_type(merged_type(column.name, old.type, column.type), column.type)
    except SchemaConflict:
        return False
