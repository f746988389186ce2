"""Which slices a compaction or a log compaction merges, and why: a function of values.

Invariant: a slice is taken with all its logs that had completed before the plan, or not at all.
Those that complete later belong to the slice that the compaction begins (spec/log_files.md L9).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pyhudi.choices import CompactionChoice
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import Action, InstantTime
from pyhudi.format.plans import CompactionOperation, CompactionPlan
from pyhudi.services.budget import NO_BUDGET, Budget
from pyhudi.slices.files import FileSlice

#: (partition path, file id)
Group = tuple[str, FileId]
MB: Final = 1 << 20

#: logs are small if they have less than this part of their base file's bytes
SMALL_PART: Final = 1 / 20


@dataclass(frozen=True, slots=True)
class Spared:
    """The slices that a compaction leaves for later, since their logs cost reads little.

    Their logs are fewer than ``most_logs``, small beside their base file, and none is older than
    ``since``. To merge them would rewrite the whole base file for a few rows. A log of layout 1 has
    the instant of its slice, so there the slice's age counts.

    Slices that are due for their number of logs alone can wait a little: a stream that changes all
    slices makes them due at the same commit. Of these at most ``share`` of all slices with logs are
    taken at once, until they have twice as many logs.
    """

    most_logs: int
    since: InstantTime
    share: float = 1.0

    def why(self, of: FileSlice) -> str | None:
        """Why ``of`` is one of them; None if it is none."""
        if len(of.logs) >= self.most_logs or self._costs(of):
            return None
        return (
            f"for later: {_log_bytes(of)} bytes of young logs cost reads little, its base file has "
            f"{_base_bytes(of)}"
        )

    def can_wait(self, of: FileSlice) -> bool:
        """Whether ``of`` is due for its number of logs alone."""
        return self.most_logs <= len(of.logs) < 2 * self.most_logs and not self._costs(of)

    def _costs(self, of: FileSlice) -> bool:
        """Whether the logs are large beside the base file, or old."""
        large = _log_bytes(of) >= _base_bytes(of) * SMALL_PART
        return large or any(log.instant < self.since for log in of.logs)


@dataclass(frozen=True, slots=True)
class CompactionRules:
    """What a compaction looks for.

    ``choice`` says which slices are taken, and in which order: with at least ``least_log_bytes``
    bytes of logs, or ``least_log_files`` of them, where it goes by size or by number. Unless it is
    ALL, no further slice is taken after ``most_io_mb`` MB that are read and written; in any case
    none after the files of ``budget``. ``file_bytes`` is how large a file is taken to become for
    which there is no base file yet. Only partitions in whose path ``regex`` is found are looked at.
    ``spared`` says which slices are left for later; None: none. Only ``groups`` are taken; None:
    any.

    With ``merges_logs`` it is a log compaction: it takes the slices with at least ``least_merged``
    logs that no log compaction has merged yet, one counting for what the last one wrote.
    """

    choice: CompactionChoice = CompactionChoice.LOG_SIZE
    least_log_bytes: int = 0
    least_log_files: int = 0
    most_io_mb: int = 500 * 1024
    file_bytes: int = 120 * MB
    budget: Budget = NO_BUDGET
    regex: re.Pattern[str] | None = None
    spared: Spared | None = None
    merges_logs: bool = False
    least_merged: int = 5
    groups: frozenset[Group] | None = None

    @property
    def action(self) -> Action:
        """The action of its plan."""
        return Action.LOGCOMPACTION if self.merges_logs else Action.COMPACTION


@dataclass(frozen=True, slots=True)
class CompactionFacts:
    """The table that a compaction is planned for.

    ``slices`` are the newest slices of the live groups, with the logs that have completed;
    ``busy`` has the groups that cannot be taken, and why; ``merged`` the instant of the last log
    compaction of a group, where one is known.
    """

    slices: tuple[FileSlice, ...]
    busy: Mapping[Group, str] = field(default_factory=dict)
    merged: Mapping[Group, InstantTime] = field(default_factory=dict)

    def unmerged(self, of: FileSlice) -> int:
        """How many logs of a slice a log compaction would merge that the last one has not."""
        since = self.merged.get((of.partition_path, of.file_id))
        return sum(since is None or log.instant >= since for log in of.logs)


@dataclass(frozen=True, slots=True)
class PlannedSlice:
    """A slice with logs: whether the compaction merges it, and why."""

    slice: FileSlice
    taken: bool
    why: str

    @property
    def group(self) -> Group:
        return self.slice.partition_path, self.slice.file_id

    @property
    def log_bytes(self) -> int:
        return _log_bytes(self.slice)


def plan_compaction(facts: CompactionFacts, rules: CompactionRules) -> tuple[PlannedSlice, ...]:
    """Each slice that has logs, by partition and file id: the plan of one compaction."""
    planned: list[PlannedSlice] = []
    candidates: list[FileSlice] = []
    for each in facts.slices:
        if not each.logs:
            continue
        why = _unfit(each, facts, rules)
        if why is None:
            candidates.append(each)
        else:
            planned.append(PlannedSlice(each, False, why))
    if rules.spared is not None and not rules.merges_logs:
        candidates, waiting = _shared_out(candidates, rules.spared, len(candidates) + len(planned))
        planned += waiting
    io_mb = files = size = 0
    for each in _in_turn(candidates, rules):
        bounded = rules.choice is not CompactionChoice.ALL and io_mb >= rules.most_io_mb
        if bounded or not rules.budget.has_room(files, size):
            why = f"for the next compaction: this one takes {files} files of {size} bytes"
            planned.append(PlannedSlice(each, False, why))
            continue
        metrics = metrics_of(each, rules.file_bytes)
        io_mb += int(metrics["TOTAL_IO_MB"])
        files += len(each.logs) + (each.base is not None)
        size += each.size_bytes
        planned.append(PlannedSlice(each, True, _told(each, rules)))
    return tuple(sorted(planned, key=lambda one: one.group))


def _shared_out(
    candidates: Iterable[FileSlice], spared: Spared, slices: int
) -> tuple[list[FileSlice], list[PlannedSlice]]:
    """Those that are taken of a table with so many ``slices`` with logs, and the others."""
    by_number = sorted(candidates, key=lambda one: -len(one.logs))
    waiting = [each for each in by_number if spared.can_wait(each)]
    taken = [each for each in by_number if not spared.can_wait(each)]
    room = max(math.ceil(slices * spared.share), 1)
    taken += waiting[:room]
    why = f"for the next compaction: this one takes {room} slices for their number of logs"
    return taken, [PlannedSlice(each, False, why) for each in waiting[room:]]


def _log_bytes(of: FileSlice) -> int:
    return sum(log.size_bytes for log in of.logs)


def _base_bytes(of: FileSlice) -> int:
    return of.base.size_bytes if of.base is not None else 0


def _unfit(of: FileSlice, facts: CompactionFacts, rules: CompactionRules) -> str | None:
    """Why a slice is no candidate; None if it is one."""
    busy = facts.busy.get((of.partition_path, of.file_id))
    if busy is not None:
        return busy
    if rules.groups is not None and (of.partition_path, of.file_id) not in rules.groups:
        return "its file group is not asked for"
    if rules.regex is not None and not rules.regex.search(of.partition_path):
        return "its partition is not chosen"
    size, number = _log_bytes(of), len(of.logs)
    if rules.merges_logs:
        fresh, least = facts.unmerged(of), max(rules.least_merged, 2)
        return f"it has {fresh} logs to merge, below {least}" if fresh < least else None
    if rules.choice is CompactionChoice.LOG_SIZE and size < rules.least_log_bytes:
        return f"its logs have {size} bytes, below {rules.least_log_bytes}"
    if rules.choice is CompactionChoice.LOG_COUNT and number < rules.least_log_files:
        return f"it has {number} logs, below {rules.least_log_files}"
    return rules.spared.why(of) if rules.spared is not None else None


def _in_turn(slices: Iterable[FileSlice], rules: CompactionRules) -> list[FileSlice]:
    """``slices`` in the order in which they are taken; equal ones by partition and file id."""
    choice = CompactionChoice.LOG_COUNT if rules.merges_logs else rules.choice

    def weight(one: FileSlice) -> int:
        if choice is CompactionChoice.LOG_SIZE:
            return _log_bytes(one)
        return len(one.logs) if choice is CompactionChoice.LOG_COUNT else 0

    return sorted(slices, key=lambda one: (-weight(one), one.partition_path, one.file_id))


def _told(of: FileSlice, rules: CompactionRules) -> str:
    size = _log_bytes(of)
    if rules.merges_logs:
        return f"{len(of.logs)} logs are merged into one, {size} bytes"
    goes = "log goes" if len(of.logs) == 1 else "logs go"
    first = "" if of.base is not None else "first "
    return f"{len(of.logs)} {goes} into the {first}base file, {size} bytes"


def metrics_of(of: FileSlice, file_bytes: int) -> dict[str, float]:
    """What merging a slice costs, in whole MB and by Apache Hudi's names."""
    base, logs = _base_bytes(of), _log_bytes(of)
    read, written = (base + logs) // MB, (base or file_bytes) // MB
    return {
        "TOTAL_IO_READ_MB": float(read),
        "TOTAL_IO_WRITE_MB": float(written),
        "TOTAL_IO_MB": float(read + written),
        "TOTAL_LOG_FILES": float(len(of.logs)),
        "TOTAL_LOG_FILES_SIZE": float(logs),
    }


def compaction_plan(planned: Iterable[PlannedSlice], file_bytes: int) -> CompactionPlan:
    """The plan as its file has it: names of files without their partition (spec/timeline.md T9)."""
    operations = []
    for each in planned:
        if each.taken:
            of = each.slice
            operation = CompactionOperation(
                base_instant_time=of.instant,
                delta_file_paths=tuple(log.named.render() for log in of.logs),
                data_file_path=of.base.name if of.base is not None else None,
                file_id=of.file_id,
                partition_path=of.partition_path,
                metrics=metrics_of(of, file_bytes),
            )
            operations.append(operation)
    return CompactionPlan(tuple(operations))
