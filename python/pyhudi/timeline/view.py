"""The file-system view: file groups, their slices, and which of them a reader may see.

Invariants (spec/file_slices.md F2 to F4): a file is visible if its instant has completed, or is
older than the first instant of the active timeline; a replaced group vanishes for instants at or
after the replace; of a group the slice with the largest visible instant counts. If the listing
lacks a file that an active commit promises, the question is refused (``promises.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace

from pyhudi.format.filenames import (
    BaseFileName,
    FileId,
    LogFileName,
    parse_base_file_name,
    parse_log_file_name,
)
from pyhudi.format.instants import Action, InstantTime
from pyhudi.format.table_config import TableConfig
from pyhudi.recent import Recent
from pyhudi.slices.file_listing import FileListing, StorageListing
from pyhudi.slices.files import (
    BaseFile,
    FileSlice,
    LogFile,
    Logs,
    base_files,
    in_order,
)
from pyhudi.storage.base import Storage, StoredFile
from pyhudi.timeline.active import COMMITS, InstantKey, Timeline
from pyhudi.timeline.advance import add_replaced, advance
from pyhudi.timeline.log_promises import (
    check_logs,
    first_logs,
    lost_logs,
    without_disowned_logs,
    without_failed_logs,
)
from pyhudi.timeline.promises import (
    Lost,
    LostFile,
    Promises,
    check_not_torn,
    loss,
    lost_files,
    promises_of,
    with_bounds,
)
from pyhudi.timeline.strays import Archive, strays
from pyhudi.timeline.versions import archived_ends

#: partition path -> file id, ascending -> slices that have a base file, ascending by instant, logs
#: apart
Groups = dict[str, dict[FileId, tuple[FileSlice, ...]]]


@dataclass(frozen=True, slots=True)
class FileSystemView:
    """All file groups of a table under one timeline; a value, safe to share between threads.

    ``groups`` hold only base files that the timeline makes visible: a file of a pending instant may
    be deleted before the instant completes, but would stay in the view. ``logs`` are all listed
    logs; ``slices`` adds them to their base files. ``archived`` has the archived commits if
    they must tell which files count: if no commit is active, since all active ones were rolled
    back, or if a late write hides them. ``unread`` are the logs that no slice has, since no
    commit has them: a clean deletes them with their version. ``ends`` are the completion times of
    archived commits, where the slice of a log depends on them.
    """

    storage: Storage
    timeline: Timeline
    groups: Groups
    logs: Logs
    replaced: Mapping[tuple[str, FileId], InstantTime]
    lost: Lost = field(default_factory=dict)
    lost_logs: tuple[LostFile, ...] = ()
    archived: frozenset[InstantTime] = frozenset()
    own_logs: bool = False
    unread: Logs = field(default_factory=dict)
    ends: Mapping[InstantTime, InstantTime] = field(default_factory=dict)
    _rows: dict[InstantTime, dict[str, int]] = field(default_factory=dict)

    def partitions(self, as_of: InstantTime | None = None) -> list[str]:
        """Partition paths that hold at least one visible slice, sorted."""
        return sorted({file.partition_path for file in self.live(as_of)})

    def live(
        self, as_of: InstantTime | None = None, partitions: Iterable[str] | None = None
    ) -> list[FileSlice]:
        """``slices`` for code that reads no rows: lost files are in it as if they existed."""
        asked = None if partitions is None else frozenset(partitions)
        wanted = self._held(asked)
        lost = [f for p in wanted if p in self.lost for f in self._missing(p, as_of)]
        missing = [
            FileSlice(BaseFile(f.partition_path, _name(f.path), f.file_id, f.instant, 0))
            for f in lost
        ]
        gone = {(f.partition_path, f.file_id) for f in lost}
        found = self._with_logs(self._newest(as_of, wanted), as_of, asked)
        held = [f for f in found if (f.partition_path, f.file_id) not in gone]
        return sorted([*held, *missing], key=_place)

    def check(self) -> None:
        """Raise the errors of ``slices`` about lost files."""
        self._check(self.lost, None)

    def latest(
        self, as_of: InstantTime | None = None, partitions: Iterable[str] | None = None
    ) -> list[BaseFile]:
        """The newest visible base file of every group, by partition and file id.

        ``as_of`` bounds requested times, inclusive. Groups without a base file are absent.
        ``TableCorrupt`` if a file that counts is lost or cut off, ``HistoryExpired`` if it was
        cleaned, or if the table changed during the listing.
        """
        return base_files(self.slices(as_of, partitions, logs=False))

    def existing(self, as_of: InstantTime | None) -> list[BaseFile]:
        """``latest`` for code that keeps files for others: what is lost is absent, and no error."""
        return base_files(self._newest(as_of, self.groups))

    def existing_slices(self, as_of: InstantTime | None) -> list[FileSlice]:
        """``existing`` with the logs that may count, and the groups that have only logs."""
        return self._with_logs(self._newest(as_of, self.groups), as_of, None)

    def slices(
        self,
        as_of: InstantTime | None = None,
        partitions: Iterable[str] | None = None,
        logs: bool = True,
    ) -> list[FileSlice]:
        """The newest slice of every group, by partition and file id; errors as of ``latest``.

        Without ``logs`` a slice is its base file, and a group without one has none. The logs are
        all except those that certainly belong to an older slice (spec/file_slices.md F1); logs of
        pending instants and of instants later than ``as_of`` are in. A group may have only logs.
        """
        asked = None if partitions is None else frozenset(partitions)
        wanted = self._held(asked)
        self._check(wanted, as_of)
        if logs:
            check_logs(self, as_of, asked)
        found = self._newest(as_of, wanted)
        return self._with_logs(found, as_of, asked) if logs else found

    def _held(self, partitions: Iterable[str] | None) -> Iterable[str]:
        """The ``partitions`` that the view has; all for None."""
        return self.groups if partitions is None else set(partitions) & self.groups.keys()

    def _newest(self, as_of: InstantTime | None, partitions: Iterable[str]) -> list[FileSlice]:
        """The newest visible slices that have a base file, without logs."""
        visible = self._visible(as_of)
        found = []
        for partition in sorted(partitions):
            for file_id, slices in self.groups[partition].items():
                if self.replaced and self.is_gone(partition, file_id, as_of):
                    continue
                for each in reversed(slices):
                    if each.base is not None and visible(each.base.instant):
                        found.append(each)
                        break
        return found

    def _with_logs(
        self, newest: list[FileSlice], as_of: InstantTime | None, partitions: Set[str] | None
    ) -> list[FileSlice]:
        """``newest`` with the logs that may count, and the groups that have only logs."""
        if not self.logs:
            return newest
        found = {_place(each): each for each in newest}
        completions = dict(self.ends)
        completions |= {i.time: i.completion_time or i.time for i in self.timeline.commits}
        for partition, groups in self.logs.items():
            if partitions is not None and partition not in partitions:
                continue
            for file_id, logs in groups.items():
                if self.is_gone(partition, file_id, as_of):
                    continue
                held = found.get((partition, file_id))
                begins = held.instant if held is not None else InstantTime("0")
                top = tuple(f for f in logs if completions.get(f.instant, f.instant) >= begins)
                if top:
                    base = held.base if held is not None else None
                    found[partition, file_id] = FileSlice(base, top)
        return sorted(found.values(), key=_place)

    def is_gone(self, partition: str, file_id: FileId, as_of: InstantTime | None) -> bool:
        """Whether the group had been replaced at that time."""
        gone = self.replaced.get((partition, file_id))
        return gone is not None and (as_of is None or gone <= as_of)

    def _check(self, partitions: Iterable[str], as_of: InstantTime | None) -> None:
        for partition in partitions:
            if partition in self.lost:
                for lost in self._missing(partition, as_of):
                    raise loss(self.storage, self.timeline, lost, self._is_past(lost))

    @property
    def whole(self) -> bool:
        """Whether every file that counts now exists."""
        return not self.missing()

    def missing(self) -> list[LostFile]:
        """The lost files that count now."""
        return [lost for p in sorted(self.lost) for lost in self._missing(p, None)]

    def _missing(self, partition: str, as_of: InstantTime | None) -> Iterator[LostFile]:
        """The lost files of a partition that count at ``as_of``."""
        for file_id, files in self.lost[partition].items():
            if self.is_gone(partition, file_id, as_of):
                continue
            lost = next((f for f in reversed(files) if as_of is None or f.instant <= as_of), None)
            if lost is None or not lost.promised(as_of):
                continue
            held = self.groups[partition].get(file_id, ())
            newer = (f for f in held if f.instant > lost.instant)
            if not any(as_of is None or f.instant <= as_of for f in newer):
                yield lost

    def _is_past(self, lost: LostFile) -> bool:
        """Whether a lost file would not count now, so that a clean may have deleted it."""
        key = (lost.partition_path, lost.file_id)
        return key in self.replaced or lost not in self._missing(lost.partition_path, None)

    def with_rows(self, files: Iterable[BaseFile]) -> list[BaseFile]:
        """The same files with their row counts from commit metadata, -1 if that is archived."""
        commits = {i.time: i for i in self.timeline.commits}
        found = []
        for file in files:
            if file.rows < 0 and file.instant in commits:
                index = self._rows.get(file.instant)
                if index is None:
                    metadata = COMMITS.get(self.storage, self.timeline, commits[file.instant])
                    index = {_name(s.path): s.num_writes for s in metadata.stats if s.path}
                    self._rows[file.instant] = index
                file = replace(file, rows=index.get(file.name, -1))
            found.append(file)
        return found

    def rows_of(self, slices: Iterable[FileSlice]) -> int | None:
        """The number of rows in ``slices``; None if metadata lacks it, as for slices with logs."""
        held = list(slices)
        if any(each.logs for each in held):
            return None
        counts = [file.rows for file in self.with_rows(base_files(held))]
        return None if any(n < 0 for n in counts) else sum(counts)

    def committed(self) -> Callable[[InstantTime], bool]:
        """Tells of the instant of a data file whether it has completed."""
        return self._visible(None)

    def _visible(self, as_of: InstantTime | None) -> _Visibility:
        return _Visibility(self.timeline, as_of, self.archived)


class _Visibility:
    """Whether a data file's instant may be seen at ``as_of``."""

    def __init__(
        self, timeline: Timeline, as_of: InstantTime | None, archived: Set[InstantTime]
    ) -> None:
        active = {i.time for i in timeline.commits}
        # As long as no commit is active, only files that the archive names count as archived. An
        # older file may belong to a write whose request came after the listing; later writes give
        # up such a time (``overtaken``).
        self._first = timeline.first_time if active else min(archived, default=None)
        self._completed = active | archived
        self._as_of = as_of

    def __call__(self, time: InstantTime) -> bool:
        if self._as_of is not None and time > self._as_of:
            return False
        if time in self._completed:
            return True
        # The first write may itself be pending; no write below it is.
        return self._first is not None and time < self._first


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _place(of: FileSlice) -> tuple[str, FileId]:
    return of.partition_path, of.file_id


