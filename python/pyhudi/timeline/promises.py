"""The promises of the active timeline's commits: the base files that they name must exist.

Invariant: a file that a completed commit names stays until a later commit has replaced its slice or
its group. So the newest file of each live group is in every listing. If a listing lacks it, the
table changed during the listing, or the file is lost. Archived commits promise nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace

from pyhudi.errors import HistoryExpired, HudiError, TableCorrupt
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat
from pyhudi.format.filenames import BaseFileName, FileId, parse_base_file_name, path_in
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.plans import parse_restore_plan
from pyhudi.storage.base import Storage
from pyhudi.timeline.active import COMMITS, Timeline, timeline_of
from pyhudi.timeline.strays import Archive, first_write

READING_THREADS = 16
#: up to this number of commits are read without threads
FEW = 4
NOTHING_SAID = CommitMetadata()

#: partition path and file id
GroupKey = tuple[str, FileId]


@dataclass(frozen=True, slots=True)
class LostFile:
    """A file that must exist, but is missing or cut off.

    ``path`` is empty if only its instant is known. ``found_bytes`` is the file's size, None if the
    file is missing; ``size_bytes`` is the size that it should have. From ``until`` on an archived
    commit may have replaced it.
    """

    partition_path: str
    file_id: FileId
    instant: InstantTime
    path: str = ""
    size_bytes: int = 0
    found_bytes: int | None = None
    until: InstantTime | None = None

    def promised(self, as_of: InstantTime | None) -> bool:
        """Whether no archived commit up to ``as_of`` may have replaced it."""
        return self.until is None or (as_of is not None and as_of < self.until)


#: partition path -> file id -> lost files, ascending by instant
Lost = Mapping[str, Mapping[FileId, tuple[LostFile, ...]]]


@dataclass(frozen=True, slots=True)
class Promises:
    """The metadata of each readable commit, and the base files that they name, by path."""

    commits: Mapping[InstantTime, CommitMetadata]
    named: Mapping[str, tuple[WriteStat, BaseFileName]]

    def disowns(self, instant: InstantTime, path: str) -> bool:
        """Whether the commit of a completed instant does not name the file ``path``."""
        return instant in self.commits and path not in self.named


def promises_of(storage: Storage, timeline: Timeline, archive: Archive | None) -> Promises:
    """The promises of all completed commits; ``HistoryExpired`` if one was undone meanwhile.

    A commit that was archived since the listing promises nothing any more. If a clean has also run
    since then, it may have deleted files of that commit: that is an error too. The ``archive``
    shows cleans that were themselves archived.
    """
    commits = timeline.commits

    def read(instant: Instant) -> CommitMetadata | None:
        try:
            return COMMITS.get(storage, timeline, instant)
        except TableCorrupt as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise

    found = {instant: COMMITS.known(storage, timeline, instant) for instant in commits}
    unread = [instant for instant, metadata in found.items() if metadata is None]
    if len(unread) <= FEW:
        found |= {instant: read(instant) for instant in unread}
    else:
        with ThreadPoolExecutor(READING_THREADS) as threads:
            found |= zip(unread, threads.map(read, unread), strict=True)
    gone = [instant.time for instant, metadata in found.items() if metadata is None]
    if gone:
        now = _now(storage, timeline)
        first = now.first_time
        undone = [time for time in gone if first is None or time >= first]
        if undone:
            raise moved(storage, f"commit {undone[0]} was rolled back")
        cleans = {i.time for i in timeline.instants if i.action is Action.CLEAN}
        new = any(i.action is Action.CLEAN and i.time not in cleans for i in now.instants)
        if new or (archive is not None and archive.cleaned_since(timeline, min(gone))):
            raise moved(storage, f"commit {gone[0]} was archived, after a clean,")
    known = {instant.time: m for instant, m in found.items() if m is not None}
    named = {}
    for metadata in known.values():
        for stat in metadata.stats:
            name = stat.path.rsplit("/", 1)[-1]
            base = parse_base_file_name(name) if name else None
            if base is not None:
                named[path_in(stat.partition_path, name)] = stat, base
    # An empty file has no information; it does not mean that the commit wrote nothing.
    told = {time: m for time, m in known.items() if m != NOTHING_SAID}
    return Promises(told, named)


def check_not_torn(
    storage: Storage, timeline: Timeline, hidden: Collection[InstantTime], archive: Archive | None
) -> None:
    """``HistoryExpired`` if ``hidden`` instants, whose files do not count, were archived.

    A listing is not a snapshot. While an archiver deletes instants, a listing may show an older one
    but not a newer one. The files of the newer instant then look like files of a failed write.
    """
    newest = max((instant.time for instant in timeline.commits), default=None)
    known = {instant.time for instant in timeline.instants}
    doubtful = [t for t in hidden if newest is not None and t < newest and t not in known]
    if not doubtful:
        return
    now = _now(storage, timeline)
    first = now.first_time if archive is None else first_write(now, archive, min(doubtful))
    if first is not None and min(doubtful) < first:
        raise moved(storage, f"commit {min(doubtful)} was archived")


def lost_files(
    timeline: Timeline,
    promises: Promises,
    listed: Mapping[str, int],
    instants: Mapping[GroupKey, frozenset[InstantTime]],
    replaced: Mapping[GroupKey, InstantTime],
    logged: Mapping[GroupKey, InstantTime],
) -> dict[str, dict[FileId, tuple[LostFile, ...]]]:
    """Files that commits name and the listing lacks; most were cleaned after newer slices.

    ``listed`` has the sizes of base files by path, ``instants`` the instants of each group's
    visible files, ``logged`` the earliest instant that the name of one of its logs has. Two more
    count: the slice of an archived commit that a base file followed, and a replaced group of which
    no file is left, or none from before a compaction. A group that may have begun with the logs of
    an active commit had none before.
    """
    lost: list[LostFile] = []
    oldest: dict[GroupKey, tuple[InstantTime, WriteStat]] = {}
    has_logs = bool(logged) or any(i.action is Action.DELTACOMMIT for i in timeline.commits)
    for path, (stat, name) in promises.named.items():
        key = stat.partition_path, name.file_id
        if key not in oldest or name.instant < oldest[key][0]:
            oldest[key] = name.instant, stat
        found, size = listed.get(path), stat.file_size_bytes
        if found is None or found < size:
            lost.append(LostFile(*key, name.instant, path, size, found))
        previous = InstantTime((_base_before(stat) if has_logs else stat.prev_commit) or "")
        passed = previous and previous not in promises.commits
        if passed and previous not in instants.get(key, frozenset()):
            lost.append(LostFile(*key, previous))
    gone = replaced.keys() - oldest.keys() - instants.keys() - logged.keys()
    first = timeline.first_time
    for key, (instant, stat) in oldest.items():
        left = min((logged.get(key, instant), *instants.get(key, ())))
        of_logs = _of_logs_alone(stat, promises.commits.get(instant))
        if of_logs and first and first < instant <= left:
            gone.add(key)
    if first and gone:
        lost += [LostFile(*key, first) for key in gone - _begun(promises)]
    by_partition: dict[str, dict[FileId, tuple[LostFile, ...]]] = {}
    for file in sorted(lost, key=lambda f: f.instant):
        groups = by_partition.setdefault(file.partition_path, {})
        groups[file.file_id] = (*groups.get(file.file_id, ()), file)
    return by_partition


def _base_before(stat: WriteStat) -> InstantTime | None:
    """The instant of the base file that a new one replaced; the slice before may have had none."""
    before = parse_base_file_name((stat.prev_base_file or "").rpartition("/")[2])
    return before.instant if before is not None else None


def _of_logs_alone(stat: WriteStat, commit: CommitMetadata | None) -> bool:
    """Whether a compaction made this base file, of a slice without one as far as it says."""
    return commit is not None and commit.compacted and _base_before(stat) is None


def _begun(promises: Promises) -> set[GroupKey]:
    """The groups that may have begun with a commit: the first to write to them updated no row, and
    compacted nothing."""
    found: dict[GroupKey, bool] = {}
    for _, metadata in sorted(promises.commits.items(), key=lambda each: each[0]):
        for stat in metadata.stats:
            new = not metadata.compacted and stat.num_updates == 0
            found.setdefault((stat.partition_path, stat.file_id), new)
    return {key for key, begun in found.items() if begun}


def bounded(
    lost: Iterable[LostFile], timeline: Timeline, archived: Collection[InstantTime]
) -> dict[LostFile, LostFile]:
    """Each of ``lost``, which count now -> the same until an archived commit may have replaced it.

    A savepoint keeps its commit on the timeline while later commits are archived. After the
    savepoint is deleted, a clean deletes files of its commit. Then only the archive shows what has
    replaced them.
    """
    active = {instant.time for instant in timeline.commits}
    passed = sorted(time for time in archived if time not in active)
    after = {each: bisect_right(passed, each.instant) for each in lost}
    return {each: replace(each, until=passed[n]) for each, n in after.items() if n < len(passed)}


def with_bounds(
    lost: Lost,
    now: Iterable[LostFile],
    timeline: Timeline,
    archived: Collection[InstantTime],
) -> Lost:
    """``lost`` with the bounds of those that count now; the others were cleaned for certain."""
    until = bounded(now, timeline, archived)
    return {
        partition: {
            file_id: tuple(until.get(f, f) for f in files) for file_id, files in ids.items()
        }
        for partition, ids in lost.items()
    }


def loss(storage: Storage, timeline: Timeline, lost: LostFile, cleaned: bool) -> HudiError:
    """The error for a lost file that a query under ``timeline`` needs; lists the timeline again.

    ``cleaned`` says that the slice is not the newest of its group, or that the group was replaced.
    """
    if lost.found_bytes is not None:
        return _corrupt(
            storage, lost, f"has {lost.found_bytes} of its {lost.size_bytes} bytes: it was cut off"
        )
    if cleaned:
        return HistoryExpired(
            f"The table {storage.root} was read as of a time at which {_slice(lost)} counted, but "
            "it has been cleaned since. Read the table as of a later time, or as it is now.",
            asked=timeline.greatest_time(),
            earliest=lost.instant,
        )
    now = _now(storage, timeline)
    if lost.instant not in {i.time for i in now.commits}:
        return moved(storage, f"commit {lost.instant} has left the timeline")
    for instant in now.since(timeline):
        if _takes_over(storage, now, instant, lost):
            return moved(storage, f"commit {instant.time} has replaced {lost.path}")
    restoring = _restoring(storage, now, lost)
    if restoring is not None:
        return restoring
    return _corrupt(storage, lost, "is not there, and no later commit has replaced it")


def vanished(storage: Storage, path: str) -> HistoryExpired:
    """The error for a file that was deleted after its listing; the next listing shows why."""
    return moved(storage, f"the data file {path} was deleted")


def _takes_over(storage: Storage, now: Timeline, instant: Instant, lost: LostFile) -> bool:
    if instant not in now.commits:
        return False
    metadata = COMMITS.get(storage, now, instant)
    if lost.file_id in (metadata.replaced or {}).get(lost.partition_path, ()):
        return True
    return any(
        stat.file_id == lost.file_id and stat.partition_path == lost.partition_path
        for stat in metadata.stats
    )


def _restoring(storage: Storage, now: Timeline, lost: LostFile) -> HistoryExpired | None:
    """The error if a pending restore undoes the commit of a lost file.

    A restore undoes the latest commits first. A file that was cleaned because of them is then
    missing until the restore has undone its own commit. A restore whose plan cannot be read may
    undo any commit.
    """
    restore = next((i for i in now.pending if i.action is Action.RESTORE), None)
    if restore is None:
        return None
    path, goal = now.file_of(replace(restore, state=State.REQUESTED)), None
    with suppress(FileNotFoundError, TableCorrupt):
        plan = parse_restore_plan(storage.read(path), path)
        if lost.instant not in {target.commit_time for target in plan.instants_to_rollback}:
            return None
        goal = plan.savepoint_to_restore_timestamp
    return HistoryExpired(
        f"The table {storage.root} is being set back to {goal or 'an earlier commit'}: restore "
        f"{restore.time} is pending. It undoes commit {lost.instant}, and the data file "
        f"{lost.path} of that commit is gone already. Nothing was changed. Read the table again "
        "when the restore has completed. If the program that ran it is dead, run the restore "
        "again (pyhudi.restore, or Apache Hudi's rollback_to_savepoint).",
        asked=None,
        earliest=None,
        moved=True,
        pending=restore.time,
    )


def _now(storage: Storage, timeline: Timeline) -> Timeline:
    return timeline_of(storage.list(timeline.folder), timeline.layout, timeline.folder)


def _slice(lost: LostFile) -> str:
    group = path_in(lost.partition_path, lost.file_id)
    return f"the data file {lost.path}" if lost.path else f"a data file of file group {group}"


def _corrupt(storage: Storage, lost: LostFile, what: str) -> TableCorrupt:
    return TableCorrupt(
        f"The data file {lost.path} of commit {lost.instant} in {storage.root} {what}. A read "
        "would silently miss its rows, so it stops here; nothing was changed. Restore the file "
        "from a copy, set the table back to a savepoint or an earlier commit with Apache Hudi, or "
        "overwrite the partition if you have its rows elsewhere.",
        path=lost.path,
        rule="spec/file_slices.md F7",
        instant=lost.instant,
    )


def moved(storage: Storage, why: str) -> HistoryExpired:
    """The error if files are gone because the table has changed meanwhile."""
    return HistoryExpired(
        f"The table {storage.root} changed while its files were listed: {why} meanwhile, so files "
        "of the earlier state are gone. Nothing was changed. Open the table again: read it "
        "into a new DataFrame, or run the statement again.",
        asked=None,
        earliest=None,
        moved=True,
    )
