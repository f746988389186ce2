"""Apache Hudi's clustering service, as far as it carries out a plan that it finds.

Hudi runs any pending plan, whoever made it: one that was begun is first taken back to its request.
It reads the files that the plan names, and looks at no heartbeat.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from pyhudi.format.commit_metadata import CommitMetadata, WriteStat, render_commit
from pyhudi.format.filenames import BaseFileName, FileId
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.markers import MarkerKind, marker_path
from pyhudi.format.plans import ClusteringGroup, ClusteringPlan, parse_requested_replace
from pyhudi.transactions.markers.markers import delete_markers
from tests.simulation.hudi_compact import TOKEN, begin_again
from tests.simulation.hudi_services import HudiService
from tests.simulation.hudi_steps import HEARTBEATS, Steps


@dataclass(frozen=True, slots=True)
class HudiCluster(HudiService):
    """Carry out each plan that is pending after ``pause_s``; nothing new is planned."""

    pause_s: float = 0.0

    def start(self, steps: Steps) -> None:
        steps.machine.clock.sleep(self.pause_s)
        for pending in steps.pending(steps.table.timeline(), Action.CLUSTERING):
            path = steps.path(Instant(pending.time, Action.CLUSTERING, State.REQUESTED))
            plan = parse_requested_replace(steps.machine.storage.read(path), path).clustering_plan
            if plan is not None:
                self._execute(steps, pending.time, plan)

    def _execute(self, steps: Steps, time: InstantTime, plan: ClusteringPlan) -> None:
        inflight = Instant(time, Action.CLUSTERING, State.INFLIGHT)
        if steps.has(inflight):
            begin_again(steps, inflight)
        steps.put(inflight, b"")
        stats = [self._rewrite(steps, time, group) for group in plan.input_groups]
        replaced: dict[str, tuple[FileId, ...]] = {}
        for each in (slice_ for group in plan.input_groups for slice_ in group.slices):
            known = replaced.get(each.partition_path, ())
            replaced[each.partition_path] = (*known, FileId(each.file_id))
        metadata = CommitMetadata("CLUSTER", tuple(stats), {}, replaced)
        with steps.lock():
            done = render_commit(metadata, steps.table.config.layout)
            steps.complete(time, Action.REPLACECOMMIT, done)
        delete_markers(steps.machine.storage, time)
        steps.machine.storage.delete([f"{HEARTBEATS}/{time}"])

    def _rewrite(self, steps: Steps, time: InstantTime, group: ClusteringGroup) -> WriteStat:
        storage, partition = steps.machine.storage, group.slices[0].partition_path
        rows: dict[str, list[str]] = {}
        for each in group.slices:
            name = each.data_file_path.rpartition("/")[2]
            rows |= json.loads(storage.read(f"{partition}/{name}"))
        file_id = FileId(f"{steps.machine.clock.uuid()}-0")
        path = f"{partition}/{BaseFileName(file_id, TOKEN, time).render()}"
        steps.create(marker_path(time, path, MarkerKind.CREATE), b"")
        data = json.dumps(rows).encode()
        steps.create(path, data)
        return WriteStat(
            file_id, path, partition, None, len(rows), len(rows), file_size_bytes=len(data)
        )