def _replaced(timeline: Timeline, promises: Promises) -> dict[tuple[str, FileId], InstantTime]:
    """(partition path, file id) -> time of the replacecommit that replaced the group."""
    found: dict[tuple[str, FileId], InstantTime] = {}
    for instant in timeline.commits:
        if instant.action is Action.REPLACECOMMIT and instant.time in promises.commits:
            add_replaced(found, instant, promises.commits[instant.time])
    return found


def list_view(
    storage: Storage,
    timeline: Timeline,
    archive: Archive | None = None,
    listing: FileListing | None = None,
) -> FileSystemView:
    """A view from a full ``listing`` of the data files; by default from a listing of the storage.

    ``archive`` separates late files of failed writes from data, among files that count as archived.
    """
    bases: list[tuple[BaseFileName, StoredFile]] = []
    logs: list[tuple[LogFileName, StoredFile]] = []
    for file in (listing or StorageListing(storage)).files():
        if base := parse_base_file_name(file.name):
            bases.append((base, file))
        elif log := parse_log_file_name(file.name):
            logs.append((log, file))
    instants = {base.instant for base, _ in bases}
    archived = _archived(timeline, instants, {log.instant for log, _ in logs}, archive)
    visible = _Visibility(timeline, None, archived)
    if not archived:  # otherwise the archive, read after the timeline, has told of each instant
        hidden = {time for time in instants if not visible(time)}
        check_not_torn(storage, timeline, hidden, archive)
    bases = [(base, file) for base, file in bases if visible(base.instant)]
    promises = promises_of(storage, timeline, archive)
    late = _late(bases, logs, timeline, visible, promises, archive)
    bases = [
        (base, file)
        for base, file in bases
        if file.path not in late and not promises.disowns(base.instant, file.path)
    ]
    listed = {file.path: file.size_bytes for _, file in bases}
    groups = _grouped(bases, promises)
    every = _logs((log, file) for log, file in logs if file.path not in late)
    own = archive is not None and archive.config.logs_name_their_write
    if timeline.layout == 1:
        read = without_failed_logs(every, timeline, promises, archived)
    else:
        read = without_disowned_logs(every, promises.commits, own)
    replaced = _replaced(timeline, promises)
    held = {
        (partition, file_id): frozenset(f.instant for f in files)
        for partition, by_id in groups.items()
        for file_id, files in by_id.items()
    }
    lost = lost_files(timeline, promises, listed, held, replaced, first_logs(every))
    view = FileSystemView(storage, timeline, groups, read, replaced, lost, (), archived, own)
    view = replace(
        view,
        unread=_apart(every, read),
        lost_logs=lost_logs(view, promises, archive),
        ends=archived_ends(view, archive) if archive is not None else {},
    )
    for partition in (*lost, *(each.partition_path for each in view.lost_logs)):
        groups.setdefault(partition, {})
    if archive is None or view.whole:
        return view
    return replace(view, lost=with_bounds(lost, view.missing(), timeline, archive.commits()))


