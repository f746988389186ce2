"""What happened to one record key: from the slices of its file groups to a list of events.

This module reads nothing. A row says itself which instant gave it its value; so a later slice tells
of an earlier one that is cleaned, and what a slice only carries along is told from what it changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise

from pyhudi.diagnosis.data_files import Look
from pyhudi.diagnosis.logged_keys import LogEvent, LoggedKey
from pyhudi.format.commit_metadata import WriteStat
from pyhudi.format.filenames import FileId, parse_base_file_name, parse_log_file_name
from pyhudi.format.instants import InstantTime

CLUSTER, COMPACT = "cluster", "compact"
#: partition path and file id
Group = tuple[str, FileId]


class What(str, Enum):
    """What an instant did to a key."""

    INSERTED = "inserted"
    UPDATED = "updated"
    #: it has its value from this commit; whether it was there before is not known
    WRITTEN = "written"
    DELETED = "deleted"
    #: a log has a row or a delete of it that loses against an earlier one
    OUTRANKED = "outranked"
    MOVED = "moved"
    CLUSTERED = "clustered"
    #: its file group was replaced by an overwrite
    REPLACED = "replaced"
    ROLLED_BACK = "rolled back"
    #: copied unchanged into a new slice; listed only on request
    CARRIED = "carried"
    #: a slice that is cleaned, or a log that was not read: whether it has the key is not known
    UNKNOWN = "unknown"
    PENDING = "pending"
    #: in a file that no commit names
    FAILED = "failed"
    #: the last entry: where the key is now
    NOW = "now"


@dataclass(frozen=True, slots=True)
class Touch:
    """One event in the life of a record key, and how it is known.

    ``completed_at`` is None if the instant is pending or its completion is not recorded; ``file``
    is relative to the table, and empty if there is none.
    """

    instant: str
    completed_at: str | None
    operation: str
    what: What
    partition: str
    file: str
    reason: str


class Standing(Enum):
    """Whether the file of an instant counts."""

    COMMITTED = "committed"
    PENDING = "pending"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class KnownCommit:
    """What a timeline tells of an instant; ``replaced`` are the groups that it replaced."""

    instant: InstantTime
    operation: str
    completed_at: InstantTime | None = None


@dataclass(frozen=True, slots=True)
class SeenSlice:
    """One base file of a group and what it shows; ``look`` is None for a file that is cleaned.

    ``stat`` is what its commit recorded of it, None if that is not known.
    """

    path: str
    instant: InstantTime
    standing: Standing = Standing.COMMITTED
    look: Look | None = None
    rows: int = 0
    written_by: InstantTime | None = None
    stat: WriteStat | None = None


@dataclass(frozen=True, slots=True)
class GroupLife:
    """A file group that has the key, or had it: its slices and logs, ascending by instant.

    ``replaced_by`` is the commit that replaced the group, None if the group is there. ``logged`` is
    what the logs of its newest slice make of the key, None if that has no logs. ``deletes`` are
    those by which compactions left the key out, by the path of what they wrote.
    """

    group: Group
    slices: Sequence[SeenSlice]
    logs: Sequence[tuple[InstantTime, str]] = ()
    replaced_by: InstantTime | None = None
    logged: LoggedKey | None = None
    deletes: Mapping[str, LogEvent] = field(default_factory=dict)

    def left_out(
        self, commits: Mapping[InstantTime, KnownCommit]
    ) -> Iterator[tuple[SeenSlice, SeenSlice]]:
        """Pairs of slices of which a compaction made the second from the first, without the key."""
        whole = [each for each in self.slices if each.standing is Standing.COMMITTED]
        for before, after in pairwise(whole):
            known = commits.get(after.instant)
            compacted = known is not None and known.operation == COMPACT
            if compacted and _holds(before) and after.look in (Look.ABSENT, Look.RULED_OUT):
                yield before, after


@dataclass(frozen=True, slots=True)
class Home:
    """A file that has the key now, or ``told`` why it has it no more; ``file`` is then empty."""

    file: str
    told: str


def touches_of(
    lives: Iterable[GroupLife], commits: Mapping[InstantTime, KnownCommit]
) -> tuple[list[Touch], list[Home]]:
    """The events of the key in order, and where it is now."""
    found: list[Touch] = []
    now: list[Home] = []
    for life in lives:
        story = _Story(life, commits)
        found += story.events()
        now += story.homes()
    found.sort(key=lambda each: (each.instant, each.partition, each.file))
    return list(_joined(found)), now


class _Story:
    """The events of one group."""

    def __init__(self, life: GroupLife, commits: Mapping[InstantTime, KnownCommit]) -> None:
        self._life = life
        self._commits = commits
        self._last: SeenSlice | None = None
        self._gap: list[SeenSlice] = []

    def homes(self) -> Iterator[Home]:
        """Where the newest slice has the key; to be asked after ``events``.

        A base file tells that only if no log of its slice has the key, or if the merge says so.
        """
        logged, last = self._life.logged, self._last
        if self._life.replaced_by:
            return
        held = last if _holds(last) and not self._gap else None
        if logged is not None and logged.row is not None:
            text = f"The table has it in this log file, with the value of {logged.row.instant}."
            yield Home(logged.row.path, text)
        if logged is not None and logged.deleted is not None:
            at = logged.deleted
            yield Home("", f"The log {at.path} of {at.instant} has deleted it.")
        if held is None or (logged is not None and logged.events and not logged.in_base):
            return
        if logged is not None and logged.unread:
            text = (
                f"Its newest base file has it, with the value of {held.written_by}, but its logs "
                f"could not be read, and may have changed or deleted it: {', '.join(logged.logs)}."
            )
        else:
            text = f"The table has it in this file, with the value of {held.written_by}."
            if logged is not None and logged.events:
                text += " What logs have of it does not count against that."
        yield Home(held.path, text)

    def events(self) -> Iterator[Touch]:
        for each in self._life.slices:
            if each.standing is not Standing.COMMITTED:
                yield from self._uncommitted(each)
            elif each.look in (None, Look.GONE, Look.UNREADABLE):
                self._gap.append(each)
            elif each.look is Look.HELD:
                yield from self._held(each)
                self._last, self._gap = each, []
            else:
                yield from self._absent(each)
                self._last, self._gap = each, []
        yield from self._unknown(self._gap)
        yield from self._in_logs()
        if self._life.replaced_by:
            yield from self._replaced(self._life.replaced_by)

    def _touch(self, what: What, at: SeenSlice, reason: str) -> Touch:
        if at.rows > 1:
            reason += f" {at.rows} rows of the file have the key."
        return self._made(at.instant, what, at.path, reason)

    def _made(self, instant: InstantTime, what: What, path: str, reason: str) -> Touch:
        known = self._commits.get(instant, KnownCommit(instant, ""))
        return Touch(
            instant,
            known.completed_at,
            known.operation,
            what,
            self._life.group[0],
            path,
            reason,
        )

    def _held(self, at: SeenSlice) -> Iterator[Touch]:
        last, written = self._last, at.written_by or at.instant
        if last is not None and _holds(last) and last.written_by == written:
            yield from self._carried([*self._gap, at])
        elif self._operation(at) == CLUSTER:
            yield self._touch(What.CLUSTERED, at, _value_of(written, at))
        elif written == at.instant:
            yield from self._unknown(self._gap)
            yield self._written(at)
        else:
            yield from self._from_earlier(at, written)

    def _written(self, at: SeenSlice) -> Touch:
        last, stat = self._last, at.stat
        if not self._gap and _holds(last):
            return self._touch(What.UPDATED, at, "The row in the file has a new value.")
        if not self._gap and (last is not None or stat is None or stat.prev_commit is None):
            why = (
                "The slice before does not have it." if last else "It is in a file group's first "
                "slice."
            )  # fmt: skip
            return self._touch(What.INSERTED, at, why)
        if stat is not None and stat.num_inserts == 0:
            why = "The commit only changed rows of this file; the slice before is cleaned."
            return self._touch(What.UPDATED, at, why)
        if stat is not None and stat.num_updates == 0:
            why = "The commit only added rows to this file; the slice before is cleaned."
            return self._touch(What.INSERTED, at, why)
        why = "New or changed: the slice before is cleaned, so that is not known."
        return self._touch(What.WRITTEN, at, why)

    def _from_earlier(self, at: SeenSlice, written: InstantTime) -> Iterator[Touch]:
        """A slice whose row is older than the slice, and than the last one that could be read."""
        source = next((each for each in self._gap if each.instant == written), None)
        if source is not None:
            where = self._gap.index(source)
            after = [*self._gap[where + 1 :], at]
            self._gap = self._gap[:where]
            yield from self._unknown(self._gap)
            told = self._written(source)
            yield replace(told, reason=f"{told.reason} Its own slice is cleaned: {at.path} tells.")
            yield from self._carried(after)
            return
        log = next((path for instant, path in self._life.logs if instant == written), "")
        yield from self._unknown([each for each in self._gap if each.instant < written])
        why = (
            "A log file had it" if log else "Its slice is cleaned and no known commit names it"
        ) + f": {at.path} has the value of this instant."
        yield self._made(written, What.WRITTEN, log, why)
        yield from self._carried([*(e for e in self._gap if e.instant > written), at])

    def _absent(self, at: SeenSlice) -> Iterator[Touch]:
        last = self._last
        if last is None or not _holds(last):
            yield from self._unknown(self._gap)
            return
        deleted = self._life.deletes.get(at.path)
        if deleted is not None:
            why = f"The log deletes it, and the compaction {at.instant} has left it out."
            yield self._made(deleted.instant, What.DELETED, deleted.path, why)
            return
        why = f"It was in {last.path}, and this slice does not have it."
        if self._gap:
            why += (
                f" {len(self._gap)} slices between them are cleaned: one of them may have deleted "
                "it first."
            )
        yield from self._unknown(self._gap)
        yield self._touch(What.DELETED, at, why)

    def _carried(self, slices: Iterable[SeenSlice]) -> Iterator[Touch]:
        for each in slices:
            yield self._touch(What.CARRIED, each, "Copied unchanged into a new slice.")

    def _unknown(self, slices: Iterable[SeenSlice]) -> Iterator[Touch]:
        for each in slices:
            state = "unreadable" if each.look is Look.UNREADABLE else "cleaned"
            why = f"Slice {state}: whether the commit touched the key is not known."
            yield self._touch(What.UNKNOWN, each, why)

    def _in_logs(self) -> Iterator[Touch]:
        """What the logs of the newest slice did, and logs after the last known value of the key."""
        logged = self._life.logged or LoggedKey(())
        read = frozenset() if logged.unread else frozenset(logged.logs)
        since = self._last.instant if self._last is not None else InstantTime("")
        for instant, path in self._life.logs:
            if path not in read and self._belongs(instant, path) >= since:
                why = "A log file that was not read: whether it has the key is not known."
                yield self._made(instant, What.UNKNOWN, path, why)
        for event in logged.events:
            what = What.DELETED if event.deletes else What.WRITTEN
            why = "The log deletes it." if event.deletes else "The log has a row of it."
            if event in logged.outranked:
                what = What.OUTRANKED
                why += " That does not count, since another row or delete has a greater order."
            yield self._made(event.instant, what, event.path, why)

    def _belongs(self, instant: InstantTime, path: str) -> str:
        """The time that tells the slice of a log: in layout 1 that in its name, else its commit's
        completion."""
        name = parse_log_file_name(path.rpartition("/")[2])
        if name is not None and name.instant != instant:
            return name.instant
        known = self._commits.get(instant)
        return (known.completed_at if known is not None else None) or instant

    def _uncommitted(self, at: SeenSlice) -> Iterator[Touch]:
        if at.look is not Look.HELD or at.written_by != at.instant:
            return
        if at.standing is Standing.PENDING:
            why = "A pending write has put it into this file; no reader sees it yet."
            yield self._touch(What.PENDING, at, why)
        else:
            why = (
                "No commit names this file: a failed write left it, and no reader sees it. "
                "pyhudi clean --failed-writes undoes failed writes."
            )
            yield self._touch(What.FAILED, at, why)

    def _replaced(self, instant: InstantTime) -> Iterator[Touch]:
        last = self._last
        if last is None or not _holds(last) or self._gap:
            return
        why = f"Its file group was replaced, and {last.path} with it."
        what = What.CLUSTERED if self._commits_operation(instant) == CLUSTER else What.REPLACED
        yield self._made(instant, what, last.path, why)

    def _operation(self, at: SeenSlice) -> str:
        return self._commits_operation(at.instant)

    def _commits_operation(self, instant: InstantTime) -> str:
        known = self._commits.get(instant)
        return known.operation if known is not None else ""


def _holds(slice: SeenSlice | None) -> bool:
    return slice is not None and slice.look is Look.HELD


def _value_of(written: InstantTime, at: SeenSlice) -> str:
    if written == at.instant:
        return "Clustering rewrote it into this file."
    return f"Clustering rewrote it into this file, with its value of {written}."


def _joined(touches: Sequence[Touch]) -> Iterator[Touch]:
    """One event for a key that left one group and came into another in one instant."""
    by_instant: dict[str, list[Touch]] = {}
    for each in touches:
        by_instant.setdefault(each.instant, []).append(each)
    for together in by_instant.values():
        come = [e for e in together if e.what is What.INSERTED]
        for target in come:
            source = next((e for e in together if e.what is What.DELETED), None)
            if source is not None:
                together.remove(source)
                where = (
                    f"partition '{source.partition}'"
                    if source.partition != target.partition
                    else "another file group"
                )
                why = f"It came from {where}. {source.reason}"
                moved = replace(target, what=What.MOVED, reason=why)
                together[together.index(target)] = moved
        clustered = [e for e in together if e.what is What.CLUSTERED]
        out = [e for e in clustered if not _is_in_own_file(e)]
        if out and len(out) < len(clustered):
            together = [e for e in together if e not in out]
        yield from together


def _is_in_own_file(touch: Touch) -> bool:
    """Whether the event's file is one that its instant wrote, not one that it replaced."""
    name = parse_base_file_name(touch.file.rsplit("/", 1)[-1])
    return name is not None and name.instant == touch.instant
