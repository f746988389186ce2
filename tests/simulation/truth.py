"""What is true of the table, told by the steps that took effect and not by any listing.

A commit is published by its completed file and undone by the deletion of it, unless it was moved:
into the archive, or by an upgrade. An undoing is fair where the commit was there when somebody
first asked for its undoing: a restore or rollback that came later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyhudi.format.commit_metadata import CommitMetadata, parse_commit
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.plans import (
    parse_compaction_plan,
    parse_restore_plan,
    parse_rollback_plan,
)
from pyhudi.storage.memory import MemoryStorage
from pyhudi.timeline.states import COMMIT_ACTIONS
from tests.simulation.logs import is_data
from tests.simulation.residuals import timeline_entry


@dataclass(frozen=True, slots=True)
class Fact:
    """A commit that was published at step ``step``, -1 before the run; ``writer`` may be nobody."""

    time: InstantTime
    writer: str
    step: int
    metadata: CommitMetadata
    completed: InstantTime


@dataclass(frozen=True, slots=True)
class Planned:
    """A compaction that was requested at step ``step``.

    By partition and file id: the instant of the slice that it merges, and the names of its logs.
    """

    time: InstantTime
    step: int
    groups: Mapping[tuple[str, str], tuple[InstantTime, frozenset[str]]]


@dataclass(frozen=True, slots=True)
class Undoing:
    """A commit that was undone at step ``step``."""

    fact: Fact
    step: int
    fair: bool


@dataclass(slots=True)
class Truth:
    """Every commit that was ever published, and those that were undone."""

    published: dict[InstantTime, Fact] = field(default_factory=dict)
    undone: dict[InstantTime, Undoing] = field(default_factory=dict)
    plans: list[Planned] = field(default_factory=list)
    #: plans of compactions that somebody deleted, and when
    dropped: dict[InstantTime, int] = field(default_factory=dict)
    #: instants that two commits have
    shared: list[InstantTime] = field(default_factory=list)
    _asked: dict[InstantTime, bool] = field(default_factory=dict)

    @property
    def live(self) -> list[Fact]:
        """What was published and not undone, archived or not."""
        return [f for time, f in sorted(self.published.items()) if time not in self.undone]

    def landed(
        self, files: MemoryStorage, what: str, paths: Iterable[str], step: int, moves: bool
    ) -> bool:
        """Take note of a write; whether the rows that a reader sees may be others now.

        ``moves``: its deletions only move instants elsewhere.
        """
        changed = False
        for path in paths:
            if is_data(path):
                changed |= "delete" in what
                continue
            instant = timeline_entry(path)
            if instant is not None:
                changed |= self._note(files, what, path, instant, step, moves)
        return changed

    def _note(
        self,
        files: MemoryStorage,
        what: str,
        path: str,
        instant: Instant,
        step: int,
        moves: bool,
    ) -> bool:
        commit = instant.state is State.COMPLETED and instant.action in COMMIT_ACTIONS
        if "delete" in what:
            planned = instant.action is Action.COMPACTION and instant.state is State.REQUESTED
            if planned and not moves:
                self.dropped[instant.time] = step
            if commit and not moves and instant.time not in self.undone:
                fair = self._asked.get(instant.time, False)
                self.undone[instant.time] = Undoing(self.published[instant.time], step, fair)
            return commit
        data = files.read(path)
        if commit and data:
            metadata = parse_commit(data, path)
            writer = metadata.extra.get("writer", "")
            completed = instant.completion_time or instant.time
            fact = Fact(instant.time, writer, step, metadata, completed)
            known = self.published.setdefault(instant.time, fact)
            if known.writer != writer and instant.time not in self.undone:
                self.shared.append(instant.time)
        elif instant.state is State.REQUESTED and data:
            self._asks(instant, data, path)
            if instant.action is Action.COMPACTION:
                self._plans(instant.time, data, path, step)
        return commit

    def _plans(self, time: InstantTime, data: bytes, path: str, step: int) -> None:
        self.dropped.pop(time, None)
        groups = {
            (o.partition_path, str(o.file_id)): (
                InstantTime(o.base_instant_time),
                frozenset(path.rpartition("/")[2] for path in o.delta_file_paths),
            )
            for o in parse_compaction_plan(data, path).operations
        }
        self.plans.append(Planned(time, step, groups))

    def _asks(self, instant: Instant, data: bytes, path: str) -> None:
        """Somebody asks for an undoing: of what is there, or of what is still pending."""
        targets: tuple[InstantTime, ...] = ()
        if instant.action is Action.ROLLBACK:
            info = parse_rollback_plan(data, path).instant_to_rollback
            targets = (info.commit_time,) if info is not None else ()
        elif instant.action is Action.RESTORE:
            infos = parse_restore_plan(data, path).instants_to_rollback
            targets = tuple(info.commit_time for info in infos)
        for target in targets:
            self._asked.setdefault(target, target in self.published)