def _archived(
    timeline: Timeline,
    bases: Set[InstantTime],
    logs: Set[InstantTime],
    archive: Archive | None,
) -> frozenset[InstantTime]:
    """The archived commits, if they must tell which base files and logs of these instants count.

    They must if no commit is active. And they must if the first write is pending and there are
    files above it of instants that are not active: an archive passes no pending write, but a write
    that stood still may have put its state only after it was rolled back and passed. In layout 1
    the name of a log does not tell the instants of its blocks, so there any log is enough.
    """
    if archive is None:
        return frozenset()
    if timeline.commits:
        first, newest = timeline.first_time, timeline.commits[-1].time
        if first not in {instant.time for instant in timeline.pending}:
            return frozenset()
        known = {instant.time for instant in timeline.instants}
        above = any(first < time < newest for time in (bases | logs) - known)
        if not above and not (logs and timeline.layout == 1):
            return frozenset()
    return frozenset(archive.commits())


def _late(
    bases: Iterable[tuple[BaseFileName, StoredFile]],
    logs: Iterable[tuple[LogFileName, StoredFile]],
    timeline: Timeline,
    visible: _Visibility,
    promises: Promises,
    archive: Archive | None,
) -> frozenset[str]:
    """The paths of files that count as archived, and that no archived commit names."""
    if archive is None:
        return frozenset()
    old = [(f, base.instant) for base, f in bases if base.instant not in promises.commits]
    if archive.config.logs_name_their_write:
        own = [(f, log.instant) for log, f in logs if not log.cdc and visible(log.instant)]
        old += [(f, instant) for f, instant in own if instant not in promises.commits]
    return strays(old, timeline, archive) if old else frozenset()


