"""Stray data files: older than the active timeline, but named by no commit.

Late files of failed writes are like that. A file older than the first active commit counts as
archived (spec/file_slices.md F3), so a file that arrives after its write was undone would become
visible. To read the archive for each listing would cost too much. So it is read only for files that
came later than the first active commit, or whose instant a rollback names. A file is left out only
if the archive proves that it is a stray.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pyhudi.errors import HudiError, TableCorrupt
from pyhudi.format.archive import ArchivedInstant
from pyhudi.format.instants import Action, InstantTime
from pyhudi.format.plans import parse_restore_metadata, parse_rollback_metadata
from pyhudi.format.table_config import TableConfig
from pyhudi.recent import Recent
from pyhudi.storage.base import Storage, StoredFile
from pyhudi.timeline.active import Timeline, instant_key
from pyhudi.timeline.archived import archived_instants, archived_since
from pyhudi.timeline.states import COMMIT_ACTIONS

log = logging.getLogger(__name__)

#: reads from the metadata of a rollback or restore which instants it has undone
Said = Callable[[bytes, str], Iterable[str]]
SAID: Mapping[Action, Said] = {
    Action.ROLLBACK: lambda data, path: parse_rollback_metadata(data, path).commits_rollback,
    Action.RESTORE: lambda data, path: parse_restore_metadata(data, path).instants_to_rollback,
}


@dataclass(frozen=True, slots=True)
class Archive:
    """The archived commits of a table, read on first use."""

    storage: Storage
    config: TableConfig

    def commits(self) -> Mapping[InstantTime, ArchivedInstant]:
        """Archived commits by time; none if the archive cannot be read."""
        return ARCHIVES.commits(self.storage, self.config)

    def cleaned_since(self, timeline: Timeline, least: InstantTime) -> bool:
        """Whether a clean at or above ``least`` was archived since ``timeline`` was listed.

        True if the archive cannot be read.
        """
        listed_ms = max(timeline.modified_ms.values(), default=0)
        known = {i.time for i in timeline.instants if i.action is Action.CLEAN}
        try:
            found = archived_since(self.storage, self.config, listed_ms, least)
        except TableCorrupt:  # perhaps an archiver is rewriting it
            return True
        return any(e.instant.action is Action.CLEAN and e.instant.time not in known for e in found)


def first_write(
    timeline: Timeline, archive: Archive, time: InstantTime | None = None
) -> InstantTime | None:
    """``Timeline.first_time`` without late states, for code that asks what is older than it.

    A writer that stood still until its instant was rolled back, and the archive had passed it, may
    put its requested or inflight file then. Until it undoes itself, this is the first write of the
    timeline, and archived commits above it would not count as older. So if the first write is
    pending, the archive is asked; with ``time`` only if this is older than all completed ones.
    """
    first = timeline.first_time
    if first is None or (time is not None and time < first):
        return first
    done = timeline.only(timeline.completed).first_time
    if done == first or (done is not None and time is not None and done <= time):
        return first
    return timeline.first_above(max(archive.commits(), default=InstantTime("")))


class Archives:
    """The archived commits by table; an archive is read again only if its listing has changed."""

    def __init__(self, limit: int = 8) -> None:
        self._known: Recent[str, tuple[object, Mapping[InstantTime, ArchivedInstant]]]
        self._known = Recent(limit)

    def commits(
        self, storage: Storage, config: TableConfig
    ) -> Mapping[InstantTime, ArchivedInstant]:
        listed = tuple(storage.list(config.history_folder))
        known = self._known.get(storage.root)
        if known is None or known[0] != listed:
            known = (listed, _read(storage, config) if listed else {})
            self._known.put(storage.root, known)
        return known[1]


def _read(storage: Storage, config: TableConfig) -> Mapping[InstantTime, ArchivedInstant]:
    try:
        found = archived_instants(storage, config)
    except HudiError as error:
        log.warning("The archived timeline of %s cannot be read: %s", storage.root, error)
        return {}
    return {e.instant.time: e for e in found if e.instant.action in COMMIT_ACTIONS}


def strays(
    files: Iterable[tuple[StoredFile, InstantTime]], timeline: Timeline, archive: Archive
) -> frozenset[str]:
    """Paths of those ``files``, all counted as archived, that no archived commit names."""
    held = list(files)
    undone = rolled_back(archive.storage, timeline) if held else frozenset()
    begun = _first_completed_ms(timeline)
    doubtful = [
        (file, instant)
        for file, instant in held
        if instant in undone or begun is None or file.modified_ms > begun
    ]
    if not doubtful:
        return frozenset()
    commits = archive.commits()
    oldest = min(commits, default=None)
    found = {
        file.path
        for file, instant in doubtful
        # Nothing is known below the oldest one: someone may have shortened the archive by hand.
        if oldest is not None and instant >= oldest and not _named(commits.get(instant), file)
    }
    if found:
        log.warning("%d files of failed writes are left out: %s", len(found), sorted(found)[:5])
    return frozenset(found)


def _named(commit: ArchivedInstant | None, file: StoredFile) -> bool:
    if commit is None:
        return False
    said = commit.commit()
    names = {stat.path.rsplit("/", 1)[-1] for stat in said.stats if stat.path}
    # One of a compaction that names no file has left out all its groups.
    merged = said.compacted or said.log_compacted
    return file.name in names or not (names or merged)


def _first_completed_ms(timeline: Timeline) -> int | None:
    """The completion time of the first commit that later commits follow without a gap."""
    first = timeline.first_time
    for commit in timeline.commits:
        if first is None or commit.time >= first:
            return timeline.modified_ms.get(instant_key(commit))
    return None


def rolled_back(storage: Storage, timeline: Timeline) -> frozenset[InstantTime]:
    """The instants that completed rollbacks and restores of the timeline have undone."""
    found: set[InstantTime] = set()
    for undoing in timeline.completed:
        if undoing.action in SAID:
            found |= ROLLBACKS.targets(storage, timeline.file_of(undoing), SAID[undoing.action])
    return frozenset(found)


class Rollbacks:
    """The instants that rollbacks and restores undid, by root and file (it never changes)."""

    def __init__(self, limit: int = 10_000) -> None:
        self._known: Recent[tuple[str, str], frozenset[InstantTime]] = Recent(limit)

    def targets(self, storage: Storage, path: str, said: Said) -> frozenset[InstantTime]:
        key = (storage.root, path)
        known = self._known.get(key)
        if known is None:
            try:
                found = said(storage.read(path), path)
            except (FileNotFoundError, HudiError):  # archived since the listing, or torn
                return frozenset()
            known = frozenset(map(InstantTime, found))
            self._known.put(key, known)
        return known


ARCHIVES = Archives()
ROLLBACKS = Rollbacks()
