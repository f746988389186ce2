"""Which files a clustering rewrites together, and why: a function of values.

Invariant: the files of a group are in one partition, and together at most ``group_bytes``. So each
group is one task, and needs no other.
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
from pyhudi.slices.files import BaseFile

#: (partition path, file id)
Group = tuple[str, FileId]
#: least and greatest value of one column in a file; None if unknown
Range = tuple[Any, Any] | None


@dataclass(frozen=True, slots=True)
class ClusteringRules:
    """What a clustering looks for; sizes in bytes of files.

    ``choice`` says which files are candidates: those below ``small_bytes``, those whose ranges of
    the ``sort_columns`` overlap, or all; of the ``partitions``, or else those that ``regex``
    matches as a whole, of all if both are None. A group holds at most ``group_bytes``, and a run
    rewrites at most ``most_groups`` groups; after the files of ``budget`` no further one is taken.
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

    ``files`` are the newest base files of the live groups; ``busy`` has the groups that cannot be
    taken, and why; ``ranges`` the values of the sort columns in a file, by its path.
    """

    files: tuple[BaseFile, ...]
    busy: Mapping[Group, str] = field(default_factory=dict)
    ranges: Mapping[str, tuple[Range, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file of the table: ``group`` is the number of its group, None if it stays as it is."""

    file: BaseFile
    group: int | None
    why: str


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """Files that become ``outputs`` new ones."""

    files: tuple[BaseFile, ...]
    outputs: int

    @property
    def partition_path(self) -> str:
        return self.files[0].partition_path


@dataclass(frozen=True, slots=True)
class ClusteringProposal:
    """All files, by partition and file id, and the groups that are rewritten."""

    files: tuple[PlannedFile, ...]
    groups: tuple[PlannedGroup, ...]


def plan_clustering(facts: ClusteringFacts, rules: ClusteringRules) -> ClusteringProposal:
    """The plan of one clustering."""
    planned: list[PlannedFile] = []
    groups: list[PlannedGroup] = []
    files_taken = bytes_taken = 0
    by_partition: dict[str, list[BaseFile]] = {}
    for file in facts.files:
        by_partition.setdefault(file.partition_path, []).append(file)
    for partition, files in sorted(by_partition.items()):
        if not rules.chosen(partition):
            planned += [PlannedFile(f, None, "its partition is not chosen") for f in files]
            continue
        candidates = []
        for file, why in _judged(files, facts, rules):
            if why is None:
                candidates.append(file)
            else:
                planned.append(PlannedFile(file, None, why))
        for group in _packed(candidates, facts, rules):
            why = _useless(group, rules)
            if why is None and len(groups) >= rules.most_groups:
                why = f"the budget of {rules.most_groups} groups is used up: the next run goes on"
            if why is None and not rules.budget.has_room(files_taken, bytes_taken):
                why = f"for the next clustering: this one takes {files_taken} files"
                why += f" of {bytes_taken} bytes"
            if why is not None:
                planned += [PlannedFile(f, None, why) for f in group]
                continue
            size = sum(f.size_bytes for f in group)
            files_taken, bytes_taken = files_taken + len(group), bytes_taken + size
            outputs = outputs_of(size, rules.target_bytes)
            what = _told(group, outputs, rules)
            planned += [PlannedFile(f, len(groups), what) for f in group]
            groups.append(PlannedGroup(tuple(group), outputs))
    planned.sort(key=lambda each: (each.file.partition_path, each.file.file_id))
    return ClusteringProposal(tuple(planned), tuple(groups))


