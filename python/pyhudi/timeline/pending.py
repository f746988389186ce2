"""What kind of work a pending instant is, where its file name does not tell."""

from __future__ import annotations

from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.plans import parse_requested_replace
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.table import Table


def is_clustering(table: Table, timeline: Timeline, instant: Instant) -> bool:
    """Whether a pending instant is a clustering, which layout 1 names as any replace commit.

    Its requested file has the plan; one whose file is gone has settled, and counts as a write.
    """
    if instant.action is not Action.REPLACECOMMIT or timeline.layout == 2:
        return instant.action is Action.CLUSTERING
    path = timeline.file_of(Instant(instant.time, instant.action, State.REQUESTED))
    try:
        return parse_requested_replace(table.storage.read(path), path).clustering_plan is not None
    except FileNotFoundError:
        return False


def pending_clusterings(table: Table, timeline: Timeline) -> frozenset[InstantTime]:
    """Instants of the clusterings that are planned or under way."""
    return frozenset(i.time for i in timeline.pending if is_clustering(table, timeline, i))
