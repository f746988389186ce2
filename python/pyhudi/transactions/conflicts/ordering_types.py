"""Ordering columns of merge-on-read tables whose type changes while logs have deletes.

A delete in a log has its ordering value in the type of its write. Apache Hudi's readers widen the
values of rows, but not those of deletes: such a slice fails until it is compacted
(spec/log_files.md L5). Rule: while logs have deletes with ordering values, no such column widens,
and no write adds deletes in an older type.
"""

from __future__ import annotations

import json

from pyhudi.errors import CommitConflict, SchemaConflict
from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata
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


def check_ordering_types(
    table: Table, now: Timeline, instant: InstantTime, ours: CommitMetadata, declared: str | None
) -> None:
    """``SchemaConflict`` if the ``declared`` schema (Avro JSON) widens an ordering column though
    logs have deletes; ``CommitConflict`` if ours has deletes in a type that it widens."""
    config, given = table.config, ours.extra.get(SCHEMA_KEY)
    if not _orders_deletes(config) or declared is None or given is None:
        return
    after = SparkSchema.of_avro(json.loads(declared))
    if declared != given and _deletes(ours):
        written = SparkSchema.of_avro(json.loads(given))
        if found := _widened(config, written, after):
            raise CommitConflict(
                f"Write {instant} has deletes with {type_text(found[0].type)} values of the "
                f"ordering column '{found[0].name}', which another writer has made "
                f"{type_text(found[1].type)}. {RETRY}",
                ours=instant,
                overlap=("schema",),
            )
    before = table_schema(table, now, None)
    if before is None or not (found := _widened(config, before, after)):
        return
    path = _deleting_log(table, now, ours)
    if path is not None:
        old, new = found
        raise SchemaConflict(
            f"The ordering column '{new.name}' cannot change from {type_text(old.type)} to "
            f"{type_text(new.type)} while logs have deletes, such as {path}: Apache Hudi compares "
            "a delete only in the type of its write. Nothing was changed. Compact the table "
            "(pyhudi.compact), then run this again.",
            column=new.name,
            ours=new.type,
            theirs=old.type,
            rule="the ordering column of deletes in logs",
        )


def _orders_deletes(config: TableConfig) -> bool:
    """Whether deletes in logs have ordering values."""
    event_time = config.merge_mode is MergeMode.EVENT_TIME_ORDERING
    return event_time and config.table_type is TableType.MERGE_ON_READ


def _widened(
    config: TableConfig, before: SparkSchema, after: SparkSchema
) -> tuple[Column, Column] | None:
    """(old column, new column) of the first ordering column whose type differs."""
    old, new = before.by_lower_name(), after.by_lower_name()
    for path in config.ordering_fields:
        name = path.split(".")[0].lower()
        if name in old and name in new and not same_type(old[name].type, new[name].type):
            return old[name], new[name]
    return None


def _deletes(commit: CommitMetadata) -> bool:
    """Whether a commit has logs with deletes that have ordering values."""
    ordered = commit.operation.upper() != ALWAYS
    return ordered and any(stat.deletes_in_log for stat in commit.stats)


def _deleting_log(table: Table, now: Timeline, ours: CommitMetadata) -> str | None:
    """A log that counts and has such deletes, or may have some since its commit is archived; none
    of the groups that ``ours`` replaces."""
    known: dict[str, bool] = {}
    for instant in now.commits:
        commit = COMMITS.get(table.storage, now, instant)
        deletes = _deletes(commit)
        for stat in commit.stats:
            if stat.log_version is not None:  # on HDFS several commits may append to one file
                found = known.get(stat.path, False)
                known[stat.path] = found or (deletes and stat.num_deletes > 0)
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
