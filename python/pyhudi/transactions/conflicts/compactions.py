"""A write of logs beside compactions: what makes the slice of a log another one than the write saw.

In layout 2 a log is of the slice that its completion time says, so a compaction in between changes
nothing. Two things do not follow from that, and are looked at under the lock:

* In layout 1 the name of a log says its slice. After a compaction was planned an older name would
  put the log into a slice that nobody reads any more.
* A row that came back to the group in which a log had deleted it needs the dead row of the base
  file: after a compaction no lookup would find its key there (docs/decisions/log_writes.md). So
  does a row whose key the base file has more than once: its position says which is meant.

Of writers without coordination a third thing is: while a compaction is pending, readers merge the
logs before and after its plan in one order, and when it has ended those after it on top.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyhudi.errors import CommitConflict
from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.filenames import parse_log_file_name
from pyhudi.format.instants import Action, InstantTime
from pyhudi.timeline.active import COMMITS, Timeline
from pyhudi.timeline.pending import planned_compactions
from pyhudi.timeline.table import Table
from pyhudi.transactions.conflicts.comparison import Group
from pyhudi.transactions.conflicts.meanwhile import RETRY


def check_compactions(
    table: Table,
    loaded: Timeline,
    now: Timeline,
    instant: InstantTime,
    ours: CommitMetadata,
    revived: Collection[Group] = (),
) -> None:
    """``CommitConflict`` if a compaction took the slice of one of our logs away.

    Also if it withdrew the plan by whose instant a log of layout 1 is named. ``revived`` are the
    groups to which rows came back that a log had deleted there, or that have doubles of our keys.
    """
    named = {
        (stat.partition_path, stat.file_id): InstantTime(stat.prev_commit or "")
        for stat in ours.stats
        if stat.log_version is not None
    }
    leaning = [group for group in revived if group in named]
    if not named or (now.layout > 1 and not leaning):
        return
    begun = _begun(table, now, min(named.values()) if now.layout == 1 else InstantTime(""))
    known = {i.time for i in loaded.instants}
    planned = {i.time for i in loaded.pending if i.action is Action.COMPACTION}
    withdrawn = planned - {i.time for i in now.instants} if now.layout == 1 else set()
    for group, slice_instant in named.items():
        latest = slice_instant if slice_instant in withdrawn else begun.get(group)
        moved = slice_instant in withdrawn or (
            now.layout == 1 and latest is not None and latest > slice_instant
        )
        if latest is not None and (moved or (group in leaning and latest not in known)):
            raise CommitConflict(
                f"Write {instant} put a log into file group {group[1]}, which compaction {latest} "
                f"has taken up meanwhile. {RETRY}",
                ours=instant,
                theirs=latest,
                overlap=(f"{group[0]}/{group[1]}" if group[0] else group[1],),
            )


def check_order(table: Table, now: Timeline, instant: InstantTime, ours: CommitMetadata) -> None:
    """``CommitConflict`` if a pending compaction will merge a later log below one of ours.

    Such a log wins against ours until the compaction has ended, and loses from then on: a
    compaction would change rows. A new instant is above all logs of the plan.
    """
    logged = {(s.partition_path, s.file_id) for s in ours.stats if s.log_version is not None}
    for pending, plan in planned_compactions(table, now):
        for each in plan.operations:
            group = each.partition_path, each.file_id
            named = [parse_log_file_name(path.rpartition("/")[2]) for path in each.delta_file_paths]
            later = [log.instant for log in named if log is not None and log.instant > instant]
            if group in logged and later:
                raise CommitConflict(
                    f"Write {instant} put a log into file group {each.file_id}, of which the "
                    f"pending compaction {pending.time} merges the later log of {later[0]}: which "
                    f"rows win would change when it ends. {RETRY} By event time ordering "
                    "(hoodie.record.merge.mode) only writes with deletes meet this.",
                    ours=instant,
                    theirs=pending.time,
                    overlap=(f"{group[0]}/{group[1]}" if group[0] else group[1],),
                )


def _begun(table: Table, now: Timeline, since: InstantTime) -> Mapping[Group, InstantTime]:
    """By group the last compaction after ``since``, planned or completed."""
    found: dict[Group, InstantTime] = {}
    for commit in now.commits:
        if commit.action is Action.COMMIT and commit.time > since:
            for stat in COMMITS.get(table.storage, now, commit).stats:
                found[stat.partition_path, stat.file_id] = commit.time
    for pending, plan in planned_compactions(table, now):
        for each in plan.operations:
            group = each.partition_path, each.file_id
            found[group] = max(pending.time, found.get(group, pending.time))
    return found
