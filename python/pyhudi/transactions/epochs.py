"""Which epochs of streams a table has, and whether a given one may be written.

Invariants: an epoch is committed once, whoever repeats it; no epoch is skipped unless the table
has it (docs/decisions/stream_epochs.md). The judgement is pure, and is made again under the lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyhudi.errors import CommitConflict, StreamConflict, TableCorrupt
from pyhudi.format.archive import ArchivedInstant
from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.instants import Action, Instant, InstantTime, padded_time
from pyhudi.format.plans import parse_restore_metadata
from pyhudi.format.stream_marks import (
    MOST_STREAMS,
    Epoch,
    Mark,
    Marks,
    hudi_batches,
    own_marks,
    render_marks,
    with_mark,
)
from pyhudi.recent import Recent
from pyhudi.timeline.active import COMMITS, InstantKey, Timeline, instant_key
from pyhudi.timeline.archived import archived_instants
from pyhudi.timeline.states import COMMIT_ACTIONS
from pyhudi.timeline.table import Table
from pyhudi.transactions.conflicts.meanwhile import RETRY, conflict_if_gone
from pyhudi.transactions.epoch_conflicts import (
    after_hudi,
    another,
    behind,
    other_write,
    perhaps_cut,
    renamed,
    set_back,
)

#: below all instants
_NEVER = InstantTime("")
#: what an epoch is on the timeline
_OF_EPOCHS = frozenset({Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT})


class EpochDone(Exception):
    """Not an error: the table has the epoch, as of the commit ``instant``."""

    def __init__(self, epoch: Epoch, mark: Mark) -> None:
        super().__init__(f"{epoch.who} is in commit {mark.instant} already")
        self.epoch = epoch
        self.instant = mark.instant


def judge_epoch(epoch: Epoch, marks: Marks) -> None:
    """Return if ``epoch`` is to be written; ``EpochDone`` if the table has it.

    ``StreamConflict`` (ours, theirs) if the table's last batch of this stream is a later one of
    this query, or is another query's, if the batch is in under another name of the stream, or if
    its writes are not those that the table has of it.
    """
    mark = marks.get(epoch.stream)
    if mark is not None and mark.query == epoch.query:
        if mark.batch > epoch.batch:
            raise behind(epoch, mark)
        if mark.batch == epoch.batch and _is_repeated(epoch, mark) and mark.writes > epoch.ordinal:
            raise EpochDone(epoch, mark)
        return
    # A name that is new to the query may be another one for what the table has: the writes of a
    # batch are counted over all names.
    for name, other in marks.items():
        ahead = (other.batch, other.writes) > (epoch.batch, epoch.ordinal)
        if other.query == epoch.query and ahead:
            if other.batch == epoch.batch and _takes_over(epoch, other):
                _check_writes(epoch, other)
                raise EpochDone(epoch, other)
            raise renamed(epoch, name, other)
    if mark is None or _takes_over(epoch, mark):
        return
    if mark.query is None:
        if epoch.batch > mark.batch:
            return
        # Only the last batch is ever repeated; number 0 may also be the first of a new checkpoint.
        if epoch.batch == mark.batch > 0:
            raise EpochDone(epoch, mark)
        raise after_hudi(epoch, mark)
    raise another(epoch, mark)


def _is_repeated(epoch: Epoch, mark: Mark) -> bool:
    """Whether the batch makes the writes of the ``mark`` again; if not, ``StreamConflict``, unless
    the user has said that the query replaces itself: then they are written."""
    try:
        _check_writes(epoch, mark)
    except StreamConflict:
        if epoch.replaces != epoch.query:
            raise
        return False
    return True


def _check_writes(epoch: Epoch, mark: Mark) -> None:
    """``StreamConflict`` if a write of the batch is another one than the mark says."""
    for number, (now, before) in enumerate(zip(epoch.made, mark.made, strict=False)):
        if now and before and now != before:
            raise other_write(epoch, mark, number)


def _takes_over(epoch: Epoch, mark: Mark) -> bool:
    """Whether the user has said that the epoch's query goes on where the mark's one ended."""
    return epoch.replaces is not None and epoch.replaces in ("*", mark.query)


def check_epoch(table: Table, timeline: Timeline, epoch: Epoch) -> None:
    """``judge_epoch`` for the table as ``timeline`` shows it.

    ``StreamConflict`` also if batches of the query, or writes of one, seem to be undone, by a
    restore or since the table was made again: it has gone on without them.
    """
    marks = known_marks(table, timeline, archived=True)
    own = _last_of(epoch, marks)
    try:
        judge_epoch(epoch, marks)
    except EpochDone:
        if own is not None:
            _SEEN.put(_key(table, epoch), _Seen(_place(own), made=True))
        raise
    mark = marks.get(epoch.stream)
    if not (
        epoch.replaces in ("*", epoch.query) or (mark is not None and _takes_over(epoch, mark))
    ):
        _refuse_gap(table, timeline, epoch, own, marks)
    seen = _SEEN.get(_key(table, epoch))
    if own is not None and own.query == epoch.query and (not seen or seen.place != _place(own)):
        _SEEN.put(_key(table, epoch), _Seen(_place(own)))
    _JUDGED.put(_key(table, epoch), max(_restores(timeline), default=_NEVER))


def remember(table: Table, epoch: Epoch) -> None:
    """This process has committed ``epoch``."""
    _SEEN.put(_key(table, epoch), _Seen((epoch.batch, epoch.ordinal + 1), made=True))


def remember_empty(table: Table, epoch: Epoch) -> None:
    """This process has judged ``epoch``, and found that it has no rows."""
    judged = _JUDGED.get(_key(table, epoch))
    if judged is not None:
        _EMPTY.put(_key(table, epoch), (epoch.batch, judged))


def _key(table: Table, epoch: Epoch) -> tuple[str, str]:
    return table.storage.root, epoch.query


def _place(mark: Mark | None) -> tuple[int, int]:
    return (-1, 0) if mark is None else (mark.batch, mark.writes)


def _refuse_gap(
    table: Table, timeline: Timeline, epoch: Epoch, own: Mark | None, marks: Marks
) -> None:
    """``StreamConflict`` if what the query wrote after ``own`` and before ``epoch`` is undone."""
    seen = _SEEN.get(_key(table, epoch))
    judged = _JUDGED.get(_key(table, epoch)) or _NEVER
    few = len(marks) < MOST_STREAMS  # else the mark may have left for those of others
    batch, empty_since = _EMPTY.get(_key(table, epoch)) or (-1, _NEVER)
    if batch != epoch.batch - 1:
        empty_since = _NEVER
    since = None
    if own is not None or few:
        since = _doubtful_since(epoch, own, seen, judged, empty_since)
    undone = None if since is None else _restored_since(table, timeline, since)
    newer = seen is not None and _place(own) < seen.place <= (epoch.batch, epoch.ordinal)
    if newer and few:
        raise set_back(epoch, own, undone)
    if not undone:
        return
    if own is not None and own.made and epoch.batch == own.batch + 1 and not epoch.ordinal:
        raise perhaps_cut(epoch, own, undone)
    raise set_back(epoch, own, undone)


def _doubtful_since(
    epoch: Epoch,
    own: Mark | None,
    seen: _Seen | None,
    judged: InstantTime,
    empty_since: InstantTime,
) -> InstantTime | None:
    """After which instant a restore may have undone what ``epoch`` passes over; None: it passes
    over nothing.

    That is a batch, or a write of its own batch: without a mark, and in its batch, this process has
    ``judged`` those before, so the restores that it saw then do not count. Nor do those that it
    saw, ``empty_since``, when it found the batch before without rows. Or it is a write of the last
    batch: how many a function has made there, only a process knows that has made them.
    """
    if own is None:
        return judged if (epoch.batch, epoch.ordinal) > (0, 0) else None
    if epoch.batch > own.batch + 1:
        return max(own.instant, empty_since)
    if epoch.ordinal > (own.writes if epoch.batch == own.batch else 0):
        return max(own.instant, judged)
    whole = not own.made or seen == _Seen(_place(own), made=True)
    return None if whole or epoch.batch == own.batch else own.instant


def _restored_since(table: Table, timeline: Timeline, since: InstantTime) -> InstantTime | None:
    """The last restore after ``since`` that undid a write.

    Rollbacks tell nothing: most are of writes that had failed.
    """
    restores = _restores(timeline)
    undid = (t for t in restores if t > since and _undid_writes(table, timeline, restores[t]))
    return max(undid, default=None)


def _restores(timeline: Timeline) -> dict[InstantTime, Instant]:
    return {i.time: i for i in timeline.completed if i.action is Action.RESTORE}


def _undid_writes(table: Table, timeline: Timeline, restore: Instant) -> bool:
    """Whether a restore undid a write, and not only services; True if it does not tell."""
    path = timeline.file_of(restore)
    try:
        told = parse_restore_metadata(table.storage.read(path), path)
    except (FileNotFoundError, TableCorrupt):
        return True
    if not told.restore_instant_info:
        return bool(told.instants_to_rollback)
    writes = {action.value for action in _OF_EPOCHS}
    return any(info.action in writes for info in told.restore_instant_info)


def _last_of(epoch: Epoch, marks: Marks) -> Mark | None:
    """The last batch of the epoch's query, under any name, or of Hudi's sink that it follows."""
    own = [mark for mark in marks.values() if mark.query == epoch.query]
    before = marks.get(epoch.stream)
    if before is not None and before.query is None:
        own.append(before)
    return max(own, key=lambda mark: (mark.batch, mark.writes), default=None)


def fence_epoch(table: Table, now: Timeline, epoch: Epoch) -> None:
    """``judge_epoch`` under the lock, where a driver that another one has overtaken ends."""
    try:
        judge_epoch(epoch, known_marks(table, now, archived=True))
    except StreamConflict as late:
        raise StreamConflict(
            f"Another driver of this stream went on while {late.ours} was written: {late.theirs} "
            "is committed. Nothing of this write is visible, and what it wrote is rolled back. "
            "Let only one driver run the query with this checkpoint.",
            ours=late.ours,
            theirs=late.theirs,
            stream=late.stream,
        ) from late


def with_marks(
    table: Table,
    now: Timeline,
    metadata: CommitMetadata,
    epoch: Epoch | None,
    instant: InstantTime,
) -> CommitMetadata:
    """The commit with the marks of the commits before it, and with that of its own epoch.

    A batch writer does not ask the archive. Where that may have marks that no active commit has,
    it tells none: the next look would take some for all.
    """
    marks, whole = _look(table, now, archived=epoch is not None)
    if epoch is not None:
        marks = with_mark(marks, epoch, instant)
    if not (marks and whole):
        return metadata
    # Apache Hudi's sink takes its number from the commit with the greatest instant that has one,
    # not from the last that completed. An epoch that is still pending below this instant would be
    # hidden by an older number here, and come twice after a hand-over.
    told = marks
    if any(i.action in _OF_EPOCHS and i.time < instant for i in now.pending):
        told = {epoch.stream: marks[epoch.stream]} if epoch is not None else {}
    return replace(metadata, extra={**metadata.extra, **render_marks(marks, told)})


def check_marks(table: Table, judged: Timeline, later: Timeline, instant: InstantTime) -> None:
    """``CommitConflict`` if a commit since ``judged`` moved a stream, whose old mark is in ours."""
    if known_marks(table, later) != known_marks(table, judged):
        raise CommitConflict(
            f"A stream has committed a batch while {instant} was about to be put. {RETRY}",
            ours=instant,
            theirs="a batch of a stream",
            overlap=("streams",),
        )


def known_marks(table: Table, timeline: Timeline, archived: bool = False) -> Marks:
    """How far each stream is in: by the newest commit that says it, and Hudi's sink since then.

    The archive is asked only with ``archived``, and only if no active commit says anything.
    """
    return _look(table, timeline, archived)[0]


def _look(table: Table, timeline: Timeline, archived: bool) -> tuple[Marks, bool]:
    """``known_marks``, and whether the archive has none beside them."""
    commits = sorted(timeline.commits, key=_reached)
    known = _KNOWN.get(table.storage.root)
    since: dict[str, Mark] = {}
    found: Marks | None = None
    whole = False
    for place, commit in reversed(list(enumerate(commits))):
        if known is not None and instant_key(commit) == known.newest:
            found, whole = known.marks, known.whole
        else:
            found = _take(_extra(table, timeline, commit), commit.time, since)
            whole = found is not None
        if found is not None:
            _take_late(table, timeline, commits[: place + 1], found, since)
            break
    if archived and not whole:
        found = _merged(_archived(table, since), found or {})
        whole = True
    marks = _merged(found or {}, since)
    if commits:
        _KNOWN.put(table.storage.root, _Known(instant_key(commits[-1]), marks, whole))
    return marks, whole


def _reached(commit: Instant) -> tuple[InstantTime, InstantTime]:
    """The place of a commit in the order in which marks are told.

    Not by the time of a file, which a copy of the table does not keep: without a completion time
    by the instant, since pyhudi commits in this order in layout 1 (``conflicts/judgement.py``).
    """
    return commit.completion_time or padded_time(commit.time), commit.time


def _take_late(
    table: Table, timeline: Timeline, commits: list[Instant], found: Marks, since: dict[str, Mark]
) -> None:
    """What Hudi's sink says in older instants that may have ended after the last of ``commits``.

    Only in layout 1, where Hudi's writers may end in another order. The file's time, if it is not
    that of a copy, only spares reading the others.
    """
    *older, last = commits
    if last.completion_time is not None:
        return
    ended = timeline.modified_ms[instant_key(last)]
    for commit in reversed(older):
        if timeline.modified_ms[instant_key(commit)] >= ended:
            said: dict[str, Mark] = {}
            _take(_extra(table, timeline, commit), commit.time, said)
            for name, mark in said.items():
                if name not in found or mark.instant > found[name].instant:
                    since.setdefault(name, mark)


def _extra(table: Table, timeline: Timeline, commit: Instant) -> Mapping[str, str]:
    with conflict_if_gone():
        return COMMITS.get(table.storage, timeline, commit).extra


def forget_marks() -> None:
    """Drop what is remembered of tables, as in a new process."""
    _KNOWN.forget()
    _SEEN.forget()
    _JUDGED.forget()
    _EMPTY.forget()


def _take(extra: Mapping[str, str], time: InstantTime, since: dict[str, Mark]) -> Marks | None:
    """The marks of a commit; what Hudi's sink says in one without them goes to ``since``."""
    own = own_marks(extra)
    if own is None:
        for name, batch in (hudi_batches(extra) or {}).items():
            since.setdefault(name, Mark(None, batch, 1, time))
    return own


