"""One look of a stream at its table: the commits in the order in which a stream reads them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from pyhudi.choices import ChangeForm, Order
from pyhudi.errors import HistoryExpired, TableCorrupt
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat
from pyhudi.format.instants import Action, Instant, InstantTime, State, padded_time
from pyhudi.format.table_config import TableType
from pyhudi.reads.change_data import STILL
from pyhudi.reads.change_slices import Group
from pyhudi.reads.incremental import MERGES
from pyhudi.reads.stream_admission import Ahead, Load
from pyhudi.reads.stream_offsets import RECENT, Offset, StreamOffset, just_before
from pyhudi.recent import Recent
from pyhudi.storage.base import Storage
from pyhudi.timeline.active import COMMITS, Timeline
from pyhudi.timeline.archived import archived_commit, holds_commit
from pyhudi.timeline.completion_order import fence, safe_checkpoint, time_in_order
from pyhudi.timeline.pending import pending_clusterings
from pyhudi.timeline.read_states import ReadState, completed
from pyhudi.timeline.strays import rolled_back
from pyhudi.timeline.table import LOOKS, Table, open_with_timeline

T = TypeVar("T")
_EVER: Final = InstantTime("9" * 20)
_FIRST: Final = InstantTime(f"{1:017}")
#: the last listing of a table
_LISTED: Final[Recent[str, Timeline]] = Recent(64)


@dataclass(frozen=True, slots=True)
class StreamStep:
    """What completed at one time of the order: nearly always one commit."""

    at: InstantTime
    commits: tuple[Instant, ...]


@dataclass(frozen=True, slots=True)
class StreamLook:
    """The commits that a stream may read, in order; those that may still be overtaken are left out.

    A commit that is not among the ``steps`` comes with a later look, and then after all of them.
    ``held`` are those that wait for the pending write ``waits_for``, in the fenced order.
    """

    table: Table
    timeline: Timeline
    order: Order
    steps: tuple[StreamStep, ...]
    held: tuple[StreamStep, ...] = ()
    waits_for: InstantTime | None = None

    @property
    def newest(self) -> InstantTime | None:
        """The last time; None without commits."""
        return self.steps[-1].at if self.steps else None

    def between(self, begin: InstantTime, end: InstantTime | None = None) -> tuple[StreamStep, ...]:
        """The steps after ``begin`` up to ``end``, inclusively."""
        return tuple(s for s in self.steps if begin < s.at and (end is None or s.at <= end))

    def before(self, at: InstantTime) -> InstantTime | None:
        """The time of the last step before ``at``."""
        return max((s.at for s in self.steps if s.at < at), default=None)

    def step(self, at: InstantTime) -> StreamStep | None:
        """The step at a time; None if there is none, or if it is archived."""
        return next((s for s in self.steps if s.at == at), None)

    def place(self, at: InstantTime, files: int | None = None) -> StreamOffset:
        """The place at a step, which names its last commit; without a step it names none."""
        step = self.step(at)
        commit = None if step is None else step.commits[-1].time
        return StreamOffset(self.order, at, files, commit=commit)

    def reached(self, start: Offset, at: InstantTime, files: int | None = None) -> StreamOffset:
        """The place of a stream that reads on from ``start``: it also names what was read before.

        What was archived is not named: nobody undoes it. Nor is what only moved rows.
        """
        place = self.place(at, files)
        begin, known = InstantTime(""), frozenset[InstantTime | None]()
        if isinstance(start, StreamOffset):
            begin, known = start.at, frozenset((*start.recent, start.commit))
        read = [
            commit.time
            for step in self.steps
            for commit in step.commits
            if step.at <= at and (step.at > begin or commit.time in known)
            if commit.time != place.commit and not self._only_moves(commit)
        ]
        return replace(place, recent=tuple(read[-RECENT:]))

    def _only_moves(self, commit: Instant) -> bool:
        """``moves_rows``, without its metadata where the action tells."""
        merges = self.table.config.table_type is TableType.MERGE_ON_READ
        services = {Action.REPLACECOMMIT, Action.COMMIT} if merges else {Action.REPLACECOMMIT}
        return commit.action in services and self.moves_rows(commit)

    def undone(self, place: StreamOffset) -> InstantTime | None:
        """A commit that a place names and that the table no longer has; None if it has all.

        A commit that is not on the timeline is archived or undone. The archive takes the oldest
        first, so it is asked only for those above the first active one, and of all after a pause
        in which it took the place's own. Below it a rollback on the timeline tells.
        """
        there = {commit.time for commit in self.timeline.commits}
        own = () if place.commit is None else (place.commit,)
        gone = [time for time in (*own, *place.recent) if time not in there]
        if not gone:
            return None
        storage, config = self.table.storage, self.table.config
        named = rolled_back(storage, self.timeline)
        first = self.timeline.first_time
        asked = [
            time
            for time in gone
            if place.commit in gone or not first or time > first or time in named
        ]
        return next((t for t in asked if not holds_commit(storage, config, t)), None)

    def missed(self, place: StreamOffset) -> Instant | None:
        """A commit that is on the timeline now, below a place whose stream has not read it.

        The clock of its writer was behind. A place names what was read between the first of its
        ``recent`` commits and itself, and what it does not name there came later. Times of files
        do not tell: a copy of the table does not keep them.
        """
        named = {*place.recent, place.commit}
        below = [step for step in self.steps if step.at <= place.at]
        known = [s.at for s in below if place.recent and any(c.time in named for c in s.commits)]
        for commit in (c for s in below if known and s.at > known[0] for c in s.commits):
            told = commit.completion_time is not None or self.order is Order.FENCED
            if commit.time in named or not told or self._only_moves(commit):
                continue
            if self.files(commit) or self.metadata(commit).replaced:
                return commit
        return None

    def state(self, at: InstantTime) -> ReadState | None:
        """The state after all commits up to ``at``, for a lease; None if there are none."""
        read = [c for s in self.steps if s.at <= at for c in s.commits]
        if not read:
            return None
        newest = max(commit.time for commit in read)
        last = max(completed(self.timeline, commit) for commit in read)
        return ReadState(newest, self.timeline.layout, last)

    def before_all(self) -> ReadState:
        """The state before all active commits, for the lease of a stream that will read them.

        It has the files of archived commits, and none without an archive.
        """
        first = min((c.time for c in self.timeline.commits), default=_FIRST)
        return ReadState(just_before(first), self.timeline.layout, "")

    def metadata(self, commit: Instant) -> CommitMetadata:
        """What a commit says of itself."""
        return COMMITS.get(self.table.storage, self.timeline, commit)

    def moves_rows(self, commit: Instant) -> bool:
        """Whether a commit only put rows into other files."""
        return self.metadata(commit).operation in STILL - {"ALTER_SCHEMA"}

    def files(self, commit: Instant) -> dict[Group, Load]:
        """What a commit wrote to each file group, in the order of the ordinals of a place.

        That is one base file, or logs, which count as one. Nothing if the commit moved rows.
        """
        return _files(self.metadata(commit))

    def files_at(self, place: StreamOffset) -> dict[Group, Load] | None:
        """The same of the one commit at a place between its files; the archive says it, too.

        None if nobody says it any more.
        """
        step = self.step(place.at)
        if step is not None:
            return self.files(step.commits[-1])
        if place.commit is None:
            return None
        entry = archived_commit(self.table.storage, self.table.config, place.commit)
        files = _files(entry.commit()) if entry is not None else {}
        # An archive of layout 1 may have the partitions in another order than the commit had.
        told = self.timeline.layout == 2 or len({partition for partition, _ in files}) == 1
        return files if files and told else None

    def ahead(self, step: StreamStep, form: ChangeForm = ChangeForm.LATEST_STATE) -> Ahead:
        """What a batch reads to read a step.

        Of change data a commit is not cut if one of its files may have a key's delete and another
        its insert: in two batches the delete could come last, and would take the new row.
        """
        loads = [load for commit in step.commits for load in self.files(commit).values()]
        cuttable = len(step.commits) == 1
        if form is not ChangeForm.LATEST_STATE:
            cuttable = cuttable and not _moves_keys(self.metadata(step.commits[0]))
        return Ahead(step.at, loads, cuttable)

    def without(self, hidden: Callable[[Instant], bool]) -> Timeline:
        """The timeline as if the commits for which ``hidden`` is true had not completed."""

        def then(each: Instant) -> Instant:
            if each.state is not State.COMPLETED or each not in commits or not hidden(each):
                return each
            return replace(each, state=State.INFLIGHT, completion_time=None)

        commits = set(self.timeline.commits)
        return self.timeline.only(map(then, self.timeline.instants))

    def until(self, end: InstantTime, is_newer: Callable[[Instant], bool]) -> Timeline:
        """The timeline without those commits after ``end`` for which ``is_newer`` is true.

        A compaction stays if others have later instants, and so their columns: it may have the rows
        of files that were cleaned.
        """
        hidden = {c for c in self.timeline.commits if self.key(c) > end and is_newer(c)}
        last = max((c.time for c in self.timeline.commits if c not in hidden), default="")
        merges = (c for c in hidden if c.time < last and self.metadata(c).operation in MERGES)
        return self.without(hidden.difference(merges).__contains__)

    def key(self, commit: Instant) -> InstantTime:
        """The time of a commit by the order."""
        return time_in_order(self.timeline, commit, self.order, self.table.config.utc)


def look(storage: Storage, order: Order | None, default: Callable[[int], Order]) -> StreamLook:
    """The table as it is now; None ``order`` is the ``default`` for its timeline's layout.

    It is listed twice: a commit that ends during the first listing may be missed by it. But where
    nothing has changed since the last look of this process, that was the first one.
    """
    before = _LISTED.get(storage.root)  # its listing had ended before the next one begins
    table, now = open_with_timeline(storage)
    if before != now:
        before, now = now, table.timeline()
        _LISTED.put(storage.root, now)
    chosen = order or default(table.config.layout)
    utc = table.config.utc
    clusterings = pending_clusterings(table, now)
    safe = safe_checkpoint(before, now, chosen, utc, clusterings)
    found = _looked(table, now, chosen, safe)
    wall = fence(now, clusterings) if chosen is Order.FENCED else None
    if wall is None:
        return found
    held = _looked(table, now, chosen, _EVER).between(padded_time(wall))
    return replace(found, held=held, waits_for=wall if held else None)


def look_back(storage: Storage, order: Order, until: InstantTime) -> StreamLook:
    """The same up to a time that an earlier look has found safe; it is listed once."""
    table, now = open_with_timeline(storage)
    return _looked(table, now, order, until)


def _looked(table: Table, now: Timeline, order: Order, until: InstantTime | None) -> StreamLook:
    by_time: dict[InstantTime, list[Instant]] = defaultdict(list)
    for commit in now.commits:
        at = time_in_order(now, commit, order, table.config.utc)
        if until is not None and at <= until:
            by_time[at].append(commit)
    steps = (
        StreamStep(at, tuple(sorted(commits, key=lambda c: c.time)))
        for at, commits in sorted(by_time.items())
    )
    return StreamLook(table, now, order, tuple(steps))


def _files(metadata: CommitMetadata) -> dict[Group, Load]:
    found: dict[Group, Load] = {}
    if metadata.operation not in STILL:
        for stat in metadata.stats:
            if stat.path:
                group = _group(stat)
                found[group] = found.get(group, Load()) + _load(stat)
    return found


def _moves_keys(metadata: CommitMetadata) -> bool:
    """Whether a key that a commit deletes in one file group may be inserted in another.

    So it is after an overwrite, and where a row moves to another partition.
    """
    stats = [stat for stat in metadata.stats if stat.path]
    into = {_group(s) for s in stats if s.num_inserts or (s.is_log and s.num_writes)}
    if metadata.replaced:
        return bool(into)
    return any(s.num_deletes and into - {_group(s)} for s in stats)


def _group(stat: WriteStat) -> Group:
    return stat.partition_path, stat.file_id


def _load(stat: WriteStat) -> Load:
    """A file of a commit, of which the changed rows count; some writers count only all rows."""
    changed = stat.num_inserts + stat.num_updates
    unknown = not changed and not stat.num_deletes
    return Load(1, stat.file_size_bytes, stat.num_writes if unknown else changed)


def looking_again(look: Callable[[], T]) -> T:
    """The answer of ``look``, asked again if the table was changed while it was looked at."""
    for number in range(LOOKS - 1):
        try:
            return look()
        except TableCorrupt:  # a commit may have been archived since the listing
            if number:
                raise
        except HistoryExpired as expired:
            if not expired.moved:
                raise
    return look()
