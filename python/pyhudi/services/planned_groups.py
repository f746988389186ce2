"""The file groups that pending compactions and log compactions have.

Invariant: a group is in one pending plan at most. A plan that cannot be read may have any group.
"""

from __future__ import annotations

from pyhudi.services.compaction_plan import Group
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.pending import COMPACTING, planned_compactions
from pyhudi.timeline.table import Table


def compacting_groups(table: Table, now: Timeline) -> dict[Group, str]:
    """The groups in pending plans, each with the reason for which no other plan takes it."""
    found: dict[Group, str] = {}
    for pending, plan in planned_compactions(table, now, COMPACTING):
        why = f"the pending {pending.action.value} {pending.time} has it"
        found |= {(o.partition_path, o.file_id): why for o in plan.operations}
    return found


def unreadable_plan(table: Table, now: Timeline) -> str | None:
    """Why nothing can be planned now: a pending plan cannot be read; None if all can."""
    readable = {pending for pending, _ in planned_compactions(table, now, COMPACTING)}
    for pending in now.pending:
        if pending.action in COMPACTING and pending not in readable:
            return f"the plan of the pending {pending.action.value} {pending.time} cannot be read"
    return None
