"""The shim's questions that write rows: from a DataFrame, or from rows that the shim spooled."""

from __future__ import annotations

import logging

from pyspark.sql import DataFrame

from pyhudi.application.batches import Turn
from pyhudi.application.runtime import Runtime
from pyhudi.config import Operation, QueryType, TableType, resolve_read
from pyhudi.errors import ConfigError
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.option_names import refuse_unknown_write
from pyhudi.reads.pins import PinnedQueries
from pyhudi.spark import protocol
from pyhudi.spark.batch_questions import WriteBatch
from pyhudi.spark.questions import (
    Options,
    Target,
    commit_prefix,
    given_options,
    scanned,
    with_partitioning,
)
from pyhudi.spark.sessions import JavaObject, Sessions
from pyhudi.spark.turns import MERGE, inserted, saved, turn_of
from pyhudi.timeline.table import Table, open_table
from pyhudi.transactions.transaction import Committed
from pyhudi.transactions.writable import refuse_writes_to
from pyhudi.writes.intent import Intent, Overwrite, Route, save_intent, without_overwriting
from pyhudi.writes.own_reads import OwnReads, common_state
from pyhudi.writes.row_changes import inserted_rows, spooled_changes
from pyhudi.writes.spool import Spools, spooled_rows
from pyhudi.writes.stage import job_error
from pyhudi.writes.write import write_changes, write_table

log = logging.getLogger(__name__)


