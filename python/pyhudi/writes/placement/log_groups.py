"""Which file groups of a merge-on-read table get a log, and which a new base file.

An existing group gets a log. One that takes new keys gets a new base file, with its updates merged:
under an index that looks keys up, Apache Hudi finds no keys in logs (spec/log_files.md L8). Only a
group without logs can take new keys so, and none that a pending compaction will rewrite.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from pyhudi.errors import UnsupportedTable
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import Action, InstantTime
from pyhudi.format.table_config import TableType
from pyhudi.rows.spec import BY_POSITION, REFUSE, REWRITE, GroupPlan
from pyhudi.slices.files import BaseFile, FileSlice
from pyhudi.timeline.pending import COMPACTING, planned_compactions
from pyhudi.timeline.view import FileSystemView
from pyhudi.transactions.conflicts.comparison import Group
from pyhudi.writes.write_context import Write


@dataclass(frozen=True, slots=True)
class LogGroups:
    """The logs of existing groups.

    ``versions`` has the last version of the logs of each slice that has some. ``planned`` are the
    groups of pending compactions, each with the instant of its next base file; None for a log
    compaction, which writes none. ``placed``: all rows of logs have positions, as only those of
    buckets are new to their group. ``alone``: a write has no base files.
    """

    layout: int
    versions: Mapping[Group, int]
    planned: Mapping[Group, InstantTime | None]
    placed: bool = True
    alone: bool = False

    def may_grow(self, file: BaseFile | GroupPlan) -> bool:
        """Whether a new base file may take the place of ``file``."""
        group = (file.partition_path, FileId(file.file_id))
        return group not in self.versions and group not in self.planned

    def logged(self, plan: GroupPlan) -> GroupPlan:
        """``plan`` of an existing group, with a log instead of a new base file."""
        group = (plan.partition_path, FileId(plan.file_id))
        plan = replace(plan, copies=self._copies(plan))
        if self.layout > 1:
            return replace(plan, log_version=1)
        # The logs of layout 1 are named by their slice, which a planned compaction begins.
        slice_instant = self.planned.get(group) or plan.base_instant
        version = self.versions.get(group, 0) + 1
        return replace(plan, base_instant=slice_instant, log_version=version)

    def _copies(self, plan: GroupPlan) -> str:
        """What is done about a key that the group's base file has more than once.

        Positions tell its rows apart as long as that is the base file.
        """
        if self.may_grow(plan) and not self.alone:
            return REWRITE
        compacts = self.planned.get((plan.partition_path, FileId(plan.file_id))) is not None
        settled = self.layout > 1 and self.placed and not compacts
        return BY_POSITION if settled else REFUSE


def log_groups(
    write: Write, files: Iterable[BaseFile], partitions: Iterable[str] = ()
) -> LogGroups | None:
    """The logs beside ``files``; None if the table has no logs, as it is copy-on-write.

    ``UnsupportedTable`` with ``of_logs`` if groups of their partitions, or of ``partitions``, have
    logs of completed writes and no base file, as a lookup finds no keys in logs. A compaction gives
    them one: the next attempt is told which they are (``kept.logged``).
    """
    if write.config.table_type is not TableType.MERGE_ON_READ:
        return None
    asked = {*partitions, *(file.partition_path for file in files)}
    slices = write.view.slices(partitions=None if write.index.everywhere else asked)
    lone = [] if write.index.hashed else _of_logs(write.view, slices)
    if lone:
        write.kept.logged = frozenset((each.partition_path, each.file_id) for each in lone)
        raise UnsupportedTable(
            f"The file group {lone[0].file_id} of {write.config.name} has logs and no base file "
            "yet: a lookup would miss its keys. Nothing was written. Compact the table first (CALL "
            "pyhudi.system.run_compaction, or pyhudi.compact), then run it again.",
            feature="writing to file groups without a base file",
            of_logs=True,
        )
    planned = _planned(write)
    versions = {
        (each.partition_path, each.file_id): _last_version(each, planned, write.config.layout)
        for each in slices
        if each.logs
    }
    placed = not write.index.hashed
    return LogGroups(write.config.layout, versions, planned, placed, write.only_logs)


def groups_of_logs(view: FileSystemView, partitions: Collection[str]) -> list[BaseFile]:
    """The groups that have logs of completed writes alone, each as a base file without a name."""
    return _of_logs(view, view.slices(partitions=partitions)) if view.logs else []


def _of_logs(view: FileSystemView, slices: Iterable[FileSlice]) -> list[BaseFile]:
    """Those of ``slices`` that have logs of completed writes and no base file."""
    committed, found = view.committed(), []
    for each in slices:
        if each.base is not None:
            continue
        rows = [log for log in each.logs if not log.named.cdc]
        if any(committed(log.instant) for log in rows):
            place = each.partition_path, "", each.file_id
            found.append(BaseFile(*place, rows[0].instant, 0, 0))
    return found


def _last_version(of: FileSlice, planned: Mapping[Group, InstantTime | None], layout: int) -> int:
    if layout > 1:
        return max(log.named.version for log in of.logs)
    begins = planned.get((of.partition_path, of.file_id)) or of.instant
    return max((log.named.version for log in of.logs if log.instant == begins), default=0)


def _planned(write: Write) -> dict[Group, InstantTime | None]:
    found: dict[Group, InstantTime | None] = {}
    timeline = write.transaction.timeline
    for pending, plan in planned_compactions(write.table, timeline, COMPACTING):
        for each in plan.operations:
            begins = pending.time if pending.action is Action.COMPACTION else None
            found[each.partition_path, each.file_id] = begins
    return found
