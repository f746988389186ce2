"""A log is in the slice that its readers take it for.

In layout 1 that is the slice in its name: the newest one of the group when its commit was
published. In layout 2 it is the newest one that began before its commit completed. A compaction
that begins the next slice has each log of the slice before in its plan, and no other.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyhudi.format.commit_metadata import WriteStat
from pyhudi.format.instants import InstantTime
from tests.simulation.logs import named_log
from tests.simulation.truth import Fact
from tests.simulation.world import Run

Group = tuple[str, str]


def a_log_is_in_its_slice(run: Run) -> Iterator[str]:
    for fact in run.truth.live:
        for stat in fact.metadata.stats:
            if named_log(stat.path) is None:
                yield from _misses(run, fact, stat)
            elif run.scenario.version < 8 and fact.step >= 0:
                yield from _misnamed(run, fact, stat)


def _misnamed(run: Run, fact: Fact, stat: WriteStat) -> Iterator[str]:
    """What is wrong with the slice in the name of a log."""
    log, group = named_log(stat.path), (stat.partition_path, stat.file_id)
    assert log is not None
    begun = _begun(run, group, fact.step)
    newest = max(begun, default=InstantTime(""))
    if log.instant != newest:
        yield f"{stat.path} was committed when the newest slice of its group was {newest}"
    elif begun[newest] and newest in run.truth.dropped:
        yield f"{stat.path} is in a slice that nobody begins any more"


def _begun(run: Run, group: Group, step: int) -> dict[InstantTime, bool]:
    """The slices of a group that had begun before ``step``, and whether by a mere plan."""
    found = {}
    for plan in run.truth.plans:
        gone = run.truth.dropped.get(plan.time, step)
        if plan.step < step <= gone and group in plan.groups:
            found[plan.time] = True
    for fact in run.truth.published.values():
        bases = {
            (s.partition_path, s.file_id) for s in fact.metadata.stats if not named_log(s.path)
        }
        if fact.step < step and group in bases:
            found[fact.time] = False
    return found


def _misses(run: Run, fact: Fact, stat: WriteStat) -> Iterator[str]:
    """Logs that a compaction should have merged and did not, or the other way round."""
    group = stat.partition_path, stat.file_id
    plan = next((plan for plan in run.truth.plans if plan.time == fact.time), None)
    if plan is None or group not in plan.groups:
        return
    before, taken = plan.groups[group]
    for other in run.truth.live:
        for each in other.metadata.stats:
            log = named_log(each.path)
            if log is None or (each.partition_path, each.file_id) != group:
                continue
            by_name = run.scenario.version < 8
            ends = log.instant if by_name else other.completed
            due = ends == before if by_name else before <= ends < fact.time
            if due is not (log.render() in taken):
                wrong = "misses" if due else "has taken"
                yield f"compaction {fact.time} {wrong} {each.path}"
