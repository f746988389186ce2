"""The columns in which a service writes rows again, and what the files before call them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyhudi.format.instants import InstantTime
from pyhudi.format.schema_history import SchemaVersion
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.rows.spec import FileSystemSpec
from pyhudi.services.compaction_plan import Group
from pyhudi.services.file_schemas import FileSchemas
from pyhudi.slices.files import LogFile
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
    """The newest columns; those of the plan's ``time`` if columns have ids now.

    Once the commit is archived, the history alone says what its files hold, and it goes by the
    instant: a name that has come later would be another column there (spec/schema_evolution.md S5).
    If the history has begun since the plan, the files have the names from before it.
    ``place`` is that of the table's data files; the table has a schema.
    """
    history = SchemaHistory(table, timeline, time)
    schema = table_schema(table, timeline, time if have_ids(table, timeline) else None)
    assert schema is not None
    files = FileSchemas(lambda _: place, table, timeline, history)
    return WrittenColumns(schema, files, history.current())


def have_ids(table: Table, timeline: Timeline) -> bool:
    """Whether the columns of the table have ids, so that new files have those of their plan."""
    return SchemaHistory(table, timeline).current() is not None


def older_logs(
    history: SchemaHistory, slices: Iterable[tuple[Group, Iterable[LogFile]]]
) -> dict[Group, str]:
    """The groups that have logs from before the columns by ids became those of ``history``, and why
    these logs cannot be merged alone.

    The columns of a log go by its instant. Blocks that are copied to a log of another instant would
    be read in the columns of that one.
    """
    now, are_same = history.current(), dict[InstantTime, bool]()
    found: dict[Group, str] = {}
    if now is None:
        return found
    for group, logs in slices:
        for time in (log.instant for log in logs):
            if time not in are_same:
                then = history.version_of_files(time)
                are_same[time] = then is not None and then.has_columns_of(now)
            if not are_same[time]:
                why = f"the columns changed after its log of {time}: a compaction merges it"
                found[group] = why
    return found


def have_moved(
    table: Table,
    began: Timeline,
    now: Timeline,
    time: InstantTime,
    version: SchemaVersion | None,
) -> bool:
    """Whether a change of columns by ids makes the files of ``time`` wrong.

    They were written in ``version`` under the timeline ``began``. A change with an earlier instant
    would be missed, as readers take the columns of the greatest one. If the history has begun since
    then, the files may have names that came after the plan.
    """
    if SchemaHistory(table, now, time).current() != version:
        return True
    return version is None and have_ids(table, now) and not have_ids(table, began)
