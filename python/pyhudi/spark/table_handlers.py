"""What the shim asks for to have a table made, altered and tidied."""

from __future__ import annotations

from collections.abc import Sequence

from pyhudi.config import resolve_write
from pyhudi.errors import TableCorrupt, TableExists, TableNotFound, UnsupportedTable
from pyhudi.format.schemas import avro_to_spark, spark_to_avro
from pyhudi.listing import Listing
from pyhudi.planner.alter import alter_columns
from pyhudi.planner.create import (
    check_adoption,
    create_table,
    discard_table,
    new_table_config,
)
from pyhudi.planner.failed_writes import settle_now
from pyhudi.planner.maintenance import can_delete_where, delete_where, truncate
from pyhudi.planner.rename import rename
from pyhudi.planner.runtime import Runtime
from pyhudi.planner.scan import describe, open_query
from pyhudi.services.failed_writes import PendingWrite
from pyhudi.spark.questions import (
    Json,
    Options,
    given_options,
    hudi_properties,
    told,
    with_partitioning,
)
from pyhudi.spark.sessions import Sessions
from pyhudi.storage.base import Storage
from pyhudi.storage.open import normalize_root
from pyhudi.timeline.table import Table, open_table
from pyhudi.transactions.presence import ID, adopt, find_table, holds_locks_alone, remove
from pyhudi.transactions.transaction import Committed


class TableHandlers:
    """Statements about a table as a whole."""

    QUESTIONS = (
        "create_table discard_table drop_table rename_table can_delete_where clean_failed_writes "
        "holds_locks_alone"
    )
    COMMITS = "alter_columns truncate_table delete_where"

    def __init__(self, sessions: Sessions, runtime: Runtime) -> None:
        self._sessions = sessions
        self._runtime = runtime

    def create_table(
        self,
        path: str,
        table: str,
        schema: Json,
        partitioning: Sequence[str],
        properties: Options,
        session: Options,
        adopt: bool = True,
        **_: object,
    ) -> Json:
        """Make the table, or ``adopt`` the one that is there.

        The answer's ``made`` is the id of a table that was made here, by which `discard_table`
        knows it.
        """
        root = normalize_root(path)
        storage = self._runtime.storage(root)
        given = with_partitioning(hudi_properties(properties), partitioning)
        there = find_table(storage, self._runtime.clock)
        made = None
        if there is None:
            try:
                made = self._make(storage, table, schema, given, session)
            except TableExists:
                there = open_table(storage)
        if there is not None and not adopt:
            raise TableExists(
                f"There is a Hudi table at {root} already. Nothing was written. Name another "
                "LOCATION, or adopt the table by CREATE TABLE without AS SELECT: INSERT then adds "
                "to it.",
                path=root,
            )
        if there is not None:
            check_adoption(there, schema, given)
            self._adopt(there, given, session)
        query = open_query(self._runtime, root, {}, {})
        return {**describe(query), "adopted": made is None, "made": made}

    def _make(
        self, storage: Storage, table: str, schema: Json, given: Options, session: Options
    ) -> str:
        database, dot, name = table.rpartition(".")
        named = {"hoodie.table.name": name, **({"hoodie.database.name": database} if dot else {})}
        options = resolve_write({**named, **given}, None, session)
        stored: Json = avro_to_spark(spark_to_avro(schema, name))
        config = new_table_config(storage.root, options, stored, record_schema=True)
        return create_table(self._runtime, storage, config, options).config.raw[ID]

    def _adopt(self, table: Table, given: Options, session: Options) -> None:
        adopt(self._runtime.writer(table, resolve_write(given, table.config.raw, session)))

    def discard_table(
        self,
        path: str,
        made: str,
        options: Options,
        session: Options,
        properties: Options | None = None,
        **_: object,
    ) -> bool:
        """Take away the table that was ``made`` for a statement that failed; whether it is gone."""
        try:
            table = open_table(self._runtime.storage(normalize_root(path)))
        except TableNotFound:
            return True
        if table.config.raw.get(ID) != made:
            return False
        resolved = resolve_write(given_options(properties, options), table.config.raw, session)
        return discard_table(self._runtime, table, resolved)

    def drop_table(
        self,
        path: str,
        options: Options,
        session: Options,
        properties: Options | None = None,
        **_: object,
    ) -> bool:
        """Delete the table and its rows; False where there is none that pyhudi could open."""
        try:
            table = open_table(self._runtime.storage(normalize_root(path)))
        except (TableNotFound, TableCorrupt, UnsupportedTable):
            return False
        resolved = resolve_write(given_options(properties, options), table.config.raw, session)
        remove(self._runtime.writer(table, resolved))
        return True

    def holds_locks_alone(self, path: str, **_: object) -> bool:
        """Whether locks of a table that was dropped are all that is left at a place."""
        return holds_locks_alone(self._runtime.storage(normalize_root(path)))

    def rename_table(
        self,
        path: str,
        to: str,
        options: Options,
        session: Options,
        properties: Options | None = None,
        **_: object,
    ) -> str:
        given = given_options(properties, options)
        return rename(self._runtime, normalize_root(path), to, given, session)

    def alter_columns(
        self,
        path: str,
        changes: Sequence[Json],
        options: Options,
        session: Options,
        properties: Options | None = None,
        **_: object,
    ) -> Committed | None:
        given, root = given_options(properties, options), normalize_root(path)
        return alter_columns(self._runtime, root, changes, given, session)

    def truncate_table(
        self,
        path: str,
        options: Options,
        session: Options,
        properties: Options | None = None,
        **_: object,
    ) -> Committed | None:
        given, root = given_options(properties, options), normalize_root(path)
        return truncate(self._runtime, self._sessions.asking(), root, given, session)

    def can_delete_where(self, path: str, filters: Sequence[Json], **_: object) -> bool:
        return can_delete_where(self._runtime, normalize_root(path), filters)

    def delete_where(
        self,
        path: str,
        filters: Sequence[Json],
        options: Options,
        session: Options,
        properties: Options | None = None,
        **_: object,
    ) -> Committed | None:
        given, root = given_options(properties, options), normalize_root(path)
        spark = self._sessions.asking()
        return delete_where(self._runtime, spark, root, filters, given, session)

    def clean_failed_writes(
        self,
        path: str,
        options: Options,
        session: Options,
        properties: Options | None = None,
        **_: object,
    ) -> Json:
        """``CALL pyhudi.system.clean_failed_writes``: what was pending, and what became of it."""
        given, runtime = given_options(properties, options), self._runtime
        table = open_table(runtime.storage(normalize_root(path)))
        found = settle_now(table, runtime.lock, runtime.clock, given, session)
        return told(Listing(PendingWrite, found))
