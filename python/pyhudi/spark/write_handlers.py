"""What the shim asks for to have rows written: from a DataFrame, and from the rows it spooled."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from pyhudi.config import Operation
from pyhudi.foreign_options import refuse_foreign
from pyhudi.planner.intent import Intent, Overwrite, Route, save_intent, without_overwriting
from pyhudi.planner.own_reads import OwnReads, common_state
from pyhudi.planner.pins import PinnedQueries
from pyhudi.planner.row_changes import inserted_rows, spooled_changes
from pyhudi.planner.runtime import Runtime
from pyhudi.planner.spool import Spools, spooled_rows
from pyhudi.planner.writable import refuse_writes_to
from pyhudi.planner.write import write_changes, write_table
from pyhudi.spark.questions import Json, Options, given_options, pinned, with_partitioning
from pyhudi.spark.sessions import JavaObject, Sessions
from pyhudi.storage.open import normalize_root
from pyhudi.timeline.table import open_table
from pyhudi.transactions.transaction import Committed


class WriteHandlers:
    """One instance per application; its state are the spools in use."""

    QUESTIONS = "spool_begin spool_abort check_row_changes"
    COMMITS = "write insert insert_spooled change_rows insert_new"

    def __init__(self, sessions: Sessions, runtime: Runtime, pins: PinnedQueries) -> None:
        self._sessions = sessions
        self._runtime = runtime
        self._pins = pins
        self._spools = Spools(runtime)

    def write(
        self,
        jdf: JavaObject,
        path: str,
        mode: str,
        options: Options,
        session: Options,
        partitioning: Sequence[str] = (),
        scans: Sequence[Json] = (),
        evaluated: int | None = None,
        **_: object,
    ) -> Committed | None:
        root = normalize_root(path)
        refuse_foreign(options)
        given = with_partitioning(options, partitioning)
        return write_table(
            self._runtime,
            self._frame(jdf),
            root,
            given,
            session,
            lambda exists: save_intent(mode, exists, root),
            self._reads(scans, session, evaluated),
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
        scans: Sequence[Json] = (),
        evaluated: int | None = None,
        **_: object,
    ) -> Committed | None:
        intent = Intent(Route.SQL, Overwrite(overwrite), tuple(filters))
        reads = self._reads(scans, session, evaluated)
        return self._insert(self._frame(jdf), path, options, session, properties, intent, reads)

    def _insert(
        self,
        df: DataFrame,
        path: str,
        options: Options,
        session: Options,
        properties: Options | None,
        intent: Intent,
        reads: OwnReads | None,
    ) -> Committed | None:
        refuse_foreign(options)
        if intent.overwrite is not Overwrite.NONE:
            properties = without_overwriting(properties or {}, intent, session)
        given, root = given_options(properties, options), normalize_root(path)
        return write_table(self._runtime, df, root, given, session, lambda exists: intent, reads)

    def _reads(
        self, scans: Sequence[Json], session: Options, evaluated: int | None
    ) -> OwnReads | None:
        """What the rows were read from, where ``scans`` are those of the table that is written."""
        if not scans:
            return None
        states = [self._pins.state(pinned(session=session, **scan)) for scan in scans]
        known = [state.timeline for state in states if state is not None]
        since = common_state(known) if len(known) == len(states) else None
        return OwnReads(since, evaluated)

    # -- dynamic overwrite of catalog tables, through the shim's spool

    def spool_begin(
        self,
        path: str,
        options: Options,
        session: Options,
        properties: Options | None = None,
        **_: object,
    ) -> Json:
        refuse_foreign(options)
        given = given_options(properties, options)
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
        scans: Sequence[Json] = (),
        evaluated: int | None = None,
        **_: object,
    ) -> Committed | None:
        intent = Intent(Route.SQL, Overwrite(overwrite))
        rows = spooled_rows(self._sessions.asking(), files, schema)
        try:
            reads = self._reads(scans, session, evaluated)
            return self._insert(rows, path, options, session, properties, intent, reads)
        finally:
            self._spools.drop(normalize_root(path), spool)

    def spool_abort(self, path: str, spool: str, **_: object) -> None:
        self._spools.drop(normalize_root(path), spool)

    # -- UPDATE, DELETE and MERGE, through the same spool

    def check_row_changes(self, path: str, scan: Json, session: Options, **_: object) -> None:
        """Whether rows of the table can be changed; the state of ``scan`` is kept for that."""
        refuse_writes_to(open_table(self._runtime.storage(normalize_root(path))))
        self._pins.hold(pinned(session=session, **scan))

    def change_rows(
        self,
        path: str,
        options: Options,
        session: Options,
        spool: str,
        files: Sequence[str],
        schema: Json,
        command: str,
        homes: Sequence[tuple[int, str]],
        scans: Sequence[Json],
        evaluated: int | None,
        properties: Options | None = None,
        **_: object,
    ) -> Committed | None:
        root = normalize_root(path)
        try:
            if not files:
                self._release(scans)
                return None
            known = {number: file.partition(f"{root}/")[2] for number, file in homes}
            rows = spooled_changes(spooled_rows(self._sessions.asking(), files, schema), known)
            operation = Operation.DELETE if command == "delete" else Operation.UPSERT
            given = given_options(properties, options)
            return self._change(rows, root, given, session, operation, scans, evaluated)
        finally:
            self._spools.drop(root, spool)

    def insert_new(
        self,
        jdf: JavaObject,
        path: str,
        options: Options,
        session: Options,
        scans: Sequence[Json],
        evaluated: int | None,
        properties: Options | None = None,
        **_: object,
    ) -> Committed | None:
        """A MERGE that only inserts, which Spark hands over as an INSERT."""
        rows, root = inserted_rows(self._frame(jdf)), normalize_root(path)
        given = given_options(properties, options)
        return self._change(rows, root, given, session, Operation.UPSERT, scans, evaluated)

    def _change(
        self,
        rows: DataFrame,
        root: str,
        options: Options,
        session: Options,
        operation: Operation,
        scans: Sequence[Json],
        evaluated: int | None,
    ) -> Committed | None:
        reads = self._reads(scans, session, evaluated)
        assert reads is not None, "a statement reads the rows that it changes"
        try:
            return write_changes(self._runtime, rows, root, options, session, operation, reads)
        finally:
            self._release(scans)

    def _release(self, scans: Sequence[Json]) -> None:
        for scan in scans:
            self._pins.release(scan["pin"])

    def _frame(self, jdf: JavaObject) -> DataFrame:
        """A Python DataFrame of the session that the JVM's one belongs to."""
        return DataFrame(jdf, self._sessions.of(jdf))
