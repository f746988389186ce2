"""One running log compaction: what others do beside it that would make its logs wrong.

A log compaction changes no row, so writes that add logs go on: its result stands where the last log
stood that it replaced (spec/log_files.md L10). That holds while the slice stays the newest one of
its group, and no log of an earlier instant comes that the plan does not have.
"""

from __future__ import annotations

from typing import ClassVar

from pyhudi.format.commit_metadata import LOG_COMPACT, CommitMetadata
from pyhudi.format.instants import Action, Instant, InstantTime
from pyhudi.format.plans import CompactionPlan
from pyhudi.services.compaction_plan import Group
from pyhudi.services.compaction_run import RunningCompaction, running_writes
from pyhudi.services.slice_merging import counted_instants
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.pending import COMPACTING, planned_clusterings, planned_compactions
from pyhudi.timeline.view import FileSystemView
from pyhudi.transactions.conflicts.clustering_plans import groups_of
from pyhudi.transactions.conflicts.comparison import footprint_of


class RunningLogCompaction(RunningCompaction):
    """A log compaction in progress; use ``claimed`` to begin it."""

    ACTION: ClassVar[Action] = Action.LOGCOMPACTION
    OPERATION: ClassVar[str] = LOG_COMPACT

    @classmethod
    def waits(cls, now: Timeline, time: InstantTime) -> str | None:
        """Why the plan ``time`` cannot run under ``now``; None if it can.

        A write that began before the plan may still add a log of an earlier instant. Readers that
        go by the order of names alone, as hudi-rs, would take the result for newer than that log.
        """
        older = [each for each in running_writes(now) if each.time < time]
        if not older:
            return None
        return f"the write {older[0].time}, which began before it, is pending"

    def _taken_up(self, now: Timeline, ours: frozenset[Group]) -> dict[Group, str]:
        """Those of ``ours`` in which what is pending makes the new log wrong, and why.

        A compaction that was planned meanwhile begins a new slice, in which a log that completes
        now would stand, and has not got it in its plan.
        """
        why = self.waits(now, self.instant)
        found: dict[Group, str] = {} if why is None else dict.fromkeys(ours, why)
        for pending, plan in planned_compactions(self.table, now, COMPACTING):
            if pending.time != self.instant:
                groups = {(each.partition_path, each.file_id) for each in plan.operations}
                why = f"the pending {pending.action.value} {pending.time} has it"
                found |= dict.fromkeys(groups & ours, why)
        for pending, requested in planned_clusterings(self.table, now):
            why = f"the clustering {pending.time} is to rewrite it"
            found |= dict.fromkeys(set(groups_of(requested)) & ours, why)
        return found

    def _changed(
        self, now: Timeline, theirs: Instant, metadata: CommitMetadata
    ) -> frozenset[Group]:
        """The groups in which a commit since the plan makes the new log wrong.

        Those with a new base file, those that were replaced, and those to which a commit of an
        earlier instant added a log.
        """
        footprint = footprint_of(theirs, metadata)
        replaced = {(p, group) for p, ids in (metadata.replaced or {}).items() for group in ids}
        changed = footprint.rebased | footprint.compacted | replaced
        if theirs.time < self.instant:
            changed |= footprint.updated | footprint.created
        return changed


def unfit(view: FileSystemView, plan: CompactionPlan, time: InstantTime) -> dict[Group, str]:
    """The groups whose newest slice does not begin with the logs of the plan ``time``, and why."""
    newest = {(each.partition_path, each.file_id): each for each in view.slices()}
    counted = counted_instants(view, time)
    found: dict[Group, str] = {}
    for each in plan.operations:
        group = each.partition_path, each.file_id
        of = newest.get(group)
        base = of.base.name if of is not None and of.base is not None else ""
        if of is None or base != (each.data_file_path or "").rpartition("/")[2]:
            found[group] = "its newest slice is another one by now"
            continue
        named = {path.rpartition("/")[2] for path in each.delta_file_paths}
        logs = [log for log in of.logs if log.instant in counted and not log.named.cdc]
        if late := [log for log in logs if log.named.render() not in named]:
            found[group] = f"the log of {late[0].instant} is older than the plan and not in it"
    return found
