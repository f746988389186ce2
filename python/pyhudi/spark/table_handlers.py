"""The shim's questions that make, alter, drop and clean up tables."""

from __future__ import annotations

from pyhudi.application.runtime import Runtime
from pyhudi.config import WriteOptions, resolve_write
from pyhudi.errors import TableCorrupt, TableExists, TableNotFound, UnsupportedTable
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.listing import Listing
from pyhudi.option_names import refuse_unknown_write
from pyhudi.reads.scan import open_query, partition_columns
from pyhudi.services.bin import bins_of, returned
from pyhudi.services.called import (
    CalledService,
    CleanFailedWrites,
    DropSavepoint,
    MakeSavepoint,
    PutBack,
)
from pyhudi.services.failed_writes import PendingWrite, settle_now
from pyhudi.services.restore import restored
from pyhudi.services.savepoints import Savepoint, drop_savepoint, make_savepoint
from pyhudi.spark import protocol
from pyhudi.spark.called_services import called_doctor, called_service
from pyhudi.spark.questions import (
    Options,
    Target,
    check_property_names,
    hudi_properties,
    told,
    with_partitioning,
)
from pyhudi.spark.sessions import Sessions
from pyhudi.spark.turns import DELETE, TRUNCATE, turn_of
from pyhudi.storage.base import Storage
from pyhudi.tables.alter import alter_columns
from pyhudi.tables.columns import check_listed
from pyhudi.tables.create import (
    check_adoption,
    create_table,
    discard_table,
    new_table_config,
)
from pyhudi.tables.rename import rename
from pyhudi.timeline.table import Table, open_table
from pyhudi.transactions.presence import ID, adopt, find_table, holds_locks_alone, remove
from pyhudi.transactions.transaction import Committed
from pyhudi.transactions.writer import Writer
from pyhudi.writes.truncate import can_delete_where, delete_where, truncate

HIVE_STYLE = "hoodie.datasource.write.hive_style_partitioning"


