"""The columns in which a service writes rows again, and what the files before call them."""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi.format.instants import InstantTime
from pyhudi.format.schema_history import SchemaVersion
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.rows.spec import FileSystemSpec
from pyhudi.services.file_schemas import FileSchemas
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.schema import table_schema
from pyhudi.timeline.schema_history import SchemaHistory
from pyhudi.timeline.table import Table


@dataclass(frozen=True, slots=True)
class WrittenColumns:
    """The columns of new files, what older files call them, and their version if they have ids."""

    schema: SparkSchema
    files: FileSchemas
    version: SchemaVersion | None


def written_columns(
    table: Table, place: tuple[FileSystemSpec, str], timeline: Timeline, time: InstantTime
) -> WrittenColumns:
    """The newest columns; those of the plan's ``time`` if columns have ids.

    Once the commit is archived, the history alone says what its files hold, and it goes by the
    instant: a name that has come later would be another column there (spec/schema_evolution.md S5).
    ``place`` is that of the table's data files; the table has a schema.
    """
    history = SchemaHistory(table, timeline, time)
    version = history.current()
    schema = table_schema(table, timeline, None if version is None else time)
    assert schema is not None
    return WrittenColumns(schema, FileSchemas(lambda _: place, table, timeline, history), version)
