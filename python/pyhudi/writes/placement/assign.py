"""Assignment: which file group takes which rows.

Pure: the plan is a function of the size profile and of what the table holds. A row's group is
then a pure function of its key and this plan (ARCHITECTURE.md, "One commit, end to end").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pyhudi.format.filenames import FileId
from pyhudi.rows.spec import GroupPlan
from pyhudi.slices.files import BaseFile
from pyhudi.transactions.conflicts.comparison import Group
from pyhudi.writes.placement.log_groups import LogGroups

#: shares are as exact as one part in this many of the largest share
MAX_RESOLUTION = 64
#: slots of one partition: they travel in every row's plan
MAX_SLOTS = 4_096
#: about this part of a base file are its keys
KEY_SHARE = 16
#: beside logs a base file of so many bytes is rewritten for new rows, and a larger one if it has at
#: most so many times their bytes
CHEAP_BYTES, WORTH_REWRITING = 1 << 20, 4
#: the same below so many bytes: with smaller files a stream soon has more groups than it saves
SMALL_BYTES, WORTH_FILLING = 8 << 20, 16
#: a base file below this is as cheap to read with a log as it is to rewrite
LARGE_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Sizing:
    """File sizes in bytes; ``row_bytes`` is the expected size of a stored row.

    Beside logs a group is rewritten of whose rows more than the part ``most_logged`` change.
    """

    target_file_bytes: int
    small_file_bytes: int
    row_bytes: int
    fill_small_files: bool
    most_logged: float = 1.0

    def rows_per_file(self) -> int:
        """How many rows fill one file."""
        return max(1, self.target_file_bytes // max(1, self.row_bytes))


@dataclass(frozen=True, slots=True)
class Assignment:
    """Groups by ordinal; ``slots`` gives, by partition, the ordinals that new keys hash over."""

    groups: Mapping[int, GroupPlan]
    slots: Mapping[str, Sequence[int]]
    bytes_of: Mapping[int, int]
    rows_of: Mapping[int, int] = field(default_factory=dict)

    def updated(self) -> frozenset[Group]:
        """The groups that exist."""
        groups = self.groups.values()
        return frozenset((g.partition_path, FileId(g.file_id)) for g in groups if _exists(g))

    def created(self) -> frozenset[Group]:
        """The groups that are new."""
        groups = self.groups.values()
        return frozenset((g.partition_path, FileId(g.file_id)) for g in groups if not _exists(g))


def _exists(group: GroupPlan) -> bool:
    """Whether the group has files: a new one begins with a base file or, in a bucket, a log."""
    return group.base_instant is not None


def assign(
    files: Sequence[BaseFile],
    updates: Mapping[int, int],
    inserts: Mapping[str, int],
    sizing: Sizing,
    new_file_id: Callable[[str], str],
    logs: LogGroups | None = None,
) -> Assignment:
    """Spread new rows over groups.

    ``files`` are the newest base files, their position is their ordinal; ``updates`` counts rows
    by ordinal, ``inserts`` new rows by partition path. New rows first fill small files (with a
    single writer) or groups that are updated in any case and have room, then new groups. With
    ``logs`` only groups without a log whose base file is small beside the new rows take some, and
    groups that take none get a log, unless too much of a large base file changes.
    """
    by_partition: dict[str, list[int]] = {}
    for ordinal, file in enumerate(files):
        by_partition.setdefault(file.partition_path, []).append(ordinal)
    groups = {o: existing_group(o, files[o]) for o in updates}
    bytes_of = {o: files[o].size_bytes + n * sizing.row_bytes for o, n in updates.items()}
    rows_of = dict(updates)
    slots: dict[str, list[int]] = {}
    next_ordinal = len(files)
    for partition, rows in sorted(inserts.items()):
        if rows <= 0:
            continue
        held = by_partition.get(partition, ())
        candidates = _candidates(held, files, updates, sizing)
        if logs is not None:
            candidates = _growing(held, files, updates, sizing, logs, rows)
        room = [(o, _room(files[o], sizing)) for o in candidates]
        chosen, left = _fill(room, rows)
        fresh = -(-left // sizing.rows_per_file())
        for ordinal in range(next_ordinal, next_ordinal + fresh):
            groups[ordinal] = GroupPlan(ordinal, new_file_id(partition), partition)
            chosen.append((ordinal, -(-left // fresh)))
        next_ordinal += fresh
        for ordinal, share in chosen:
            if ordinal < len(files):
                groups.setdefault(ordinal, existing_group(ordinal, files[ordinal]))
            base = files[ordinal].size_bytes if ordinal < len(files) else 0
            bytes_of[ordinal] = bytes_of.get(ordinal, base) + share * sizing.row_bytes
            rows_of[ordinal] = rows_of.get(ordinal, 0) + share
        slots[partition] = _weighted(chosen)
    if logs is not None:
        growing = {ordinal for chosen in slots.values() for ordinal in chosen}
        for ordinal, rows in updates.items():
            if ordinal not in growing and not _rewritten(files[ordinal], rows, sizing, logs):
                groups[ordinal] = logs.logged(groups[ordinal])
                bytes_of[ordinal] = log_work(files[ordinal], rows, sizing)
    return Assignment(groups, slots, bytes_of, rows_of)


def log_work(file: BaseFile, rows: int, sizing: Sizing) -> int:
    """The bytes that count as the work on a log: its rows, and the keys of the base file."""
    return file.size_bytes // KEY_SHARE + rows * sizing.row_bytes


def _candidates(
    ordinals: Iterable[int],
    files: Sequence[BaseFile],
    updates: Mapping[int, int],
    sizing: Sizing,
) -> list[int]:
    """Existing groups that may take new rows, the smallest first."""
    if sizing.fill_small_files:
        found = [o for o in ordinals if files[o].size_bytes < sizing.small_file_bytes]
    else:
        found = [o for o in ordinals if o in updates]
    return sorted(found, key=lambda o: (files[o].size_bytes, o))


def _growing(
    ordinals: Iterable[int],
    files: Sequence[BaseFile],
    updates: Mapping[int, int],
    sizing: Sizing,
    logs: LogGroups,
    rows: int,
) -> list[int]:
    """The same beside logs: only groups whose base file is small enough to be rewritten."""
    new = rows * sizing.row_bytes
    most = max(CHEAP_BYTES, WORTH_REWRITING * new, min(SMALL_BYTES, WORTH_FILLING * new))
    most = min(most, sizing.small_file_bytes)
    found = [o for o in ordinals if files[o].size_bytes < most and logs.may_grow(files[o])]
    if not sizing.fill_small_files:
        found = [o for o in found if o in updates]
    return sorted(found, key=lambda o: (files[o].size_bytes, o))


def _rewritten(file: BaseFile, rows: int, sizing: Sizing, logs: LogGroups) -> bool:
    """Whether so many rows of ``file`` change that a new base file costs less than a log.

    The log would cost as much to write, and each read the more.
    """
    share = rows * sizing.row_bytes / max(1, file.size_bytes)
    large = file.size_bytes >= LARGE_BYTES
    return large and sizing.most_logged < min(share, 1.0) and logs.may_grow(file)


def _room(file: BaseFile, sizing: Sizing) -> int:
    return max(0, (sizing.target_file_bytes - file.size_bytes) // max(1, sizing.row_bytes))


def _fill(room: Sequence[tuple[int, int]], rows: int) -> tuple[list[tuple[int, int]], int]:
    """Fill groups in order; returns (ordinal, rows) and the rows that found no room."""
    chosen, left = [], rows
    for ordinal, free in room:
        share = min(free, left)
        if share > 0:
            chosen.append((ordinal, share))
            left -= share
    return chosen, left


def _weighted(chosen: Sequence[tuple[int, int]]) -> list[int]:
    """Ordinals repeated by their share of the rows, so that a plain hash respects the shares.

    Shares are finer if there are fewer groups: at most about ``MAX_SLOTS`` slots, and at least one
    for each group. Equal shares need no repetition.
    """
    shares = [share for _, share in chosen]
    if len(set(shares)) == 1:
        return [ordinal for ordinal, _ in chosen]
    resolution = min(MAX_RESOLUTION, max(1, MAX_SLOTS // len(chosen)))
    least = max(shares) / resolution
    return [o for o, share in chosen for _ in range(max(1, round(share / least)))]


def existing_group(ordinal: int, file: BaseFile) -> GroupPlan:
    """The plan of the group of ``file``, which gets a new base file."""
    base = file.path if file.name else None
    return GroupPlan(ordinal, file.file_id, file.partition_path, base, file.instant)
