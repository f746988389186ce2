"""Pending clusterings beside writes: which groups they are about to replace, and who gives way.

Invariant: a plan of pyhudi on the timeline never names a group that a commit of pyhudi has changed
since. So whoever carries it out, Apache Hudi too, replaces no newer rows by older ones.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from pyhudi.format.instants import Instant, InstantTime, State
from pyhudi.format.plans import RequestedReplace, render_requested_replace
from pyhudi.locks.base import TableLock
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.pending import planned_clusterings
from pyhudi.timeline.table import Table
from pyhudi.transactions.conflicts.comparison import Group

log = logging.getLogger(__name__)

#: in the extra metadata of a plan: its clustering leaves out the groups that a write has changed
YIELDS: Final = "pyhudi.clustering.yields"


def groups_of(requested: RequestedReplace) -> frozenset[Group]:
    """The file groups that a clustering is to replace."""
    plan = requested.clustering_plan
    groups = plan.input_groups if plan is not None else ()
    return frozenset((s.partition_path, s.file_id) for g in groups for s in g.slices)


def yields(requested: RequestedReplace) -> bool:
    """Whether the clustering gives way to writes, group by group."""
    plan = requested.clustering_plan
    return plan is not None and plan.extra_metadata.get(YIELDS) == "true"


def leave_plans(
    table: Table, lock: TableLock, now: Timeline, instant: InstantTime, changed: Collection[Group]
) -> None:
    """Take the groups that the write ``instant`` changed out of the plans that yield.

    Called under the table's lock, right before the write commits. If it does not commit after all,
    the groups are not clustered for once. ``WriterFenced`` if the lease might not outlast the put:
    late, it would bring groups back that the next writer took out.
    """
    if not changed:
        return
    for pending, requested in planned_clusterings(table, now, instant):
        plan = requested.clustering_plan
        if plan is None or not yields(requested) or groups_of(requested).isdisjoint(changed):
            continue
        left = tuple(
            group
            for group in plan.input_groups
            if not any((s.partition_path, s.file_id) in changed for s in group.slices)
        )
        log.info("%s takes file groups out of the clustering %s", instant, pending.time)
        smaller = replace(requested, clustering_plan=replace(plan, input_groups=left))
        path = now.file_of(Instant(pending.time, pending.action, State.REQUESTED))
        lock.check(table.storage.put_timeout_s)
        table.storage.replace(path, render_requested_replace(smaller))
