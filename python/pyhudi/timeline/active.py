"""The active timeline: the instants of a table, their states, and their contents.

Invariant: a ``Timeline`` is one listing, never a mixture of two. Contents are read on demand and
cached by file name. That is safe, since a completed file never changes (spec/timeline.md T1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pyhudi.errors import TableCorrupt
from pyhudi.format.commit_metadata import CommitMetadata, parse_commit
from pyhudi.format.instants import (
    Action,
    Instant,
    InstantTime,
    State,
    instant_file_name,
    parse_instant,
)
from pyhudi.format.table_config import TableConfig
from pyhudi.recent import Recent
from pyhudi.storage.base import Files, Known, Storage, StoredFile
from pyhudi.timeline.states import COMMIT_ACTIONS, completed_action, most_advanced

#: the identity of an instant in all its states: requested time and completed action
InstantKey = tuple[InstantTime, Action]


@dataclass(frozen=True, slots=True)
class Timeline:
    """One listing of a table's timeline; instants ascend by requested time."""

    layout: int
    folder: str
    instants: tuple[Instant, ...]
    modified_ms: Mapping[InstantKey, int]
    #: instants whose requested file still exists
    requested: frozenset[InstantKey] = frozenset()

    @property
    def completed(self) -> tuple[Instant, ...]:
        """Completed instants of every action."""
        return tuple(i for i in self.instants if i.state is State.COMPLETED)

    @property
    def commits(self) -> tuple[Instant, ...]:
        """Completed instants that carry data files."""
        return tuple(i for i in self.completed if i.action in COMMIT_ACTIONS)

    @property
    def pending(self) -> tuple[Instant, ...]:
        """Instants that are requested or inflight."""
        return tuple(i for i in self.instants if i.state is not State.COMPLETED)

    @property
    def first_time(self) -> InstantTime | None:
        """Requested time of the first write; data files older than it count as archived.

        Savepointed commits do not count, as in Hudi: they stay on the active timeline while later
        commits may be archived, and files of that gap must not vanish. If no other commit is
        completed, as after a restore to the oldest commit, it is the last savepointed commit: then
        a later pending write does not make rows visible that the restore has undone.
        """
        return self.first_above(InstantTime(""))

    def first_above(self, archived: InstantTime) -> InstantTime | None:
        """``first_time`` without pending writes up to ``archived``, the newest archived commit.

        An archive passes no pending write: they failed, and their states came late (``strays.py``).
        """
        saved = {i.time for i in self.instants if i.action is Action.SAVEPOINT}
        writes = (i for i in self.instants if i.action in COMMIT_ACTIONS)
        commits = [i for i in writes if i.state is State.COMPLETED or i.time > archived]
        first = next((i.time for i in commits if i.time not in saved), None)
        if any(i.state is State.COMPLETED and i.time not in saved for i in commits):
            return first
        last = max((i.time for i in commits if i.time in saved), default=None)
        return min((time for time in (first, last) if time is not None), default=None)

    @property
    def latest_commit(self) -> Instant | None:
        """The completed commit with the largest requested time."""
        commits = self.commits
        return commits[-1] if commits else None

    def keys(self) -> frozenset[InstantKey]:
        """The identities of all completed instants, to compare two loads."""
        return frozenset(instant_key(i) for i in self.completed)

    def since(self, before: Timeline) -> tuple[Instant, ...]:
        """Completed instants that the earlier load ``before`` lacks, whatever their times."""
        known = before.keys()
        return tuple(i for i in self.completed if instant_key(i) not in known)

    def only(self, instants: Iterable[Instant]) -> Timeline:
        """The timeline with only ``instants``, as if the others had not been listed."""
        kept = tuple(instants)
        done = {instant_key(i) for i in kept if i.state is State.COMPLETED}
        modified_ms = {key: ms for key, ms in self.modified_ms.items() if key in done}
        return replace(self, instants=kept, modified_ms=modified_ms)

    def greatest_time(self) -> InstantTime:
        """The largest requested or completion time, ``"0"`` for an empty timeline."""
        times = [i.time for i in self.instants]
        times += [i.completion_time for i in self.instants if i.completion_time]
        return max(times, default=InstantTime("0"))

    def at(self, time: InstantTime) -> tuple[Instant, ...]:
        """All instants with the requested time ``time``."""
        return tuple(i for i in self.instants if i.time == time)

    def file_of(self, instant: Instant) -> str:
        """Path of the instant's file, relative to the table."""
        return f"{self.folder}/{instant_file_name(instant, self.layout)}"