class WriteHandlers:
    """One instance per application; its state is the spools in use."""

    QUESTIONS = "spool_begin spool_abort tell_failure check_row_changes"
    COMMITS = "write insert insert_spooled change_rows insert_new"

    def __init__(self, sessions: Sessions, runtime: Runtime, pins: PinnedQueries) -> None:
        self._sessions = sessions
        self._runtime = runtime
        self._pins = pins
        self._spools = Spools(runtime)

    def close(self) -> None:
        """Let others delete the spools of statements that have neither written nor failed."""
        self._spools.close()

    def write(self, jdf: JavaObject, at: Target, ask: protocol.Save) -> Committed | None:
        _check_names(at)
        with turn_of(self._runtime, at, saved(ask.mode, at.options)) as turn:
            return write_table(
                self._runtime,
                self._frame(jdf),
                at.root,
                with_partitioning(at.options, ask.partitioning),
                at.session,
                lambda exists: save_intent(ask.mode.value, exists, at.root),
                self._reads(ask.reads, at.session),
                turn,
            )

    def write_batch(self, jdf: JavaObject, at: Target, ask: WriteBatch) -> Committed | None:
        """A micro-batch; the shim has made a frame of its rows that may be evaluated again."""
        _check_names(at)
        overwrite = Overwrite.ALL if ask.complete else Overwrite.NONE
        # The batch's only write: no other can be taken for it, however its options change.
        with turn_of(self._runtime, at, "") as turn:
            return write_table(
                self._runtime,
                self._frame(jdf),
                at.root,
                with_partitioning(at.given, ask.partitioning),
                at.session,
                lambda exists: Intent(
                    Route.SAVE, overwrite, complete=ask.complete, adds=not ask.complete
                ),
                written_by=turn,
            )

    def insert(self, jdf: JavaObject, at: Target, ask: protocol.Insert) -> Committed | None:
        defined = ask.overwrite in (Overwrite.NEW, Overwrite.REPLACE)
        intent = Intent(Route.SQL, ask.overwrite, ask.filters, analysed=not defined)
        return self._insert(self._frame(jdf), at, intent, ask.reads)

    def _insert(
        self, df: DataFrame, at: Target, intent: Intent, read: protocol.Reads
    ) -> Committed | None:
        _check_names(at)
        reads = self._reads(read, at.session)
        given = at.given
        if intent.overwrite not in (Overwrite.NONE, Overwrite.NEW):
            left = without_overwriting(at.properties, intent, at.session)
            given = given_options(left, at.options)
        with turn_of(self._runtime, at, inserted(intent.overwrite)) as turn:
            return write_table(
                self._runtime, df, at.root, given, at.session, lambda exists: intent, reads, turn
            )

    def _reads(self, reads: protocol.Reads, session: Options) -> OwnReads | None:
        """The scans of the written table in the statement's own plan, if there are any."""
        if not reads.scans:
            return None
        states = [self._pins.state(scanned(scan, session)) for scan in reads.scans]
        known = [state.timeline for state in states if state is not None]
        since = common_state(known) if len(known) == len(states) else None
        return OwnReads(since, reads.evaluated)

    # -- dynamic overwrite of catalog tables, through the shim's spool

    def spool_begin(self, at: Target, ask: protocol.Nothing) -> str:
        _check_names(at)
        return self._spools.begin(at.root, at.given, at.session)

    def insert_spooled(self, at: Target, ask: protocol.InsertSpooled) -> Committed | None:
        rows = spooled_rows(self._sessions.asking(), ask.files, SparkSchema.parse(ask.schema))
        try:
            return self._insert(
                rows, at, Intent(Route.SQL, ask.overwrite, analysed=True), ask.reads
            )
        finally:
            self._spools.drop(at.root, ask.spool)

    def spool_abort(self, at: Target, ask: protocol.Spooled) -> None:
        self._spools.drop(at.root, ask.spool)

    def tell_failure(self, at: Target, ask: protocol.FailedJob) -> None:
        """Raises what the failed job of a statement means; nothing has been committed."""
        log.debug("%s failed: %s", ask.description, ask.text)
        raise job_error(ask.text, ask.description)

    # -- UPDATE, DELETE and MERGE, through the same spool

    def check_row_changes(self, at: Target, ask: protocol.AtPin) -> None:
        """Check that rows of the table can be changed; keeps the state of the pin for that."""
        table = open_table(self._runtime.storage(at.root))
        refuse_writes_to(table)
        _check_sees_all(table, at)
        self._pins.hold(at.pinned(ask.pin, ask.instant))

    def change_rows(self, at: Target, ask: protocol.ChangeRows) -> Committed | None:
        try:
            with turn_of(self._runtime, at, ask.command.value) as turn:
                if not ask.files:
                    self._release(ask.reads)
                    return None
                known = {number: file.partition(f"{at.root}/")[2] for number, file in ask.homes}
                schema = SparkSchema.parse(ask.schema)
                spooled = spooled_rows(self._sessions.asking(), ask.files, schema)
                delete = ask.command is protocol.Command.DELETE
                operation = Operation.DELETE if delete else Operation.UPSERT
                return self._change(spooled_changes(spooled, known), at, operation, ask.reads, turn)
        finally:
            self._spools.drop(at.root, ask.spool)

    def insert_new(self, jdf: JavaObject, at: Target, ask: protocol.InsertNew) -> Committed | None:
        """A MERGE that only inserts; Spark passes it as an INSERT."""
        _check_sees_all(open_table(self._runtime.storage(at.root)), at)
        step = f"pyhudi merge {at.root}: read the input"
        rows = inserted_rows(self._runtime.jobs, self._frame(jdf), step)
        with turn_of(self._runtime, at, MERGE) as turn:
            return self._change(rows, at, Operation.UPSERT, ask.reads, turn)

    def _change(
        self,
        rows: DataFrame,
        at: Target,
        operation: Operation,
        read: protocol.Reads,
        turn: Turn | None,
    ) -> Committed | None:
        reads = self._reads(read, at.session)
        assert reads is not None, "a statement reads the rows that it changes"
        try:
            return write_changes(
                self._runtime, rows, at.root, at.given, at.session, operation, reads, turn
            )
        finally:
            self._release(read)

    def _release(self, reads: protocol.Reads) -> None:
        for scan in reads.scans:
            self._pins.release(scan.pin)

    def _frame(self, jdf: JavaObject) -> DataFrame:
        """The JVM's DataFrame as a Python DataFrame of its session."""
        return DataFrame(jdf, self._sessions.of(jdf))


def _check_sees_all(table: Table, at: Target) -> None:
    """``ConfigError`` if reads of the table miss rows, or give old ones, of those to be changed."""
    asked = resolve_read(at.options, at.session).query_type
    base_files_do = table.config.table_type is not TableType.MERGE_ON_READ
    if asked is QueryType.SNAPSHOT or (asked is QueryType.READ_OPTIMIZED and base_files_do):
        return
    raise ConfigError(
        f"Reads of the table are set to {asked.value} here, and a statement that changes rows must "
        "see all of them as they are. Nothing was changed. Leave hoodie.datasource.query.type out "
        "of the session's settings and the table's options, and set it for single reads.",
        key="hoodie.datasource.query.type",
    )


def _check_names(at: Target) -> None:
    """``ConfigError`` for an option of the statement that means nothing here."""
    refuse_unknown_write(at.options, commit_prefix(at.given))
