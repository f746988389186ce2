"""The conflict check at commit: every instant that completed since the write loaded the timeline.

The check is a set difference, whatever the instants' times (DESIGN.md, "The conflict check").
Where nothing has completed, nothing is read.
"""

from __future__ import annotations

from pyhudi.errors import CommitConflict
from pyhudi.format.instants import Action, InstantTime
from pyhudi.timeline.active import COMMITS, InstantKey, Timeline, instant_key
from pyhudi.timeline.states import COMMIT_ACTIONS
from pyhudi.timeline.table import Table
from pyhudi.transactions.conflicts import Footprint, footprint_of, judge

RETRY = "Nothing of this write is visible. Run it again: it then starts from the new state."


def check_conflicts(
    table: Table, loaded: Timeline, now: Timeline, instant: InstantTime, ours: Footprint
) -> None:
    """``CommitConflict`` (ours, theirs, overlap) where a commit since ``loaded`` overlaps."""
    before, after = loaded.keys(), now.keys()
    _check_vanished(before - after, now, instant)
    new = [i for i in now.completed if instant_key(i) not in before]
    for theirs in new:
        if theirs.action is Action.RESTORE:
            raise CommitConflict(
                f"{ours.who} and restore {theirs.time} conflict: the table was set back while "
                f"this write ran. {RETRY}",
                ours=instant,
                theirs=theirs.time,
                overlap=("table",),
            )
        if theirs.action not in COMMIT_ACTIONS:
            continue
        metadata = COMMITS.get(table.storage, now, theirs)
        verdict = judge(ours, footprint_of(theirs, metadata, bool(ours.buckets)))
        if verdict.conflict:
            raise CommitConflict(
                f"{verdict.explain()}. {theirs.time} was first. {RETRY}",
                ours=instant,
                theirs=theirs.time,
                overlap=verdict.overlap,
            )
    if now.layout == 1:
        _check_newest(now, instant, ours)


def _check_vanished(gone: frozenset[InstantKey], now: Timeline, instant: InstantTime) -> None:
    """A completed instant that vanished was rolled back, unless it is old enough for archival."""
    first = now.first_time
    undone = sorted(
        t for t, action in gone if action in COMMIT_ACTIONS and (not first or t > first)
    )
    if undone:
        raise CommitConflict(
            f"Commit {undone[0]}, on which write {instant} was built, was rolled back meanwhile. "
            f"{RETRY}",
            ours=instant,
            theirs=undone[0],
            overlap=tuple(undone),
        )


def _check_newest(now: Timeline, instant: InstantTime, ours: Footprint) -> None:
    """Layout 1 orders by requested time alone: an older instant must not complete late."""
    later = [i.time for i in now.commits if i.time > instant]
    if later:
        raise CommitConflict(
            f"{ours.who} is older than commit {later[0]}, which has completed; in a version 6 "
            f"table, readers that follow instant times would miss it. {RETRY}",
            ours=instant,
            theirs=later[0],
            overlap=(later[0],),
        )
