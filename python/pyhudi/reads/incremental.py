"""Incremental reads: the rows that the commits of a range have changed, as the range leaves them.

Invariants: a row comes once, in its state at the end of the range, if its ``_hoodie_commit_time``
is that of a commit in the range. Only files that commits of the range have written are read; their
metadata names them, so nothing is listed. If some of these commits are archived, the files come
from the state at the end of the range instead. No row is left out silently: a range whose files
were cleaned is refused, unless a compaction that was planned in the range has its rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pyhudi.choices import Order
from pyhudi.config import QueryType, ReadOptions
from pyhudi.errors import ConfigError, HistoryExpired, UnsupportedTable
from pyhudi.format.instants import (
    Action,
    Instant,
    InstantTime,
    State,
    padded_time,
    parse_as_of,
)
from pyhudi.format.table_config import TableConfig, TableType
from pyhudi.slices.files import FileSlice
from pyhudi.timeline.active import COMMITS, Timeline
from pyhudi.timeline.archived import archived_instants
from pyhudi.timeline.commit_view import NeedsListing, view_of_commits
from pyhudi.timeline.completion_order import default_order, fence, time_in_order
from pyhudi.timeline.pending import pending_clusterings
from pyhudi.timeline.states import COMMIT_ACTIONS
from pyhudi.timeline.strays import Archive
from pyhudi.timeline.table import Table
from pyhudi.timeline.tail import ARCHIVED_TIMES
from pyhudi.timeline.time_travel import check_readable, kept_from
from pyhudi.timeline.view import FileSystemView

BEGIN = "hoodie.datasource.read.begin.instanttime"
END = "hoodie.datasource.read.end.instanttime"
#: what Hudi's users write for a range from the first commit on
EARLIEST = re.compile(r"(?i)earliest|0+")
#: operations that move rows within their file groups
MERGES = frozenset({"COMPACT", "LOG_COMPACT"})


@dataclass(frozen=True, slots=True)
class Range:
    """Commits after ``begin`` (None: from the first on) up to ``end`` (None: now), inclusively.

    ``order`` says which times these are.
    """

    begin: InstantTime | None
    end: InstantTime | None
    order: Order


@dataclass(frozen=True, slots=True)
class RowsOfCommits:
    """The rows of the commits ``commits``, and of all commits with a time above ``above``."""

    commits: tuple[InstantTime, ...]
    above: InstantTime | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """What an incremental query reads.

    ``rows`` is None for every row of the state. ``timeline`` ends with the range, as does
    ``as_of``, which is None if the timeline says all. ``named`` are the commits of the range if
    their metadata names all files, and None if the files come from the state at the end.
    ``remains``: they come from the newest state, where files of later commits hold such rows too.
    ``late`` completed after the range, and are not in ``timeline`` or above ``as_of``; except for
    ``merged``, compactions whose files stand for older ones that were cleaned.
    """

    rows: RowsOfCommits | None
    timeline: Timeline
    as_of: InstantTime | None
    last: InstantTime | None
    named: tuple[Instant, ...] | None
    remains: bool = False
    late: tuple[Instant, ...] = ()
    merged: frozenset[InstantTime] = frozenset()

    def view(self, table: Table) -> FileSystemView:
        """The files of the range, of which each group's newest counts.

        Those of a merge-on-read table come from a listing: the base file below a log is older.
        """
        merge_on_read = table.config.table_type is TableType.MERGE_ON_READ
        if self.named is not None and not merge_on_read:
            try:
                return view_of_commits(table.storage, self.timeline, self.named)
            except NeedsListing:
                pass
        return table.view(self.timeline)

    def of(self, slices: Sequence[FileSlice], layout: int) -> list[FileSlice]:
        """The slices that may hold rows of the range."""
        rows = self.rows
        if rows is None or self.remains:
            return list(slices)
        # Each commit writes the files of its rows.
        known, above = self.merged.union(rows.commits), rows.above

        def inside(instant: InstantTime) -> bool:
            return instant in known or (above is not None and instant > above)

        def may_hold(each: FileSlice) -> bool:
            # In layout 1 the name of a log does not say which commits are in it.
            logs = any(layout == 1 or inside(log.instant) for log in each.logs)
            return inside(each.instant) or logs

        return [each for each in slices if may_hold(each)]

    def check_bases(self, table: Table, slices: Iterable[FileSlice]) -> None:
        """``HistoryExpired`` if a slice has lost its base file: a late commit says what it was.

        If the commit of a base file is archived, nothing else promises it (``promises.py``), and
        rows that had lost to its rows would come out.
        """
        lone = {(each.partition_path, each.file_id) for each in slices if each.base is None}
        times = {each.time for each in self.late}
        for commit in self.late if lone else ():
            for stat in COMMITS.get(table.storage, self.timeline, commit).stats:
                before = stat.prev_commit
                follows = before is not None and before not in times and not stat.is_log
                if follows and (stat.partition_path, stat.file_id) in lone:
                    raise HistoryExpired(
                        f"The file group {stat.file_id} in partition '{stat.partition_path}' had a "
                        f"base file of {before} at the end of the range, which was cleaned since. "
                        f"Set {END} to the time of commit {commit.time} or later, or leave it out.",
                        asked=self.last,
                        earliest=commit.completion_time or commit.time,
                    )


def range_of(options: ReadOptions, config: TableConfig) -> Range | None:
    """The range that a read asks for; None if it is not an incremental one.

    ``ConfigError`` for a text that is no time, and for a range that begins after its end;
    ``UnsupportedTable`` for completion times in table version 6, and for rows without a commit.
    """
    if options.query_type is not QueryType.INCREMENTAL:
        return None
    order = options.order or default_order(config.layout)
    if order is Order.COMPLETED and config.layout == 1:
        raise UnsupportedTable(
            "Tables of version 6 do not record when a commit completed, so no range of them can "
            "be read in that order. Set hoodie.datasource.read.incr.order to 'fenced' or "
            "'requested', or upgrade the table with Apache Hudi to version 8 or later.",
            feature="incremental reads by completion time in table version 6",
        )
    begin = None
    if options.begin is not None and not EARLIEST.fullmatch(options.begin.strip()):
        begin = parse_as_of(options.begin, config.utc, BEGIN)
    end = parse_as_of(options.end, config.utc, END) if options.end is not None else None
    if begin is not None and end is not None and begin > end:
        raise ConfigError(
            f"The range begins at {begin} and ends at {end}, which is earlier. {BEGIN} is the "
            f"time after which it begins, {END} the last time in it: exchange them, or leave the "
            "end out.",
            key=BEGIN,
        )
    if begin is not None and not config.populate_meta_fields:
        raise UnsupportedTable(
            f"The table {config.name} has no meta fields, which tell the commit of each row, so "
            f"no row of a range of commits is known. Set {BEGIN} to 'earliest' to read all rows.",
            feature="incremental reads of tables without meta fields",
        )
    return Range(begin, end, order)


def changes(
    table: Table, timeline: Timeline, asked: Range, of_the_rest: bool, checked: bool = True
) -> Changes:
    """The commits of the range and how their files are found.

    ``HistoryExpired``, with the earliest end that can be asked for, if the state at the end of the
    range is not kept any more. With ``of_the_rest`` the rows then come from the newest state, which
    lacks those that a later commit has changed again. Unless it is ``checked`` the caller itself
    sees whether the files of the state are there.
    """
    inside, late = _split(table, timeline, asked)
    begin = asked.begin
    wanted = [i for i in inside if begin is None or _key(table, timeline, i, asked.order) > begin]
    archived, beyond = _archived(table, asked)
    last = max((i.time for i in inside), default=None)
    if late and beyond is None:
        # Archived commits are in the state, too, and savepointed ones may be older than they are.
        newest = ARCHIVED_TIMES.newest(table, Order.REQUESTED)
        last = max((time for time in (last, newest) if time is not None), default=None)
    times = [*archived, *(i.time for i in wanted)]
    if beyond is not None:
        if of_the_rest:
            return _left(timeline, last, times)
        raise _expired(asked, "commits after it are archived already", beyond)
    rows = None
    if begin is not None:
        rows = RowsOfCommits(tuple(dict.fromkeys(times)), begin if archived else None)
    named = tuple(wanted) if rows is not None and not archived else None
    found = _at_end(timeline, Changes(rows, timeline, None, last, named), late)
    if not late or not checked:
        return found
    try:
        return _kept(table, timeline, asked, found)
    except HistoryExpired:
        if not of_the_rest:
            raise
        if rows is None:
            every = Archive(table.storage, table.config).commits()
            return _left(timeline, last, [*every, *(i.time for i in inside)])
        return _left(timeline, last, rows.commits)


def _at_end(timeline: Timeline, of: Changes, late: Sequence[Instant]) -> Changes:
    """``of`` the state at the end of the range, without the commits ``late``."""
    crossed = bool(_crossing(of.last, late))
    at_end = _without(timeline, late) if crossed or of.named is not None else timeline
    as_of = of.last if late and not crossed else None
    return replace(of, timeline=at_end, as_of=as_of, late=tuple(late))


def _crossing(last: InstantTime | None, late: Iterable[Instant]) -> list[Instant]:
    """Those of the commits ``late`` that were requested before ``last``."""
    return [each for each in late if last is None or each.time < last]


def _kept(table: Table, timeline: Timeline, asked: Range, found: Changes) -> Changes:
    """``found`` if its files are kept, or the same with compactions in place of cleaned ones.

    A clean keeps the state as of an instant, with the files of a compaction that was requested
    before it, not the older ones below. They have no more rows: a compaction merges what completed
    before its request. Other commits cannot stand for what was before them. ``HistoryExpired``.
    """
    merge_on_read = table.config.table_type is TableType.MERGE_ON_READ
    late = _crossing(found.last, found.late) if merge_on_read else []
    crossing = [i for i in late if _follows(table, timeline, i)]
    try:
        _check_kept(table, timeline, asked, found.last)
    except HistoryExpired:
        # The listing does not show what is gone of groups that another commit has replaced.
        unsure = set(crossing) - _merging(table, timeline, crossing)
        if unsure or found.named is None or not _all_there(table, found):
            raise
        return found
    if not merge_on_read or _is_kept(table, timeline, found, crossing):
        return found
    merges = _merging(table, timeline, crossing)
    unmerged = [i for i in found.late if i not in merges]
    merged = replace(
        _at_end(timeline, found, unmerged), merged=frozenset(each.time for each in merges)
    )
    others = [i for i in crossing if i not in merges]
    if others and not _is_kept(table, timeline, merged, others):
        first = _key(table, timeline, max(others, key=lambda i: i.time), asked.order)
        raise _expired(asked, f"what commit {others[0].time} has changed was cleaned", first)
    return merged


def _merging(table: Table, timeline: Timeline, commits: Iterable[Instant]) -> set[Instant]:
    """The compactions of ``commits``."""
    return {i for i in commits if COMMITS.get(table.storage, timeline, i).operation in MERGES}


def _follows(table: Table, timeline: Timeline, commit: Instant) -> bool:
    """Whether the files of a commit stand for older ones, which a clean may then delete."""
    said = COMMITS.get(table.storage, timeline, commit)
    if said.replaced or said.operation in MERGES:
        return True
    return any(stat.prev_commit is not None and not stat.is_log for stat in said.stats)


def _is_kept(table: Table, timeline: Timeline, found: Changes, crossing: Sequence[Instant]) -> bool:
    """Whether no clean has taken what was there before the commits ``crossing``."""
    first = min((each.time for each in crossing), default=None)
    cleans = (i.time for i in timeline.completed if i.action is Action.CLEAN)
    if first is None or all(time < first for time in cleans):
        return True
    kept = kept_from(table, timeline)
    return _all_there(table, found) if kept is None else kept < first


def commits_of(table: Table, timeline: Timeline, asked: Range) -> list[Instant]:
    """The commits of the range, by request time, for a reader of each of their changes.

    ``HistoryExpired`` if some of them are archived: the archive does not say what they did.
    """
    inside, _ = _split(table, timeline, asked)
    begin = asked.begin
    newest = ARCHIVED_TIMES.newest(table, asked.order)
    if newest is not None and (begin is None or padded_time(newest) > begin):
        first = min((_key(table, timeline, i, asked.order) for i in timeline.commits), default=None)
        raise HistoryExpired(
            f"You asked for the changes of each commit after {begin or 'the first'}, but commits "
            f"up to {newest} are archived. Set {BEGIN} to {newest} or later, or read the newest "
            "state of the changed rows (hoodie.datasource.query.incremental.format=latest_state).",
            asked=begin,
            earliest=first,
        )
    return [i for i in inside if begin is None or _key(table, timeline, i, asked.order) > begin]


def last_of(table: Table, timeline: Timeline, asked: Range) -> InstantTime | None:
    """The last active commit of the state at the end of the range; None if it has none."""
    inside, _ = _split(table, timeline, asked)
    return max((i.time for i in inside), default=None)


def _left(timeline: Timeline, last: InstantTime | None, of: Iterable[InstantTime]) -> Changes:
    """The rows of the commits ``of`` in the newest state."""
    rows = RowsOfCommits(tuple(dict.fromkeys(of)))
    return Changes(rows, timeline, None, last, None, remains=True)


def _split(table: Table, timeline: Timeline, asked: Range) -> tuple[list[Instant], list[Instant]]:
    """Completed commits that belong to the state at the end of the range, and later ones."""
    wall = None
    if asked.order is Order.FENCED:
        wall = fence(timeline, pending_clusterings(table, timeline))
    inside: list[Instant] = []
    late: list[Instant] = []
    for each in timeline.commits:
        beyond = asked.end is not None and _key(table, timeline, each, asked.order) > asked.end
        fenced = wall is not None and padded_time(each.time) >= padded_time(wall)
        (late if beyond or fenced else inside).append(each)
    return inside, late


def _key(table: Table, timeline: Timeline, instant: Instant, order: Order) -> InstantTime:
    return time_in_order(timeline, instant, order, table.config.utc)


def _archived(table: Table, asked: Range) -> tuple[list[InstantTime], InstantTime | None]:
    """The archived commits of the range, and the newest one of all if it is after the range.

    Neither if no archived commit is after the range's begin; from the earliest on, after its end.
    """
    begin, end = asked.begin or InstantTime(""), asked.end
    least = asked.begin or end
    newest = ARCHIVED_TIMES.newest(table, asked.order) if least is not None else None
    if newest is None or least is None or padded_time(newest) <= least:
        return [], None
    found: list[InstantTime] = []
    for entry in archived_instants(table.storage, table.config):
        each = entry.instant
        completed = each.completion_time or each.time
        key = padded_time(completed if asked.order is Order.COMPLETED else each.time)
        if each.action in COMMIT_ACTIONS and begin < key and (end is None or key <= end):
            found.append(each.time)
    return found, newest if end is not None and padded_time(newest) > end else None


def _without(timeline: Timeline, late: Iterable[Instant]) -> Timeline:
    """``timeline`` as if the commits ``late`` had not completed."""
    hidden = set(late)

    def then(each: Instant) -> Instant:
        if each not in hidden:
            return each
        return replace(each, state=State.INFLIGHT, completion_time=None)

    return timeline.only(map(then, timeline.instants)) if hidden else timeline


def _check_kept(table: Table, timeline: Timeline, asked: Range, last: InstantTime | None) -> None:
    """``HistoryExpired`` if the state after the commit ``last`` may lack files."""
    if last is None:
        return
    try:
        check_readable(table, timeline, last)
    except HistoryExpired as expired:
        first = next((i for i in timeline.commits if i.time == expired.earliest), None)
        known = expired.earliest or last
        earliest = _key(table, timeline, first, asked.order) if first is not None else known
        raise _expired(
            asked, "older versions of some of its files have been cleaned since", earliest
        ) from expired


def _expired(asked: Range, why: str, earliest: str) -> HistoryExpired:
    return HistoryExpired(
        f"You asked for the changes up to {asked.end or 'the first pending write'}, but {why}. "
        f"The earliest end that can be asked for is {earliest}: set {END} to it or to a later "
        "time, or leave it out. To get what is left of the changed rows, those that no later "
        "commit has changed again, set hoodie.datasource.read.incr.fallback.fulltablescan.enable "
        "to true.",
        asked=asked.end,
        earliest=earliest,
    )


def _all_there(table: Table, found: Changes) -> bool:
    """Whether every file of the range exists; lists the partitions that it touches, or all of a
    merge-on-read table."""
    if table.config.table_type is TableType.MERGE_ON_READ:
        try:
            found.check_bases(table, found.view(table).slices(found.as_of))
        except HistoryExpired:
            return False
        return True
    wanted = {f.base.path: f for f in found.view(table).slices(logs=False) if f.base is not None}
    listed = {
        file.path
        for partition in {f.partition_path for f in wanted.values()}
        for file in table.storage.list(partition)
    }
    return wanted.keys() <= listed
