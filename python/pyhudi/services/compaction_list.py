"""The compactions and log compactions of a table's timeline, and who runs the pending ones."""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.listing import Listing
from pyhudi.services.compaction_run import runner_of
from pyhudi.timeline.active import COMMITS
from pyhudi.timeline.pending import planned_compactions
from pyhudi.transactions.writer import Writer

KINDS = (Action.COMPACTION, Action.LOGCOMPACTION)


@dataclass(frozen=True, slots=True)
class ShownCompaction:
    """A compaction: its instant, how many slices it has, its state, and who runs a pending one.

    ``action`` tells a compaction from a log compaction. It stands last: the columns before it are
    those that callers know.
    """

    timestamp: InstantTime
    operation_size: int
    state: State
    runner: str | None
    action: Action


def shown_compactions(writer: Writer) -> Listing[ShownCompaction]:
    """The compactions and log compactions of the active timeline, newest first."""
    table = writer.table
    now = table.timeline()
    found = [
        ShownCompaction(
            i.time, len(plan.operations), i.state, runner_of(writer, now, i).value, i.action
        )
        for i, plan in planned_compactions(table, now, KINDS)
    ]
    for commit in now.commits:
        metadata = COMMITS.get(table.storage, now, commit)
        action = _kind(commit, metadata)
        if action is not None:
            size = len(metadata.stats)
            found.append(ShownCompaction(commit.time, size, State.COMPLETED, None, action))
    return Listing(ShownCompaction, sorted(found, key=lambda one: one.timestamp, reverse=True))


def _kind(commit: Instant, metadata: CommitMetadata) -> Action | None:
    """The action of which a completed commit is the end; None if it is that of a write."""
    if commit.action is Action.COMMIT and metadata.compacted:
        return Action.COMPACTION
    merged = commit.action is Action.DELTACOMMIT and metadata.log_compacted
    return Action.LOGCOMPACTION if merged else None
