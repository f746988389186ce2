"""The shim's questions about entries of tables in a Hive Metastore, answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyhudi.catalogs import hive_metastore
from pyhudi.catalogs.hudi_entry import PROVIDER, EntryName, entry_columns
from pyhudi.catalogs.registered import RegisteredTables, note_columns
from pyhudi.config import resolve_write
from pyhudi.errors import HudiError
from pyhudi.format.table_config import TableConfig
from pyhudi.planner.rename import rename
from pyhudi.planner.runtime import Runtime
from pyhudi.planner.scan import table_properties
from pyhudi.spark.questions import Json, Options, given_options, hudi_properties
from pyhudi.storage.open import normalize_root
from pyhudi.timeline.table import open_table, table_exists
from pyhudi.transactions.transaction import Committed


class Entries:
    """One instance per application; its state is what is known of each entry."""

    QUESTIONS = "register_table forget_entry alter_entry rename_entry"

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._registered = RegisteredTables()

    def register_table(
        self,
        entry: Json,
        path: str,
        schema: Json,
        partitioning: Sequence[str],
        properties: Options,
        managed: bool,
        session: Options,
        **_: object,
    ) -> None:
        """Make the entry of a table that is there, or is about to be made as told here."""
        name, storage = _name(entry), self._runtime.storage(normalize_root(path))
        self._registered.forget(name)
        if table_exists(storage):
            known = entry_properties(open_table(storage).config)
        else:
            options = resolve_write(hudi_properties(properties), None, session)
            known = _keyed(options.record_key_fields, options.ordering_fields)
        made = hive_metastore.NewEntry(
            name, path, entry_columns(schema, partitioning), {**properties, **known}, managed
        )
        hive_metastore.register(made)

    def forget_entry(self, entry: Json, **_: object) -> None:
        """Take the entry away; the files of its table stay."""
        name = _name(entry)
        self._registered.forget(name)
        hive_metastore.forget(name)

    def alter_entry(
        self,
        entry: Json,
        given: Options,
        dropped: Sequence[str],
        comments: Mapping[str, str | None],
        **_: object,
    ) -> None:
        """Change TBLPROPERTIES and comments."""
        name = _name(entry)
        if given or dropped:
            hive_metastore.change_properties(name, given, dropped)
        if comments:
            note_columns(name, comments)

    def rename_entry(
        self,
        entry: Json,
        path: str,
        to: str,
        properties: Options,
        options: Options,
        session: Options,
        **_: object,
    ) -> None:
        """Give the entry and its table another name, in the same database.

        The metastore moves the folder of a managed table.
        """
        name, root = _name(entry), normalize_root(path)
        given = given_options(properties, options)
        self._registered.forget(name)
        old = rename(self._runtime, root, to, given, session)
        try:
            hive_metastore.rename(name, to)
        except HudiError:
            rename(self._runtime, root, old, given, session)
            raise

    def follow(self, entry: Json, path: str, done: Committed) -> None:
        """Tell the entry what a commit did; a warning where that fails."""
        storage = self._runtime.storage(normalize_root(path))
        self._registered.follow(_name(entry), storage, done, entry_properties)


def entry_properties(config: TableConfig) -> dict[str, str]:
    """What an entry says of its table, as Apache Hudi's sessions say it."""
    keyed = _keyed(config.record_key_fields, config.ordering_fields)
    return {**keyed, **table_properties(config)}


def _keyed(record_key: Sequence[str], ordering: Sequence[str]) -> dict[str, str]:
    found = {**PROVIDER, "type": "cow"}
    if record_key:
        found["primaryKey"] = ",".join(record_key)
    if ordering:
        found["preCombineField"] = found["orderingFields"] = ",".join(ordering)
    return found


def _name(entry: Json) -> EntryName:
    return EntryName(tuple(entry["uris"]), entry["database"], entry["table"])
