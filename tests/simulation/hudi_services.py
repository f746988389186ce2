"""Apache Hudi's table services as programs that run beside pyhudi's writers and readers.

Each does on the timeline and among the files what Apache Hudi 1.2.0 does, in its order, and takes
the table's lock where Hudi takes it. A service that died is run again: Hudi finishes what it finds
pending of its own kind before it plans anything new.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.plans import (
    ActionInstant,
    CleanedPartition,
    CleanerPlan,
    CleanFile,
    CleanMetadata,
    InstantInfo,
    RestoreMetadata,
    RestorePlan,
    SavepointMetadata,
    SavepointPartition,
    parse_cleaner_plan,
    parse_restore_plan,
    render_clean_metadata,
    render_cleaner_plan,
    render_restore_metadata,
    render_restore_plan,
    render_savepoint,
)
from pyhudi.timeline.active import Timeline
from pyhudi.transactions.writer import WriterPolicy
from tests.simulation.hudi_steps import HEARTBEATS, MINDED, WRITES, Slice, Steps
from tests.simulation.logs import named_log
from tests.simulation.programs import Machine


class Keep(Enum):
    """Hudi's cleaning policies."""

    COMMITS = "KEEP_LATEST_COMMITS"
    FILE_VERSIONS = "KEEP_LATEST_FILE_VERSIONS"


@dataclass(frozen=True, slots=True)
class HudiService(ABC):
    """What all have: whether Hudi was given a lock provider, and whether files appear whole."""

    locked: bool = True
    whole_puts: bool = True
    times: int = 1
    #: whether what it deletes of the timeline is kept elsewhere
    moves: ClassVar[bool] = False
    #: whether it is run again if it died
    again: ClassVar[bool] = True

    def run(self, machine: Machine, who: str, policy: WriterPolicy) -> None:
        for _ in range(self.times):
            steps = Steps(machine, who, policy.lock_timeout_s, self.locked, self.whole_puts)
            if not self.finish(steps):
                self.start(steps)

    def finish(self, steps: Steps) -> bool:
        """Finish what is pending of this kind; whether there was anything."""
        return False

    @abstractmethod
    def start(self, steps: Steps) -> None:
        """Plan and carry out."""


@dataclass(frozen=True, slots=True)
class HudiClean(HudiService):
    """Delete old slices: planned without a lock, requested and completed under it."""

    keep: Keep = Keep.COMMITS
    retained: int = 1

    def finish(self, steps: Steps) -> bool:
        pending = steps.pending(steps.table.timeline(), Action.CLEAN)
        for clean in pending:
            path = steps.path(Instant(clean.time, Action.CLEAN, State.REQUESTED))
            data = steps.machine.storage.read(path)
            if data:
                self._execute(steps, clean, parse_cleaner_plan(data, path))
        return bool(pending)

    def start(self, steps: Steps) -> None:
        timeline = steps.table.timeline()
        earliest = self._earliest(timeline)
        doomed = self._doomed(steps, timeline, earliest)
        if not doomed:
            return
        plan = self._plan(steps, timeline, earliest, doomed)
        with steps.lock():
            time = steps.request(Action.CLEAN, render_cleaner_plan(plan))
        self._execute(steps, Instant(time, Action.CLEAN, State.REQUESTED), plan)

    def _earliest(self, timeline: Timeline) -> Instant | None:
        """The earliest commit to retain, never later than the last before what is pending."""
        commits = timeline.commits
        if self.keep is Keep.FILE_VERSIONS or len(commits) <= self.retained:
            return None
        found = commits[len(commits) - self.retained]
        pending = [i.time for i in timeline.pending if i.action in MINDED]
        if pending and found.time > pending[0]:
            return max((c for c in commits if c.time < pending[0]), default=None, key=_time)
        return found

    def _doomed(
        self, steps: Steps, timeline: Timeline, earliest: Instant | None
    ) -> dict[str, list[Slice]]:
        if self.keep is Keep.COMMITS and earliest is None:
            return {}
        saved, replaced = steps.saved_files(timeline), steps.replaced(timeline)
        found: dict[str, list[Slice]] = {}
        for group, slices in steps.slices(timeline).items():
            gone = replaced.get(group)
            if gone is not None:
                old = slices if earliest is None or gone < earliest.time else []
            elif earliest is None:
                old = slices[self.retained :]
            else:
                older = [one for one in slices if one.time < earliest.time]
                # The newest of these serves readers as of the earliest commit.
                old = [one for one in older[1:] if one is not slices[0]]
            for one in old:
                if one.name not in saved:
                    found.setdefault(group[0], []).append(one)
        return found

    def _plan(
        self,
        steps: Steps,
        timeline: Timeline,
        earliest: Instant | None,
        doomed: Mapping[str, list[Slice]],
    ) -> CleanerPlan:
        root = steps.machine.storage.root
        return CleanerPlan(
            ActionInstant(earliest.time, earliest.action.value) if earliest else None,
            timeline.commits[-1].time,
            self.keep.value,
            {
                partition: tuple(
                    CleanFile(f"{root}/{path}")
                    for one in slices
                    for path in (*_logs_of(steps, timeline, one), one.path)
                )
                for partition, slices in doomed.items()
            },
        )

    def _execute(self, steps: Steps, clean: Instant, plan: CleanerPlan) -> None:
        if clean.state is State.REQUESTED:
            steps.put(Instant(clean.time, Action.CLEAN, State.INFLIGHT), b"")
        told = {}
        for partition, files in plan.file_paths_to_be_deleted_per_partition.items():
            names = tuple(file.file_path.rsplit("/", 1)[-1] for file in files)
            for name in names:
                steps.machine.storage.delete([f"{partition}/{name}"])
            told[partition] = CleanedPartition(partition, plan.policy, names, names)
        earliest = plan.earliest_instant_to_retain
        metadata = CleanMetadata(
            start_clean_time=clean.time,
            time_taken_in_millis=0,
            total_files_deleted=sum(len(p.success_delete_files) for p in told.values()),
            earliest_commit_to_retain=earliest.timestamp if earliest else "",
            last_completed_commit_timestamp=plan.last_completed_commit_timestamp,
            partition_metadata=told,
        )
        with steps.lock():
            steps.complete(clean.time, Action.CLEAN, render_clean_metadata(metadata))


