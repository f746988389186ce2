"""Queries that stay pinned to one listing of the timeline, so that one query lists it once.

Invariant: a pin names a state of a table, not an opening of it. Whoever describes the same state
again gets the same pin, and another state another one, though it may have the same instant: a
commit can complete after one that began later. A pin that is no longer known here (many queries
later, or in another driver process) leads to the table as of the same instant.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import TypeVar

from pyhudi.errors import TableCorrupt
from pyhudi.planner.runtime import Runtime
from pyhudi.planner.scan import Query, open_query
from pyhudi.timeline.time_travel import check_history

#: pins that are kept, and the data files that their listings may hold together
PINS, FILES = 64, 1_000_000
#: seconds after which an answer is given only if the table still keeps what the query reads
TRUSTED_S = 5.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pinned:
    """What a question about a pinned query carries: enough to open the query once more."""

    pin: str
    root: str
    options: Mapping[str, str]
    session: Mapping[str, str]
    instant: str | None


@dataclass(frozen=True, slots=True)
class _Kept:
    query: Query
    #: monotonic seconds when the timeline was last seen to keep the instant
    seen: float


def pin_of(query: Query) -> str:
    """The name of the state that a query reads: equal exactly where every scan is equal."""
    timeline = query.timeline
    commits = [
        (i.time, i.action.value, i.completion_time)
        for i in timeline.commits
        if query.as_of is None or i.time <= query.as_of
    ]
    config = sorted(query.table.config.raw.items())
    kind = query.options.query_type.value
    state = (query.table.storage.root, config, kind, query.instant, timeline.first_time, commits)
    return hashlib.sha256(json.dumps(state).encode()).hexdigest()[:32]


class PinnedQueries:
    """The queries that were described last, by pin; safe to share between threads."""

    def __init__(self, runtime: Runtime, limit: int = PINS, files: int = FILES) -> None:
        self.runtime = runtime
        self._limit = limit
        self._files = files
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._lock = Lock()

    def pin(self, query: Query) -> str:
        """Keep a query that was opened just now, under the pin that is returned."""
        pin = pin_of(query)
        with self._lock:
            known = self._kept.get(pin)
        # The older one of two that read the same state has listed its files already.
        self._keep(pin, known.query if known else query)
        return pin

    def ask(self, asked: Pinned, question: Callable[[Query], T]) -> T:
        """The answer of the pinned query.

        ``HistoryExpired`` where the table no longer keeps the query's instant.
        """
        with self._lock:
            kept = self._kept.get(asked.pin)
            if kept is not None:
                self._kept.move_to_end(asked.pin)
        if kept is None:
            return question(self._reopened(asked))
        try:
            answer = question(kept.query)
        except TableCorrupt:
            # The listing may name a commit that has been archived since.
            return question(self._reopened(asked))
        # After the answer: files may have been listed for it that a clean was just deleting.
        if self._now() - kept.seen > TRUSTED_S and kept.query.instant is not None:
            table = kept.query.table
            check_history(table, table.timeline(), kept.query.instant)
            self._keep(asked.pin, kept.query)
        return answer

    def _reopened(self, asked: Pinned) -> Query:
        runtime, root = self.runtime, asked.root
        query = open_query(runtime, root, asked.options, asked.session, asked.instant)
        if asked.instant is None:
            # The table had no commit; what it has now is not what was asked about.
            query = replace(query, timeline=replace(query.timeline, instants=()))
        # The questions of one scan must be answered from one listing.
        self._keep(asked.pin, query)
        return query

    def _keep(self, pin: str, query: Query) -> None:
        with self._lock:
            self._kept.pop(pin, None)
            self._kept[pin] = _Kept(query, self._now())
            while len(self._kept) > 1 and self._too_many():
                self._kept.popitem(last=False)

    def _too_many(self) -> bool:
        # Listings share most of their entries, which is not counted: the bound is safe, not exact.
        files = sum(kept.query.listed_files for kept in self._kept.values())
        return len(self._kept) > self._limit or files > self._files

    def _now(self) -> float:
        return self.runtime.clock.monotonic()
