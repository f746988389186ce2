"""What a pending instant is about, where its file name does not tell: its plan.

Invariant: a plan that cannot be read stops nobody. A crash may leave an empty or half file; who
carries a plan out reads it first, so what is torn will not be carried out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from typing import TypeVar

from pyhudi.errors import TableCorrupt
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.plans import RequestedReplace, parse_requested_replace
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.table import Table

log = logging.getLogger(__name__)

Plan = TypeVar("Plan")


class Work(Enum):
    """What a pending replace commit or clustering will do."""

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
    """The plan of a pending instant, which its requested file has; ``gone`` without that file.

    None, with a warning, where it does not parse.
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
            "%s %s is pending, but its plan cannot be read: it is left alone. A crash of the "
            "program that requested it leaves such a file; delete it if nothing runs. %s",
            kind,
            instant.time,
            e,
        )
        return None


def work_of(table: Table, timeline: Timeline, instant: Instant) -> Work:
    """What a pending write or clustering is; layout 1 names a clustering as any replace commit.

    One whose requested file is gone has settled, and counts as a write.
    """
    if instant.action is not Action.REPLACECOMMIT or timeline.layout == 2:
        return Work.CLUSTERING if instant.action is Action.CLUSTERING else Work.WRITE
    plan = plan_of(table, timeline, instant, parse_requested_replace, gone=RequestedReplace())
    if plan is None:
        return Work.UNKNOWN
    return Work.WRITE if plan.clustering_plan is None else Work.CLUSTERING


def pending_clusterings(table: Table, timeline: Timeline) -> frozenset[InstantTime]:
    """Instants of the clusterings that are planned or under way."""
    return frozenset(
        i.time for i in timeline.pending if work_of(table, timeline, i) is Work.CLUSTERING
    )
