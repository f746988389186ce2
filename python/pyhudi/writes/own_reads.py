"""Writes whose rows were read from the table that they write.

Invariant: such a write is judged from the state that its rows were read in, and its rows are never
written on top of a later change of the same file groups. So Python does not repeat it: it says how
long to wait (``again_in_ms``), and the shim evaluates the plan on the new state.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from pyhudi.errors import CommitConflict
from pyhudi.format.instants import State
from pyhudi.storage.base import Storage
from pyhudi.timeline.active import Timeline, instant_key


@dataclass(frozen=True, slots=True)
class OwnReads:
    """What a write has read of its table: ``since`` is the state, None if it is not known.

    ``evaluated`` is how often the plan was evaluated before, None if it cannot be once more.
    """

    since: Timeline | None
    evaluated: int | None

    @property
    def state(self) -> Timeline:
        """The state to judge from; ``CommitConflict`` if it is no longer known."""
        if self.since is None:
            raise CommitConflict(
                "The rows were read from the table that they are written to, and the state from "
                "which they were read is no longer known: commits were archived, cleaned or rolled "
                "back since then. Nothing of this write is visible."
            )
        return self.since


def common_state(timelines: Sequence[Timeline]) -> Timeline:
    """What all of ``timelines`` show as completed: the state for rows of several scans.

    The scans of one plan may have been opened one after the other.
    """
    found = timelines[0]
    for other in timelines[1:]:
        shown = other.keys()
        found = found.only(
            i for i in found.instants if i.state is not State.COMPLETED or instant_key(i) in shown
        )
    return found


def place_of(storage: Storage) -> str:
    """The place of a table, the same for each of its paths; symbolic links are followed."""
    return os.path.realpath(storage.root) if storage.root.startswith("/") else storage.root


def given_up(conflict: CommitConflict) -> CommitConflict:
    """The error of a write that is not evaluated again, with what its caller can do."""
    text = str(conflict).removeprefix(f"[{conflict.code()}] ")
    return conflict.restated(
        f"{text} The rows were read from this table before that commit: read the table again, and "
        "compute the rows from its present state. To write rows of a past state on purpose, read "
        "them with as.of.instant."
    )
