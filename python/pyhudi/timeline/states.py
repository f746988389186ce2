"""The protocol of instants as one table.

Every action walks through its states in the order below, one file per state; a state without a
file of its own is absent from the row. The writer's phases are in ``transactions/phases.py``.
Source of the rules: spec/timeline.md T1, T2.
"""

from __future__ import annotations

from pyhudi.errors import TableCorrupt
from pyhudi.format.instants import Action, Instant, State

REQUESTED, INFLIGHT, COMPLETED = State.REQUESTED, State.INFLIGHT, State.COMPLETED

#: action -> the states it passes, in order
LEGAL_STATES: dict[Action, tuple[State, ...]] = {
    Action.COMMIT: (REQUESTED, INFLIGHT, COMPLETED),
    Action.DELTACOMMIT: (REQUESTED, INFLIGHT, COMPLETED),
    Action.REPLACECOMMIT: (REQUESTED, INFLIGHT, COMPLETED),
    Action.CLUSTERING: (REQUESTED, INFLIGHT, COMPLETED),
    Action.COMPACTION: (REQUESTED, INFLIGHT, COMPLETED),
    Action.LOGCOMPACTION: (REQUESTED, INFLIGHT, COMPLETED),
    Action.CLEAN: (REQUESTED, INFLIGHT, COMPLETED),
    Action.ROLLBACK: (REQUESTED, INFLIGHT, COMPLETED),
    Action.RESTORE: (REQUESTED, INFLIGHT, COMPLETED),
    Action.INDEXING: (REQUESTED, INFLIGHT, COMPLETED),
    Action.SCHEMACOMMIT: (REQUESTED, INFLIGHT, COMPLETED),
    Action.SAVEPOINT: (INFLIGHT, COMPLETED),
}

#: actions whose completed instant carries data files
COMMIT_ACTIONS = frozenset(
    {
        Action.COMMIT,
        Action.DELTACOMMIT,
        Action.REPLACECOMMIT,
        Action.CLUSTERING,
        Action.COMPACTION,
        Action.LOGCOMPACTION,
    }
)

#: pending action -> the action under which it completes, where the two differ
COMPLETES_AS: dict[Action, Action] = {
    Action.COMPACTION: Action.COMMIT,
    Action.LOGCOMPACTION: Action.DELTACOMMIT,
    Action.CLUSTERING: Action.REPLACECOMMIT,
}


def completed_action(action: Action) -> Action:
    """The action that the completed file of ``action`` is named by."""
    return COMPLETES_AS.get(action, action)


def next_state(action: Action, state: State) -> State:
    """The state that follows ``state``; ``TableCorrupt`` where the action ends or has no such."""
    row = LEGAL_STATES[action]
    if state not in row[:-1]:
        raise TableCorrupt(
            f"A {action.value} in state {state.value} cannot move on.",
            path=action.value,
            rule="spec/timeline.md T1",
        )
    return row[row.index(state) + 1]


def most_advanced(instants: list[Instant]) -> Instant:
    """Of the files of one instant, the one whose state is furthest along."""
    order = {REQUESTED: 0, INFLIGHT: 1, COMPLETED: 2}
    return max(instants, key=lambda instant: order[instant.state])
