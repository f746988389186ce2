"""Which old versions of files a clean deletes, and why: a function of values.

The rules of retention are Apache Hudi's (spec/cleaning.md CL1 to CL4). More is kept: whatever the
policy, the versions stay that a pending write or a pending plan may read. A version is a file
slice: it goes or stays with its base file and all its logs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from pyhudi.choices import CleanPolicy
from pyhudi.clock import HOUR_MS
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import Action, Instant, InstantTime, format_time
from pyhudi.services.budget import Budget
from pyhudi.services.partition_choice import is_chosen
from pyhudi.slices.files import FileSlice
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.states import COMMIT_ACTIONS
from pyhudi.timeline.view import Groups

#: (partition path, file id)
Group = tuple[str, FileId]


@dataclass(frozen=True, slots=True)
class Hold:
    """What keeps a file, whatever its age: the instant ``by``, and the reason.

    A ``leased`` file is one that a query reads at ``by``.
    """

    by: InstantTime
    why: str
    leased: bool = False


#: (partition path, file name) -> what keeps the file
Held = Mapping[tuple[str, str], Hold]

_NEVER = InstantTime("9" * 20)
RECENT = "a query may have begun to read it before it became old, a moment ago"


@dataclass(frozen=True, slots=True)
class Retention:
    """What a clean keeps: by the last ``commits``, ``hours``, or ``versions`` of each group.

    Only partitions among ``partitions``, or else those that ``regex`` matches as a whole, are
    cleaned; all if both are None. ``spared_ms`` is how long a file stays after it became old.
    """

    policy: CleanPolicy = CleanPolicy.COMMITS
    commits: int = 10
    hours: int = 24
    versions: int = 3
    partitions: frozenset[str] | None = None
    regex: re.Pattern[str] | None = None
    spared_ms: int = 0

    @property
    def chosen(self) -> Callable[[str], bool]:
        """Whether a partition path is to be cleaned."""
        return is_chosen(self.partitions, self.regex)

    def since(self, now_ms: int, utc: bool) -> InstantTime:
        """The time of ``hours`` ago, in the table's zone."""
        return format_time(now_ms - self.hours * HOUR_MS, utc)


@dataclass(frozen=True, slots=True)
class CleanFacts:
    """The table that a clean is planned for: one timeline, and the versions of groups under it.

    ``groups`` have all logs (``timeline/versions.py``). ``replaced`` has the instant that replaced
    a group; ``held`` the files that savepoints, pending plans and queries keep; ``recent`` the
    commits of the last moments, within which a file stays. By commits and by hours the states from
    ``left`` on stay readable, None for no such wish.
    """

    timeline: Timeline
    groups: Groups
    replaced: Mapping[Group, InstantTime]
    held: Held
    recent: Collection[InstantTime] = ()
    left: InstantTime | None = None


@dataclass(frozen=True, slots=True)
class OldVersion:
    """A file that the newest snapshot does not read; ``goes`` if the clean deletes it.

    ``later``: it would go, but not with this clean, which has a bound. ``beside``: it is of the
    same version as the file before it, and goes with that. ``gone`` is the instant that replaced
    its group, None also if a savepoint keeps the file: then the archive stops there anyway.
    """

    partition_path: str
    name: str
    size_bytes: int
    goes: bool
    why: str
    later: bool = False
    beside: bool = False
    gone: InstantTime | None = None


