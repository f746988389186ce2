"""Checks at which instants a table can still be read.

Invariant: a query as of an instant reads complete slices or is refused. It never shows a state of
which a clean has deleted a part. A state that is archived is read if each of its files is there
(``archived_states.py``).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from pyhudi.errors import HistoryExpired, TableCorrupt
from pyhudi.format.instants import Action, InstantTime, State
from pyhudi.format.plans import parse_clean_metadata, parse_cleaner_plan
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.archived import archived_instants
from pyhudi.timeline.archived_states import is_whole, whole_states
from pyhudi.timeline.states import COMMIT_ACTIONS
from pyhudi.timeline.strays import Archive, first_write
from pyhudi.timeline.table import Table


def check_readable(table: Table, timeline: Timeline, as_of: InstantTime) -> None:
    """``HistoryExpired`` if the rows as of ``as_of`` cannot be read; the archive is looked at.

    An archived state is readable while its files are there. The error names the earliest instant
    after ``as_of`` that is.
    """
    try:
        check_history(table, timeline, as_of)
    except HistoryExpired as expired:
        first = first_write(timeline, Archive(table.storage, table.config), as_of)
        if first is None or as_of >= first:
            raise
        if is_whole(table, timeline, as_of):
            return
        earliest = next(whole_states(table, timeline, as_of), None)
        if earliest is None:
            raise
        raise _expired(as_of, earliest, _before_active(table, as_of, first)) from expired


def check_history(table: Table, timeline: Timeline, as_of: InstantTime) -> None:
    """``HistoryExpired`` if the rows as of ``as_of`` are no longer certain by the timeline alone.

    That is so before the first active commit, and before the earliest commit that the last clean
    kept complete: some groups have lost their older slices. The instant of a savepoint stays
    readable after any clean. The archive is read only for the message.
    """
    saved = {i.time for i in timeline.completed if i.action is Action.SAVEPOINT}
    if as_of in saved:
        return
    commits = timeline.commits
    archive = Archive(table.storage, table.config)
    first = first_write(timeline, archive, as_of) or (commits[0].time if commits else None)
    if not commits:
        # All commits were rolled back, or there never was one: the archive shows which.
        first = max(archive.commits(), default=None)
    if first is not None and as_of < first:
        raise _expired(as_of, first, _before_active(table, as_of, first))
    kept, why = _earliest_kept(table, timeline)
    if kept is not None and as_of < kept:
        raise _expired(as_of, kept, why)


def kept_from(table: Table, timeline: Timeline) -> InstantTime | None:
    """The earliest commit whose state the last clean kept; None if there is none, or it names none.

    Of a file group whose file then is later, older files may be gone.
    """
    return _earliest_kept(table, timeline)[0]


def _expired(as_of: InstantTime, earliest: InstantTime, why: str) -> HistoryExpired:
    return HistoryExpired(
        f"You asked for the table as of {as_of}, but {why}. The earliest instant at which it can "
        f"still be read is {earliest}.",
        asked=as_of,
        earliest=earliest,
    )


def _before_active(table: Table, as_of: InstantTime, first: InstantTime) -> str:
    """Why there is nothing at ``as_of``: it is archived, or before the table's first commit."""
    archived = [
        entry.instant.time
        for entry in archived_instants(table.storage, table.config)
        if entry.instant.action in COMMIT_ACTIONS
    ]
    current = max((time for time in archived if time <= as_of), default=None)
    if current is not None:
        gone = "and the archive and the data files do not give the table as it was"
        return f"commit {current}, the newest at that time, is archived, {gone}"
    return f"its first commit is {min(archived, default=first)}"


def _earliest_kept(table: Table, timeline: Timeline) -> tuple[InstantTime | None, str]:
    """The earliest commit that the last completed clean kept complete (None: it names none).

    Also the reason to refuse older ones. If a crash left the clean's file empty or incomplete, its
    plan tells. If that cannot be read either, what counted before the clean was certainly kept.
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
        f"neither {path} nor the plan of that clean can be read, so it is unknown which older file "
        "versions it has deleted. If these files are empty, Apache Hudi's next clean repairs them; "
        "if they are cut off, delete them"
    )