def _merged(own: Marks, since: Mapping[str, Mark]) -> Marks:
    """``own``, but for streams that Hudi's sink has continued since."""
    ahead = {
        name: mark
        for name, mark in since.items()
        if name not in own or mark.batch > own[name].batch
    }
    return {**own, **ahead}


def _archived(table: Table, since: dict[str, Mark]) -> Marks:
    """The same from the archive, newest first."""
    entries = [e for e in archived_instants(table.storage, table.config) if _is_commit(e)]
    entries.sort(key=lambda e: e.instant.completion_time or e.instant.time)
    for entry in reversed(entries):
        found = _take(entry.commit().extra, entry.instant.time, since)
        if found is not None:
            return found
    return {}


def _is_commit(entry: ArchivedInstant) -> bool:
    return entry.instant.action in COMMIT_ACTIONS


@dataclass(frozen=True, slots=True)
class _Known:
    """What was known with the newest commit; ``whole`` unless older ones may say more."""

    newest: InstantKey
    marks: Marks
    whole: bool


_KNOWN: Recent[str, _Known] = Recent(64)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The last batch of a query, and its writes; ``made``: by this process, or found as it did."""

    place: tuple[int, int]
    made: bool = False


#: by table and query what this process has seen of it
_SEEN: Recent[tuple[str, str], _Seen] = Recent(1_000)
#: by table and query the last restore that was there when this process judged a batch
_JUDGED: Recent[tuple[str, str], InstantTime] = Recent(1_000)
#: by table and query its last batch that this process found without rows, and that restore then
_EMPTY: Recent[tuple[str, str], tuple[int, InstantTime]] = Recent(1_000)
