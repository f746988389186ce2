"""Which instants an archiver takes off the active timeline, and why: a function of values.

The rules are spec/archive.md A3. What goes is always a beginning of the commits, since readers take
a data file older than the first active commit for an archived one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyhudi.format.instants import Action, Instant, InstantTime
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.completion_order import completion_time
from pyhudi.timeline.states import COMMIT_ACTIONS

#: actions that are archived; others stay, as in Hudi
ARCHIVED = COMMIT_ACTIONS | {Action.CLEAN, Action.ROLLBACK}
#: Hudi's default of ``hoodie.compact.inline.max.delta.commits``
DELTA_COMMITS = 5
#: pending actions that undo completed commits
UNDOING = frozenset({Action.ROLLBACK, Action.RESTORE})


@dataclass(frozen=True, slots=True)
class ArchivePolicy:
    """With more than ``most`` completed commits, all but the newest ``least`` are archived."""

    least: int = 20
    most: int = 30


@dataclass(frozen=True, slots=True)
class ArchiveFacts:
    """The table that an archive is planned for.

    ``retained`` is the earliest commit that a clean would keep readable, ``cleaned_to`` the one
    that the last clean kept, ``uncleaned`` the first replace commit of which replaced files are
    left, ``leased`` the first commit without which a running query could not be answered,
    ``compacted`` the one from which delta commits are counted for the next compaction,
    ``disowned`` the first compaction of which a plan or a savepoint keeps a file that its commit
    does not name; None if there is none. ``utc``: the table's times are in UTC, not in the zone of
    this machine.
    """

    timeline: Timeline
    retained: InstantTime | None = None
    cleaned_to: InstantTime | None = None
    uncleaned: InstantTime | None = None
    leased: InstantTime | None = None
    compacted: InstantTime | None = None
    utc: bool = True
    disowned: InstantTime | None = None

    def ended(self, commit: Instant) -> InstantTime:
        """When a commit completed."""
        return completion_time(self.timeline, commit, self.utc)


@dataclass(frozen=True, slots=True)
class OldInstant:
    """A completed instant; ``goes`` if it is to be archived.

    ``later``: it would go, but not with this archive, which has a bound.
    """

    instant: Instant
    goes: bool
    why: str
    later: bool = False


@dataclass(frozen=True, slots=True)
class ArchivePlan:
    """All completed instants of a timeline, ascending."""

    old: tuple[OldInstant, ...]

    @property
    def doomed(self) -> tuple[Instant, ...]:
        """The instants that go, ascending by requested time."""
        return tuple(each.instant for each in self.old if each.goes)

    def cut(self, most: int) -> ArchivePlan:
        """The plan with only the first ``most`` of the instants that go; the others stay so far."""
        doomed = self.doomed
        if len(doomed) <= most:
            return self
        end = doomed[most].time
        why = f"for the next archive: this one moves {most} of {len(doomed)} instants"
        late = {each.instant for each in self.old if each.goes and each.instant.time >= end}
        old = (
            replace(each, goes=False, why=why, later=True) if each.instant in late else each
            for each in self.old
        )
        return ArchivePlan(tuple(old))


def counted_from(timeline: Timeline, utc: bool, least: int = DELTA_COMMITS) -> InstantTime | None:
    """The commit from which a merge-on-read table's delta commits are counted (archive.md A3).

    It is the last compaction; or the first of the last ``least`` delta commits, if there are so
    many after it. Without a compaction the delta commits of the whole timeline count.
    """
    compactions = [i for i in timeline.commits if i.action is Action.COMMIT]
    deltas = [i for i in timeline.commits if i.action is Action.DELTACOMMIT]
    if compactions:
        last = compactions[-1].time
        deltas = [i for i in deltas if max(i.time, completion_time(timeline, i, utc)) > last]
        if len(deltas) < least:
            return last
    return deltas[max(0, len(deltas) - least)].time if deltas else None


def plan_archive(facts: ArchiveFacts, policy: ArchivePolicy) -> ArchivePlan:
    """The plan of one archive."""
    timeline, commits = facts.timeline, facts.timeline.commits
    since = facts.retained
    asked = policy.least
    policy = _adapted(policy, sum(since is not None and c.time >= since for c in commits))
    excess = len(commits) - policy.least
    last, stop = None, f"it is one of the newest {policy.least} commits"
    if policy.least > asked:
        stop += f", and cleans keep those from {since} on readable"
    if len(commits) <= policy.most:
        stop = f"the timeline has {len(commits)} commits, and {policy.most} may stay"
    else:
        ends = sorted((facts.ended(commit), commit.time) for commit in commits)
        for commit in commits[:excess]:
            found = _stop(facts, commit)
            if found is None and (facts.ended(commit), commit.time) >= ends[excess]:
                found = f"commit {commit.time} is one of the last {policy.least} that completed"
            if found is not None:
                stop = found
                break
            last = commit.time
    goes = f"older than the newest {policy.least} commits"
    return ArchivePlan(tuple(_judged(i, last, goes, stop) for i in timeline.completed))


def _adapted(policy: ArchivePolicy, retained: int) -> ArchivePolicy:
    """The policy that also leaves the commits that cleans keep readable, and the one before."""
    least = max(policy.least, retained + 1) if retained else policy.least
    return ArchivePolicy(least, max(policy.most + least - policy.least, least))


def _judged(instant: Instant, last: InstantTime | None, goes: str, stop: str) -> OldInstant:
    if last is None or instant.time > last:
        return OldInstant(instant, False, stop)
    if instant.action in ARCHIVED:
        return OldInstant(instant, True, goes)
    return OldInstant(instant, False, f"a {instant.action.value} is never archived")


def _stop(facts: ArchiveFacts, commit: Instant) -> str | None:
    """What keeps a commit, and all after it, on the timeline; None if nothing does."""
    timeline, time = facts.timeline, commit.time
    undoing = next((i for i in timeline.pending if i.action in UNDOING), None)
    if undoing is not None:
        return f"{undoing.action.value} {undoing.time} is pending"
    saved = min((i.time for i in timeline.instants if i.action is Action.SAVEPOINT), default=None)
    if saved is not None and time >= saved:
        return f"savepoint {saved} keeps the instants from it on"
    pending = timeline.pending[0] if timeline.pending else None
    if pending is not None:
        before = max((c.time for c in timeline.commits if c.time < pending.time), default=time)
        if time >= before or facts.ended(commit) > pending.time:
            return f"{pending.action.value} {pending.time} is pending"
    if facts.cleaned_to is not None and time >= facts.cleaned_to:
        return f"the last clean keeps the commits from {facts.cleaned_to} on readable"
    if facts.leased is not None and time >= facts.leased:
        return f"a running query reads the table with {facts.leased} on the timeline"
    if facts.compacted is not None and time >= facts.compacted:
        return f"delta commits are counted from {facts.compacted} on for the next compaction"
    if facts.uncleaned is not None and time >= facts.uncleaned:
        return f"files that {facts.uncleaned} replaced are not cleaned yet"
    if facts.disowned is not None and time >= facts.disowned:
        return f"a plan or a savepoint keeps a file that {facts.disowned} does not name"
    return None
