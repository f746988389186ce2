"""The plan of a pending instant, for instants whose file name does not tell their work.

Invariant: a plan that cannot be read stops no writer. A crash may leave an empty or incomplete
file. A program reads a plan before it carries it out, so it never carries out a damaged one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from enum import Enum
from typing import TypeVar

from pyhudi.errors import TableCorrupt
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.plans import (
    CompactionPlan,
    RequestedReplace,
    parse_compaction_plan,
    parse_requested_replace,
)
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.table import Table

log = logging.getLogger(__name__)

Plan = TypeVar("Plan")

#: the actions with a plan of slices and logs
COMPACTING = (Action.COMPACTION, Action.LOGCOMPACTION)


class Work(Enum):
    """The work of a pending replace commit or clustering."""

    WRITE = "write"
    CLUSTERING = "clustering"
    #: its plan cannot be read
    UNKNOWN = "unknown"


def plan_of(
    table: Table,
    timeline: Timeline,
    instant: Instant,
    parse: Callable[[bytes, str], Plan],
    gone: Plan | None = None,
) -> Plan | None:
    """The plan in the requested file of a pending instant; ``gone`` if there is no such file.

    None, with a warning, if it cannot be parsed.
    """
    path = timeline.file_of(Instant(instant.time, instant.action, State.REQUESTED))
    kind = instant.action.value
    try:
        return parse(table.storage.read(path), path)
    except FileNotFoundError:
        if gone is None:
            log.warning("%s %s is pending without a plan: it is left alone", kind, instant.time)
        return gone
    except TableCorrupt as e:
        log.warning(
            "%s %s is pending, but its plan cannot be read: it is left alone. A program that "
            "crashed may leave such a file; delete it if that program does not run any more. %s",
            kind,
            instant.time,
            e,
        )
        return None


def work_of(table: Table, timeline: Timeline, instant: Instant) -> Work:
    """Whether a pending instant is a write or a clustering; layout 1 has one name for both.

    An instant whose requested file is gone has ended, and counts as a write.
    """
    if instant.action is not Action.REPLACECOMMIT or timeline.layout == 2:
        return Work.CLUSTERING if instant.action is Action.CLUSTERING else Work.WRITE
    plan = plan_of(table, timeline, instant, parse_requested_replace, gone=RequestedReplace())
    if plan is None:
        return Work.UNKNOWN
    return Work.WRITE if plan.clustering_plan is None else Work.CLUSTERING


def pending_clusterings(table: Table, timeline: Timeline) -> frozenset[InstantTime]:
    """The instants of planned and running clusterings."""
    return frozenset(
        i.time for i in timeline.pending if work_of(table, timeline, i) is Work.CLUSTERING
    )


def planned_clusterings(
    table: Table, now: Timeline, instant: InstantTime | None = None
) -> Iterator[tuple[Instant, RequestedReplace]]:
    """The pending clusterings, except ``instant``, with their plans."""
    for pending in now.pending:
        if pending.action not in (Action.CLUSTERING, Action.REPLACECOMMIT):
            continue
        if pending.time == instant:
            continue
        # If its requested file is gone, it has settled since the listing, or lost its plan.
        found = plan_of(table, now, pending, parse_requested_replace, gone=RequestedReplace())
        if found is not None and found.clustering_plan is not None:
            yield pending, found


def planned_compactions(
    table: Table, timeline: Timeline, actions: Collection[Action] = (Action.COMPACTION,)
) -> Iterator[tuple[Instant, CompactionPlan]]:
    """The pending compactions with their plans; ``actions`` may have log compactions too.

    Those whose plan is gone or cannot be read are left out.
    """
    for pending in timeline.pending:
        if pending.action in actions:
            found = plan_of(table, timeline, pending, parse_compaction_plan)
            if found is not None:
                yield pending, found
