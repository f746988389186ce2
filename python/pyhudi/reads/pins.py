"""Queries that stay pinned to one listing of the timeline, so that one query lists it once.

Invariant: a pin names a state of a table, not an opening of it. The same state always gets the same
pin. Another state gets another pin, even with the same instant: a commit can complete after one
that began later. A pin that is no longer known here (many queries later, or in another driver
process) leads to the table at the same instant. A write is judged from the state of a pin only if
that is known to be exactly this state (``state``).
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import TypeVar

from pyhudi.application.runtime import Runtime
from pyhudi.errors import HistoryExpired, TableCorrupt
from pyhudi.format.instants import Action, Instant, InstantTime
from pyhudi.reads.scan import Query, changed, open_query
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.read_states import ReadState, completed
from pyhudi.timeline.strays import Archive
from pyhudi.timeline.time_travel import check_readable

#: pins that are kept, and the data files that their listings may hold together
PINS, FILES = 64, 1_000_000
#: pins that statements hold: those of the statements that run, and of some that never end
HELD = 64
#: seconds after which an answer needs a check that the table still keeps the query's files
TRUSTED_S = 5.0

DELETING = frozenset({Action.CLEAN, Action.ROLLBACK, Action.RESTORE})

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pinned:
    """A question's reference to a pinned query: enough to open the query once more."""

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
    #: whether this is certainly the state of the pin, commit by commit
    exact: bool = True


def pin_of(query: Query) -> str:
    """The name of the state that a query reads: equal if and only if every scan is equal.

    After a digest it has the layout and the completion time of the last commit, by which the state
    is found again among later commits.
    """
    timeline = query.timeline
    visible = [i for i in timeline.commits if query.as_of is None or i.time <= query.as_of]
    commits = [(i.time, i.action.value, i.completion_time) for i in visible]
    config = sorted(query.table.config.raw.items())
    kind = _kind(query)
    state = (query.table.storage.root, config, kind, query.instant, timeline.first_time, commits)
    digest = hashlib.sha256(json.dumps(state).encode()).hexdigest()[:32]
    last = max((completed(timeline, commit) for commit in visible), default="")
    return f"{digest}-{timeline.layout}-{last}"


def _kind(query: Query) -> object:
    """What the query shows of the state: all rows, or those of a range of commits."""
    kind, found = query.options.query_type.value, query.changes()
    if query.of_changes:
        options = query.options
        of_range = options.begin, options.end, options.order, options.end_schema
        return kind, options.change_form.value, *of_range
    if found is None:
        return kind
    rows = (found.rows.commits, found.rows.above) if found.rows is not None else None
    return kind, rows, found.as_of, found.last, query.options.end_schema


def _deletions(query: Query) -> list[Instant]:
    """What may have deleted files since: the query's own, or logs that it opens and passes over."""
    return [i for i in query.timeline.completed if i.action in DELETING]


def _as_it_was(timeline: Timeline, asked: Pinned) -> Timeline:
    """``timeline`` without instants that completed after the state of the pin.

    Later instants stay, since the query's own instant excludes them.
    """
    newest = asked.instant
    if newest is None:
        # The table had no commit; its present contents do not belong to the question.
        return timeline.only(())
    _, layout, last = asked.pin.split("-")
    return ReadState(InstantTime(newest), int(layout), last).on(timeline)


def _require_archived(query: Query) -> None:
    """``HistoryExpired`` if a table has no commit, not even archived, but the query had some."""
    table = query.table
    if not Archive(table.storage, table.config).commits():
        raise HistoryExpired(
            f"The table {table.config.name} has no commit {query.instant} any more: since the "
            "query was planned, the table was dropped and made anew, or the commit was undone. "
            "Open the table again.",
            asked=query.instant,
        )


