"""What the shim asks for to have a table made, altered and tidied."""

from __future__ import annotations

from collections.abc import Sequence

from pyhudi.config import resolve_write
from pyhudi.format.schemas import avro_to_spark, spark_to_avro
from pyhudi.listing import Listing
from pyhudi.planner.alter import alter_columns
from pyhudi.planner.create import check_adoption, create_table, new_table_config
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
from pyhudi.storage.open import normalize_root
from pyhudi.timeline.table import open_table, table_exists
from pyhudi.timeline.view import VIEWS
from pyhudi.transactions.transaction import Committed


class TableHandlers:
    """Statements about a table as a whole."""

    QUESTIONS = "create_table rename_table can_delete_where clean_failed_writes"
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
        **_: object,
    ) -> Json:
        root = normalize_root(path)
        storage = self._runtime.storage(root)
        adopted = table_exists(storage)
        given = with_partitioning(hudi_properties(properties), partitioning)
        if adopted:
            check_adoption(open_table(storage), schema, given)
        else:
            database, dot, table_name = table.rpartition(".")
            given.setdefault("hoodie.table.name", table_name)
            if dot:
                given.setdefault("hoodie.database.name", database)
            options = resolve_write(given, None, session)
            stored: Json = avro_to_spark(spark_to_avro(schema, table_name))
            config = new_table_config(root, options, stored, record_schema=True)
            VIEWS.forget(storage)
            create_table(storage, config)
        query = open_query(self._runtime, root, {}, {})
        return {**describe(query), "adopted": adopted}

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
