"""The protocol of instants as one table: what pyhudi puts, and in which order.

Each action goes through the states of its row, one file per state (spec/timeline.md T1, T2).
``transactions/instants.py`` puts no file that this table does not have. The actions of Apache Hudi
that pyhudi only reads are in ``format/instants.py``; a writer's phases in
``transactions/phases.py``.
"""

from __future__ import annotations

from pyhudi.format.instants import Action, Instant, State

REQUESTED, INFLIGHT, COMPLETED = State.REQUESTED, State.INFLIGHT, State.COMPLETED

#: action -> the states that pyhudi puts it in, in order; services are only planned so far
LEGAL_STATES: dict[Action, tuple[State, ...]] = {
    Action.COMMIT: (REQUESTED, INFLIGHT, COMPLETED),
    Action.REPLACECOMMIT: (REQUESTED, INFLIGHT, COMPLETED),
    Action.ROLLBACK: (REQUESTED, INFLIGHT, COMPLETED),
    Action.CLEAN: (REQUESTED,),
    Action.CLUSTERING: (REQUESTED,),
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


def check_step(was: Instant | None, to: Instant) -> None:
    """``RuntimeError`` unless ``to`` is the next step of ``was``, or where that is None the first.

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
    """Of the files of one instant, the one whose state is furthest along."""
    order = {REQUESTED: 0, INFLIGHT: 1, COMPLETED: 2}
    return max(instants, key=lambda instant: order[instant.state])
