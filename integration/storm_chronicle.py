"""What befell a table that is cleaned, archived, restored and rolled back while it is written.

A chronicler looks at the timeline several times a second and keeps what later services take away:
each completed commit with its file groups, and which restore or rollback undid it. From that
follows what a reader must have seen: the commits on its own listing, those archived before, and
nothing that was undone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from integration.storm_check import Name, Row, Told, differences
from integration.storm_writer import TAG, Key
from pyhudi.errors import HudiError
from pyhudi.format.instants import Action, Instant, State
from pyhudi.format.plans import parse_restore_plan, parse_rollback_plan
from pyhudi.storage.base import Storage
from pyhudi.timeline.active import COMMITS, Timeline, instant_key
from pyhudi.timeline.table import open_table

LOOK_EVERY_S = 0.2
SERVICES = (Action.CLEAN, Action.CLUSTERING, Action.COMPACTION, Action.LOGCOMPACTION)
Group = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Entry:
    """A completed commit; ``name`` is None where a service made it, by ``operation``.

    ``groups`` are the file groups that it wrote and those that it replaced, ``added_to`` those of
    them to which it added logs and took no row over, ``files`` the paths of the data files.
    """

    time: str
    completed: str
    name: Name | None
    groups: frozenset[Group]
    files: frozenset[str] = frozenset()
    operation: str = ""
    added_to: frozenset[Group] = frozenset()


@dataclass(frozen=True, slots=True)
class Undoing:
    """The restore or rollback that undid a commit first; ``asked_ms`` is the last one's time."""

    by: str
    action: str
    asked_ms: int = 0


@dataclass(frozen=True, slots=True)
class Restoring:
    """A restore's plan: the commit that it goes back to, what it undoes, and its file's time."""

    time: str
    saved: str
    undoes: frozenset[str]
    asked_ms: int


@dataclass(frozen=True, slots=True)
class Listing:
    """The timeline that a look was made by: requested times of its instants.

    ``begun_ms``: when the look began, if it told. A listing is not a snapshot: while an archiver
    deletes instants, it may show an older one and lack a newer one.
    """

    commits: frozenset[str]
    pending: frozenset[str]
    saved: frozenset[str]
    begun_ms: int = 0

    @property
    def first(self) -> str:
        """What is older and not listed has been archived; "" for an empty timeline."""
        fixed = min(self.commits - self.saved, default="")
        return fixed or max(self.commits, default="")


