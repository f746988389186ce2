"""All versions of file groups, with the logs of each: what services look at.

Rules: spec/file_slices.md F1. Invariant: a log belongs to an older version only if that is certain.
One whose instant is pending, or is known to nobody, belongs to the newest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING

from pyhudi.format.filenames import FileId
from pyhudi.format.instants import InstantTime
from pyhudi.slices.files import BaseFile, FileSlice, LogFile, in_order
from pyhudi.timeline.strays import Archive

if TYPE_CHECKING:
    from pyhudi.timeline.view import FileSystemView, Groups

#: the instant with which the version of a log begins, among those of base files or ``EARLIEST`` or
#: that of a version without base file; None for the newest version
Begin = Callable[[LogFile, Sequence[InstantTime]], InstantTime | None]
#: the version of logs before all base files
EARLIEST = InstantTime("")


def versions_of(view: FileSystemView) -> Groups:
    """The visible versions of every group, ascending, with all their logs.

    A group may begin with a version of logs alone. Logs of change data go with the base file of
    their instant.
    """
    if not view.logs and not view.unread:
        return view.groups
    begin = _in_layout_1(view) if view.timeline.layout == 1 else _in_layout_2(view)
    found = dict(view.groups)
    for partition, by_id in _all_logs(view).items():
        groups = dict(found.get(partition, {}))
        for file_id, logs in by_id.items():
            groups[file_id] = tuple(_versions(groups.get(file_id, ()), logs, begin))
        found[partition] = dict(sorted(groups.items()))
    return found


def _all_logs(view: FileSystemView) -> Mapping[str, Mapping[FileId, tuple[LogFile, ...]]]:
    """The logs of slices and those of no slice; a commit may have named one of these since."""
    if not view.unread:
        return view.logs
    found = {partition: dict(by_id) for partition, by_id in view.logs.items()}
    for partition, by_id in view.unread.items():
        groups = found.setdefault(partition, {})
        for file_id, logs in by_id.items():
            held = {log.name: log for log in (*logs, *groups.get(file_id, ()))}
            groups[file_id] = in_order(held.values())
    return found


def files_as_of(view: FileSystemView, time: InstantTime) -> list[BaseFile | LogFile]:
    """The files that a query as of the commit ``time`` may read; errors as of ``view.slices``.

    In layout 1 a log may also have blocks of later commits.
    """
    found: list[BaseFile | LogFile] = []
    committed = view.committed()
    for each in view.slices(time):
        found += [each.base] if each.base is not None else []
        for log in each.logs:
            done = view.timeline.layout == 1 or committed(log.instant)
            if log.instant <= time and done:
                found.append(log)
    return found


def archived_ends(view: FileSystemView, archive: Archive) -> Mapping[InstantTime, InstantTime]:
    """When the commits of ``archived_logs`` ended; the archive is read only if there are any."""
    asked = archived_logs(view)
    if not asked:
        return {}
    archived = archive.commits()
    ends = {time: archived[time].instant.completion_time for time in asked & archived.keys()}
    return {time: end for time, end in ends.items() if end is not None}


def archived_logs(
    view: FileSystemView, among: Collection[tuple[str, FileId]] | None = None
) -> Set[InstantTime]:
    """The archived commits whose logs may belong to the newest version all the same, of all groups
    or ``among`` these.

    Empty for most tables: such a log began before the newest base file of its group. Layout 1 has
    none.
    """
    if view.timeline.layout == 1:
        return frozenset()
    active, committed = {commit.time for commit in view.timeline.commits}, view.committed()
    found: set[InstantTime] = set()
    for partition, file_id, logs in _logs(view, among):
        slices = view.groups.get(partition, {}).get(file_id, ())
        newest = max((each.instant for each in slices), default=EARLIEST)
        for log in logs:
            old = log.instant < newest and log.instant not in active
            if old and not log.named.cdc and committed(log.instant):
                found.add(log.instant)
    return found


def _logs(
    view: FileSystemView, among: Collection[tuple[str, FileId]] | None
) -> Iterator[tuple[str, FileId, tuple[LogFile, ...]]]:
    if among is not None:
        for partition, file_id in among:
            yield partition, file_id, view.logs.get(partition, {}).get(file_id, ())
        return
    for partition, by_id in view.logs.items():
        for file_id, logs in by_id.items():
            yield partition, file_id, logs


def _in_layout_1(view: FileSystemView) -> Begin:
    """The name of a log says its slice. Without a base file that may be a planned compaction."""
    committed = view.committed()

    def begin(log: LogFile, bases: Sequence[InstantTime]) -> InstantTime | None:
        return log.instant if committed(log.instant) or log.instant in bases else None

    return begin


def _in_layout_2(view: FileSystemView) -> Begin:
    """The newest base file not later than the completion of the log's commit."""
    ends = dict(view.ends)
    ends |= {commit.time: commit.completion_time or commit.time for commit in view.timeline.commits}

    def begin(log: LogFile, bases: Sequence[InstantTime]) -> InstantTime | None:
        end = ends.get(log.instant)
        if log.named.cdc and log.instant in bases:
            return log.instant
        if end is None:
            return None
        older = [each for each in bases if each <= end]
        return older[-1] if older else EARLIEST

    return begin


def _versions(
    bases: Sequence[FileSlice], logs: Sequence[LogFile], begin: Begin
) -> Iterator[FileSlice]:
    instants = [each.instant for each in bases]
    held: dict[InstantTime, list[LogFile]] = {each: [] for each in instants}
    late: list[LogFile] = []
    for log in logs:
        found = begin(log, instants)
        (late if found is None else held.setdefault(found, [])).append(log)
    held.setdefault(max(held, default=EARLIEST), []).extend(late)
    base_of = {each.instant: each.base for each in bases}
    for instant in sorted(held):
        yield FileSlice(base_of.get(instant), in_order(held[instant]))
