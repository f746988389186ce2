"""The shim's questions, answered: a thin layer between JSON and the planner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyhudi.planner.last_commit import sql_tab
from pyhudi.planner.pins import PinnedQueries
from pyhudi.planner.runtime import Runtime
from pyhudi.spark.entries import Entries
from pyhudi.spark.questions import Json
from pyhudi.spark.read_handlers import ReadHandlers
from pyhudi.spark.sessions import Sessions
from pyhudi.spark.table_handlers import TableHandlers
from pyhudi.spark.write_handlers import WriteHandlers
from pyhudi.transactions.transaction import Committed


class Handlers:
    """One instance per application; its state are pinned queries, spools in use, known entries."""

    def __init__(self, sessions: Sessions, runtime: Runtime) -> None:
        pins = PinnedQueries(runtime)
        self.runtime = runtime
        self._reads = ReadHandlers(runtime, pins)
        self._writes = WriteHandlers(sessions, runtime, pins)
        self._tables = TableHandlers(sessions, runtime)
        self._entries = Entries(runtime)

    def table(self) -> dict[str, Any]:
        """Question -> what answers it, as the endpoint dispatches."""
        found: dict[str, Any] = {}
        for part in (self._reads, self._writes, self._tables, self._entries):
            found |= {name: getattr(part, name) for name in part.QUESTIONS.split()}
        for part in (self._writes, self._tables):
            found |= {name: self._committing(getattr(part, name)) for name in part.COMMITS.split()}
        return found

    def _committing(self, method: Callable[..., Committed | None]) -> Callable[..., Json]:
        """The method, whose commit also reaches the table's entry in a shared catalog."""

        def answer(*objects: Any, entry: Json | None = None, **asked: Any) -> Json:
            done = method(*objects, **asked)
            if done is not None and entry is not None:
                self._entries.follow(entry, asked["path"], done)
            return _committed(done)

        return answer


def _committed(done: Committed | None) -> Json:
    """The instant of a commit, and what Spark's SQL tab shows of it; no instant where none was."""
    return {"instant": done.instant, "shown": sql_tab(done)} if done else {"instant": None}
