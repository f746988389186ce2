"""Apache Hudi's delta commits and compactions: what a merge-on-read table's services do.

A compaction is planned under the lock, carried out beside all others, and completed under the lock
as a commit, whose base files take their instant from the plan. One that was cut off is first rolled
back to its request and then carried out again, under the same instant. pyhudi writes no such table,
but reads its base files; and it may find a plan that nobody will carry out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from pyhudi.format.commit_metadata import CommitMetadata, WriteStat, render_commit
from pyhudi.format.filenames import BaseFileName, LogFileName, parse_log_file_name
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.markers import MarkerKind, marker_path
from pyhudi.format.plans import (
    CompactionOperation,
    CompactionPlan,
    RollbackPlan,
    parse_compaction_plan,
    render_compaction_plan,
)
from pyhudi.transactions.markers.markers import delete_markers
from tests.simulation.hudi_services import HudiService
from tests.simulation.hudi_steps import HEARTBEATS, Slice, Steps

TOKEN = "0-1-0"


@dataclass(frozen=True, slots=True)
class HudiDelta(HudiService):
    """A delta commit: a log file beside each group, which only a compaction makes rows of."""

    def start(self, steps: Steps) -> None:
        timeline = steps.table.timeline()
        with steps.lock():
            time = steps.request(Action.DELTACOMMIT, b"")
        steps.put(Instant(time, Action.DELTACOMMIT, State.INFLIGHT), b"")
        stats = []
        for (partition, file_id), slices in steps.slices(timeline).items():
            base = slices[0].time if timeline.layout == 1 else time
            path = f"{partition}/{LogFileName(file_id, base, 1, TOKEN).render()}"
            steps.create(marker_path(time, path, MarkerKind.APPEND), b"")
            steps.create(path, b"log")
            stats.append(WriteStat(file_id, path, partition, slices[0].time, 1, 0))
        _commit(steps, time, Action.DELTACOMMIT, CommitMetadata("UPSERT", tuple(stats)))


@dataclass(frozen=True, slots=True)
class HudiCompact(HudiService):
    """Merge the logs of each group into its next base file; they change ``keys``.

    ``dies_after``: nobody carries the plan out any more once it is in that state.
    """

    keys: tuple[str, ...] = ()
    dies_after: State = State.COMPLETED

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
            groups = steps.slices(timeline)
            operations = tuple(
                CompactionOperation(
                    slices[0].time, self._logs(steps, slices[0]), slices[0].name, file_id, partition
                )
                for (partition, file_id), slices in groups.items()
            )
            plan = CompactionPlan(operations)
            time = steps.request(Action.COMPACTION, render_compaction_plan(plan))
        if self.dies_after is not State.REQUESTED:
            self._execute(steps, time, plan)

    def _logs(self, steps: Steps, base: Slice) -> tuple[str, ...]:
        names = [f.path.rsplit("/", 1)[-1] for f in steps.machine.storage.walk(base.group[0])]
        logs = [log for name in names if (log := parse_log_file_name(name)) is not None]
        return tuple(log.render() for log in logs if log.file_id == base.group[1])

    def _execute(self, steps: Steps, time: InstantTime, plan: CompactionPlan) -> None:
        storage = steps.machine.storage
        with steps.lock():
            now = steps.table.timeline()
            if time not in {i.time for i in steps.pending(now, Action.COMPACTION)}:
                return
            storage.replace(f"{HEARTBEATS}/{time}", b"")
        inflight = Instant(time, Action.COMPACTION, State.INFLIGHT)
        if steps.has(inflight):
            begin_again(steps, inflight)
        steps.put(inflight, b"")
        stats = [self._merge(steps, time, operation) for operation in plan.operations]
        if self.dies_after is State.INFLIGHT:
            return
        metadata = CommitMetadata("COMPACT", tuple(stats), {"writer": steps.label})
        _commit(steps, time, Action.COMMIT, metadata)

    def _merge(self, steps: Steps, time: InstantTime, operation: CompactionOperation) -> WriteStat:
        storage, partition = steps.machine.storage, operation.partition_path
        rows = json.loads(storage.read(f"{partition}/{operation.data_file_path}"))
        rows |= {key: [*rows[key], steps.label] for key in self.keys if key in rows}
        path = f"{partition}/{BaseFileName(operation.file_id, TOKEN, time).render()}"
        marker = marker_path(time, path, MarkerKind.MERGE)
        if not storage.exists(marker):
            steps.create(marker, b"")
        data = json.dumps(rows).encode()
        storage.replace(path, data)
        base = operation.base_instant_time
        return WriteStat(
            operation.file_id, path, partition, base, len(rows), 0, file_size_bytes=len(data)
        )


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
    steps.machine.storage.delete([f"{HEARTBEATS}/{time}"])