class PinnedQueries:
    """The queries that were described last, by pin; safe to share between threads."""

    def __init__(self, runtime: Runtime, limit: int = PINS, files: int = FILES) -> None:
        self.runtime = runtime
        self._limit = limit
        self._files = files
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._held: OrderedDict[str, _Kept] = OrderedDict()
        #: how many statements hold each of them
        self._holds: Counter[str] = Counter()
        self._lock = Lock()

    def pin(self, query: Query) -> str:
        """Keep a query that was just opened; returns its pin."""
        pin = pin_of(query)
        with self._lock:
            known = self._kept.get(pin)
            # An older query of the same state has already listed its files. A clean may have
            # deleted some of them since, or a restore to this state logs after it.
        listed = known and known.exact and _deletions(known.query) == _deletions(query)
        self._keep(pin, known.query if known and listed else query)
        return pin

    def hold(self, asked: Pinned) -> None:
        """Keep the state of a pin, without its listing, until ``release`` or ``HELD`` later holds.

        For statements that write: other queries do not remove their pins.
        """
        with self._lock:
            kept = self._kept.get(asked.pin)
            if kept is None or not kept.exact:
                return
            self._held[asked.pin] = replace(kept, query=replace(kept.query))
            self._held.move_to_end(asked.pin)
            self._holds[asked.pin] += 1
            while len(self._held) > HELD:
                self._drop_hold(next(iter(self._held)))

    def release(self, pin: str) -> None:
        """End one hold; nothing happens if there is none."""
        with self._lock:
            self._holds[pin] -= 1
            if self._holds[pin] <= 0:
                self._drop_hold(pin)

    def _drop_hold(self, pin: str) -> None:
        self._held.pop(pin, None)
        self._holds.pop(pin, None)

    def ask(self, asked: Pinned, question: Callable[[Query], T]) -> T:
        """The answer of the pinned query.

        ``HistoryExpired`` if the table no longer keeps the query's instant.
        """
        kept = self._known(asked)
        if kept is None:
            return question(self._reopened(asked).query)
        try:
            answer = question(kept.query)
        except TableCorrupt:
            # The listing may name a commit that was archived since.
            return question(self._reopened(asked).query)
        # After the answer: it may have listed files that a clean was just deleting.
        self._trust(asked, kept)
        return answer

    def state(self, asked: Pinned) -> Query | None:
        """The query of a pin with exactly the timeline that it read; None if that is not certain.

        Writes whose rows were read by the pin are judged from that timeline, so a newer one would
        hide the commits in between.
        """
        with self._lock:
            held = self._held.get(asked.pin)
        kept = held or self._known(asked)
        try:
            if kept is None:
                kept = self._reopened(asked)
            else:
                self._trust(asked, kept)
        except HistoryExpired:
            return None
        if not kept.exact:
            return None
        timeline, last = kept.query.timeline, kept.query.instant
        later = {i for i in timeline.commits if last is not None and i.time > last}
        seen = timeline.only(i for i in timeline.instants if i not in later)
        return replace(kept.query, timeline=seen)

    def _known(self, asked: Pinned) -> _Kept | None:
        with self._lock:
            kept = self._kept.get(asked.pin)
            if kept is not None:
                self._kept.move_to_end(asked.pin)
                return kept
            held = self._held.get(asked.pin)
        # A held state has no listing: listings are counted among the queries.
        return self._keep(asked.pin, replace(held.query), held.seen) if held else None

    def _trust(self, asked: Pinned, kept: _Kept) -> None:
        """``HistoryExpired`` if the table may no longer keep a query's files."""
        if self._now() - kept.seen > TRUSTED_S and kept.query.instant is not None:
            table = kept.query.table
            check_readable(table, table.timeline(), kept.query.instant)
            self._keep(asked.pin, kept.query, exact=kept.exact)

    def _reopened(self, asked: Pinned) -> _Kept:
        runtime, root = self.runtime, asked.root
        query = open_query(runtime, root, asked.options, asked.session, asked.instant, pinned=True)
        if asked.instant is not None and not query.timeline.commits:
            _require_archived(query)
        query = replace(query, timeline=_as_it_was(query.timeline, asked))
        exact = asked.instant is None or pin_of(query) == asked.pin
        if not exact and (query.of_changes or query.changes() is not None):
            raise changed(query)  # it might be another range
        # The questions of one scan must be answered from one listing.
        return self._keep(asked.pin, query, exact=exact)

    def _keep(self, pin: str, query: Query, seen: float | None = None, exact: bool = True) -> _Kept:
        kept = _Kept(query, self._now() if seen is None else seen, exact)
        with self._lock:
            self._kept.pop(pin, None)
            self._kept[pin] = kept
            while len(self._kept) > 1 and self._too_many():
                self._kept.popitem(last=False)
        return kept

    def _too_many(self) -> bool:
        # Listings share most of their entries, which is not counted: the bound is safe, not exact.
        files = sum(kept.query.listed_files for kept in self._kept.values())
        return len(self._kept) > self._limit or files > self._files

    def _now(self) -> float:
        return self.runtime.clock.monotonic()
