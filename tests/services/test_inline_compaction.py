"""When an inline compaction is due, by the commits of a timeline."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from pyhudi.config import resolve_write
from pyhudi.errors import UnsupportedTable
from pyhudi.format.commit_metadata import CommitMetadata, render_commit
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.listing import Listing
from pyhudi.services import inline
from pyhudi.services.compaction import (
    CompactedSlice,
    Compaction,
    CompactionFate,
    CompactionStep,
    SlicesHere,
)
from pyhudi.services.compaction_plan import Spared
from pyhudi.services.compaction_schedule import rules_of
from pyhudi.services.inline import compact_inline
from tests.transactions.world import World, put_instant

DELTA, REPLACE, COMPACTED = Action.DELTACOMMIT, Action.REPLACECOMMIT, Action.COMMIT


@dataclass
class Calls:
    """Stands for the compaction itself."""

    steps: list[CompactionStep] = field(default_factory=list)
    spared: Spared | None = None
    fails: bool = False
    found: tuple[CompactedSlice, ...] = ()

    @property
    def number(self) -> int:
        return len(self.steps)

    def __call__(self, run: Compaction, step: CompactionStep) -> Listing[CompactedSlice]:
        self.steps.append(step)
        self.spared = rules_of(run.options, spared=run.spared).spared
        if self.fails:
            raise UnsupportedTable("no", feature="x")
        return Listing(CompactedSlice, self.found)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    found = Calls()
    monkeypatch.setattr(inline, "compacted", found)
    return found


def run_after(*actions: Action, merged: int | None = None, **more: str) -> None:
    """An inline compaction that is due after three delta commits, after these commits.

    The commit ``merged`` is a log compaction's; ``more`` are options below ``hoodie``.
    """
    world = World(9, {"hoodie.table.type": "MERGE_ON_READ"})
    for number, action in enumerate(actions):
        time = InstantTime(f"202401{number + 1:02}000000000")
        replaced: Any = {} if action is REPLACE else None
        operation = "LOG_COMPACT" if number == merged else "UPSERT"
        data = render_commit(CommitMetadata(operation, replaced=replaced), 2)
        put_instant(world, Instant(time, action, State.COMPLETED, time), data)
    named = {f"hoodie.{key.replace('_', '.')}": text for key, text in more.items()}
    options = resolve_write({"hoodie.compact.inline.max.delta.commits": "3", **named})
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


def test_slices_are_spared_unless_a_strategy_or_a_threshold_is_set(calls: Calls) -> None:
    run_after(DELTA, DELTA, DELTA)
    assert calls.spared is not None
    assert calls.spared.most_logs == 12, "four times the commits after which one is due"
    assert calls.spared.since == "20231114220320000", "ten minutes before now"
    run_after(DELTA, DELTA, DELTA, compaction_strategy="LogFileSizeBasedCompactionStrategy")
    assert calls.spared is None
    run_after(DELTA, DELTA, DELTA, compaction_logfile_num_threshold="2")
    assert calls.spared is None


def test_a_table_that_cannot_be_compacted_is_passed_over(calls: Calls) -> None:
    calls.fails = True
    run_after(DELTA, DELTA, DELTA)
    assert calls.number == 1


@pytest.mark.parametrize(
    ("actions", "merged", "due"),
    [
        ((DELTA, DELTA), None, False),
        ((DELTA, DELTA, DELTA), None, True),
        ((DELTA, COMPACTED, DELTA, DELTA), None, False),
        ((DELTA, DELTA, DELTA, DELTA, DELTA), 1, True),
        ((DELTA, DELTA, DELTA, DELTA, DELTA), 2, False),
    ],
)
def test_delta_commits_since_the_last_log_compaction_count(
    calls: Calls, actions: tuple[Action, ...], merged: int | None, due: bool
) -> None:
    asked = {"log_compaction_inline": "true", "log_compaction_blocks_threshold": "3"}
    run_after(*actions, merged=merged, compact_inline="false", **asked)
    assert calls.steps == [CompactionStep.SCHEDULE_AND_RUN_LOGS] * due


def test_logs_are_not_merged_after_a_compaction_that_took_them(calls: Calls) -> None:
    asked = {"log_compaction_inline": "true", "log_compaction_blocks_threshold": "3"}
    run_after(DELTA, DELTA, DELTA, **asked)
    both = [CompactionStep.SCHEDULE_AND_RUN, CompactionStep.SCHEDULE_AND_RUN_LOGS]
    assert calls.steps == both
    calls.steps.clear()
    calls.found = (CompactedSlice("", "f", None, 1, 1, CompactionFate.COMPACTED, ""),)
    run_after(DELTA, DELTA, DELTA, **asked)
    assert calls.steps == both[:1]