def _apart(every: Logs, read: Logs) -> Logs:
    """The logs among ``every`` that are not in ``read``."""
    found: dict[str, dict[FileId, tuple[LogFile, ...]]] = {}
    for partition, by_id in every.items() if every is not read else ():
        for file_id, logs in by_id.items():
            held = read.get(partition, {}).get(file_id, ())
            if left := tuple(log for log in logs if log not in held):
                found.setdefault(partition, {})[file_id] = left
    return found


def _logs(named: Iterable[tuple[LogFileName, StoredFile]]) -> Logs:
    """Log files by partition and group, in the order of their merge."""
    found: dict[str, dict[FileId, list[LogFile]]] = {}
    for name, file in named:
        log = LogFile(_partition(file), name, file.size_bytes)
        found.setdefault(log.partition_path, {}).setdefault(name.file_id, []).append(log)
    return {p: {k: in_order(v) for k, v in by_id.items()} for p, by_id in found.items()}


def _grouped(bases: Iterable[tuple[BaseFileName, StoredFile]], promises: Promises) -> Groups:
    """The files by partition and group, without files that are cut off: they count as lost."""
    groups: dict[str, dict[FileId, list[BaseFile]]] = {}
    for base, file in bases:
        stat, _ = promises.named.get(file.path, (None, None))
        if stat is not None and file.size_bytes < stat.file_size_bytes:
            continue
        rows = stat.num_writes if stat is not None else -1
        partition = _partition(file)
        groups.setdefault(partition, {}).setdefault(base.file_id, []).append(
            BaseFile(partition, file.name, base.file_id, base.instant, file.size_bytes, rows)
        )
    return {
        partition: {
            file_id: tuple(map(FileSlice, sorted(files, key=lambda f: f.instant)))
            for file_id, files in sorted(by_id.items())
        }
        for partition, by_id in groups.items()
    }


