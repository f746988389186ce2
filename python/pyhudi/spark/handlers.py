"""The shim's questions, answered: a thin layer between JSON and the planner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

from pyhudi.config import Operation, resolve_write
from pyhudi.format.schemas import avro_to_spark, spark_to_avro
from pyhudi.listing import Listing
from pyhudi.planner.alter import alter_columns
from pyhudi.planner.create import check_adoption, create_table, new_table_config
from pyhudi.planner.failed_writes import settle_now
from pyhudi.planner.footers import aggregate, files_in_bounds
from pyhudi.planner.intent import Intent, Overwrite, Route, save_intent
from pyhudi.planner.last_commit import sql_tab
from pyhudi.planner.maintenance import can_delete_where, delete_where, truncate
from pyhudi.planner.pins import Pinned, PinnedQueries
from pyhudi.planner.row_changes import inserted_rows
from pyhudi.planner.runtime import Runtime
from pyhudi.planner.scan import Query, count_rows, describe, open_query, partition_texts, plan_scan
from pyhudi.planner.spool import Spools, spooled_rows
from pyhudi.planner.writable import refuse_writes_to
from pyhudi.planner.write import write_changes, write_table
from pyhudi.services.failed_writes import PendingWrite
from pyhudi.spark.entries import Entries, hudi_properties
from pyhudi.spark.sessions import Sessions
from pyhudi.storage.open import normalize_root
from pyhudi.timeline import inspection
from pyhudi.timeline.table import open_table, table_exists
from pyhudi.timeline.view import VIEWS
from pyhudi.transactions.transaction import Committed

Options = Mapping[str, str]
Json = dict[str, Any]


class Handlers:
    """One instance per application; its state are pinned queries, spools in use, known entries."""

    def __init__(self, sessions: Sessions, runtime: Runtime) -> None:
        self._sessions = sessions
        self._runtime = runtime
        self._pins = PinnedQueries(runtime)
        self._spools = Spools(runtime)
        self._entries = Entries(runtime)

    @property
    def _spark(self) -> SparkSession:
        return self._sessions.asking()

    @property
    def runtime(self) -> Runtime:
        """What the planner has of this application."""
        return self._runtime

    def table(self) -> dict[str, Any]:
        """Method name -> bound method, as the endpoint dispatches."""
        names = (
            "exists describe decide plan_scan count aggregate partition_values inspect "
            "spool_begin spool_abort check_row_changes create_table can_delete_where "
            "clean_failed_writes"
        )
        commits = (
            "write insert insert_spooled change_rows insert_new truncate_table alter_columns "
            "delete_where"
        )
        found = {name: getattr(self, name) for name in names.split()}
        found |= {name: self._committing(getattr(self, name)) for name in commits.split()}
        return {**found, **self._entries.table()}

    def _committing(self, method: Callable[..., Committed | None]) -> Callable[..., Json]:
        """The method, whose commit also reaches the table's entry in a shared catalog."""

        def answer(*objects: Any, entry: Json | None = None, **asked: Any) -> Json:
            done = method(*objects, **asked)
            if done is not None and entry is not None:
                self._entries.follow(entry, asked["path"], done)
            return _committed(done)

        return answer

    # -- reads

    def exists(self, path: str, **_: object) -> bool:
        return table_exists(self._runtime.storage(normalize_root(path)))

    def describe(
        self,
        path: str,
        options: Options,
        session: Options,
        as_of: str | None = None,
        as_of_micros: int | None = None,
        **_: object,
    ) -> Json:
        root = normalize_root(path)
        query = open_query(self._runtime, root, options, session, as_of, as_of_micros)
        return {**describe(query), "pin": self._pins.pin(query)}

    def decide(self, filters: Sequence[Json], **asked: Any) -> list[bool]:
        return self._pins.ask(_pinned(**asked), lambda query: query.decided(filters))

    def plan_scan(
        self,
        filters: Sequence[Json],
        partition_filters: Sequence[Json],
        limit: int | None = None,
        runtime_filters: Sequence[Json] = (),
        **asked: Any,
    ) -> Json:
        def plan(query: Query) -> Json:
            narrowed = partial(files_in_bounds, query, runtime_filters) if runtime_filters else None
            every = [*filters, *runtime_filters]
            return plan_scan(query, every, partition_filters, limit, narrowed)

        return self._pins.ask(_pinned(**asked), plan)

    def count(
        self, filters: Sequence[Json], partition_filters: Sequence[Json], **asked: Any
    ) -> int | None:
        every = [*partition_filters, *filters]
        return self._pins.ask(_pinned(**asked), lambda query: count_rows(query, every))

    def aggregate(
        self,
        wanted: Sequence[Json],
        filters: Sequence[Json],
        partition_filters: Sequence[Json],
        **asked: Any,
    ) -> list[int | None] | None:
        every = [*partition_filters, *filters]
        return self._pins.ask(_pinned(**asked), lambda query: aggregate(query, every, wanted))

    def partition_values(self, **asked: Any) -> list[list[str | None]]:
        return self._pins.ask(_pinned(**asked), partition_texts)

    def inspect(self, path: str, listing: str, **_: object) -> Json:
        """``trips.history`` and its like, as SQL reads them."""
        table = inspection.Table.on(self._runtime.storage(normalize_root(path)))
        listings: dict[str, Callable[[], Listing[Any]]] = {
            "history": table.history, "files": table.files, "partitions": table.partitions,
        }  # fmt: skip
        return _told(listings[listing]())

    # -- writes

    def write(
        self,
        jdf: JavaObject,
        path: str,
        mode: str,
        options: Options,
        session: Options,
        partitioning: Sequence[str] = (),
        **_: object,
    ) -> Committed | None:
        root = normalize_root(path)
        given = _with_partitioning(options, partitioning)
        return write_table(
            self._runtime,
            self._frame(jdf),
            root,
            given,
            session,
            lambda exists: save_intent(mode, exists, root),
        )

    def insert(
        self,
        jdf: JavaObject,
        path: str,
        options: Options,
        session: Options,
        overwrite: str,
        filters: Sequence[Json],
        properties: Options | None = None,
        **_: object,
    ) -> Committed | None:
        intent = Intent(Route.SQL, Overwrite(overwrite), tuple(filters))
        return self._insert(self._frame(jdf), path, options, session, properties, intent)

    def _insert(
        self,
        df: DataFrame,
        path: str,
        options: Options,
        session: Options,
        properties: Options | None,
        intent: Intent,
    ) -> Committed | None:
        given, root = _given(properties, options), normalize_root(path)
        return write_table(self._runtime, df, root, given, session, lambda exists: intent)

    # -- dynamic overwrite of catalog tables, through the shim's spool

    def spool_begin(
        self,
        path: str,
        options: Options,
        session: Options,
        properties: Options | None = None,
        **_: object,
    ) -> Json:
        given = _given(properties, options)
        return {"spool": self._spools.begin(normalize_root(path), given, session)}

    def insert_spooled(
        self,
        path: str,
        options: Options,
        session: Options,
        spool: str,
        files: Sequence[str],
        overwrite: str,
        schema: Json,
        properties: Options | None = None,
        **_: object,
    ) -> Committed | None:
        intent = Intent(Route.SQL, Overwrite(overwrite))
        rows = spooled_rows(self._spark, files, schema)
        try:
            return self._insert(rows, path, options, session, properties, intent)
        finally:
            self._spools.drop(normalize_root(path), spool)

    def spool_abort(self, path: str, spool: str, **_: object) -> None:
        self._spools.drop(normalize_root(path), spool)

    # -- UPDATE, DELETE and MERGE, through the same spool

    def check_row_changes(self, path: str, **_: object) -> None:
        refuse_writes_to(open_table(self._runtime.storage(normalize_root(path))))

    def change_rows(
        self,
        path: str,
        options: Options,
        session: Options,
        spool: str,
        files: Sequence[str],
        schema: Json,
        command: str,
        scan: Json,
        properties: Options | None = None,
        **_: object,
    ) -> Committed | None:
        try:
            if not files:
                return None
            rows = spooled_rows(self._spark, files, schema)
            operation = Operation.DELETE if command == "delete" else Operation.UPSERT
            return self._change(rows, scan, options, session, properties, operation)
        finally:
            self._spools.drop(normalize_root(path), spool)

    def insert_new(
        self,
        jdf: JavaObject,
        options: Options,
        session: Options,
        scan: Json,
        properties: Options | None = None,
        **_: object,
    ) -> Committed | None:
        """A MERGE that only inserts, which Spark hands over as an INSERT."""
        rows = inserted_rows(self._frame(jdf))
        return self._change(rows, scan, options, session, properties, Operation.UPSERT)

    def _change(
        self,
        rows: DataFrame,
        scan: Json,
        options: Options,
        session: Options,
        properties: Options | None,
        operation: Operation,
    ) -> Committed | None:
        read = self._pins.ask(_pinned(session=session, **scan), lambda query: query)
        given = _given(properties, options)
        return write_changes(self._runtime, rows, read, given, session, operation)

    # -- tables

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
        given = _with_partitioning(hudi_properties(properties), partitioning)
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

    def alter_columns(
        self,
        path: str,
        changes: Sequence[Json],
        options: Options,
        session: Options,
        properties: Options | None = None,
        **_: object,
    ) -> Committed | None:
        given, root = _given(properties, options), normalize_root(path)
        return alter_columns(self._runtime, root, changes, given, session)

    def truncate_table(
        self,
        path: str,
        options: Options,
        session: Options,
        properties: Options | None = None,
        **_: object,
    ) -> Committed | None:
        given, root = _given(properties, options), normalize_root(path)
        return truncate(self._runtime, self._spark, root, given, session)

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
        given, root = _given(properties, options), normalize_root(path)
        return delete_where(self._runtime, self._spark, root, filters, given, session)

    def clean_failed_writes(
        self,
        path: str,
        options: Options,
        session: Options,
        properties: Options | None = None,
        **_: object,
    ) -> Json:
        """``CALL pyhudi.system.clean_failed_writes``: what was pending, and what became of it."""
        given, runtime = _given(properties, options), self._runtime
        table = open_table(runtime.storage(normalize_root(path)))
        found = settle_now(table, runtime.lock, runtime.clock, given, session)
        return _told(Listing(PendingWrite, found))

    def _frame(self, jdf: JavaObject) -> DataFrame:
        """A Python DataFrame of the session that the JVM's one belongs to."""
        return DataFrame(jdf, self._sessions.of(jdf))


def _given(properties: Options | None, options: Options) -> dict[str, str]:
    """What a statement is given: its options before the TBLPROPERTIES of its table."""
    return {**hudi_properties(properties or {}), **options}


PARTITION_FIELD = "hoodie.datasource.write.partitionpath.field"


def _with_partitioning(options: Options, columns: Sequence[str]) -> dict[str, str]:
    """Options with the columns of ``partitionBy``, where no option names them."""
    given = dict(options)
    named = any(key.lower() in (PARTITION_FIELD, "hoodie.table.partition.fields") for key in given)
    if columns and not named:
        given[PARTITION_FIELD] = ",".join(columns)
    return given


def _pinned(
    pin: str,
    path: str,
    options: Options,
    session: Options,
    instant: str | None,
    **_: object,
) -> Pinned:
    return Pinned(pin, normalize_root(path), options, session, instant)


def _told(found: Listing[Any]) -> Json:
    """A list as the shim makes rows of it."""
    return {"columns": found.ddl(), "rows": found.rows()}


def _committed(done: Committed | None) -> Json:
    """The instant of a commit, and what Spark's SQL tab shows of it; no instant where none was."""
    return {"instant": done.instant, "shown": sql_tab(done)} if done else {"instant": None}
