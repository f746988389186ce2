"""Which instants a table can still be read at.

Invariant: a query as of an instant is answered from whole slices or refused; what was cleaned
away in part is never shown as if it were all there was.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from pyhudi.errors import HistoryExpired, TableCorrupt
from pyhudi.format.instants import Action, InstantTime, State
from pyhudi.format.plans import parse_clean_metadata, parse_cleaner_plan
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.archived import archived_instants
from pyhudi.timeline.states import COMMIT_ACTIONS
from pyhudi.timeline.strays import Archive
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
    if not commits:
        # All of them were rolled back, or there never was one: the archive tells.
        first = max(Archive(table.storage, table.config).commits(), default=None)
    if first is not None and as_of < first:
        raise _expired(as_of, first, _before_active(table, as_of, first))
    kept, why = _earliest_kept(table, timeline)
    if kept is not None and as_of < kept:
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


def _earliest_kept(table: Table, timeline: Timeline) -> tuple[InstantTime | None, str]:
    """The earliest commit that the last completed clean kept whole, None where it tells none.

    With the reason for a refusal of older ones. A clean that a crash left empty or half is told by
    its plan. Where that cannot be read either, what counted before the clean was kept for certain.
    """
    why = "older versions of some of its files have been cleaned since"
    cleans = [i for i in timeline.completed if i.action is Action.CLEAN]
    if not cleans:
        return None, why
    path = timeline.file_of(cleans[-1])
    try:
        metadata = parse_clean_metadata(table.storage.read(path), path)
        return InstantTime(metadata.earliest_commit_to_retain) or None, why
    except FileNotFoundError:  # archived since the listing
        return None, why
    except TableCorrupt:
        pass
    requested = timeline.file_of(replace(cleans[-1], state=State.REQUESTED))
    with suppress(FileNotFoundError, TableCorrupt):
        plan = parse_cleaner_plan(table.storage.read(requested), requested)
        earliest = plan.earliest_instant_to_retain
        return (earliest.timestamp if earliest is not None else None), why
    before = (c.time for c in timeline.commits if c.time < cleans[-1].time)
    return max(before, default=None), (
        f"{path} cannot be read, nor can the plan of that clean, so nobody can tell which older "
        "versions of files it has deleted. Apache Hudi's next clean settles a clean whose files "
        "are empty; delete them if they are cut off"
    )