def _logs_of(steps: Steps, timeline: Timeline, old: Slice) -> Iterator[str]:
    """The logs of a slice that is not the newest of its group."""
    ends = {i.time: i.completion_time or i.time for i in timeline.commits}
    later = [one.time for one in steps.slices(timeline)[old.group] if one.time > old.time]
    for file in steps.machine.storage.walk(old.group[0]):
        log = named_log(file.path)
        if log is None or log.file_id != old.group[1] or not later:
            continue
        end = log.instant if timeline.layout == 1 else ends.get(log.instant)
        if end is not None and old.time <= end < min(later):
            yield file.path


class Target(Enum):
    """Which instant is rolled back."""

    NEWEST = "the newest completed commit"
    PENDING = "every pending write, as Hudi's EAGER policy has it"


@dataclass(frozen=True, slots=True)
class HudiRollback(HudiService):
    """``rollback_to_instant``, or the rollback of failed writes under the EAGER policy."""

    target: Target = Target.NEWEST

    def finish(self, steps: Steps) -> bool:
        pending = steps.pending(steps.table.timeline(), Action.ROLLBACK)
        for rollback in pending:
            if (plan := steps.rollback_plan(rollback)) is not None:
                steps.undo(rollback.time, plan, publish=True)
        return bool(pending)

    def start(self, steps: Steps) -> None:
        for time in self._targets(steps.table.timeline()):
            with steps.lock():
                now = steps.table.timeline()
                target = next((i for i in now.at(time) if i.action in WRITES), None)
                if target is None or (self.target is Target.PENDING and _done(target)):
                    continue
                if self.target is Target.NEWEST and now.latest_commit != target:
                    continue  # who asks for it undoes the newest first
                rollback, plan = steps.plan_rollback(target)
            if steps.locked:
                with steps.lock():
                    steps.machine.storage.replace(f"{HEARTBEATS}/{rollback}", b"")
            steps.undo(rollback, plan, publish=True)
            steps.machine.storage.delete([f"{HEARTBEATS}/{rollback}"])

    def _targets(self, timeline: Timeline) -> list[InstantTime]:
        if self.target is Target.NEWEST:
            newest = timeline.latest_commit
            return [newest.time] if newest else []
        pending = [i for i in timeline.pending if i.action in WRITES]
        return [i.time for i in reversed(pending) if i.action is not Action.CLUSTERING]


