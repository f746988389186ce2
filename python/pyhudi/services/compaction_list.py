"""The compactions of a table's timeline, and who runs those that are pending."""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi.format.instants import Action, InstantTime, State
from pyhudi.listing import Listing
from pyhudi.services.compaction_run import runner_of
from pyhudi.timeline.active import COMMITS
from pyhudi.timeline.pending import planned_compactions
from pyhudi.transactions.writer import Writer


@dataclass(frozen=True, slots=True)
class ShownCompaction:
    """A compaction: its instant, how many slices it has, its state, and who runs a pending one."""

    timestamp: InstantTime
    operation_size: int
    state: State
    runner: str | None


def shown_compactions(writer: Writer) -> Listing[ShownCompaction]:
    """The compactions of the active timeline, newest first."""
    table = writer.table
    now = table.timeline()
    found = [
        ShownCompaction(i.time, len(plan.operations), i.state, runner_of(writer, now, i).value)
        for i, plan in planned_compactions(table, now)
    ]
    for commit in now.commits:
        if commit.action is Action.COMMIT:
            metadata = COMMITS.get(table.storage, now, commit)
            if metadata.compacted:
                stats = len(metadata.stats)
                found.append(ShownCompaction(commit.time, stats, State.COMPLETED, None))
    return Listing(ShownCompaction, sorted(found, key=lambda one: one.timestamp, reverse=True))
