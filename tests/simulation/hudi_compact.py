"""Apache Hudi's delta commits and compactions: what a merge-on-read table's services do.

A compaction is planned under the lock, carried out beside all others, and completed under the lock
as a commit, whose base files take their instant from the plan. One that was cut off is first rolled
back to its request and then carried out again, under the same instant. In version 6 a plan has logs
of writes that are pending, too: Hudi waits for these only if there is one writer. A delta commit
compares itself with nobody, as that of a single writer beside its own services.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar

from pyhudi.errors import StorageError
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat, render_commit
from pyhudi.format.filenames import BaseFileName, FileId, LogFileName
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.markers import MarkerKind, marker_path
from pyhudi.format.plans import (
    CompactionOperation,
    CompactionPlan,
    RollbackPlan,
    parse_compaction_plan,
    render_compaction_plan,
)
from pyhudi.rows.log_spec import CountedInstants
from pyhudi.timeline.active import Timeline
from pyhudi.transactions.heartbeat import (
    Heartbeat,
    HeartbeatPolicy,
    has_passed,
    last_beat_ms,
)
from pyhudi.transactions.markers.markers import delete_markers
from tests.simulation.hudi_services import HudiService
from tests.simulation.hudi_steps import Group, Slice, Steps
from tests.simulation.logs import log_data, merged, named_log

TOKEN = "0-1-0"
BEATS = HeartbeatPolicy(interval_ms=300, tolerable_misses=1)


@dataclass(frozen=True, slots=True)
class HudiDelta(HudiService):
    """A delta commit that changes ``keys`` in logs.

    ``appends``: to the log that is there, in layout 1, as on HDFS. ``dies_after``: it is cut off.
    """

    again: ClassVar[bool] = False
    keys: tuple[str, ...] = ()
    appends: bool = False
    dies_after: State = State.COMPLETED

    def start(self, steps: Steps) -> None:
        with steps.lock():
            time = steps.request(Action.DELTACOMMIT, b"")
        steps.put(Instant(time, Action.DELTACOMMIT, State.INFLIGHT), b"")
        timeline = steps.table.timeline()
        counted = _counted(timeline)
        stats = []
        for slices in steps.slices(timeline).values():
            logs = logs_of(steps, timeline, slices[0])
            rows = merged(steps.machine.storage, slices[0].path, [p for p, _ in logs], counted)
            held = json.loads(steps.machine.storage.read(slices[0].path))
            new = {key: [*rows.get(key, []), steps.label] for key in self.keys if key in held}
            if new:
                stats.append(self._log(steps, timeline, time, slices[0], new))
        if self.dies_after is not State.COMPLETED:
            return
        metadata = CommitMetadata("UPSERT", tuple(stats), {"writer": steps.label})
        _commit(steps, time, Action.DELTACOMMIT, metadata)

    def _log(
        self,
        steps: Steps,
        timeline: Timeline,
        time: InstantTime,
        base: Slice,
        rows: dict[str, list[str]],
    ) -> WriteStat:
        storage, (partition, file_id) = steps.machine.storage, base.group
        began, version = time, 1
        kind, data = MarkerKind.CREATE, log_data(time, rows)
        path = ""
        if timeline.layout == 1:
            kind = MarkerKind.APPEND
            began = max([base.time, *planned(steps, timeline, base.group)])
            logs = [log for log in _logs_in(steps, base.group) if log[1].instant == began]
            version = max((log.version for _, log in logs), default=0) + 1
            if self.appends and logs:
                path, last = max(logs, key=lambda one: one[1].version)
                version, data = last.version, storage.read(path) + data
        path = path or f"{partition}/{LogFileName(file_id, began, version, TOKEN).render()}"
        steps.create(marker_path(time, path, kind), b"")
        storage.replace(path, data)
        return WriteStat(
            file_id,
            path,
            partition,
            began,
            len(rows),
            0,
            len(rows),
            file_size_bytes=len(data),
            log_version=version,
        )


@dataclass(frozen=True, slots=True)
class HudiCompact(HudiService):
    """Merge the logs of each group into its next base file.

    ``dies_after``: nobody carries the plan out any more once it is in that state. ``beats``: it
    has a heartbeat, as Hudi gives it with several writers. ``lasts_s`` is how long a file takes.
    """

    dies_after: State = State.COMPLETED
    beats: bool = True
    lasts_s: float = 0.0

    def finish(self, steps: Steps) -> bool:
        pending = steps.pending(steps.table.timeline(), Action.COMPACTION)
        for compaction in pending if self.dies_after is State.COMPLETED else ():
            path = steps.path(Instant(compaction.time, Action.COMPACTION, State.REQUESTED))
            data = steps.machine.storage.read(path)
            if data:
                self._execute(steps, compaction.time, parse_compaction_plan(data, path))
        return bool(pending)

    def start(self, steps: Steps) -> None:
        with steps.lock():
            timeline = steps.table.timeline()
            plan = self._plan(steps, timeline)
            if plan is None:
                return
            time = steps.request(Action.COMPACTION, render_compaction_plan(plan))
        if self.dies_after is not State.REQUESTED:
            self._execute(steps, time, plan)

    def _plan(self, steps: Steps, timeline: Timeline) -> CompactionPlan | None:
        operations = []
        for group, slices in steps.slices(timeline).items():
            if planned(steps, timeline, group):
                continue
            logs = tuple(p.rpartition("/")[2] for p, _ in logs_of(steps, timeline, slices[0]))
            if logs or steps.table.config.table_type.value == "COPY_ON_WRITE":
                base, (partition, file_id) = slices[0], group
                operations.append(
                    CompactionOperation(base.time, logs, base.name, file_id, partition)
                )
        return CompactionPlan(tuple(operations)) if operations else None

    def _execute(self, steps: Steps, time: InstantTime, plan: CompactionPlan) -> None:
        clock = steps.machine.clock
        beat = Heartbeat(steps.machine.storage, clock, time, BEATS, content=b"")
        with steps.lock():
            now = steps.table.timeline()
            if time not in {i.time for i in steps.pending(now, Action.COMPACTION)}:
                return
            if self.beats:
                known = last_beat_ms(steps.machine.storage, time)
                lapse_ms = BEATS.lapse_ms
                if known and not has_passed(steps.machine.storage, clock, known, lapse_ms):
                    raise StorageError("Another program runs the compaction.", path=time)
                beat.start()
        try:
            self._carry_out(steps, time, plan)
        finally:
            if self.beats:
                beat.stop(settled=self.dies_after is State.COMPLETED)

    def _carry_out(self, steps: Steps, time: InstantTime, plan: CompactionPlan) -> None:
        inflight = Instant(time, Action.COMPACTION, State.INFLIGHT)
        if steps.has(inflight):
            begin_again(steps, inflight)
        steps.put(inflight, b"")
        counted = _counted(steps.table.timeline())
        stats = [self._merge(steps, time, operation, counted) for operation in plan.operations]
        if self.dies_after is State.INFLIGHT:
            return
        metadata = CommitMetadata("COMPACT", tuple(stats), {"writer": steps.label}, None, True)
        _commit(steps, time, Action.COMMIT, metadata)

    def _merge(
        self,
        steps: Steps,
        time: InstantTime,
        operation: CompactionOperation,
        counted: CountedInstants,
    ) -> WriteStat:
        storage, partition = steps.machine.storage, operation.partition_path
        logs = [f"{partition}/{name}" for name in operation.delta_file_paths]
        rows = merged(storage, f"{partition}/{operation.data_file_path}", logs, counted)
        path = f"{partition}/{BaseFileName(operation.file_id, TOKEN, time).render()}"
        marker = marker_path(time, path, MarkerKind.MERGE)
        if not storage.exists(marker):
            steps.create(marker, b"")
        if self.lasts_s:
            steps.machine.clock.sleep(self.lasts_s)
        data = json.dumps(rows).encode()
        storage.replace(path, data)
        base = operation.base_instant_time
        return WriteStat(
            operation.file_id, path, partition, base, len(rows), 0, file_size_bytes=len(data)
        )


def _counted(timeline: Timeline) -> CountedInstants:
    commits = frozenset(i.time for i in timeline.commits)
    return CountedInstants(commits, timeline.first_time or "")


def _logs_in(steps: Steps, group: Group) -> list[tuple[str, LogFileName]]:
    found = [(f.path, named_log(f.path)) for f in steps.machine.storage.walk(group[0])]
    return [(path, log) for path, log in found if log is not None and log.file_id == group[1]]


def logs_of(steps: Steps, timeline: Timeline, base: Slice) -> list[tuple[str, LogFileName]]:
    """The logs of the newest slice, in order: by their names in layout 1, else by completion."""
    ends = {i.time: i.completion_time or i.time for i in timeline.commits}
    first = timeline.first_time or InstantTime("")
    found = []
    for path, log in _logs_in(steps, base.group):
        done = log.instant in ends or log.instant < first
        if timeline.layout == 1 or done:
            end = log.instant if timeline.layout == 1 else ends.get(log.instant, log.instant)
            if end >= base.time:
                found.append((path, log))
    return sorted(found, key=lambda one: (one[1].instant, one[1].version, one[1].write_token))


def planned(steps: Steps, timeline: Timeline, group: Group) -> list[InstantTime]:
    """The pending compactions of a group."""
    found = []
    for pending in steps.pending(timeline, Action.COMPACTION):
        path = steps.path(Instant(pending.time, Action.COMPACTION, State.REQUESTED))
        plan = parse_compaction_plan(steps.machine.storage.read(path), path)
        if any((o.partition_path, FileId(o.file_id)) == group for o in plan.operations):
            found.append(pending.time)
    return found


def begin_again(steps: Steps, inflight: Instant) -> None:
    """Undo what was begun: its files go by a rollback, then its inflight file; the plan stays.

    A rollback that was cut off is carried on.
    """
    now = steps.table.timeline()
    plans = ((i, steps.rollback_plan(i)) for i in steps.pending(now, Action.ROLLBACK))
    begun = ((i.time, p) for i, p in plans if p is not None and _target(p) == inflight.time)
    known = next(begun, None)
    if known is None:
        with steps.lock():
            known = steps.plan_rollback(inflight)
    steps.undo(*known, publish=True)
    steps.delete(inflight)


def _target(plan: RollbackPlan) -> str:
    return plan.instant_to_rollback.commit_time if plan.instant_to_rollback else ""


def _commit(steps: Steps, time: InstantTime, action: Action, metadata: CommitMetadata) -> None:
    with steps.lock():
        steps.complete(time, action, render_commit(metadata, steps.table.config.layout))
    delete_markers(steps.machine.storage, time)
