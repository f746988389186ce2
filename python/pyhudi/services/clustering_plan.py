"""Which slices a clustering rewrites together, and why: a function of values.

Invariant: the slices of a group are in one partition, and their files have together at most
``group_bytes``. So each group is one task, and needs no other. A slice is taken with all its logs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyhudi.choices import ClusteringChoice
from pyhudi.format.filenames import FileId
from pyhudi.services.budget import NO_BUDGET, Budget
from pyhudi.services.partition_choice import is_chosen
from pyhudi.slices.files import FileSlice

#: (partition path, file id)
Group = tuple[str, FileId]
#: least and greatest value of one column in a file; None if unknown
Range = tuple[Any, Any] | None


@dataclass(frozen=True, slots=True)
class ClusteringRules:
    """What a clustering looks for; sizes in bytes of files.

    ``choice`` says which slices are candidates: those whose rows take less than ``small_bytes``
    (``merged_bytes``), those whose ranges of the ``sort_columns`` overlap, or all; of the
    ``partitions``, or else those that ``regex`` matches as a whole, of all if both are None. A
    group holds at most ``group_bytes``, logs included, and a run rewrites at most ``most_groups``
    groups; after the files of ``budget`` no further one is taken.
    """

    choice: ClusteringChoice = ClusteringChoice.SMALL_FILES
    sort_columns: tuple[str, ...] = ()
    small_bytes: int = 100 << 20
    target_bytes: int = 120 << 20
    group_bytes: int = 512 << 20
    most_groups: int = 30
    budget: Budget = NO_BUDGET
    partitions: frozenset[str] | None = None
    regex: re.Pattern[str] | None = None

    @property
    def chosen(self) -> Callable[[str], bool]:
        """Whether a partition path is to be clustered."""
        return is_chosen(self.partitions, self.regex)


@dataclass(frozen=True, slots=True)
class ClusteringFacts:
    """The table that a clustering is planned for.

    ``slices`` are the newest slices of the live groups, with the logs that have completed;
    ``busy`` has the groups that cannot be taken, and why; ``ranges`` the values of the sort columns
    in a base file, by its path. Rows of logs may lie outside of them: then a plan misses an
    overlap, and no row.
    """

    slices: tuple[FileSlice, ...]
    busy: Mapping[Group, str] = field(default_factory=dict)
    ranges: Mapping[str, tuple[Range, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProposedSlice:
    """A slice of the table: ``group`` is the number of its group, None if it stays as it is."""

    slice: FileSlice
    group: int | None
    why: str


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """Slices that become ``outputs`` new files."""

    slices: tuple[FileSlice, ...]
    outputs: int

    @property
    def partition_path(self) -> str:
        return self.slices[0].partition_path


@dataclass(frozen=True, slots=True)
class ClusteringProposal:
    """All slices, by partition and file id, and the groups that are rewritten."""

    slices: tuple[ProposedSlice, ...]
    groups: tuple[PlannedGroup, ...]


def plan_clustering(facts: ClusteringFacts, rules: ClusteringRules) -> ClusteringProposal:
    """The plan of one clustering."""
    planned: list[ProposedSlice] = []
    groups: list[PlannedGroup] = []
    files_taken = bytes_taken = 0
    by_partition: dict[str, list[FileSlice]] = {}
    for each in facts.slices:
        by_partition.setdefault(each.partition_path, []).append(each)
    for partition, slices in sorted(by_partition.items()):
        if not rules.chosen(partition):
            planned += [ProposedSlice(s, None, "its partition is not chosen") for s in slices]
            continue
        candidates = []
        for each, why in _judged(slices, facts, rules):
            if why is None:
                candidates.append(each)
            else:
                planned.append(ProposedSlice(each, None, why))
        for group in _packed(candidates, facts, rules):
            why = _useless(group, rules)
            if why is None and len(groups) >= rules.most_groups:
                why = f"the budget of {rules.most_groups} groups is used up: the next run goes on"
            if why is None and not rules.budget.has_room(files_taken, bytes_taken):
                why = f"for the next clustering: this one takes {files_taken} files"
                why += f" of {bytes_taken} bytes"
            if why is not None:
                planned += [ProposedSlice(s, None, why) for s in group]
                continue
            files_taken += sum(len(s.files) for s in group)
            bytes_taken += sum(s.size_bytes for s in group)
            outputs = _outputs(group, rules)
            what = _told(group, outputs, rules)
            planned += [ProposedSlice(s, len(groups), what) for s in group]
            groups.append(PlannedGroup(tuple(group), outputs))
    planned.sort(key=lambda one: (one.slice.partition_path, one.slice.file_id))
    return ClusteringProposal(tuple(planned), tuple(groups))


def merged_bytes(of: FileSlice) -> int:
    """About how many bytes the rows of a slice take in a base file: those of its own one.

    Most logs have updates. A slice without a base file counts with its logs.
    """
    return of.base.size_bytes if of.base is not None else of.size_bytes


def outputs_of(size_bytes: int, target_bytes: int) -> int:
    """The number of new files for so many bytes: their sizes come closest to the target."""
    return max(1, (size_bytes + target_bytes // 2) // target_bytes)


def _outputs(group: list[FileSlice], rules: ClusteringRules) -> int:
    return outputs_of(sum(map(merged_bytes, group)), rules.target_bytes)


def _judged(
    slices: list[FileSlice], facts: ClusteringFacts, rules: ClusteringRules
) -> Iterator[tuple[FileSlice, str | None]]:
    """Each slice, with the reason for which it is no candidate, None if it is one."""
    free = []
    for each in slices:
        busy = facts.busy.get((each.partition_path, each.file_id))
        if busy is not None:
            yield each, busy
        elif each.size_bytes > rules.group_bytes:
            yield each, f"it is larger than a group may be, {rules.group_bytes} bytes"
        else:
            free.append(each)
    if rules.choice is ClusteringChoice.OVERLAP:
        overlapping = _overlapping(free, facts)
        for each in free:
            apart = "no other file overlaps its range of the sort columns"
            yield each, None if each.file_id in overlapping else apart
        return
    for each in free:
        small = merged_bytes(each) < rules.small_bytes
        large = rules.choice is ClusteringChoice.SMALL_FILES and not small
        yield each, f"it is not below {rules.small_bytes} bytes" if large else None


def _overlapping(slices: list[FileSlice], facts: ClusteringFacts) -> set[FileId]:
    """The groups whose range overlaps that of another one; an unknown range does."""
    found: set[FileId] = set()
    highest: FileSlice | None = None
    for each in _by_range(slices, facts):
        if highest is not None and _meets(facts, highest, each):
            found |= {highest.file_id, each.file_id}
        if highest is None or _reaches(facts, each, highest):
            highest = each
    if any(_first(facts, each) is None for each in slices):
        return {each.file_id for each in slices} if len(slices) > 1 else set()
    return found


def _first(facts: ClusteringFacts, of: FileSlice) -> Range:
    """The range of the first sort column in the base file."""
    ranges = facts.ranges.get(of.base.path, ()) if of.base is not None else ()
    return ranges[0] if ranges else None


def _by_range(slices: Iterable[FileSlice], facts: ClusteringFacts) -> list[FileSlice]:
    """By the least value of the first sort column; those without a known one come first."""
    known: list[FileSlice] = []
    unknown: list[FileSlice] = []
    for each in slices:
        (unknown if _first(facts, each) is None else known).append(each)
    known.sort(key=lambda each: ((_first(facts, each) or (None,))[0], each.file_id))
    return [*sorted(unknown, key=lambda each: each.file_id), *known]


def _meets(facts: ClusteringFacts, earlier: FileSlice, later: FileSlice) -> bool:
    """Whether the range of ``later``, which begins no earlier, begins before the other ends."""
    one, two = _first(facts, earlier), _first(facts, later)
    return one is None or two is None or two[0] < one[1]


def _reaches(facts: ClusteringFacts, this: FileSlice, other: FileSlice) -> bool:
    """Whether ``this`` ends after ``other``."""
    one, two = _first(facts, this), _first(facts, other)
    return one is None or (two is not None and one[1] > two[1])


def _packed(
    slices: list[FileSlice], facts: ClusteringFacts, rules: ClusteringRules
) -> Iterator[list[FileSlice]]:
    """Neighbours together, up to the size of a group; slices that do not overlap apart."""
    group: list[FileSlice] = []
    size = 0
    highest: FileSlice | None = None
    for each in _by_range(slices, facts):
        apart = (
            rules.choice is ClusteringChoice.OVERLAP
            and highest is not None
            and not _meets(facts, highest, each)
        )
        if group and (apart or size + each.size_bytes > rules.group_bytes):
            yield group
            group, size, highest = [], 0, None
        group.append(each)
        size += each.size_bytes
        if highest is None or _reaches(facts, each, highest):
            highest = each
    if group:
        yield group


def _useless(group: list[FileSlice], rules: ClusteringRules) -> str | None:
    """Why it would be no gain to rewrite the group, None if it is one."""
    if rules.choice is ClusteringChoice.ALL and rules.sort_columns:
        return None
    if len(group) == 1:
        return "there is no other file to put it together with"
    outputs = _outputs(group, rules)
    if rules.choice is not ClusteringChoice.OVERLAP and outputs >= len(group):
        return f"its {len(group)} files would become {outputs} again"
    return None


def _told(group: list[FileSlice], outputs: int, rules: ClusteringRules) -> str:
    size = sum(each.size_bytes for each in group)
    logs = sum(len(each.logs) for each in group)
    taken = _counted(len(group), "slice" if logs else "file")
    if logs:
        taken += f" with {_counted(logs, 'log')}"
    order = f", sorted by {', '.join(rules.sort_columns)}" if rules.sort_columns else ""
    goes = "becomes" if len(group) == 1 else "become"
    return f"{taken} of {size} bytes {goes} {_counted(outputs, 'file')}{order}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