@dataclass(frozen=True, slots=True)
class HudiSavepoint(HudiService):
    """Save the newest commit; no lock is taken."""

    def start(self, steps: Steps) -> None:
        timeline = steps.table.timeline()
        newest = timeline.latest_commit
        if newest is None:
            return
        replaced = steps.replaced(timeline)
        names: dict[str, list[str]] = {}
        for group, slices in steps.slices(timeline).items():
            if group not in replaced:
                names.setdefault(group[0], []).append(slices[0].name)
        saved = {p: SavepointPartition(p, tuple(sorted(n))) for p, n in names.items()}
        data = render_savepoint(SavepointMetadata("hudi", 0, "", saved))
        inflight = Instant(newest.time, Action.SAVEPOINT, State.INFLIGHT)
        if newest.time not in {i.time for i in steps.pending(timeline, Action.SAVEPOINT)}:
            steps.put(inflight, b"")
        steps.complete(newest.time, Action.SAVEPOINT, data)


@dataclass(frozen=True, slots=True)
class HudiRestore(HudiService):
    """Set the table back to its newest savepoint: one rollback for each commit after it.

    Only the requests are made under the lock. A rollback of a restore is never completed: its
    files go once the restore has completed.
    """

    def finish(self, steps: Steps) -> bool:
        pending = steps.pending(steps.table.timeline(), Action.RESTORE)
        for restore in pending:
            path = steps.path(Instant(restore.time, Action.RESTORE, State.REQUESTED))
            data = steps.machine.storage.read(path)
            if data:
                self._execute(steps, restore, parse_restore_plan(data, path))
        return bool(pending)

    def start(self, steps: Steps) -> None:
        saved = [i for i in steps.table.timeline().completed if i.action is Action.SAVEPOINT]
        if not saved:
            return
        with steps.lock():
            now = steps.table.timeline()
            kept = next((i for i in now.commits if i.time == saved[-1].time), None)
            if kept is None:
                return
            infos = tuple(InstantInfo(i.time, i.action.value) for i in _after(now, kept))
            plan = RestorePlan(infos, kept.time)
            time = steps.request(Action.RESTORE, render_restore_plan(plan))
        self._execute(steps, Instant(time, Action.RESTORE, State.REQUESTED), plan)

    def _execute(self, steps: Steps, restore: Instant, plan: RestorePlan) -> None:
        if restore.state is State.REQUESTED:
            steps.put(Instant(restore.time, Action.RESTORE, State.INFLIGHT), b"")
        for info in plan.instants_to_rollback:
            now = steps.table.timeline()
            target = next((i for i in now.at(info.commit_time) if i.action in WRITES), None)
            if target is None:
                continue
            with steps.lock():
                rollback, undoing = steps.plan_rollback(target)
            steps.undo(rollback, undoing, publish=False)
        told = RestoreMetadata(
            start_restore_time=restore.time,
            time_taken_in_millis=0,
            instants_to_rollback=tuple(i.commit_time for i in plan.instants_to_rollback),
            rollbacks={},
            restore_instant_info=plan.instants_to_rollback,
        )
        steps.complete(restore.time, Action.RESTORE, render_restore_metadata(told))
        self._drop_rollbacks(steps, plan.savepoint_to_restore_timestamp or "")

    def _drop_rollbacks(self, steps: Steps, savepoint: str) -> None:
        for rollback in reversed(steps.table.timeline().instants):
            if rollback.action is Action.ROLLBACK and rollback.time > savepoint:
                if rollback.state is State.COMPLETED:
                    steps.delete(rollback)
                for state in (State.INFLIGHT, State.REQUESTED):
                    steps.delete(Instant(rollback.time, Action.ROLLBACK, state))


def _after(timeline: Timeline, kept: Instant) -> list[Instant]:
    """What a restore to ``kept`` undoes: pending clusterings, then the rest, newest first.

    By completion times, where a pending one counts as later than any; by instants in layout 1.
    """
    end = kept.completion_time or kept.time
    writes = [i for i in timeline.instants if i.action in WRITES and i != kept]
    later = [i for i in writes if not _done(i) or (i.completion_time or i.time) > end]
    if timeline.layout == 1:
        later = [i for i in writes if i.time > kept.time]
    return sorted(later, key=lambda i: (not _done(i), i.completion_time or "", i.time))[::-1]


def _done(instant: Instant) -> bool:
    return instant.state is State.COMPLETED


def _time(instant: Instant) -> InstantTime:
    return instant.time