def _partition(file: StoredFile) -> str:
    return file.path[: -len(file.name)].rstrip("/")


class ViewCache:
    """The last view of each table, so that a long-lived process lists a table only once.

    A table is recognised by its root and the state of its properties file. An instant whose
    metadata does not describe its whole effect causes a new listing.
    """

    def __init__(self, limit: int = 64, groups: int = 1_000_000) -> None:
        """Views of ``limit`` tables, fewer if they have more than ``groups`` file groups."""
        self._views: Recent[tuple[str, int, int], FileSystemView] = Recent(limit, groups)

    def load(self, storage: Storage, config: TableConfig, timeline: Timeline) -> FileSystemView:
        """The view under ``timeline``."""
        key = (storage.root, *_fingerprint(config))
        cached = self._views.get(key)
        view = advance(cached, timeline) if cached is not None else None
        if view is None:
            view = list_view(storage, timeline, Archive(storage, config))
            if not view.whole:
                # The file may be put back, or the table may have changed: the next one looks again.
                return view
        if view is not cached:
            self._views.put(key, view, sum(map(len, view.groups.values())))
        return view

    def forget(self, storage: Storage) -> None:
        """Forget a table, for example after it was deleted or changed by hand."""
        self._views.forget(lambda key: key[0] == storage.root)

    def forget_all(self) -> None:
        """Drop everything, as in a new process."""
        self._views.forget()


def _fingerprint(config: TableConfig) -> tuple[int, int]:
    return hash(frozenset(config.raw.items())), len(config.raw)


VIEWS = ViewCache()

__all__ = [
    "VIEWS",
    "FileSystemView",
    "InstantKey",
    "ViewCache",
    "advance",
    "list_view",
]
