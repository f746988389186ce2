"""What a restore undoes, and why: a function of values (spec/timeline.md T10, T12).

Invariant: no storage, no clock and no lock. What is needed of them is in ``RestoreFacts``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from pyhudi.errors import ConfigError
from pyhudi.format.instants import Action, Instant, InstantTime, State, padded_time
from pyhudi.format.plans import InstantInfo, RestorePlan
from pyhudi.storage.base import StoredFile
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.completion_order import completion_time
from pyhudi.timeline.states import COMMIT_ACTIONS


@dataclass(frozen=True, slots=True)
class RestoreFacts:
    """A timeline, its pending ``plans``, and the data files of each instant.

    The plans are those of clusterings, compactions and log compactions. ``replaced`` is the number
    of file groups that each commit replaced; ``utc``: the zone of times.
    """

    timeline: Timeline
    utc: bool = True
    plans: Collection[InstantTime] = frozenset()
    files: Mapping[InstantTime, tuple[StoredFile, ...]] = field(default_factory=dict)
    replaced: Mapping[InstantTime, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UndoneInstant:
    """One instant that goes, with its data files, and why it and they go."""

    instant: Instant
    why: str
    files: tuple[StoredFile, ...] = ()
    replaced: int = 0


def instants_after(facts: RestoreFacts, goal: Instant) -> list[Instant]:
    """The instants that a restore to the commit ``goal`` undoes, in the order of undoing.

    Plans for services first, then commits, the newest first. Layout 2 compares completion times,
    layout 1 has none and compares requested times, as Apache Hudi does.
    """
    timeline, utc = facts.timeline, facts.utc
    plans = [i for i in timeline.pending if i.time in facts.plans and _is_later(i.time, goal.time)]
    if timeline.layout == 1:
        key = {i: padded_time(i.time) for i in timeline.commits}
    else:
        key = {i: completion_time(timeline, i, utc) for i in timeline.commits}
    later = [i for i in timeline.commits if key[i] > key[goal]]
    return [*reversed(plans), *sorted(later, key=lambda i: (key[i], i.time), reverse=True)]


def plan_restore(facts: RestoreFacts, goal: Instant) -> list[UndoneInstant]:
    """What a restore to the completed commit ``goal`` undoes, in the order of undoing.

    ``ConfigError`` if a commit that would go has a savepoint.
    """
    found = instants_after(facts, goal)
    saved = {i.time for i in facts.timeline.completed if i.action is Action.SAVEPOINT}
    if kept := sorted(saved & {i.time for i in found}):
        raise ConfigError(
            f"The table cannot be restored to {goal.time}: that would undo "
            f"{', '.join(kept)}, which savepoints keep. Delete these savepoints first "
            "(pyhudi.delete_savepoint), or choose a later commit.",
            key="instant",
        )
    return [
        UndoneInstant(
            instant,
            _why(instant, goal.time),
            facts.files.get(instant.time, ()),
            facts.replaced.get(instant.time, 0),
        )
        for instant in found
    ]


def rendered_plan(undone: list[UndoneInstant], goal: InstantTime) -> RestorePlan:
    """The plan as ``T.restore.requested`` has it (spec/timeline.md T9)."""
    infos = (InstantInfo(each.instant.time, each.instant.action.value) for each in undone)
    return RestorePlan(tuple(infos), goal)


def pending_writes(facts: RestoreFacts) -> list[Instant]:
    """Pending instants of writers; planned services are none."""
    return [
        i
        for i in facts.timeline.pending
        if i.action in COMMIT_ACTIONS and i.time not in facts.plans
    ]


def _is_later(time: InstantTime, goal: InstantTime) -> bool:
    return padded_time(time) > padded_time(goal)


def _why(instant: Instant, goal: InstantTime) -> str:
    kind = instant.action.value
    if instant.state is State.COMPLETED:
        return f"{kind} {instant.time} completed after {goal}"
    return f"{kind} {instant.time} was planned after {goal}"
