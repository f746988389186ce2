"""The schema history in a commit: repeated if nothing changed, otherwise with a new first version.

This follows Hudi's schema-on-read (spec/schema_evolution.md S4). If another writer has meanwhile
renamed or dropped columns of a write, the write must not commit: its files would be read by the new
version, in which the same names mean other columns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from dataclasses import replace

from pyhudi.errors import SchemaConflict
from pyhudi.format.column_ids import identified, version_of
from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata
from pyhudi.format.instants import InstantTime
from pyhudi.format.schema_history import (
    LATEST_SCHEMA_KEY,
    SchemaVersion,
    history_file,
    parse_version,
    render_history,
    render_version,
)
from pyhudi.format.schemas import HIDDEN_COLUMNS
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.schema import table_schema
from pyhudi.timeline.schema_history import SchemaHistory, extended


def with_history(
    began: SchemaHistory | None,
    now: Timeline,
    instant: InstantTime,
    completion: InstantTime,
    metadata: CommitMetadata,
) -> CommitMetadata:
    """The commit with its version, after its history has been saved, if the table has one.

    It is saved first, as in Hudi: a history counts when its commit exists. Errors as below.
    """
    declared = declared_version(began, now, instant, metadata.extra) if began else None
    if began is None or declared is None:
        return metadata
    latest, text = declared
    path = history_file(instant, completion, now.layout)
    began.table.storage.put_if_absent(path, text.encode())
    return replace(metadata, extra={**metadata.extra, LATEST_SCHEMA_KEY: latest})


def declared_version(
    began: SchemaHistory, now: Timeline, instant: InstantTime, extra: Mapping[str, str]
) -> tuple[str, str] | None:
    """(``latest_schema``, text of the history file) of a commit; None for a table without.

    ``began`` is the history when the write began. ``extra`` has the commit's metadata so far: its
    schema, and for an ALTER its version. ``SchemaConflict`` if another writer has changed the
    schema since then in a way that does not fit the commit.
    """
    table = began.table
    if SCHEMA_KEY not in extra:
        return None
    history = began
    if now.keys() != began.timeline.keys():
        history = SchemaHistory(table, now)
    given = extra.get(LATEST_SCHEMA_KEY)
    before, current = began.current(), history.current()
    if current != before or (given is not None and history is not began):
        _check(_columns(began, before), _columns(history, current), given is not None)
    if given is not None:
        version = parse_version(given, f"commit {instant}")
        return given, extended(version, history.text() or _first(history))
    if current is None:
        return None
    columns = identified(SparkSchema.of_avro(json.loads(extra[SCHEMA_KEY])), current)
    version = version_of(columns, current.version_id, current, now.layout)
    if version == current:
        return render_version(current), history.text()
    version = version_of(columns, int(instant), current, now.layout)
    return render_version(version), extended(version, history.text())


def redefined_version(
    began: SchemaHistory, instant: InstantTime, declaration: str, gone: Set[str]
) -> str:
    """``latest_schema`` of a commit that ends the columns ``gone``, names in lower case.

    ``declaration`` is its schema. Columns of other names than the table's have new ids.
    """
    table = table_schema(began.table, began.timeline, None)
    assert table is not None, "columns can only end in a table that has some"
    before = began.current() or began.first_version(table)
    stay = (table.by_lower_name().keys() | HIDDEN_COLUMNS) - gone
    columns = identified(SparkSchema.of_avro(json.loads(declaration)), before.only(stay))
    return render_version(version_of(columns, int(instant), before, began.timeline.layout))


def check_columns(began: SchemaHistory, now: SchemaHistory) -> None:
    """``SchemaConflict`` if a column of ``began`` has another name or is gone in ``now``."""
    before, current = began.current(), now.current()
    if current is not None and current != before:
        _check(_columns(began, before), current, altered=False)


def _first(history: SchemaHistory) -> str:
    schema = table_schema(history.table, history.timeline, None)
    if schema is None:
        return ""
    return render_history([history.first_version(schema)])


def _columns(history: SchemaHistory, version: SchemaVersion | None) -> SchemaVersion | None:
    """The columns at that time; None if there were none."""
    if version is not None:
        return version
    schema = table_schema(history.table, history.timeline, None)
    if schema is None:
        return None
    first = history.first_version(schema)
    return version_of(identified(schema, first), 0, first, history.timeline.layout)


def _check(before: SchemaVersion | None, now: SchemaVersion | None, altered: bool) -> None:
    if before is None or before == now:
        return
    found = dict(now.paths()) if now is not None else {}
    moved = [(name, found.get(own)) for own, name in before.paths()]
    changed = [(name, other) for name, other in moved if name != other]
    if not changed and not altered:
        return
    name, other = changed[0] if changed else (None, None)
    what = f"'{name}' is {'gone' if other is None else f'{other!r} now'}" if name else "are others"
    raise SchemaConflict(
        f"Another writer has altered the table's columns since this write began: {what}. Nothing "
        "of this write is visible. Adapt it to the new columns and run it again.",
        column=name,
        ours=name,
        theirs=other,
        rule="concurrent schema change",
    )
