"""Which instants a table can still be read at.

Invariant: a query as of an instant is answered from whole slices or refused; what was cleaned
away in part is never shown as if it were all there was.
"""

from __future__ import annotations

from pyhudi.errors import HistoryExpired
from pyhudi.format.instants import Action, InstantTime
from pyhudi.format.plans import parse_clean_metadata
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.archived import archived_instants
from pyhudi.timeline.states import COMMIT_ACTIONS
from pyhudi.timeline.table import Table


def check_history(table: Table, timeline: Timeline, as_of: InstantTime) -> None:
    """``HistoryExpired`` where the rows as of ``as_of`` can no longer be told for certain.

    That is before the first active commit, and before the earliest one that the last clean kept
    whole: of some groups the older slices are gone. The instant of a savepoint stays readable
    whatever was cleaned. The archive is read for the message alone.
    """
    saved = {i.time for i in timeline.completed if i.action is Action.SAVEPOINT}
    if as_of in saved:
        return
    commits = timeline.commits
    first = timeline.first_time or (commits[0].time if commits else None)
    if first is not None and as_of < first:
        raise _expired(as_of, first, _before_active(table, as_of, first))
    kept = _earliest_kept(table, timeline)
    if kept is not None and as_of < kept:
        why = "older versions of some of its files have been cleaned since"
        raise _expired(as_of, kept, why)


def _expired(as_of: InstantTime, earliest: InstantTime, why: str) -> HistoryExpired:
    return HistoryExpired(
        f"The table was asked for as of {as_of}, but {why}. The earliest instant that it can "
        f"certainly be read at is {earliest}.",
        asked=as_of,
        earliest=earliest,
    )


def _before_active(table: Table, as_of: InstantTime, first: InstantTime) -> str:
    """Why there is nothing at ``as_of``: archived since, or before the table's first commit."""
    archived = [
        entry.instant.time
        for entry in archived_instants(table.storage, table.config)
        if entry.instant.action in COMMIT_ACTIONS
    ]
    current = max((time for time in archived if time <= as_of), default=None)
    if current is not None:
        return f"commit {current}, the newest at that time, is archived"
    return f"its first commit is {min(archived, default=first)}"


def _earliest_kept(table: Table, timeline: Timeline) -> InstantTime | None:
    """The earliest commit that the last completed clean kept whole; None where it tells none."""
    cleans = [i for i in timeline.completed if i.action is Action.CLEAN]
    if not cleans:
        return None
    path = timeline.file_of(cleans[-1])
    try:
        metadata = parse_clean_metadata(table.storage.read(path), path)
    except FileNotFoundError:  # archived since the listing
        return None
    return InstantTime(metadata.earliest_commit_to_retain) or None
