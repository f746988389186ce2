"""Answers the shim's questions about entries of tables in a Hive Metastore."""

from __future__ import annotations

from collections.abc import Sequence

from pyhudi.application.runtime import Runtime
from pyhudi.catalogs import hive_metastore
from pyhudi.catalogs.hudi_entry import PROVIDER, EntryName, entry_columns
from pyhudi.catalogs.registered import RegisteredTables, note_columns
from pyhudi.config import resolve_write
from pyhudi.errors import HudiError, SetupError
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.format.table_config import TableConfig
from pyhudi.reads.scan import table_properties
from pyhudi.spark import protocol
from pyhudi.spark.questions import Target
from pyhudi.tables.rename import rename
from pyhudi.timeline.table import open_table, table_exists
from pyhudi.transactions.transaction import Committed


class Entries:
    """One instance per application; its state is what it knows of each entry."""

    QUESTIONS = "register_table forget_entry alter_entry rename_entry"

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._registered = RegisteredTables()

    def register_table(self, at: Target, ask: protocol.RegisterTable) -> None:
        """Make the entry of an existing table, or of a table that will be made as described."""
        name, storage = _name(at), self._runtime.storage(at.root)
        self._registered.forget(name)
        if table_exists(storage):
            known = entry_properties(open_table(storage).config)
        else:
            options = resolve_write(at.given, None, at.session)
            known = _keyed(options.record_key_fields, options.ordering_fields)
        columns = entry_columns(SparkSchema.parse(ask.schema), ask.partitioning)
        properties = {**at.properties, **known}
        hive_metastore.register(
            hive_metastore.NewEntry(name, at.path, columns, properties, ask.managed)
        )

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

    def follow(self, at: Target, done: Committed) -> None:
        """Update the entry, if there is one, after a commit; a warning if that fails."""
        if at.entry is not None:
            storage = self._runtime.storage(at.root)
            self._registered.follow(_name(at), storage, done, entry_properties)


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
