"""Keeps a table's entry up to date with its commits: columns, partitions, Hudi's properties.

Invariant: a commit stands whatever happens here. After a failure the state of the entry counts as
unknown, so the next write by the table's name compares everything and registers what is missing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pyhudi.catalogs import hive_metastore
from pyhudi.catalogs.hudi_entry import (
    EntryName,
    PartitionChanges,
    Values,
    entry_columns,
    hive_values,
    noted,
    partition_changes,
    partition_columns,
    partitioned_by,
    spark_schema,
)
from pyhudi.errors import ConfigError
from pyhudi.format.spark_schema import SparkSchema, SparkType
from pyhudi.format.table_config import TableConfig
from pyhudi.storage.base import Storage
from pyhudi.timeline.active import InstantKey, Timeline
from pyhudi.timeline.schema import table_schema
from pyhudi.timeline.table import Table, open_table
from pyhudi.transactions.transaction import Committed

log = logging.getLogger(__name__)

#: the largest number of partitions that a warning names
_NAMED = 5


@dataclass(frozen=True, slots=True)
class _Known:
    """What this application knows of one entry: what it has sent or received."""

    commits: frozenset[InstantKey]
    schema: SparkSchema
    partitions: frozenset[Values]


class RegisteredTables:
    """The entries that this application writes to, by name.

    If all partitions of a commit are known to be registered, the metastore is not asked. The first
    commit to an entry compares all partitions, and so does a commit after commits of others.
    """

    def __init__(self) -> None:
        self._known: dict[EntryName, _Known] = {}
        #: compared because a repeated batch was in its table
        self._caught_up: set[EntryName] = set()
        self._guard = threading.Lock()

    def forget(self, name: EntryName) -> None:
        """Compare everything at the next commit to ``name``."""
        with self._guard:
            self._known.pop(name, None)

    def follow(
        self,
        name: EntryName,
        storage: Storage,
        done: Committed,
        properties_of: Callable[[TableConfig], Mapping[str, str]],
    ) -> None:
        """Register in the metastore what ``done`` changed; a warning if that fails.

        ``properties_of(table)`` are the TBLPROPERTIES that the entry must have.
        """
        try:
            table = open_table(storage)
            self._follow(name, table, done, properties_of(table.config))
        except Exception as e:
            self.forget(name)
            log.warning(
                "%s is committed, but the entry %s in the Hive Metastore was not updated%s: %s "
                "Spark sessions read the commit all the same. The next write to %s registers what "
                "is missing, and so does MSCK REPAIR TABLE %s SYNC PARTITIONS.",
                done.instant, name, _of_partitions(done), e, name, name,
            )  # fmt: skip

    def adopt(self, name: EntryName, storage: Storage) -> None:
        """Register the partitions of a table that the entry was just made for.

        The table is in the catalog whatever happens here: a failure is a warning.
        """
        try:
            table = open_table(storage)
            if _is_listed(table):
                self.sync(name, table, add=True, drop=False)
        except Exception as e:
            log.warning(
                "%s is in the Hive Metastore, but its partitions were not registered: %s Spark "
                "sessions read the table all the same. Other readers find no rows until you run "
                "MSCK REPAIR TABLE %s.",
                name, e, name,
            )  # fmt: skip

    def catch_up(self, name: EntryName, storage: Storage) -> None:
        """Register the partitions of a commit whose driver may have died before it did.

        That is asked once for an entry of which this application knows nothing.
        """
        with self._guard:
            if name in self._known or name in self._caught_up:
                return
            self._caught_up.add(name)
        self.adopt(name, storage)

    def sync(self, name: EntryName, table: Table, *, add: bool, drop: bool) -> PartitionChanges:
        """Add partitions that the entry lacks, and drop those without rows; says which.

        ``ConfigError`` if no column's values name the table's folders.
        """
        if not _is_listed(table):
            raise ConfigError(
                f"{name} has no partitions that a Hive Metastore could list: the table is not "
                "partitioned, or its folders are named by parts of a time. Nothing was changed. "
                "Readers find its rows without partitions.",
                key="partitioning",
            )
        self.forget(name)
        registered = hive_metastore.partitions_of(name)
        found = _all_changes(table, table.timeline(), registered)
        wanted = PartitionChanges(found.add if add else {}, found.drop if drop else frozenset())
        if wanted:
            hive_metastore.change_partitions(name, wanted)
        return wanted

    def _follow(
        self, name: EntryName, table: Table, done: Committed, properties: Mapping[str, str]
    ) -> None:
        timeline = table.timeline()
        schema = table_schema(table, timeline, None)
        if schema is None:
            return
        known = self._known.get(name)
        if known is None or known.schema != schema:
            there = hive_metastore.properties_of(name)
            if known is None:
                _tell_properties(name, properties, there)
            _tell_columns(name, schema, there)
        commits = timeline.keys()
        partitions: frozenset[Values] = known.partitions if known else frozenset()
        if partition_columns(table.config, schema):
            if known is None or not _alone(commits - known.commits, done):
                partitions = hive_metastore.partitions_of(name)
                wanted = _all_changes(table, timeline, partitions)
            else:
                wanted = _own_changes(table, timeline, partitions, done)
            if wanted:
                hive_metastore.change_partitions(name, wanted)
            partitions = (partitions | wanted.add.keys()) - wanted.drop
        with self._guard:
            self._known[name] = _Known(commits, schema, partitions)


def _is_listed(table: Table) -> bool:
    """Whether the table has partitions that a metastore can list."""
    return bool(partition_columns(table.config, table_schema(table, table.timeline(), None)))


def _alone(fresh: frozenset[InstantKey], done: Committed) -> bool:
    """Whether nobody else has committed since the entry was compared."""
    return all(time == done.instant for time, _ in fresh)


def _all_changes(
    table: Table, timeline: Timeline, registered: frozenset[Values]
) -> PartitionChanges:
    return partition_changes(table.config, registered, table.view(timeline).partitions())


def _own_changes(
    table: Table, timeline: Timeline, registered: frozenset[Values], done: Committed
) -> PartitionChanges:
    """What the commit itself adds and removes; files are listed only if it replaced some."""
    touched = {stat.partition_path for stat in done.metadata.stats}
    replaced = set(done.metadata.replaced or ())
    if not replaced:
        return replace(partition_changes(table.config, registered, touched), drop=frozenset())
    live = set(table.view(timeline).partitions())
    emptied = {hive_values(table.config, path) for path in replaced - live}
    rest = partition_changes(table.config, registered, touched & live)
    return replace(rest, drop=frozenset(v for v in emptied if v is not None) & registered)


def _tell_properties(
    name: EntryName, properties: Mapping[str, str], there: Mapping[str, str]
) -> None:
    missing = {key: text for key, text in properties.items() if there.get(key) != text}
    if missing:
        hive_metastore.change_properties(name, missing)


def _tell_columns(name: EntryName, schema: SparkSchema, there: Mapping[str, str]) -> None:
    columns = entry_columns(noted(schema, spark_schema(there)), partitioned_by(there))
    if _types(spark_schema(columns.properties)) == _types(spark_schema(there)):
        return
    if not hive_metastore.change_columns(name, columns):
        log.warning(
            "For Hive itself the Hive Metastore keeps the old columns of %s: it does not let "
            "columns be dropped or moved or change their type. Spark sessions see the new columns. "
            "To update both, set hive.metastore.disallow.incompatible.col.type.changes=false on "
            "the metastore.",
            name,
        )


def _types(schema: SparkSchema | None) -> list[tuple[str, SparkType]]:
    return [(column.name, column.type) for column in schema.columns] if schema else []


def note_columns(name: EntryName, comments: Mapping[str, str | None]) -> None:
    """Set or remove comments of the entry's columns."""
    there = hive_metastore.properties_of(name)
    schema = spark_schema(there)
    if schema is None:
        return
    columns = tuple(
        each.with_comment(comments[each.name]) if each.name in comments else each
        for each in schema.columns
    )
    hive_metastore.change_columns(name, entry_columns(SparkSchema(columns), partitioned_by(there)))


def _of_partitions(done: Committed) -> str:
    paths = sorted(
        {stat.partition_path for stat in done.metadata.stats} | set(done.metadata.replaced or ())
    )
    if paths in ([], [""]):
        return ""
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return f" (partitions {', '.join(paths[:_NAMED])}{more})"