def outputs_of(size_bytes: int, target_bytes: int) -> int:
    """The number of new files for so many bytes: their sizes come closest to the target."""
    return max(1, (size_bytes + target_bytes // 2) // target_bytes)


def _judged(
    files: list[BaseFile], facts: ClusteringFacts, rules: ClusteringRules
) -> Iterator[tuple[BaseFile, str | None]]:
    """Each file, with the reason for which it is no candidate, None if it is one."""
    free = []
    for file in files:
        busy = facts.busy.get((file.partition_path, file.file_id))
        if busy is not None:
            yield file, busy
        elif file.size_bytes > rules.group_bytes:
            yield file, f"it is larger than a group may be, {rules.group_bytes} bytes"
        else:
            free.append(file)
    if rules.choice is ClusteringChoice.OVERLAP:
        overlapping = _overlapping(free, facts)
        for file in free:
            apart = "no other file overlaps its range of the sort columns"
            yield file, None if file.path in overlapping else apart
        return
    for file in free:
        large = (
            rules.choice is ClusteringChoice.SMALL_FILES and file.size_bytes >= rules.small_bytes
        )
        yield file, f"it is not below {rules.small_bytes} bytes" if large else None


def _overlapping(files: list[BaseFile], facts: ClusteringFacts) -> set[str]:
    """The paths of files whose range overlaps that of another one; an unknown range does."""
    found: set[str] = set()
    ordered = _by_range(files, facts)
    highest: BaseFile | None = None
    for file in ordered:
        if highest is not None and _meets(facts, highest, file):
            found |= {highest.path, file.path}
        if highest is None or _reaches(facts, file, highest):
            highest = file
    unknown = [f.path for f in files if _first(facts, f) is None]
    if unknown:
        return {f.path for f in files} if len(files) > 1 else set()
    return found


def _first(facts: ClusteringFacts, file: BaseFile) -> Range:
    """The range of the first sort column."""
    ranges = facts.ranges.get(file.path, ())
    return ranges[0] if ranges else None


def _by_range(files: Iterable[BaseFile], facts: ClusteringFacts) -> list[BaseFile]:
    """By the least value of the first sort column; files without a known one come first."""
    known = [f for f in files if _first(facts, f) is not None]
    unknown = [f for f in files if _first(facts, f) is None]
    known.sort(key=lambda f: ((_first(facts, f) or (None,))[0], f.file_id))
    return [*sorted(unknown, key=lambda f: f.file_id), *known]


def _meets(facts: ClusteringFacts, earlier: BaseFile, later: BaseFile) -> bool:
    """Whether the range of ``later``, which begins no earlier, begins before the other ends."""
    one, two = _first(facts, earlier), _first(facts, later)
    return one is None or two is None or two[0] < one[1]


def _reaches(facts: ClusteringFacts, file: BaseFile, other: BaseFile) -> bool:
    """Whether ``file`` ends after ``other``."""
    one, two = _first(facts, file), _first(facts, other)
    return one is None or (two is not None and one[1] > two[1])


def _packed(
    files: list[BaseFile], facts: ClusteringFacts, rules: ClusteringRules
) -> Iterator[list[BaseFile]]:
    """Neighbours together, up to the size of a group; files that do not overlap apart."""
    group: list[BaseFile] = []
    size = 0
    highest: BaseFile | None = None
    for file in _by_range(files, facts):
        apart = (
            rules.choice is ClusteringChoice.OVERLAP
            and highest is not None
            and not _meets(facts, highest, file)
        )
        if group and (apart or size + file.size_bytes > rules.group_bytes):
            yield group
            group, size, highest = [], 0, None
        group.append(file)
        size += file.size_bytes
        if highest is None or _reaches(facts, file, highest):
            highest = file
    if group:
        yield group


def _useless(group: list[BaseFile], rules: ClusteringRules) -> str | None:
    """Why it would be no gain to rewrite the group, None if it is one."""
    if rules.choice is ClusteringChoice.ALL and rules.sort_columns:
        return None
    if len(group) == 1:
        return "there is no other file to put it together with"
    outputs = outputs_of(sum(f.size_bytes for f in group), rules.target_bytes)
    if rules.choice is not ClusteringChoice.OVERLAP and outputs >= len(group):
        return f"its {len(group)} files would become {outputs} again"
    return None


def _told(group: list[BaseFile], outputs: int, rules: ClusteringRules) -> str:
    size = sum(f.size_bytes for f in group)
    files = "1 file" if outputs == 1 else f"{outputs} files"
    order = f", sorted by {', '.join(rules.sort_columns)}" if rules.sort_columns else ""
    return f"{len(group)} files of {size} bytes become {files}{order}"
