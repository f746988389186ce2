"""Answers the shim's questions: a thin layer between JSON and the planner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyhudi.application.batches import progress_of
from pyhudi.application.last_commit import ChangedRows, Shown, changed_rows, sql_tab
from pyhudi.application.runtime import Runtime
from pyhudi.reads.pins import PinnedQueries
from pyhudi.spark.batch_questions import BatchAnswer, CommitAnswer
from pyhudi.spark.endpoint import Handler
from pyhudi.spark.entries import Entries
from pyhudi.spark.read_handlers import ReadHandlers
from pyhudi.spark.sessions import Sessions
from pyhudi.spark.stream_handlers import StreamHandlers
from pyhudi.spark.table_handlers import TableHandlers
from pyhudi.spark.write_handlers import WriteHandlers
from pyhudi.transactions.transaction import Committed


class Handlers:
    """One instance per application; its state: pinned queries, spools in use, known entries."""

    def __init__(self, sessions: Sessions, runtime: Runtime) -> None:
        pins = PinnedQueries(runtime)
        self.runtime = runtime
        self._reads = ReadHandlers(sessions, runtime, pins)
        self._streams = StreamHandlers(sessions, runtime)
        self._writes = WriteHandlers(sessions, runtime, pins)
        self._tables = TableHandlers(sessions, runtime)
        self._entries = Entries(runtime)

    def close(self) -> None:
        """The application has ended: nothing is kept for its statements and streams any more."""
        for part in (self._reads, self._streams, self._writes):
            part.close()
        if self.runtime.markers is not None:
            self.runtime.markers.stop()

    def table(self) -> dict[str, Handler]:
        """Question -> its handler; the endpoint dispatches by this table."""
        found: dict[str, Any] = {}
        for part in (self._reads, self._streams, self._writes, self._tables, self._entries):
            found |= {name: getattr(part, name) for name in part.QUESTIONS.split()}
        for part in (self._writes, self._tables):
            found |= {name: self._committing(getattr(part, name)) for name in part.COMMITS.split()}
        found["write_batch"] = self._of_a_batch(self._writes.write_batch)
        return found

    def _committing(self, method: Callable[..., Committed | None]) -> Handler:
        """A handler that also updates the table's entry in a shared catalog after a commit."""

        def answer(*asked: Any) -> CommitAnswer:
            return CommitAnswer(*self._told(method(*asked), asked))

        return answer

    def _of_a_batch(self, method: Callable[..., Committed | None]) -> Handler:
        """The same for a micro-batch, whose query also shows its progress."""

        def answer(*asked: Any) -> BatchAnswer:
            clock = self.runtime.clock
            begun = clock.monotonic()
            done = method(*asked)
            told = self._told(done, asked)
            return BatchAnswer(*told, progress_of(done, begun, clock.monotonic()))

        return answer

    def _told(
        self, done: Committed | None, asked: tuple[Any, ...]
    ) -> tuple[str | None, Shown | None, ChangedRows]:
        *_, at, _ = asked
        if done is None:
            if at.batch is not None:
                self._entries.catch_up(at)
            return None, None, changed_rows(None)
        self._entries.follow(at, done)
        return done.instant, sql_tab(done), changed_rows(done)
