"""Incremental reads from change logs, which hold the changed rows and no others.

Invariants: the rows are those of ``reads/incremental.py``. A group is read from its logs only if
each commit of the range that wrote it has one and the next was made from its file; otherwise from
its newest base file, as if the table had no logs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa

from pyhudi.format.change_log import LogContent
from pyhudi.format.commit_metadata import WriteStat
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import Instant, InstantTime
from pyhudi.format.spark_schema import Column, SparkSchema
from pyhudi.format.table_config import TableType
from pyhudi.reads.change_data import Finder, in_order, task_count
from pyhudi.reads.conditions import Filter
from pyhudi.reads.scan import Query, changed
from pyhudi.rows.logged_reader import LoggedPiece, LoggedSpec
from pyhudi.slices.files import FileSlice
from pyhudi.timeline.active import COMMITS

#: logs are read if they are at most so large beside the base files, which Spark decodes faster
WORTH = 0.5
#: types whose values are equal exactly if their texts in the record key are
KEY_TYPES = frozenset({"boolean", "byte", "short", "integer", "long", "string", "date"})
Group = tuple[str, FileId]
#: a commit and what it says of the file that it wrote for a group
Step = tuple[InstantTime, WriteStat]


@dataclass(frozen=True, slots=True)
class LoggedPlan:
    """What the workers read, and with what: file groups, and about how many bytes each has."""

    spec: LoggedSpec
    pieces: tuple[LoggedPiece, ...]
    sizes: tuple[int, ...]

    def task_count(self, parallelism: int) -> int:
        """How many tasks read the groups."""
        return task_count(self.sizes, parallelism)


def reads_logs(query: Query) -> bool:
    """Whether reading the range's change logs costs less than reading the files it wrote."""
    commits = _commits(query)
    if commits is None:
        return False
    steps = _steps(query, commits)
    files = logs = 0
    for each in query.slices(()):
        if each.base is not None:
            files += each.base.size_bytes
            found = _logs_of(query, steps.get((each.partition_path, each.file_id), ()), each)
            logs += each.base.size_bytes if found is None else _bytes(found)
    return logs <= WORTH * files


def plan_logged_rows(
    query: Query, wanted: SparkSchema, filters: Sequence[Filter], taken: Sequence[Filter]
) -> LoggedPlan:
    """What to read for the columns ``wanted``.

    Spark evaluates ``filters`` on the rows, but not ``taken``: partitions have decided them.
    ``HistoryExpired`` if they have not, since the state in which they were taken is gone, or if
    that state could be read from logs and this one cannot.
    """
    commits = _commits(query)
    every = [*taken, *filters]
    kept = query.slices(every)
    if commits is None or (taken and not all(query.decided(every)[: len(taken)])):
        raise changed(query)
    finder, steps = Finder(query, query.own_timeline), _steps(query, commits)
    pieces: list[LoggedPiece] = []
    sizes: list[int] = []
    for each in kept:
        if each.base is None:
            continue
        found = _logs_of(query, steps.get((each.partition_path, each.file_id), ()), each)
        if found is not None and all(_only_deletes(stat) for _, stat in found):
            continue
        file = finder.slice(each.base.path)
        logs = ((in_order(s.cdc_stats or {}), finder.slice(s.path).names) for _, s in found or ())
        pieces.append(LoggedPiece(file, tuple(logs)))
        sizes.append(each.base.size_bytes if found is None else _bytes(found))
    filesystem, root = query.runtime.filesystem(query.table.storage.root)
    instants = tuple(sorted(i.time for i in commits))
    keys = SparkSchema(tuple(_key_columns(query)))
    spec = LoggedSpec(root, filesystem, _struct(wanted), _struct(keys), instants)
    return LoggedPlan(spec, tuple(pieces), tuple(sizes))


def _commits(query: Query) -> tuple[Instant, ...] | None:
    """The commits of the range if their metadata names all files and the table has whole logs."""
    config = query.table.config
    if not config.cdc_enabled or config.change_log is not LogContent.DATA_BEFORE_AFTER:
        return None
    if config.table_type is TableType.MERGE_ON_READ or not config.populate_meta_fields:
        return None
    found = query.changes()
    return found.named if found is not None and not found.remains else None


def _steps(query: Query, commits: Sequence[Instant]) -> dict[Group, list[Step]]:
    """What the commits of the range did to each group, oldest first."""
    found: dict[Group, list[Step]] = defaultdict(list)
    for commit in sorted(commits, key=lambda each: each.time):
        metadata = COMMITS.get(query.table.storage, query.own_timeline, commit)
        for stat in metadata.stats:
            if stat.path:
                found[stat.partition_path, stat.file_id].append((commit.time, stat))
    return found


def _logs_of(query: Query, steps: Sequence[Step], newest: FileSlice) -> Sequence[Step] | None:
    """``steps`` if their logs tell what the range left of the group; None if its file must."""
    if not steps or steps[-1][0] != newest.instant:
        return None
    if not all(stat.cdc_stats for _, stat in steps):
        return None
    if len(steps) > 1 and not _key_columns(query):
        return None
    follows = (stat.prev_commit == before for (before, _), (_, stat) in pairwise(steps))
    return steps if all(follows) else None


def _only_deletes(stat: WriteStat) -> bool:
    return stat.num_deletes > 0 and stat.num_inserts == stat.num_updates == 0


def _bytes(steps: Sequence[Step]) -> int:
    return sum(sum((stat.cdc_stats or {}).values()) for _, stat in steps)


def _key_columns(query: Query) -> list[Column]:
    """The columns of the record key; none if their values do not tell rows apart."""
    held = {column.name: column for column in query.schema().columns}
    fields = query.table.config.record_key_fields
    found = [held[name] for name in fields if name in held and held[name].type in KEY_TYPES]
    return found if len(found) == len(fields) else []


def _struct(schema: SparkSchema) -> pa.StructType:
    return pa.struct(list(schema.arrow()))
