"""The table's schema at an instant, and the schema that each data file was written with.

Source: ``extraMetadata.schema`` of commits (spec/timeline.md T8). If no commit has it, the schema
given to CREATE TABLE counts; without that, the footer of a data file.
"""

from __future__ import annotations

import json
from functools import lru_cache

from pyhudi.errors import TableCorrupt
from pyhudi.format.commit_metadata import SCHEMA_KEY
from pyhudi.format.instants import Instant, InstantTime
from pyhudi.format.spark_schema import Column, SparkSchema
from pyhudi.timeline.active import COMMITS, Timeline
from pyhudi.timeline.strays import Archive, first_write
from pyhudi.timeline.table import Table


def table_schema(table: Table, timeline: Timeline, as_of: InstantTime | None) -> SparkSchema | None:
    """The schema that readers get at ``as_of`` (None: now); None if neither the timeline nor the
    properties have one."""
    for instant in reversed(timeline.commits):
        if as_of is None or instant.time <= as_of:
            found = schema_of(table, timeline, instant)
            if found is not None:
                return found
    archive = Archive(table.storage, table.config)
    first = first_write(timeline, archive, as_of) if as_of is not None else None
    if not timeline.commits or (as_of is not None and first is not None and as_of < first):
        # All commits were rolled back, or there never was one; or the instant is archived.
        archived = archive.commits()
        for time in sorted(archived, reverse=True):
            text = archived[time].commit().extra.get(SCHEMA_KEY)
            if text and (as_of is None or time <= as_of):
                return _parsed(text, f"{table.config.history_folder} of commit {time}")
    if table.config.create_schema is not None:
        return SparkSchema.of_avro(table.config.create_schema)
    return None


def schema_of(table: Table, timeline: Timeline, instant: Instant) -> SparkSchema | None:
    """The schema that a completed commit declares, or None."""
    text = COMMITS.get(table.storage, timeline, instant).extra.get(SCHEMA_KEY)
    return _parsed(text, timeline.file_of(instant)) if text else None


def declared_schemas(table: Table, timeline: Timeline) -> list[SparkSchema]:
    """The schemas that the completed commits declare, each once."""
    found: dict[str, str] = {}
    for instant in timeline.commits:
        text = COMMITS.get(table.storage, timeline, instant).extra.get(SCHEMA_KEY)
        if text:
            found.setdefault(text, timeline.file_of(instant))
    return [_parsed(text, path) for text, path in found.items()]


def gone_columns(table: Table, timeline: Timeline, now: SparkSchema) -> tuple[Column, ...]:
    """The columns that active commits declare and ``now``, the table's schema, does not have.

    Without a history Apache Hudi's writers may drop columns by name.
    """
    every = declared_schemas(table, timeline)
    names = {column.lower_name: column for each in every for column in each.columns}
    return tuple(names[name] for name in names if name not in now.by_lower_name())


def _parsed(text: str, path: str) -> SparkSchema:
    try:
        return _of_text(text)
    except (ValueError, KeyError, TypeError) as e:
        raise TableCorrupt(
            f"The schema in {path} is not an Avro schema: {e}.",
            path=path,
            rule="spec/timeline.md T8",
        ) from e


@lru_cache(maxsize=1024)
def _of_text(text: str) -> SparkSchema:
    """By the text alone: thousands of commits declare the same columns."""
    return SparkSchema.of_avro(json.loads(text))