@dataclass(frozen=True, slots=True)
class CleanPlan:
    """All old files of the groups that were looked at.

    ``earliest`` is the earliest commit that stays readable, None by versions; ``last`` the newest
    commit, ``""`` if there is none; ``savepoints`` are those that were heeded. ``old`` is by
    partition, group and instant. After a ``whole`` plan the next one may look at fewer groups: no
    partition was left out, and no file was kept but for retention and savepoints. ``frees`` is how
    many commits need not be readable any more that the last clean kept so. ``unchosen`` is the
    first replace commit of which files are in a partition that was left out.
    """

    policy: CleanPolicy
    earliest: Instant | None
    last: str
    savepoints: tuple[InstantTime, ...]
    old: tuple[OldVersion, ...]
    whole: bool
    frees: int = 0
    unchosen: InstantTime | None = None

    @property
    def left(self) -> InstantTime | None:
        """The first replace commit of which files stay, in partitions that were left out, too.

        Apache Hudi archives what was replaced before ``earliest``, or by versions before the clean:
        then the rows of these files would be there again.
        """
        stay = [f.gone for f in self.old if f.gone is not None and not f.goes]
        return min((*stay, *([] if self.unchosen is None else [self.unchosen])), default=None)

    @property
    def names_too_late(self) -> bool:
        """Whether ``earliest`` is later than what is ``left``."""
        left, earliest = self.left, self.earliest
        return left is not None and (earliest is None or left < earliest.time)

    @property
    def doomed(self) -> dict[str, list[str]]:
        """Partition path -> names of the files that go."""
        found: dict[str, list[str]] = {}
        for file in self.old:
            if file.goes:
                found.setdefault(file.partition_path, []).append(file.name)
        return found

    def cut(self, budget: Budget) -> CleanPlan:
        """The plan with only the first files that ``budget`` lets go; the others stay for later.

        No version is left in part. Replaced groups go first, in the order of their replacing; of
        those that stay the first is ``earliest``.
        """
        goes = sorted((f for f in self.old if f.goes), key=lambda file: file.gone or _NEVER)
        most = budget.first_of([file.size_bytes for file in goes])
        while most < len(goes) and goes[most].beside:
            most += 1
        if len(goes) <= most:
            return self
        later = set(map(id, goes[most:]))
        why = f"for the next clean: this one deletes {most} of {len(goes)} files"
        old = (
            replace(file, goes=False, why=why, later=True) if id(file) in later else file
            for file in self.old
        )
        return replace(self, old=tuple(old), whole=False)


def earliest_retained(
    timeline: Timeline, retention: Retention, since: InstantTime
) -> Instant | None:
    """The earliest commit that stays readable, None if nothing may go yet, or by versions.

    By hours it is the first commit at or after ``since``. It is never later than the last commit
    before the first pending one, whose writer may read the files below.
    """
    commits = timeline.commits
    found: Instant | None = None
    if retention.policy is CleanPolicy.COMMITS and len(commits) > retention.commits:
        found = commits[-retention.commits]
    elif retention.policy is CleanPolicy.HOURS:
        found = next((i for i in commits if i.time >= since), None)
    pending = _first_pending(timeline)
    if found is None or pending is None or found.time <= pending:
        return found
    return next((i for i in reversed(commits) if i.time < pending), None)


def earliest_kept(
    timeline: Timeline,
    retention: Retention,
    since: InstantTime,
    recent: Collection[InstantTime] = (),
    left: InstantTime | None = None,
) -> Instant | None:
    """``earliest_retained``, but never later than the first of the ``recent`` commits, or than
    ``left``, which counts by versions, too."""
    found = earliest_retained(timeline, retention, since)
    first = next((i for i in timeline.commits if i.time in recent), None)
    if found is not None and first is not None and first.time < found.time:
        found = first
    first = first_from(timeline, left)
    if first is None or (found is None and retention.policy is not CleanPolicy.VERSIONS):
        return found
    return first if found is None or first.time < found.time else found


def first_from(timeline: Timeline, time: InstantTime | None) -> Instant | None:
    """The first active commit at or after ``time``; None for no time."""
    return next((i for i in timeline.commits if time is not None and i.time >= time), None)


