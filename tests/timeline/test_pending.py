"""What a pending replace commit is about, told by as little reading as its layout allows."""

from __future__ import annotations

import pytest

from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.storage.faults import FaultyStorage
from pyhudi.timeline.pending import Work, work_of
from tests.transactions.world import World, put_instant


@pytest.mark.parametrize(
    ("version", "work", "reads"), [(6, Work.UNKNOWN, 1), (8, Work.WRITE, 0), (9, Work.WRITE, 0)]
)
def test_the_plan_of_a_replace_commit_is_read_in_layout_1_alone(
    version: int, work: Work, reads: int
) -> None:
    """Layout 2 names a clustering as such, so a torn plan leaves no doubt there."""
    world = World(version)
    time = InstantTime("20240101000000000")
    asked = Instant(time, Action.REPLACECOMMIT, State.REQUESTED)
    put_instant(world, asked, b"torn")
    watched = FaultyStorage(world.memory)
    table = world.table(watched)
    timeline, before = table.timeline(), len(watched.calls)
    assert work_of(table, timeline, asked) is work
    assert len(watched.calls) - before == reads
