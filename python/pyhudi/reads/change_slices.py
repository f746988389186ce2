"""The slices of a merge-on-read table at the time of a commit, for its change data.

Invariants: a slice as of a commit has all logs that completed before it and none that completed
later; in layout 1, which records no such times, requests count. A slice of which a file has gone is
refused, never read without it. Rules: spec/file_slices.md F1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import pyarrow as pa

from pyhudi.errors import HistoryExpired, UnsupportedTable
from pyhudi.format.change_log import DELETE
from pyhudi.format.commit_metadata import WriteStat
from pyhudi.format.filenames import FileId, parse_data_file_name, parse_log_file_name
from pyhudi.format.instants import Action, Instant, InstantTime, padded_time
from pyhudi.format.plans import parse_cleaner_plan
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.reads.log_slices import READ_SHARE, columns_at, log_slice, merge_spec
from pyhudi.reads.scan import Query
from pyhudi.rows.log_spec import CountedInstants, MergeSpec, SliceChange
from pyhudi.services.slice_merging import counted_instants
from pyhudi.slices.files import BaseFile, FileSlice, LogFile
from pyhudi.timeline.active import COMMITS, Timeline
from pyhudi.timeline.pending import plan_of
from pyhudi.timeline.table import Table
from pyhudi.timeline.view import FileSystemView

Group = tuple[str, FileId]


def written_to_groups(
    table: Table, timeline: Timeline
) -> dict[Group, list[tuple[InstantTime, WriteStat]]]:
    """What active commits wrote to each group, with their times."""
    found: dict[Group, list[tuple[InstantTime, WriteStat]]] = defaultdict(list)
    for commit in timeline.commits:
        for stat in COMMITS.get(table.storage, timeline, commit).stats:
            if stat.path:
                found[stat.partition_path, stat.file_id].append((commit.time, stat))
    return found


class SlicesThen:
    """Finds the slices of one query's table as commits found and left them."""

    def __init__(self, query: Query, timeline: Timeline) -> None:
        self._query, self._timeline = query, timeline
        self._layout = query.table.config.layout
        self._counted: dict[InstantTime, CountedInstants] = {}
        self._orderings: dict[tuple[InstantTime, bool], pa.StructType | None] = {}

    def logged(
        self, commit: Instant, group: Group, stats: Sequence[WriteStat], ops: str
    ) -> tuple[SliceChange, int]:
        """What a commit did to a group by logs, and about how many bytes tell it.

        ``HistoryExpired`` if a file of the slice has gone; ``UnsupportedTable`` if the commit also
        wrote a base file of the group.
        """
        if not all(stat.is_log for stat in stats):
            raise _unsupported(self._query, commit, "a base file and logs of one group in a commit")
        own = [parse_log_file_name(stat.path.rpartition("/")[2]) for stat in stats]
        newest = max(name.instant for name in own if name is not None)
        then = self._when(commit.time)
        found = self._slice(commit, group, newest if self._layout == 1 else then, then)
        if found is None or not {s.path for s in stats} <= {log.path for log in found.logs}:
            raise _gone(commit, group)
        if found.base is None and any(stat.base_file for stat in stats):
            raise _gone(commit, group)
        counted = self._until(commit)
        size = sum(log.size_bytes for log in found.logs)
        size += found.base.size_bytes // READ_SHARE if found.base is not None else 0
        of, ordering = log_slice(self._query, found), self._ordering(commit)
        return SliceChange(commit.time, of, counted, ops, ordering=ordering), size

    def replaced(self, commit: Instant, group: Group) -> SliceChange | None:
        """The rows of a group that a commit replaced; None if it has no logs that count then."""
        then = self._when(commit.time)
        found = self._slice(commit, group, then, then)
        if found is None:
            raise _gone(commit, group)
        if not found.logs:
            return None
        of, counted = log_slice(self._query, found), self._until(commit)
        ordering = self._ordering(commit, before=True)
        return SliceChange(commit.time, of, counted, whole=DELETE, ordering=ordering)

    def check_without_logs(self, commit: Instant, stat: WriteStat) -> None:
        """``UnsupportedTable`` if a base file came in place of a slice that had logs."""
        group = stat.partition_path, stat.file_id
        held = [f for f in self._bases(group) if f.instant < commit.time]
        if not held:
            return
        then, base = self._when(commit.time), held[-1]
        logs = self._logs(group, base, base.instant if self._layout == 1 else then, then)
        if self._layout == 1 and base.instant >= self._every.first:
            # Logs that no commit names are those of writes that failed.
            named = {each.path for _, each in self._written.get(group, ())}
            logs = [log for log in logs if log.path in named]
        if logs:
            raise _unsupported(self._query, commit, "a base file in place of a slice with logs")

    # ---- one group at a time

    def _slice(
        self, commit: Instant, group: Group, last: InstantTime, then: InstantTime
    ) -> FileSlice | None:
        """The slice of ``group`` as of ``then``: its base file is not later than ``last``."""
        bases = [f for f in self._bases(group) if f.instant <= last and f.instant != commit.time]
        base = bases[-1] if bases else None
        logs = self._logs(group, base, last, then)
        listed = {log.path for log in logs}
        begins = base.instant if base is not None else InstantTime("")
        for at, stat in self._written.get(group, ()):
            if stat.is_log:
                counts = self._when(at) <= then and begins <= self._place(stat, at) <= last
                lost = counts and stat.path not in listed
            else:
                lost = begins < at <= last and at != commit.time
            if lost:
                raise _gone(commit, group)
        if base is None and (not logs or group in self._being_cleaned):
            return None
        return FileSlice(base, tuple(logs))

    def _logs(
        self, group: Group, base: BaseFile | None, last: InstantTime, then: InstantTime
    ) -> list[LogFile]:
        """The logs of the slice of ``base`` that may have blocks from up to ``then``."""
        begins = base.instant if base is not None else InstantTime("")
        logs = self._view.logs.get(group[0], {}).get(group[1], ())
        if self._layout == 1:
            return [f for f in logs if not f.named.cdc and begins <= f.instant <= last]
        counted = self._every
        return [
            f
            for f in logs
            if not f.named.cdc and f.instant in counted and begins <= self._when(f.instant) <= then
        ]

    def _bases(self, group: Group) -> list[BaseFile]:
        held = self._view.groups.get(group[0], {}).get(group[1], ())
        return [each.base for each in held if each.base is not None]

    def _place(self, stat: WriteStat, at: InstantTime) -> InstantTime:
        """By what a log is said to belong to a slice: its name, or when it completed."""
        if self._layout > 1:
            return self._when(at)
        named = parse_log_file_name(stat.path.rpartition("/")[2])
        return named.instant if named is not None else at

    def _ordering(self, commit: Instant, before: bool = False) -> pa.StructType | None:
        """The ordering columns in their types at a commit, or ``before`` it; None if these are the
        query's."""
        asked = commit.time, before
        if asked not in self._orderings:
            earlier = (each.time for each in self._timeline.commits if each.time < commit.time)
            at = max(earlier, default=commit.time) if before else commit.time
            now = self._order.ordering
            held = {each.name: each for each in columns_at(self._query, at)}
            then = pa.struct(list(SparkSchema(tuple(held[each.name] for each in now)).arrow()))
            self._orderings[asked] = None if then == now else then
        return self._orderings[asked]

    # ---- all of them

    @cached_property
    def _order(self) -> MergeSpec:
        return merge_spec(self._query, SparkSchema())

    @cached_property
    def _view(self) -> FileSystemView:
        return self._query.table.view(self._timeline)

    @cached_property
    def _every(self) -> CountedInstants:
        return counted_instants(self._view, None)

    @cached_property
    def _ends(self) -> dict[InstantTime, InstantTime]:
        ends = dict(self._view.ends)
        ends |= {i.time: i.completion_time or i.time for i in self._timeline.commits}
        return ends

    def _when(self, instant: InstantTime) -> InstantTime:
        """The time by which commits follow each other."""
        if self._layout == 1:
            return padded_time(instant)
        return self._ends.get(instant, instant)

    def _until(self, commit: Instant) -> CountedInstants:
        """The instants that count after ``commit``."""
        known = self._counted.get(commit.time)
        if known is None:
            then, every = self._when(commit.time), self._every
            completed = (t for t in every.completed if self._when(InstantTime(t)) <= then)
            known = self._counted[commit.time] = replace(every, completed=frozenset(completed))
        return known

    @cached_property
    def _written(self) -> dict[Group, list[tuple[InstantTime, WriteStat]]]:
        return written_to_groups(self._query.table, self._timeline)

    @cached_property
    def _being_cleaned(self) -> set[Group]:
        """The groups of which a clean that has not ended deletes files."""
        table = self._query.table
        found: set[Group] = set()
        for pending in self._timeline.pending:
            if pending.action is Action.CLEAN:
                plan = plan_of(table, self._timeline, pending, parse_cleaner_plan)
                files = plan.file_paths_to_be_deleted_per_partition if plan is not None else {}
                for partition, of_it in files.items():
                    names = (parse_data_file_name(f.file_path.rpartition("/")[2]) for f in of_it)
                    found |= {(partition, name.file_id) for name in names if name is not None}
        return found


def _gone(commit: Instant, group: Group) -> HistoryExpired:
    partition, file_id = group
    return HistoryExpired(
        f"The changes of the commit {commit.time} need a slice of the file group {file_id} in "
        f"partition '{partition}', of which a clean has deleted files since. Let the range begin "
        "at this commit or later.",
        asked=commit.time,
        earliest=None,
    )


def _unsupported(query: Query, commit: Instant, feature: str) -> UnsupportedTable:
    return UnsupportedTable(
        f"The changes of the commit {commit.time} of the table {query.table.config.name} cannot be "
        f"told: it wrote {feature}, which pyhudi does not compare. Let the range begin at this "
        "commit or later, or read the newest state of the changed rows "
        "(hoodie.datasource.query.incremental.format=latest_state).",
        feature=feature,
    )
