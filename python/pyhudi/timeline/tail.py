"""Follows a table's commits from a checkpoint, with any number of writers, without Spark.

Invariant: no commit is missed. If commits after the checkpoint have been archived, the error is
``HistoryExpired``; they are not left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyhudi.choices import Order
from pyhudi.clock import SystemClock
from pyhudi.errors import ConfigError, HistoryExpired
from pyhudi.format.instants import Instant, InstantTime, parse_as_of
from pyhudi.recent import Recent
from pyhudi.storage.open import open_storage
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.archived import archived_instants
from pyhudi.timeline.completion_order import default_order, follow
from pyhudi.timeline.history import HistoryEntry, table_entry
from pyhudi.timeline.pending import pending_clusterings
from pyhudi.timeline.states import COMMIT_ACTIONS
from pyhudi.timeline.table import Table, open_table


@dataclass(frozen=True, slots=True)
class Commits:
    """Completed commits in order.

    ``checkpoint`` is the argument ``after`` for the next call, None if nothing has completed.
    ``fence`` is the first pending write; with ``fenced`` and ``requested`` the checkpoint stops
    there.
    """

    commits: tuple[HistoryEntry, ...]
    checkpoint: InstantTime | None
    fence: InstantTime | None


def commits(
    path: str,
    after: str | None = None,
    *,
    order: str | Order | None = None,
    hadoop_options: Mapping[str, str] | None = None,
) -> Commits:
    """The commits of the table at ``path`` above the checkpoint ``after``, and the next checkpoint.

    ``order``: ``completed`` (default from table version 8), ``fenced`` (default in version 6) or
    ``requested``; a checkpoint belongs to the order that gave it. ``after`` is a checkpoint or any
    time that ``as.of.instant`` accepts. Errors: ``HistoryExpired`` if commits above ``after``
    have been archived, ``UnsupportedTable`` for ``completed`` in version 6, and those of
    ``history``.
    """
    table = open_table(open_storage(path, hadoop_options or {}, SystemClock()))
    return table_commits(table, after, order)


def table_commits(table: Table, after: str | None, order: str | Order | None = None) -> Commits:
    """The same for an opened table."""
    config = table.config
    chosen = default_order(config.layout) if order is None else _order(order)
    start = parse_as_of(after, config.utc) if after else None
    before, now = table.timeline(), table.timeline()
    found = follow(before, now, start, chosen, config.utc, pending_clusterings(table, now))
    if start is not None:
        _check_archive(table, now, start, chosen)
    entries = tuple(table_entry(table, now, instant) for instant in found.commits)
    return Commits(entries, found.checkpoint, found.fence)


def _order(text: str) -> Order:
    try:
        return Order(text)
    except ValueError:
        offered = ", ".join(order.value for order in Order)
        raise ConfigError(f"'{text}' is not an order of commits. Use one of {offered}.") from None


def _check_archive(table: Table, now: Timeline, start: InstantTime, order: Order) -> None:
    newest = ARCHIVED_TIMES.newest(table, order)
    if newest is not None and newest > start:
        kept = [i.time for i in now.commits]
        raise HistoryExpired(
            f"You asked for the commits after {start}, but some of them have been archived, the "
            f"last at {newest}. Read the whole table, then follow it from {newest}.",
            asked=start,
            earliest=min(kept, default=newest),
        )


class ArchivedTimes:
    """The greatest archived times by table; an archive is read again only if it has changed."""

    def __init__(self, limit: int = 64) -> None:
        self._known: Recent[str, tuple[object, dict[Order, InstantTime]]] = Recent(limit)

    def newest(self, table: Table, order: Order) -> InstantTime | None:
        """The greatest time, by ``order``, of an archived commit; None if there is none."""
        storage = table.storage
        listed = tuple(storage.list(table.config.history_folder))
        if not listed:
            return None
        known = self._known.get(storage.root)
        if known is None or known[0] != listed:
            known = (listed, _greatest(table))
            self._known.put(storage.root, known)
        return known[1].get(order)


def _greatest(table: Table) -> dict[Order, InstantTime]:
    archived = [entry.instant for entry in archived_instants(table.storage, table.config)]
    instants = [i for i in archived if i.action in COMMIT_ACTIONS]
    if not instants:
        return {}
    begun = max(i.time for i in instants)
    ended = max(map(_ended, instants))
    return {Order.REQUESTED: begun, Order.FENCED: begun, Order.COMPLETED: ended}


def _ended(instant: Instant) -> InstantTime:
    return instant.completion_time or instant.time


ARCHIVED_TIMES = ArchivedTimes()
