"""When an inline compaction is due, by the commits of a timeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest

from pyhudi.config import resolve_write
from pyhudi.errors import UnsupportedTable
from pyhudi.format.commit_metadata import CommitMetadata, render_commit
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.listing import Listing
from pyhudi.services import inline
from pyhudi.services.compaction import CompactedSlice, Compaction, SlicesHere
from pyhudi.services.inline import compact_inline
from tests.transactions.world import World, put_instant

DELTA, REPLACE, COMPACTED = Action.DELTACOMMIT, Action.REPLACECOMMIT, Action.COMMIT


@dataclass
class Calls:
    """Stands for the compaction itself."""

    number: int = 0
    fails: bool = False

    def __call__(self, run: Compaction) -> Listing[CompactedSlice]:
        self.number += 1
        if self.fails:
            raise UnsupportedTable("no", feature="x")
        return Listing(CompactedSlice)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    found = Calls()
    monkeypatch.setattr(inline, "compacted", found)
    return found


def run_after(*actions: Action) -> None:
    """An inline compaction that is due after three delta commits, after these commits."""
    world = World(9, {"hoodie.table.type": "MERGE_ON_READ"})
    for number, action in enumerate(actions):
        time = InstantTime(f"202401{number + 1:02}000000000")
        replaced: Any = {} if action is REPLACE else None
        data = render_commit(CommitMetadata("UPSERT", replaced=replaced), 2)
        put_instant(world, Instant(time, action, State.COMPLETED, time), data)
    options = resolve_write({"hoodie.compact.inline.max.delta.commits": "3"})
    compact_inline(Compaction(world.writer(), options, cast(Any, None), SlicesHere()))


@pytest.mark.parametrize(
    ("actions", "due"),
    [
        ((DELTA, DELTA), False),
        ((DELTA, DELTA, DELTA), True),
        ((DELTA, DELTA, REPLACE, DELTA), True),
        ((DELTA, DELTA, COMPACTED, DELTA), False),
        ((COMPACTED, DELTA, REPLACE, DELTA, DELTA), True),
        ((REPLACE, REPLACE, REPLACE), False),
    ],
)
def test_delta_commits_since_the_last_compaction_count(
    calls: Calls, actions: tuple[Action, ...], due: bool
) -> None:
    run_after(*actions)
    assert calls.number == due


def test_a_table_that_cannot_be_compacted_is_passed_over(calls: Calls) -> None:
    calls.fails = True
    run_after(DELTA, DELTA, DELTA)
    assert calls.number == 1