@dataclass(slots=True)
class Chronicle:
    """All commits that there ever were, and which of them were undone."""

    entries: dict[str, Entry] = field(default_factory=dict)
    undone: dict[str, Undoing] = field(default_factory=dict)
    #: the file times of completed commits, in milliseconds
    ended_ms: dict[str, int] = field(default_factory=dict)
    restores: list[Restoring] = field(default_factory=list)
    #: the times of services, completed or not
    services: set[str] = field(default_factory=set)
    _plans: set[str] = field(default_factory=set)

    def look(self, storage: Storage) -> None:
        """Take in what the timeline shows now; what goes while we read comes with the next look."""
        table = open_table(storage)
        timeline = table.timeline()
        for instant in timeline.instants:
            if instant.action in SERVICES:
                self.services.add(str(instant.time))
            try:
                if instant.action in (Action.ROLLBACK, Action.RESTORE):
                    self._take_undoing(storage, timeline, instant)
                elif instant in timeline.commits and not self._knows(timeline, instant):
                    self._take_commit(storage, timeline, instant)
            except (FileNotFoundError, HudiError):
                continue

    def _knows(self, timeline: Timeline, instant: Instant) -> bool:
        """Whether this completion was taken in: a clustering may run again after a rollback."""
        return self.ended_ms.get(instant.time) == timeline.modified_ms[instant_key(instant)]

    def _take_commit(self, storage: Storage, timeline: Timeline, instant: Instant) -> None:
        metadata = COMMITS.get(storage, timeline, instant)
        tag = metadata.extra.get(TAG)
        writer, _, number = (tag or "").partition("/")
        name = (int(writer), int(number)) if tag else None
        written = {(s.partition_path, str(s.file_id)) for s in metadata.stats}
        replaced = (metadata.replaced or {}).items()
        groups = frozenset(written | {(p, str(g)) for p, ids in replaced for g in ids})
        completed = str(instant.completion_time or instant.time)
        files = frozenset(stat.path for stat in metadata.stats)
        bases = [stat for stat in metadata.stats if stat.path.endswith(".parquet")]
        logged = written - {(s.partition_path, str(s.file_id)) for s in bases}
        added_to = frozenset(() if metadata.log_compacted else logged)
        self.entries[instant.time] = Entry(
            str(instant.time), completed, name, groups, files, metadata.operation.upper(), added_to
        )
        if name is None:
            self.services.add(str(instant.time))
        self.ended_ms[instant.time] = timeline.modified_ms[instant_key(instant)]

    def _take_undoing(self, storage: Storage, timeline: Timeline, instant: Instant) -> None:
        if instant.time in self._plans:
            return
        path = timeline.file_of(Instant(instant.time, instant.action, State.REQUESTED))
        data = storage.read(path)
        asked_ms = next(f for f in storage.list(timeline.folder) if f.path == path).modified_ms
        if instant.action is Action.ROLLBACK:
            target = parse_rollback_plan(data, path).instant_to_rollback
            times = [target.commit_time] if target else []
        else:
            plan = parse_restore_plan(data, path)
            times = [one.commit_time for one in plan.instants_to_rollback]
            saved, undoes = str(plan.savepoint_to_restore_timestamp), frozenset(map(str, times))
            self.restores.append(Restoring(str(instant.time), saved, undoes, asked_ms))
        self._plans.add(instant.time)
        for time in times:
            first = self.undone.get(str(time), Undoing(str(instant.time), instant.action.value))
            self.undone[str(time)] = replace(first, asked_ms=max(first.asked_ms, asked_ms))

    def stays_undone(self, entry: Entry) -> bool:
        """Whether a commit was undone, and has not completed once more: only services do that."""
        undoing = self.undone.get(entry.time)
        if undoing is None or entry.name is not None:
            return undoing is not None
        return self.ended_ms.get(entry.time, 0) <= undoing.asked_ms

    def in_order(self) -> list[Entry]:
        """All commits in the order of their completion."""
        return sorted(self.entries.values(), key=lambda e: (e.completed, e.time))

    def seen_by(self, listing: Listing, as_of: str | None) -> list[Entry]:
        """The commits whose rows a look by this listing must show, in order."""
        first = listing.first

        def shown(entry: Entry) -> bool:
            if as_of is not None and entry.time > as_of:
                return False
            if entry.time in listing.commits:
                return True
            gone = (
                entry.time < first
                or self.ended_ms.get(entry.time, listing.begun_ms) < listing.begun_ms
            )
            archived = gone and entry.time not in listing.pending
            return archived and not self.stays_undone(entry)

        return [entry for entry in self.in_order() if shown(entry)]

    def overlooked(self) -> dict[str, int]:
        """Commits that a restore left although they were there: time -> its plan's file time.

        Apache Hudi lists the timeline for the plan before it takes the lock to ask for it. What is
        committed in between on undone files stays: keys are double then, for every reader.
        """
        return {
            entry.time: restore.asked_ms
            for restore in self.restores
            for entry in self.entries.values()
            if restore.saved < entry.time < restore.time
            and entry.time not in restore.undoes
            and entry.time not in self.undone
            and self.ended_ms[entry.time] < restore.asked_ms
        }

    def doubled(self, shown: Iterable[Entry]) -> list[str]:
        """The commits of a look that were built on a clustering which is undone: keys are double.

        Apache Hudi rolls a clustering back, too, that others have built on. The groups that it had
        replaced count again then, beside its own in which those others have put its rows.
        """
        present = list(shown)
        there = {entry.time for entry in present}
        undone = [
            (self.entries[time], undoing)
            for time, undoing in self.undone.items()
            if time in self.entries and self.entries[time].name is None and time not in there
        ]
        return [
            e.time for e in present
            if any(
                e.groups & entry.groups and entry.completed < e.completed < undoing.by
                for entry, undoing in undone
            )
        ]  # fmt: skip

    def left_over(self, told: Told, shown: Iterable[Entry]) -> dict[Key, set[Row]]:
        """Rows that may show although their commit was undone.

        Apache Hudi rolls a commit back, under the lazy policy, that others have built on. What they
        took over from it into newer files stays there.
        """
        present = list(shown)
        found: dict[Key, set[Row]] = {}
        for time, undoing in self.undone.items():
            entry = self.entries.get(time)
            if entry is None or entry.name is None:
                continue
            above = [
                e for e in present
                if (e.groups - e.added_to) & entry.groups
                and entry.completed < e.completed < undoing.by
            ]  # fmt: skip
            if above:
                for key, place in told.keys.get(entry.name, ()):
                    found.setdefault((key, place), set()).add((key, place, *entry.name, time))
        return found


