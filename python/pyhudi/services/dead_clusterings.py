"""Clusterings of pyhudi that lost their owner: told from running ones, and rolled back.

Invariant: a plan that does not yield, as those of Apache Hudi, is never touched here. A dead plan
holds no write up, but cleans and archives stop at it.
"""

from __future__ import annotations

import logging
from collections.abc import Container

from pyhudi.format.instants import Action, InstantTime
from pyhudi.locks.cancelling import pause
from pyhudi.timeline.active import Timeline, instant_key
from pyhudi.timeline.pending import planned_clusterings
from pyhudi.timeline.table import Table
from pyhudi.transactions.conflicts.clustering_plans import yields
from pyhudi.transactions.heartbeat import GIVEN_UP, ended_process, has_passed, last_beat_ms
from pyhudi.transactions.heartbeat import last_words as words_of
from pyhudi.transactions.recovery.rollback import roll_back, was_rolled_back
from pyhudi.transactions.recovery.settle import DYING_S
from pyhudi.transactions.recovery.undoing import pending_restore
from pyhudi.transactions.writer import Writer

log = logging.getLogger(__name__)


def own_clusterings(table: Table, timeline: Timeline) -> list[InstantTime]:
    """The pending clusterings that pyhudi planned, with those of which only a late file is left.

    Such an inflight file landed after its put was given up, and after the clustering was rolled
    back. Nobody has its plan any more, and as long as it stays, archives stop at it.
    """
    planned = [i.time for i, requested in planned_clusterings(table, timeline) if yields(requested)]
    late = [
        i.time
        for i in timeline.pending
        if i.action is Action.CLUSTERING
        and instant_key(i) not in timeline.requested
        and was_rolled_back(table, timeline, i.time)
    ]
    return planned + late


def roll_back_dead(writer: Writer, forced: Container[InstantTime] = ()) -> None:
    """Roll back our clusterings whose owner is dead, and those of ``forced``.

    A pending restore undoes them itself: then nothing happens.
    """
    timeline = writer.table.timeline()
    if pending_restore(writer.table, timeline) is not None:
        return
    for time in own_clusterings(writer.table, timeline):
        if time in forced or lost_its_owner(writer, time):
            log.warning("clustering %s lost its owner: it is rolled back", time)
            roll_back(writer, time)


def lost_its_owner(writer: Writer, time: InstantTime) -> bool:
    """Whether the owner of our clustering has ended; its first beat came before its request."""
    storage, policy = writer.table.storage, writer.policy.heartbeat
    beat = last_beat_ms(storage, time)
    words = words_of(storage, time)
    if beat is None or words == GIVEN_UP:
        return True
    if ended_process(words, policy) is not None:
        pause(writer.clock, DYING_S)
        return True
    return has_passed(storage, writer.clock, beat, policy.lapse_ms)
