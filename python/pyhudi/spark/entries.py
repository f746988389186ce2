"""Answers the shim's questions about entries of tables in a Hive Metastore."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from pyhudi.application.runtime import Runtime
from pyhudi.catalogs import hive_metastore
from pyhudi.catalogs.hudi_entry import PROVIDER, EntryName, entry_columns, partition_name
from pyhudi.catalogs.registered import RegisteredTables, note_columns
from pyhudi.config import resolve_write
from pyhudi.errors import HudiError, SetupError, UnsupportedTable
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.format.table_config import TableConfig
from pyhudi.listing import Listing
from pyhudi.reads.scan import table_properties
from pyhudi.spark import protocol
from pyhudi.spark.questions import Target, told
from pyhudi.tables.rename import rename
from pyhudi.timeline.table import open_table, table_exists
from pyhudi.transactions.transaction import Committed


@dataclass(frozen=True, slots=True)
class SyncedPartition:
    """What was done to a partition of an entry, by the metastore's name for it."""

    partition: str
    change: str


class Entries:
    """One instance per application; its state is what it knows of each entry."""

    QUESTIONS = "register_table forget_entry alter_entry rename_entry sync_partitions"

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._registered = RegisteredTables()

    def register_table(self, at: Target, ask: protocol.RegisterTable) -> None:
        """Make the entry of an existing table, or of a table that will be made as described."""
        name, storage = _name(at), self._runtime.storage(at.root)
        self._registered.forget(name)
        adopted = table_exists(storage)
        if adopted:
            known = entry_properties(open_table(storage).config)
        else:
            options = resolve_write(at.given, None, at.session)
            known = _keyed(options.record_key_fields, options.ordering_fields)
        columns = entry_columns(SparkSchema.parse(ask.schema), ask.partitioning)
        properties = {**at.properties, **known}
        hive_metastore.register(
            hive_metastore.NewEntry(name, at.path, columns, properties, ask.managed)
        )
        if adopted:
            self._registered.adopt(name, storage)

    def forget_entry(self, at: Target, ask: protocol.Nothing) -> None:
        """Remove the entry; the table's files stay."""
        name = _name(at)
        self._registered.forget(name)
        hive_metastore.forget(name)

    def alter_entry(self, at: Target, ask: protocol.AlterEntry) -> None:
        """Change TBLPROPERTIES and comments."""
        name = _name(at)
        if ask.given or ask.dropped:
            hive_metastore.change_properties(name, ask.given, ask.dropped)
        if ask.comments:
            note_columns(name, ask.comments)

    def rename_entry(self, at: Target, ask: protocol.Rename) -> None:
        """Give the entry and its table another name, in the same database.

        The metastore moves the folder of a managed table.
        """
        name = _name(at)
        self._registered.forget(name)
        old = rename(self._runtime, at.root, ask.to, at.given, at.session)
        try:
            hive_metastore.rename(name, ask.to)
        except HudiError:
            rename(self._runtime, at.root, old, at.given, at.session)
            raise

    def sync_partitions(self, at: Target, ask: protocol.SyncPartitions) -> protocol.Told:
        """Compare the entry's partitions with the table's: each one added or dropped."""
        if at.entry is None:
            raise UnsupportedTable(
                f"No Hive Metastore lists partitions of the table at {at.path}: it is not "
                "registered in one that other engines share. Nothing was changed. Name a table "
                "that was created with hive.metastore.uris set.",
                path=at.path,
                feature="partitions in a metastore",
            )
        table = open_table(self._runtime.storage(at.root))
        changes = self._registered.sync(at.entry, table, add=ask.add, drop=ask.drop)
        columns = table.config.partition_fields
        added = [SyncedPartition(partition_name(columns, one), "added") for one in changes.add]
        gone = [SyncedPartition(partition_name(columns, one), "dropped") for one in changes.drop]
        return told(Listing(SyncedPartition, sorted(added + gone, key=attrgetter("partition"))))

    def follow(self, at: Target, done: Committed) -> None:
        """Update the entry, if there is one, after a commit; a warning if that fails."""
        if at.entry is not None:
            storage = self._runtime.storage(at.root)
            self._registered.follow(_name(at), storage, done, entry_properties)

    def catch_up(self, at: Target) -> None:
        """Register what a batch that is in its table has added, if nobody may have done so."""
        if at.entry is not None:
            self._registered.catch_up(at.entry, self._runtime.storage(at.root))


def entry_properties(config: TableConfig) -> dict[str, str]:
    """The properties of an entry, as Apache Hudi's sessions write them."""
    keyed = _keyed(config.record_key_fields, config.ordering_fields)
    return {**keyed, **table_properties(config)}


def _keyed(record_key: Sequence[str], ordering: Sequence[str]) -> dict[str, str]:
    found = {**PROVIDER, "type": "cow"}
    if record_key:
        found["primaryKey"] = ",".join(record_key)
    if ordering:
        found["preCombineField"] = found["orderingFields"] = ",".join(ordering)
    return found


def _name(at: Target) -> EntryName:
    if at.entry is None:
        raise SetupError(f"The jar named no metastore entry for the table at {at.path}.")
    return at.entry
