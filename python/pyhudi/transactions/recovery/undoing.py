"""Pending restores and rollbacks of completed commits: no write continues beside them.

Restores are pyhudi's or Apache Hudi's, rollbacks of completed commits without one Apache Hudi's
(spec/timeline.md T10). A file that was merged from an undone commit would
bring its rows back. And a commit on top of it would keep the rollback from ever completing: Apache
Hudi rolls back only the last commit. Apache Hudi, too, refuses writes while a restore is pending.
"""

from __future__ import annotations

import logging
from typing import Final

from pyhudi.errors import CommitConflict
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.plans import parse_restore_plan
from pyhudi.timeline.active import InstantKey, Timeline
from pyhudi.timeline.pending import plan_of
from pyhudi.timeline.states import COMMIT_ACTIONS
from pyhudi.timeline.table import Table
from pyhudi.transactions.recovery.rollback import pending_rollbacks, read_plan

log = logging.getLogger(__name__)

_AGAIN: Final = (
    "Nothing of this write is visible. Run it again once that has completed. If the program that "
    "ran it is dead,"
)


def grounds(now: Timeline) -> tuple[frozenset[InstantKey], frozenset[InstantKey]]:
    """What a judgement needs: what has completed, and what is about to undo a part of it."""
    undoing = (i for i in now.pending if i.action in (Action.RESTORE, Action.ROLLBACK))
    return now.keys(), frozenset((i.time, i.action) for i in undoing)


def pending_restore(table: Table, now: Timeline) -> Instant | None:
    """The restore that is under way.

    One that was only requested, and whose plan cannot be read, has undone nothing and never will.
    """
    for restore in now.pending:
        if restore.action is not Action.RESTORE:
            continue
        if restore.state is State.INFLIGHT:
            return restore
        if plan_of(table, now, restore, parse_restore_plan) is not None:
            return restore
    return None


def check_undoing(table: Table, now: Timeline, who: str, instant: InstantTime | None) -> None:
    """``CommitConflict`` if a completed commit of ``now`` is about to be undone.

    ``instant`` is the write's own, if it has one: a later rollback whose plan cannot be read may
    undo it.
    """
    restore = pending_restore(table, now)
    if restore is not None:
        raise CommitConflict(
            f"{who} and restore {restore.time} conflict: the table is being set back to an "
            f"earlier commit, and the restore is pending. {_AGAIN} run the restore again "
            "(pyhudi.restore, or Apache Hudi's rollback_to_savepoint).",
            ours=instant,
            theirs=restore.time,
            overlap=("table",),
        )
    for rollback in pending_rollbacks(now):
        plan = read_plan(table, now, rollback)
        target = plan.instant_to_rollback if plan is not None else None
        if target is None:
            if instant is not None and rollback.time > instant:
                raise _conflict(who, instant, rollback, "a commit that its plan does not tell")
        elif _is_commit(now, target.commit_time):
            raise _conflict(who, instant, rollback, f"commit {target.commit_time}")


def _is_commit(now: Timeline, time: InstantTime) -> bool:
    return any(i.state is State.COMPLETED and i.action in COMMIT_ACTIONS for i in now.at(time))


def _conflict(
    who: str, instant: InstantTime | None, rollback: Instant, target: str
) -> CommitConflict:
    return CommitConflict(
        f"{who} is built on {target}, but rollback {rollback.time} of it is pending. {_AGAIN} "
        "let Apache Hudi finish the rollback: its next write does.",
        ours=instant,
        theirs=rollback.time,
        overlap=(target,),
    )