def instant_key(instant: Instant) -> InstantKey:
    """The identity of an instant, which is the same in all its states."""
    return instant.time, completed_action(instant.action)


def load_timeline(storage: Storage, config: TableConfig) -> Timeline:
    """List the active timeline of a table."""
    files = list_timeline(storage, config)
    return timeline_of(files, config.layout, config.timeline_folder)


def list_timeline(storage: Storage, config: TableConfig) -> Files:
    """The files of a table's timeline folder."""
    return LISTINGS.list(storage, config.timeline_folder, config.layout)


def timeline_of(files: Iterable[StoredFile], layout: int, folder: str) -> Timeline:
    """The timeline in a listing of its folder."""
    found: dict[InstantKey, list[Instant]] = {}
    modified: dict[InstantKey, int] = {}
    requested: set[InstantKey] = set()
    for file in files:
        instant = parse_instant(file.name, layout)
        if instant is None:
            continue
        key = instant_key(instant)
        found.setdefault(key, []).append(instant)
        if instant.state is State.COMPLETED:
            modified[key] = file.modified_ms
        elif instant.state is State.REQUESTED:
            requested.add(key)
    instants = [most_advanced(states) for states in found.values()]
    instants.sort(key=lambda i: (i.time, i.action.value))
    return Timeline(layout, folder, tuple(instants), modified, frozenset(requested))


class Listings:
    """The files of completed instants, by table, so that a listing need not ask for them again.

    Only the files of the last listing are kept. So the cache is no larger than the timelines of
    ``limit`` tables; of fewer, if they have more than ``files`` files together.
    """

    def __init__(self, limit: int = 64, files: int = 1_000_000) -> None:
        self._known: Recent[tuple[str, str], Known] = Recent(limit, files)

    def known(self, storage: Storage, folder: str) -> Known:
        """The files of completed instants in the last listing, by path."""
        return self._known.get((storage.root, folder)) or {}

    def forget(self, storage: Storage, folder: str) -> None:
        """Forget the last listing, for example because it cannot be the whole timeline."""
        self._known.forget(lambda key: key == (storage.root, folder))

    def list(self, storage: Storage, folder: str, layout: int) -> Files:
        """The files in ``folder`` now."""
        files = storage.list(folder, self.known(storage, folder))
        instants = [parse_instant(file.name, layout) for file in files]
        done = {instant_key(i) for i in instants if i and i.state is State.COMPLETED}
        settled = {
            file.path: file
            for file, instant in zip(files, instants, strict=True)
            if instant is not None and instant_key(instant) in done
        }
        self._known.put((storage.root, folder), settled, len(settled))
        return files

    def forget_all(self) -> None:
        """Drop everything, as in a new process."""
        self._known.forget()


class CommitCache:
    """Parsed commit metadata by root and file name; the least recently used is dropped first.

    Its memory is bounded, and all tables of a process share it. So the thousandth commit of a
    long-lived writer reads one new file, not a thousand.
    """

    def __init__(self, limit_bytes: int = 512 << 20) -> None:
        self._entries: Recent[tuple[str, str], CommitMetadata] = Recent(None, limit_bytes)

    def get(self, storage: Storage, timeline: Timeline, instant: Instant) -> CommitMetadata:
        """Metadata of a completed commit; ``TableCorrupt`` if its file cannot be parsed."""
        if instant.state is not State.COMPLETED:
            raise ValueError(f"{instant} is not completed")
        known = self.known(storage, timeline, instant)
        if known is not None:
            return known
        path = timeline.file_of(instant)
        try:
            data = storage.read(path)
        except FileNotFoundError as e:
            raise TableCorrupt(
                f"The timeline lists {path}, but it cannot be read. It may have been archived "
                "meanwhile: run the query again.",
                path=path,
                rule="spec/timeline.md T1",
            ) from e
        metadata = parse_commit(data, path)
        key = self._key(storage, timeline, instant)
        self._entries.put(key, metadata, metadata.memory_bytes)
        return metadata

    def known(
        self, storage: Storage, timeline: Timeline, instant: Instant
    ) -> CommitMetadata | None:
        """The same if it is in memory, else None."""
        return self._entries.get(self._key(storage, timeline, instant))

    def forget_all(self) -> None:
        """Drop everything, as in a new process."""
        self._entries.forget()

    @staticmethod
    def _key(storage: Storage, timeline: Timeline, instant: Instant) -> tuple[str, str]:
        modified_ms = timeline.modified_ms.get(instant_key(instant), 0)
        return storage.root, f"{timeline.file_of(instant)}@{modified_ms}"


COMMITS = CommitCache()
LISTINGS = Listings()
