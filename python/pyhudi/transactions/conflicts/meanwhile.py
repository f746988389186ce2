"""What happened to a table between two loads of its timeline: commits that came or were undone.

Invariant: a commit that completed in between is found, even if the archiver has taken it off the
active timeline since. The archive is read only if something has left the timeline, and then only
its files that were written since the first load.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from pyhudi.errors import CommitConflict, TableCorrupt
from pyhudi.format.archive import ArchivedInstant
from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.instants import Instant, InstantTime
from pyhudi.timeline.active import COMMITS, InstantKey, Timeline, instant_key
from pyhudi.timeline.archived import archived_since
from pyhudi.timeline.states import COMMIT_ACTIONS
from pyhudi.timeline.table import Table

RETRY = "Nothing of this write is visible. Run it again: it then starts from the new state."


@dataclass(frozen=True)
class Meanwhile:
    """The time from the load ``loaded`` to the later load ``now``."""

    table: Table
    loaded: Timeline
    now: Timeline

    def commits(self) -> Iterator[tuple[Instant, CommitMetadata]]:
        """Commits that completed in between, with any instant times; the archived ones last."""
        for instant in self.now.since(self.loaded):
            if instant.action in COMMIT_ACTIONS:
                with conflict_if_gone():
                    metadata = COMMITS.get(self.table.storage, self.now, instant)
                yield instant, metadata
        known = self.loaded.keys()
        pending = {instant_key(i) for i in self.loaded.pending}
        first = self.loaded.first_time
        for entry in self._archived:
            key = instant_key(entry.instant)
            if key in known or entry.instant.action not in COMMIT_ACTIONS:
                continue
            # Instants older than the first one of the load were archived before it.
            if key in pending or first is None or entry.instant.time > first:
                yield entry.instant, entry.commit()

    def undone(self) -> list[InstantTime]:
        """Commits of the first load that are neither completed nor archived any more."""
        gone = self.loaded.keys() - self.now.keys()
        archived = {instant_key(entry.instant) for entry in self._archived}
        return sorted(t for t, a in gone - archived if a in COMMIT_ACTIONS)

    @cached_property
    def _archived(self) -> list[ArchivedInstant]:
        """What the archiver has taken in between, and perhaps a little from before.

        ``CommitConflict`` if the archive cannot be read: a later load does not need it.
        """
        loaded, now = self.loaded, self.now
        if not _carriers(loaded) - _carriers(now) and loaded.first_time == now.first_time:
            return []
        since_ms = max(loaded.modified_ms.values(), default=0)
        least = min((time for time, _ in _carriers(loaded)), default=InstantTime(""))
        try:
            return archived_since(self.table.storage, self.table.config, since_ms, least)
        except TableCorrupt as e:
            raise _left(e) from e


@contextmanager
def conflict_if_gone() -> Iterator[None]:
    """``CommitConflict`` if the body asks for a commit that was archived since its load."""
    try:
        yield
    except TableCorrupt as e:
        if isinstance(e.__cause__, FileNotFoundError):
            raise _left(e) from e
        raise


def _left(cause: TableCorrupt) -> CommitConflict:
    return CommitConflict(
        "A commit has left the timeline while this write ran, and it cannot be told any more what "
        f"it was: {cause} {RETRY}",
        path=cause.path,
    )


def _carriers(timeline: Timeline) -> frozenset[InstantKey]:
    """Identities of the instants that carry data files, completed or not."""
    return frozenset(instant_key(i) for i in timeline.instants if i.action in COMMIT_ACTIONS)
