"""Ordering columns of merge-on-read tables whose type changes while there are logs.

A delete in a log has its ordering value in the type of its write. Apache Hudi's readers widen the
values of rows, but not those of deletes: such a slice fails until it is compacted
(spec/log_files.md L5). Rule: while logs have deletes with ordering values, no such column widens,
and no write adds deletes in an older type.

Rows are compared in the wider type (spec/merging.md R1). Rule: while logs have rows, no ordering
column widens in whose new type other rows might win.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from pyhudi.errors import CommitConflict, SchemaConflict
from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata, WriteStat
from pyhudi.format.instants import InstantTime
from pyhudi.format.schemas import type_text
from pyhudi.format.spark_schema import Column, SparkSchema
from pyhudi.format.table_config import MergeMode, TableConfig, TableType
from pyhudi.format.widening import same_type
from pyhudi.timeline.active import COMMITS, Timeline
from pyhudi.timeline.schema import table_schema
from pyhudi.timeline.strays import Archive, first_write
from pyhudi.timeline.table import Table
from pyhudi.transactions.conflicts.meanwhile import RETRY

#: the operation whose deletes have no ordering value, and always win
ALWAYS = "DELETE"
#: type -> wider types in which different values may be equal
_ROUNDED = {"integer": ("float",), "long": ("float", "double")}


def check_ordering_types(
    table: Table, now: Timeline, instant: InstantTime, ours: CommitMetadata, declared: str | None
) -> None:
    """``SchemaConflict`` if the ``declared`` schema (Avro JSON) widens an ordering column though
    logs have deletes, or rows that it orders otherwise; ``CommitConflict`` if ours has deletes in
    a type that it widens."""
    config, given = table.config, ours.extra.get(SCHEMA_KEY)
    if not _orders_logs(config) or declared is None or given is None:
        return
    after = SparkSchema.of_avro(json.loads(declared))
    if declared != given and any(_deletes(ours, stat) for stat in ours.stats):
        written = SparkSchema.of_avro(json.loads(given))
        if found := _widened(config, written, after):
            old, new = found[0]
            raise CommitConflict(
                f"Write {instant} has deletes with {type_text(old.type)} values of the "
                f"ordering column '{old.name}', which another writer has made "
                f"{type_text(new.type)}. {RETRY}",
                ours=instant,
                overlap=("schema",),
            )
    before = table_schema(table, now, None)
    if before is None or not (found := _widened(config, before, after)):
        return
    path = _log_with(_deletes, table, now, ours)
    if path is not None:
        why = "Apache Hudi compares a delete only in the type of its write"
        raise _refusal(*found[0], "deletes", path, why)
    for old, new in found:
        reason = _reorders(old, new)
        path = _log_with(_rows, table, now, ours) if reason is not None else None
        if reason is not None and path is not None:
            raise _refusal(old, new, "rows", path, reason)


def _refusal(old: Column, new: Column, what: str, path: str, why: str) -> SchemaConflict:
    return SchemaConflict(
        f"The ordering column '{new.name}' cannot change from {type_text(old.type)} to "
        f"{type_text(new.type)} while logs have {what}, such as {path}: {why}. Nothing was "
        "changed. Compact the table (pyhudi.compact), then run this again.",
        column=new.name,
        ours=new.type,
        theirs=old.type,
        rule=f"the ordering column of {what} in logs",
    )


def _reorders(old: Column, new: Column) -> str | None:
    """Why other rows might win in the new type; None if none would."""
    if old.is_nested:  # what is inside a column keeps its type
        return None
    if new.type in _ROUNDED.get(old.type, ()):
        return f"of two values that are equal once they are {type_text(new.type)}, the later wins"
    if old.type == "integer" and old.nullable:
        return f"null is 0 among ints, and less than any {type_text(new.type)}"
    return None


def _orders_logs(config: TableConfig) -> bool:
    """Whether rows and deletes in logs are compared by ordering values."""
    event_time = config.merge_mode is MergeMode.EVENT_TIME_ORDERING
    return event_time and config.table_type is TableType.MERGE_ON_READ


def _widened(
    config: TableConfig, before: SparkSchema, after: SparkSchema
) -> list[tuple[Column, Column]]:
    """(old column, new column) of the ordering columns whose types differ."""
    old, new = before.by_lower_name(), after.by_lower_name()
    names = [path.split(".")[0].lower() for path in config.ordering_fields]
    return [
        (old[name], new[name])
        for name in names
        if name in old and name in new and not same_type(old[name].type, new[name].type)
    ]


def _rows(commit: CommitMetadata, stat: WriteStat) -> bool:
    """Whether a commit's log may have rows."""
    return stat.log_version is not None and commit.operation.upper() != ALWAYS


def _deletes(commit: CommitMetadata, stat: WriteStat) -> bool:
    """Whether a commit's log has deletes with ordering values."""
    return stat.deletes_in_log and commit.operation.upper() != ALWAYS


def _log_with(
    holds: Callable[[CommitMetadata, WriteStat], bool],
    table: Table,
    now: Timeline,
    ours: CommitMetadata,
) -> str | None:
    """A log that counts and ``holds``, or may hold it since its commit is archived; none
    of the groups that ``ours`` replaces."""
    known: dict[str, bool] = {}
    for instant in now.commits:
        commit = COMMITS.get(table.storage, now, instant)
        for stat in commit.stats:
            if stat.log_version is not None:  # on HDFS several commits may append to one file
                known[stat.path] = known.get(stat.path, False) or holds(commit, stat)
    first = first_write(now, Archive(table.storage, table.config))
    replaced = {(path, each) for path, ids in (ours.replaced or {}).items() for each in ids}
    slices = table.view(now).slices()
    held = (each for each in slices if (each.partition_path, each.file_id) not in replaced)
    logs = (log for each in held for log in each.logs if not log.named.cdc)
    for log in logs:
        archived = first is None or log.instant < first  # others are of writes that are pending
        if known.get(log.path, archived):
            return log.path
    return None