def rows_after(told: Told, commits: Iterable[Entry]) -> dict[Key, Row]:
    """The row of each key after these commits, one after the other."""
    rows: dict[Key, Row] = {}
    for entry in commits:
        if entry.name is not None:
            for key, place in told.keys[entry.name]:
                rows[key, place] = (key, place, *entry.name, entry.time)
    return rows


def row_problems(
    what: str, told: Told, chronicle: Chronicle, shown: list[Entry], rows: Iterable[Row]
) -> tuple[list[str], int]:
    """How rows differ from what they must be, and how many are left of undone commits."""
    wanted = rows_after(told, shown)
    bearable = chronicle.left_over(told, shown)
    merged = {entry.time for entry in shown if entry.operation == "LOG_COMPACT"}
    got, borne = [], 0
    for row in rows:
        key = row[0], row[1]
        mine = wanted.get(key)
        if mine is not None and row[4] in merged and row[:4] == mine[:4] and row[4] > mine[4]:
            # Apache Hudi gives the rows of a log compaction its own time.
            wanted[key] = row
        if row != wanted.get(key) and row in bearable.get(key, ()):
            wanted[key] = row
            borne += 1
        got.append(row)
    return differences(what, got, wanted.values()), borne


def outcome_problems(told: Told, chronicle: Chronicle, final: Listing) -> list[str]:
    """Whether what writers were told of their commits is what became of them."""
    problems = [f"upsert {name} broke: {text}" for name, text in told.broken.items()]
    landed: dict[Name, list[str]] = {}
    for entry in chronicle.seen_by(final, None):
        if entry.name is not None:
            landed.setdefault(entry.name, []).append(entry.time)
    for name, times in landed.items():
        if len(times) > 1:
            problems.append(f"upsert {name} has landed {len(times)} times: {times}")
        if name in told.failed:
            problems.append(f"upsert {name} failed ({told.failed[name]}), yet is {times}")
        if name not in told.keys:
            problems.append(f"commit {times} is of upsert {name}, which never began")
    for name, time in told.acknowledged.items():
        undoing = chronicle.undone.get(time)
        if time not in landed.get(name, ()) and undoing is None:
            problems.append(f"upsert {name} was acknowledged as {time}, but is not there")
        completed = told.completed.get(name) or time
        if undoing is not None and undoing.by < completed:
            how = f"the {undoing.action} {undoing.by} undid it before it completed at {completed}"
            problems.append(f"upsert {name} was acknowledged as {time}, but {how}")
    return problems


class Chronicler:
    """Keeps a chronicle in a thread of its own (a ``with`` block)."""

    def __init__(self, opened: Callable[[], Storage]) -> None:
        self.chronicle = Chronicle()
        self._storage = opened()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chronicler")

    def __enter__(self) -> Chronicler:
        self.chronicle.look(self._storage)
        self._thread.start()
        return self.chronicle

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.chronicle.look(self._storage)

    def _run(self) -> None:
        while not self._stop.wait(LOOK_EVERY_S):
            self.chronicle.look(self._storage)


def listing_of(event: Mapping[str, Any]) -> Listing:
    """The listing that a reader tells of a look."""
    named = (frozenset(event[name]) for name in ("commits", "pending", "saved"))
    return Listing(*named, begun_ms=event.get("begun_ms", 0))
