"""The promises of delta commits: the log files that they name must exist while their slice counts.

Invariant: a log that a completed commit names stays until a later base file of its group holds its
rows, or the group is replaced. Without it a snapshot would give older rows. As of base files,
archived commits promise nothing (``promises.py``). Some logs that no commit names never count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import TYPE_CHECKING

from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.filenames import FileId, LogFileName, parse_log_file_name
from pyhudi.format.instants import InstantTime
from pyhudi.slices.files import LogFile, Logs
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.promises import LostFile, Promises, bounded, loss
from pyhudi.timeline.strays import Archive

if TYPE_CHECKING:
    from pyhudi.timeline.view import FileSystemView


def lost_logs(
    view: FileSystemView, promises: Promises, archive: Archive | None
) -> tuple[LostFile, ...]:
    """The logs that commits name and the listing lacks or has cut off; most were cleaned."""
    found = []
    for instant, metadata in promises.commits.items():
        for stat in metadata.stats:
            named = _named(stat.path)
            if named is None:
                continue
            logs = view.logs.get(stat.partition_path, {}).get(named.file_id, ())
            size = next((log.size_bytes for log in logs if log.named == named), None)
            if size is None or size < stat.file_size_bytes:
                place = stat.partition_path, named.file_id
                found.append(LostFile(*place, instant, stat.path, stat.file_size_bytes, size))
    counts = _Need(view, None)
    if archive is None or not (now := list(filter(counts, found))):
        return tuple(found)
    until = bounded(now, view.timeline, archive.commits())
    return tuple(until.get(each, each) for each in found)


def first_logs(logs: Logs) -> dict[tuple[str, FileId], InstantTime]:
    """The earliest instant in the names of the logs of each group."""
    return {
        (partition, file_id): min(log.instant for log in of_group)
        for partition, by_id in logs.items()
        for file_id, of_group in by_id.items()
    }


def without_failed_logs(
    logs: Logs, timeline: Timeline, promises: Promises, archived: Set[InstantTime] = frozenset()
) -> Logs:
    """``logs`` of layout 1 without those that only pending and failed writes have written.

    Their names do not tell. But all writes of a slice that begins at or after the first active one
    are active too, so there each log that counts is named by a commit. A reader that asked the
    others for their blocks would fail if a rollback deleted them meanwhile.
    """
    first, told = timeline.first_time, promises.commits.keys()
    if first is None or any(commit.time not in told for commit in timeline.commits):
        return logs
    stats = (stat for metadata in promises.commits.values() for stat in metadata.stats)
    named = {(stat.partition_path, stat.path.rpartition("/")[2]) for stat in stats}

    def may_count(log: LogFile) -> bool:
        known = log.instant < first or log.instant in archived
        return known or (log.partition_path, log.name) in named or log.named.cdc

    return _chosen(logs, may_count)


def without_disowned_logs(
    logs: Logs, commits: Mapping[InstantTime, CommitMetadata], own: bool
) -> Logs:
    """``logs`` of layout 2 without those that the ``commits`` of their instants do not name.

    They are of attempts that were given up, and may be torn. A log compaction deletes the log of a
    group that it leaves out; a worker that was thought dead may put it later, and it would hide the
    writes that it does not have. Only of log compactions, unless each log has its ``own`` write's
    instant in its name. ``logs`` itself is returned if there is no such log.
    """
    is_owned = owned_by(commits, own)
    if all(is_owned(log) for ids in logs.values() for found in ids.values() for log in found):
        return logs
    return _chosen(logs, is_owned)


def owned_by(commits: Mapping[InstantTime, CommitMetadata], own: bool) -> Callable[[LogFile], bool]:
    """Whether none of ``commits`` wrote a log, or one that names it; of all, or as said above."""
    told = {time: said for time, said in commits.items() if own or said.log_compacted}
    named = {
        (time, stat.partition_path, name)
        for time, said in told.items()
        for stat in said.stats
        for name in (stat.path.rpartition("/")[2], *(stat.log_files or ()))
    }

    def is_owned(log: LogFile) -> bool:
        known = log.instant in told and not log.named.cdc
        return not known or (log.instant, log.partition_path, log.name) in named

    return is_owned


def _chosen(logs: Logs, counts: Callable[[LogFile], bool]) -> Logs:
    """Those of ``logs`` for which ``counts`` is true."""
    found: dict[str, dict[FileId, tuple[LogFile, ...]]] = {}
    for partition, by_id in logs.items():
        for file_id, held in by_id.items():
            if kept := tuple(filter(counts, held)):
                found.setdefault(partition, {})[file_id] = kept
    return found


def check_logs(
    view: FileSystemView, as_of: InstantTime | None, partitions: Set[str] | None
) -> None:
    """Raise the error of a lost log that counts at ``as_of`` in one of ``partitions``."""
    if not view.lost_logs:
        return
    needs = _Need(view, as_of)
    for lost in view.lost_logs:
        if (partitions is None or lost.partition_path in partitions) and needs(lost):
            raise loss(view.storage, view.timeline, lost, not _Need(view, None)(lost))


def missing_logs(view: FileSystemView) -> list[LostFile]:
    """The lost logs that count now."""
    return list(filter(_Need(view, None), view.lost_logs)) if view.lost_logs else []


class _Need:
    """Whether a slice needs a log: it is not older than the group's newest base file."""

    def __init__(self, view: FileSystemView, as_of: InstantTime | None) -> None:
        self._view, self._as_of = view, as_of
        self._begins = {(f.partition_path, f.file_id): f.instant for f in view.existing(as_of)}
        commits = view.timeline.commits
        self._ends = {each.time: each.completion_time or each.time for each in commits}

    def __call__(self, lost: LostFile) -> bool:
        place = lost.partition_path, lost.file_id
        late = self._as_of is not None and lost.instant > self._as_of
        if late or not lost.promised(self._as_of) or self._view.is_gone(*place, self._as_of):
            return False
        named = _named(lost.path)
        ends = self._ends.get(named.instant, named.instant) if named is not None else ""
        return ends >= self._begins.get(place, "")


def _named(path: str) -> LogFileName | None:
    """The name of a log with rows; None for other files."""
    named = parse_log_file_name(path.rpartition("/")[2])
    return None if named is None or named.cdc else named