class TableHandlers:
    """Statements about whole tables."""

    QUESTIONS = (
        "create_table discard_table drop_table rename_table can_delete_where serve "
        "clean_failed_writes savepoint delete_savepoint restore bins put_back "
        "holds_locks_alone check_properties"
    )
    COMMITS = "alter_columns truncate_table delete_where"

    def __init__(self, sessions: Sessions, runtime: Runtime) -> None:
        self._sessions = sessions
        self._runtime = runtime

    def create_table(self, at: Target, ask: protocol.CreateTable) -> protocol.Made:
        """Make the table, or ``adopt`` an existing one."""
        check_property_names(at.properties, at.options)
        schema = SparkSchema.parse(ask.schema)
        check_listed(schema)
        storage = self._runtime.storage(at.root)
        given = with_partitioning(at.given, ask.partitioning)
        there = find_table(storage, self._runtime.clock)
        made = None
        if there is None:
            try:
                made = self._make(storage, ask, given, at.session)
            except TableExists:
                there = open_table(storage)
        if there is not None and not ask.adopt:
            raise TableExists(
                f"There is already a Hudi table at {at.root}. Nothing was written. Use another "
                "LOCATION, or adopt the table by CREATE TABLE without AS SELECT; INSERT then adds "
                "rows to it.",
                path=at.root,
            )
        if there is not None:
            check_adoption(there, schema, given)
            self._adopt(there, given, at.session)
        query = open_query(self._runtime, at.root, {}, {})
        return protocol.Made(query.schema().json(), tuple(partition_columns(query)), made)

    def _make(
        self, storage: Storage, ask: protocol.CreateTable, given: Options, session: Options
    ) -> str:
        database, dot, name = ask.table.rpartition(".")
        named = {"hoodie.table.name": name, **({"hoodie.database.name": database} if dot else {})}
        if not any(key.lower() == HIVE_STYLE for key in (*given, *session)):
            named[HIVE_STYLE] = "true"  # as in Hudi's SQL, but not for ``df.write.save``
        options = resolve_write({**named, **given}, None, session)
        stored = SparkSchema.parse(ask.schema).as_stored(name)
        config = new_table_config(storage.root, options, stored, record_schema=True)
        made = create_table(self._runtime, storage, config, options)
        return made.config.raw[ID]

    def _adopt(self, table: Table, given: Options, session: Options) -> None:
        adopt(self._runtime.writer(table, resolve_write(given, table.config.raw, session)))

    def check_properties(self, at: Target, ask: protocol.SetProperties) -> None:
        """``ConfigError`` for TBLPROPERTIES that would contradict the table, or each other."""
        check_property_names(ask.given, {})
        table = open_table(self._runtime.storage(at.root))
        kept = {key: text for key, text in at.properties.items() if key not in ask.dropped}
        resolve_write(hudi_properties({**kept, **ask.given}), table.config.raw)

    def discard_table(self, at: Target, ask: protocol.DiscardTable) -> bool:
        """Remove the table that was ``made`` for a failed statement; returns whether it is gone."""
        try:
            table = open_table(self._runtime.storage(at.root))
        except TableNotFound:
            return True
        if table.config.raw.get(ID) != ask.made:
            return False
        return discard_table(self._runtime, table, _resolved(at, table))

    def drop_table(self, at: Target, ask: protocol.Nothing) -> bool:
        """Delete the table and its rows; False if there is no table that pyhudi can open."""
        try:
            table = open_table(self._runtime.storage(at.root))
        except (TableNotFound, TableCorrupt, UnsupportedTable):
            return False
        remove(self._runtime.writer(table, _resolved(at, table)))
        return True

    def holds_locks_alone(self, at: Target, ask: protocol.Nothing) -> bool:
        """Whether a place holds nothing but locks of a dropped table."""
        return holds_locks_alone(self._runtime.storage(at.root))

    def rename_table(self, at: Target, ask: protocol.Rename) -> str:
        return rename(self._runtime, at.root, ask.to, at.given, at.session)

    def alter_columns(self, at: Target, ask: protocol.AlterColumns) -> Committed | None:
        return alter_columns(self._runtime, at.root, ask.changes, at.given, at.session)

    def truncate_table(self, at: Target, ask: protocol.Nothing) -> Committed | None:
        spark = self._sessions.asking()
        with turn_of(self._runtime, at, TRUNCATE) as turn:
            return truncate(self._runtime, spark, at.root, at.given, at.session, turn)

    def can_delete_where(self, at: Target, ask: protocol.Filters) -> bool:
        return can_delete_where(self._runtime, at.root, ask.filters)

    def delete_where(self, at: Target, ask: protocol.Filters) -> Committed | None:
        runtime, spark = self._runtime, self._sessions.asking()
        with turn_of(runtime, at, DELETE) as turn:
            return delete_where(runtime, spark, at.root, ask.filters, at.given, at.session, turn)

    def serve(self, at: Target, ask: protocol.Serve) -> protocol.Told:
        """``CALL pyhudi.system.clean`` and others: each file or instant, and its fate."""
        refuse_unknown_write(ask.settings)
        if ask.service is CalledService.DOCTOR:
            return told(called_doctor(self._runtime, at, ask))
        return told(called_service(self._runtime, self._sessions, at, ask))

    def bins(self, at: Target, ask: protocol.Nothing) -> protocol.Told:
        """``CALL pyhudi.system.bins``: the repairs that can be undone."""
        return told(bins_of(self._runtime.storage(at.root)))

    def put_back(self, at: Target, ask: PutBack) -> protocol.Told:
        """``CALL pyhudi.system.put_back``: each file of the bin, and what became of it."""
        return told(returned(self._writer(at), ask.name))

    def savepoint(self, at: Target, ask: MakeSavepoint) -> protocol.Told:
        """``CALL pyhudi.system.savepoint``: the savepoint of a commit."""
        made = make_savepoint(self._writer(at), ask.instant, ask.comment)
        return told(Listing(Savepoint, [made]))

    def delete_savepoint(self, at: Target, ask: DropSavepoint) -> protocol.Told:
        """``CALL pyhudi.system.delete_savepoint``: the savepoints that are left."""
        return told(drop_savepoint(self._writer(at), ask.instant))

    def restore(self, at: Target, ask: protocol.Restore) -> protocol.Told:
        """``CALL pyhudi.system.restore``: each file of the commits that are undone."""
        return told(restored(self._writer(at), ask.instant, ask.dry_run, ask.fence))

    def _writer(self, at: Target) -> Writer:
        table = open_table(self._runtime.storage(at.root))
        return self._runtime.writer(table, _resolved(at, table))

    def clean_failed_writes(self, at: Target, ask: CleanFailedWrites) -> protocol.Told:
        """``CALL pyhudi.system.clean_failed_writes``: each pending instant, and its outcome."""
        runtime = self._runtime
        table = open_table(runtime.storage(at.root))
        given, session, dry = at.given, at.session, ask.dry_run
        found = settle_now(table, runtime.lock, runtime.clock, given, session, dry_run=dry)
        return told(Listing(PendingWrite, found))


def _resolved(at: Target, table: Table) -> WriteOptions:
    return resolve_write(at.given, table.config.raw, at.session)