def plan_clean(
    facts: CleanFacts,
    retention: Retention,
    since: InstantTime = _NEVER,
    touched: Collection[Group] | None = None,
) -> CleanPlan:
    """The plan of one clean.

    ``since`` is the time of ``retention.hours`` ago. Only the groups ``touched`` are looked at, all
    for None: a group that no commit wrote to or replaced since the last clean's earliest commit has
    no version that is old only now.
    """
    timeline, chosen = facts.timeline, retention.chosen
    earliest = earliest_kept(timeline, retention, since, facts.recent, facts.left)
    by_versions = retention.policy is CleanPolicy.VERSIONS
    asked = earliest_kept(timeline, retention, since, left=facts.left)
    last = timeline.latest_commit
    floor = earliest.time if earliest is not None else None
    if by_versions:
        floor = _first_pending(timeline) or _NEVER
    asked_floor = asked.time if asked is not None and not by_versions else floor
    savepoints = {i.time for i in timeline.completed if i.action is Action.SAVEPOINT}
    whole = retention.partitions is None and retention.regex is None
    old: list[OldVersion] = []
    for group, slices in _looked_at(facts.groups, chosen, touched):
        if floor is None or asked_floor is None:
            break
        gone = facts.replaced.get(group)
        if gone is None and len(slices) == 1:
            continue
        for place, each in enumerate(slices):
            newer = len(slices) - 1 - place
            if gone is None and not newer:
                continue
            keeps = _keeps(slices, place, gone, floor)
            if keeps is not None and floor != asked_floor:
                keeps = _keeps(slices, place, gone, asked_floor) or RECENT
            if keeps is None and by_versions and gone is None and newer < retention.versions:
                keeps = f"one of the last {retention.versions} versions of its file group"
            saved = False
            if keeps is None and (held := _held(each, facts.held)):
                saved = held.by in savepoints and not held.leased
                whole = whole and saved
                keeps = held.why
            if keeps is None and _made_old_by(slices, place, gone) in facts.recent:
                whole = False
                keeps = RECENT
            why = keeps or _goes(slices, place, gone, floor, retention)
            old += _old(each, keeps is None, why, None if saved else gone)
    newest = last.time if last is not None else ""
    unchosen = _left_out(facts, chosen)
    heeded = tuple(sorted(savepoints))
    return CleanPlan(
        retention.policy, earliest, newest, heeded, tuple(old), whole, unchosen=unchosen
    )


def _old(of: FileSlice, goes: bool, why: str, gone: InstantTime | None) -> Iterator[OldVersion]:
    for number, file in enumerate(of.files):
        yield OldVersion(
            file.partition_path, file.name, file.size_bytes, goes, why,
            beside=number > 0, gone=gone,
        )  # fmt: skip


def _left_out(facts: CleanFacts, chosen: Callable[[str], bool]) -> InstantTime | None:
    """The first replace commit of which files are in a partition that is not to be cleaned."""
    found = (
        gone
        for (partition, file_id), gone in facts.replaced.items()
        if not chosen(partition) and facts.groups.get(partition, {}).get(file_id)
    )
    return min(found, default=None)


def _first_pending(timeline: Timeline) -> InstantTime | None:
    return next((i.time for i in timeline.pending if i.action in COMMIT_ACTIONS), None)


def _looked_at(
    groups: Groups, chosen: Callable[[str], bool], touched: Collection[Group] | None
) -> Iterator[tuple[Group, tuple[FileSlice, ...]]]:
    if touched is not None:
        for partition, file_id in sorted(touched):
            slices = groups.get(partition, {}).get(file_id)
            if slices and chosen(partition):
                yield (partition, file_id), slices
        return
    for partition, by_id in groups.items():
        if chosen(partition):
            for file_id, slices in by_id.items():
                yield (partition, file_id), slices


def _held(of: FileSlice, held: Held) -> Hold | None:
    """What keeps one of its files, and so the version; a lease before anything else."""
    holds = [held.get((file.partition_path, file.name)) for file in of.files]
    found = [each for each in holds if each is not None]
    return next((each for each in found if each.leased), found[0] if found else None)


def _keeps(
    slices: tuple[FileSlice, ...], place: int, gone: InstantTime | None, floor: InstantTime
) -> str | None:
    """The reason of retention for which the version at ``place`` stays, None if there is none."""
    if gone is not None:
        return None if gone < floor else f"replaced by {gone}, which is not before {floor}"
    if slices[place].instant >= floor:
        return f"written at or after {floor}, the earliest commit that stays readable"
    if place + 1 == len(slices) or slices[place + 1].instant >= floor:
        return f"the newest version before {floor}, which the snapshots after it read"
    return None


def _made_old_by(
    slices: tuple[FileSlice, ...], place: int, gone: InstantTime | None
) -> InstantTime:
    """The commit by which the version at ``place`` became old: it has a newer one, or is gone."""
    return slices[place + 1].instant if place + 1 < len(slices) else gone or _NEVER


def _goes(
    slices: tuple[FileSlice, ...],
    place: int,
    gone: InstantTime | None,
    floor: InstantTime,
    retention: Retention,
) -> str:
    if gone is not None:
        return f"its file group was replaced by {gone}"
    if retention.policy is CleanPolicy.VERSIONS:
        return f"{len(slices) - 1 - place} newer versions"
    return f"{slices[place + 1].instant} rewrote it before {floor}, the earliest commit kept"
