"""The protocol of instants as one table: which files pyhudi puts, and in which order.

Each action goes through the states of its row, one file per state (spec/timeline.md T1, T2).
``transactions/instants.py`` puts no other files. Actions that only Apache Hudi writes are in
``format/instants.py``; a writer's phases are in ``transactions/phases.py``.
"""

from __future__ import annotations

from pyhudi.format.instants import Action, Instant, State
from pyhudi.format.table_config import TableConfig, TableType

REQUESTED, INFLIGHT, COMPLETED = State.REQUESTED, State.INFLIGHT, State.COMPLETED

#: action -> its states in order, as pyhudi puts them
LEGAL_STATES: dict[Action, tuple[State, ...]] = {
    Action.COMMIT: (REQUESTED, INFLIGHT, COMPLETED),
    Action.DELTACOMMIT: (REQUESTED, INFLIGHT, COMPLETED),
    Action.REPLACECOMMIT: (REQUESTED, INFLIGHT, COMPLETED),
    Action.ROLLBACK: (REQUESTED, INFLIGHT, COMPLETED),
    Action.RESTORE: (REQUESTED, INFLIGHT, COMPLETED),
    Action.CLEAN: (REQUESTED, INFLIGHT, COMPLETED),
    Action.SAVEPOINT: (INFLIGHT, COMPLETED),
    Action.CLUSTERING: (REQUESTED, INFLIGHT, COMPLETED),
    Action.COMPACTION: (REQUESTED, INFLIGHT, COMPLETED),
    Action.LOGCOMPACTION: (REQUESTED, INFLIGHT, COMPLETED),
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

#: pending action -> its action when it completes, if the two differ
COMPLETES_AS: dict[Action, Action] = {
    Action.COMPACTION: Action.COMMIT,
    Action.LOGCOMPACTION: Action.DELTACOMMIT,
    Action.CLUSTERING: Action.REPLACECOMMIT,
}


def adding_action(config: TableConfig) -> Action:
    """The action of a write that replaces no group: in merge-on-read tables a commit is a
    compaction, so writes are delta commits (spec/timeline.md T2)."""
    merges = config.table_type is TableType.MERGE_ON_READ
    return Action.DELTACOMMIT if merges else Action.COMMIT


def completed_action(action: Action) -> Action:
    """The action in the name of ``action``'s completed file."""
    return COMPLETES_AS.get(action, action)


def check_step(was: Instant | None, to: Instant) -> None:
    """``RuntimeError`` unless ``to`` is the step after ``was`` (None: the first step).

    An instant keeps its time and its action.
    """
    row = LEGAL_STATES.get(to.action, ())
    steps = dict(zip((None, *row), row, strict=False))
    same = was is None or (was.time, was.action) == (to.time, to.action)
    if not same or steps.get(was.state if was else None) is not to.state:
        before = f"{was.action.value} {was.time} {was.state.value}" if was else "nothing"
        raise RuntimeError(
            f"{to.action.value} {to.time} {to.state.value} cannot follow {before}: "
            "timeline/states.py has no such step"
        )


def most_advanced(instants: list[Instant]) -> Instant:
    """The file of an instant with the most advanced state."""
    order = {REQUESTED: 0, INFLIGHT: 1, COMPLETED: 2}
    return max(instants, key=lambda instant: order[instant.state])
