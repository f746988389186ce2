"""Savepoints that long queries have while they run, for cleaners that know of no leases.

Invariant: such a savepoint is put and removed under the table's lock, and stands only beside a
living lease that says so. Its comment tells it from a user's, which stays. What a query that died
has left goes with the next round of services, or with the clean after a commit.
"""

from __future__ import annotations

from pyhudi.format.instants import InstantTime
from pyhudi.services.savepoints import (
    OF_QUERY,
    put_savepoint,
    remove_savepoint,
    savepoints_of,
)
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.read_states import ReadState
from pyhudi.timeline.table import Table
from pyhudi.transactions.leases import living_leases
from pyhudi.transactions.writable import refuse_writes_to
from pyhudi.transactions.writer import Writer


def save_for_query(writer: Writer, state: ReadState) -> None:
    """Keep the files of ``state`` by a savepoint, if a lease with ``saves`` still lives for it.

    Errors: ``LockTimeout``; ``HistoryExpired`` or ``ConfigError`` if a clean has taken files of it,
    or is about to; ``UnsupportedTable``.
    """
    refuse_writes_to(writer.table)
    with writer.locked():
        if state.instant in _saving(writer):
            timeline = writer.table.timeline()
            put_savepoint(writer, timeline, state.instant, OF_QUERY, state)


def end_query_savepoints(writer: Writer, shown: Timeline | None = None) -> list[InstantTime]:
    """Remove the savepoints of queries that have ended; those that were removed.

    ``shown`` is a timeline that the caller has just listed. The lock is taken only if there are
    such savepoints. Errors: ``LockTimeout``, ``TableCorrupt`` for a savepoint.
    """
    if not _ended(writer, shown or writer.table.timeline()):
        return []
    with writer.locked():
        timeline = writer.table.timeline()
        found = _ended(writer, timeline)
        for time in found:
            remove_savepoint(writer, timeline, time)
    return found


def _ended(writer: Writer, timeline: Timeline) -> list[InstantTime]:
    of_queries = _of_queries(writer.table, timeline)
    if not of_queries:
        return []
    running = _saving(writer)
    return [time for time in of_queries if time not in running]


def _of_queries(table: Table, timeline: Timeline) -> list[InstantTime]:
    saved = savepoints_of(table, timeline)
    return [each.instant for each in saved if each.comment == OF_QUERY]


def _saving(writer: Writer) -> set[InstantTime]:
    """The instants for which running queries have a savepoint, or are about to."""
    leases = living_leases(writer.table.storage, writer.clock)
    return {each.state.instant for each in leases if each.saves}
