"""Clusters a table: rewrites groups of its slices, by a plan that is on the timeline first.

Invariants: the plan is made under the table's lock, on a view that does not change; a plan of
pyhudi that is found has an owner that may live, or is rolled back (docs/decisions/clustering.md).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from itertools import islice
from typing import Final, Protocol

import pyarrow as pa

from pyhudi.choices import ClusteringLayout
from pyhudi.config import WriteOptions
from pyhudi.errors import ConfigError, FileExists, HudiError, UnsupportedTable
from pyhudi.format.commit_metadata import WriteStat
from pyhudi.format.instants import Instant, InstantTime, State
from pyhudi.format.plans import (
    ClusteringSlice,
    RequestedReplace,
)
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.format.table_config import TableType
from pyhudi.index.bucket_names import has_buckets
from pyhudi.index.kinds import kind_of
from pyhudi.listing import Listing
from pyhudi.rows.cluster import cluster_files
from pyhudi.rows.log_spec import ClusterTask
from pyhudi.rows.spec import GROUP, FileSystemSpec, WriteSpec
from pyhudi.services.budget import NO_BUDGET, Allowance, Budget
from pyhudi.services.clustering_plan import (
    ClusteringRules,
    Group,
    PlannedGroup,
    ProposedSlice,
)
from pyhudi.services.clustering_run import Rewritten, RunningClustering
from pyhudi.services.clustering_schedule import (
    LAYOUT_KEY,
    SORT_KEY,
    proposal_of,
    rendered,
    rules_of,
)
from pyhudi.services.column_ranges import ColumnRanges
from pyhudi.services.dead_clusterings import roll_back_dead
from pyhudi.services.rewriting import rewrite_spec
from pyhudi.services.slice_merging import (
    completed_slices,
    counted_instants,
    merge_spec,
    unmergeable,
)
from pyhudi.services.written_columns import WrittenColumns, written_columns
from pyhudi.services.written_files import stat_of
from pyhudi.slices.files import FileSlice
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.pending import planned_clusterings
from pyhudi.timeline.schema import table_schema
from pyhudi.timeline.table import Table
from pyhudi.transactions.conflicts.clustering_plans import yields
from pyhudi.transactions.pessimistic import is_pessimistic
from pyhudi.transactions.phases import Phase
from pyhudi.transactions.writable import refuse_kind_of, refuse_writes_to
from pyhudi.transactions.writer import Writer

log = logging.getLogger(__name__)

NO_TIME: Final = "the time of this run was used up: the next one goes on"
NONCE_BOUND: Final = 1_000_000_000
Place = tuple[FileSystemSpec, str]


class ClusteringFate(str, Enum):
    """What a clustering does with a file."""

    CLUSTERED = "clustered"
    WOULD_BE = "would be clustered"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class ClusteredFile:
    """A file group of the table, and what became of it.

    ``file`` is its base file, or its first log if it has none; ``size_bytes`` counts its ``logs``,
    so many, too. Those with one number in ``group`` are rewritten together; ``clustering`` is the
    instant that did it.
    """

    partition: str
    file: str
    size_bytes: int
    fate: ClusteringFate
    group: int | None
    why: str
    clustering: InstantTime | None = None
    logs: int = 0


class Tasks(Protocol):
    """Where the groups of a clustering are rewritten."""

    def run(
        self,
        spec: WriteSpec,
        tasks: Mapping[int, ClusterTask],
        columns: Sequence[str],
        layout: str,
    ) -> list[WriteStat]:
        """Carry out ``tasks``; what they wrote."""

    def ended(self, instant: InstantTime, timeout_s: float) -> bool:
        """Whether no attempt writes for ``instant`` any more, after at most this time."""

    def elsewhere_cpu_s(self) -> float:
        """CPU seconds that other processes have used for the tasks so far."""


class TasksHere:
    """The groups one after the other in this process."""

    def run(
        self,
        spec: WriteSpec,
        tasks: Mapping[int, ClusterTask],
        columns: Sequence[str],
        layout: str,
    ) -> list[WriteStat]:
        """Carry out ``tasks``; what they wrote."""
        numbers = pa.record_batch({GROUP: pa.array(sorted(tasks), pa.int32())})
        work = cluster_files(spec, tasks, columns, layout)
        return [stat_of(row) for batch in work(iter([numbers])) for row in batch.to_pylist()]

    def ended(self, instant: InstantTime, timeout_s: float) -> bool:
        """True: ``run`` has returned."""
        return True

    def elsewhere_cpu_s(self) -> float:
        """None: this process has done all."""
        return 0.0


@dataclass(frozen=True, slots=True)
class Clustering:
    """One run: the writer, its options, the place of the data files, and who does the work.

    ``budget`` bounds what the plan takes. When ``allowance`` is over, no further group of files
    begins. What is left out because others changed it is clustered ``again``, so many times, from
    its new files.
    """

    writer: Writer
    options: WriteOptions
    place: Place
    tasks: Tasks
    allowance: Allowance | None = None
    again: int = 1
    budget: Budget = NO_BUDGET

    @property
    def table(self) -> Table:
        return self.writer.table

    @property
    def is_over(self) -> bool:
        """Whether its time is used up."""
        return self.allowance is not None and self.allowance.is_over(self.tasks.elsewhere_cpu_s())


def clustered(run: Clustering, dry_run: bool = False) -> Listing[ClusteredFile]:
    """Settle pending clusterings, then cluster by the options; an entry for each file.

    With ``dry_run`` nothing changes. Errors: ``UnsupportedTable``, ``ConfigError``,
    ``LockTimeout``, ``CommitConflict`` if the table was restored or altered meanwhile.
    """
    table = run.table
    rules = replace(rules_of(run.options), budget=run.budget)
    timeline = table.timeline()
    schema = table_schema(table, timeline, None)
    if schema is None:
        return Listing(ClusteredFile)
    _refuse(run, timeline, schema)
    ranges = ColumnRanges(run.place, rules.sort_columns)
    if dry_run:
        planned = proposal_of(run.writer, timeline, rules, ranges).slices
        return Listing(ClusteredFile, [_row(f, ClusteringFate.WOULD_BE) for f in planned])
    found = _settled(run, timeline)
    rows = _planned_and_done(run, rules, ranges, None)
    for _ in range(run.again):
        # Not in the same commit: its time is before the change, so time travel would see it early.
        changed = frozenset(group for group, row in rows.items() if _was_changed(row))
        if not changed or run.is_over:
            break
        try:
            rows |= _planned_and_done(run, rules, ranges, changed)
        except HudiError as error:
            log.warning("file groups that others changed stay as they are: %s", error)
    return Listing(ClusteredFile, [*found, *rows.values()])


def _planned_and_done(
    run: Clustering, rules: ClusteringRules, ranges: ColumnRanges, only: Collection[Group] | None
) -> dict[Group, ClusteredFile]:
    """One clustering of the table, or of ``only`` these file groups; an entry for each."""
    table = run.table
    # Most often nothing is due. Then the lock is not taken.
    latest = proposal_of(run.writer, table.timeline(), rules, ranges, only)

    def plan(now: Timeline) -> RequestedReplace | None:
        nonlocal latest
        latest = proposal_of(run.writer, now, rules, ranges, only)
        return rendered(table, latest, run.options) if latest.groups else None

    running = RunningClustering.planned(run.writer, plan) if latest.groups else None
    if running is None:
        return {_group_of(planned): _row(planned) for planned in latest.slices}
    columns, layout = rules.sort_columns, run.options.cluster_layout
    left = _carried_out(run, running, latest.groups, columns, layout)
    return {_group_of(planned): _done(planned, left, running.instant) for planned in latest.slices}


def _was_changed(row: ClusteredFile) -> bool:
    """Whether the file was to be rewritten, but its group was left out for another writer."""
    return row.fate is ClusteringFate.LEFT and row.group is not None and row.why != NO_TIME


def _refuse(run: Clustering, timeline: Timeline, schema: SparkSchema) -> None:
    """The errors of ``clustered`` about the table and the columns."""
    table = run.table
    feature = None
    if table.config.table_type is TableType.MERGE_ON_READ:
        refuse_kind_of(table)
        feature = unmergeable(table.config)
        feature = f"a table with {feature}" if feature is not None else None
    else:
        refuse_writes_to(table)
    if kind_of(run.options).hashed or has_buckets(table.storage, table.view(timeline)):
        feature = "a table with the bucket index, whose rows have their file by a hash"
    elif is_pessimistic(table.config):
        feature = "a table of pessimistic writers"
    if feature is not None:
        raise UnsupportedTable(
            f"pyhudi cannot cluster {feature} yet. Nothing was changed. Let Apache Hudi cluster "
            f"{table.config.name}, where it can.",
            feature=feature,
        )
    known = {column.name: column for column in schema.columns}
    for name in run.options.cluster_columns:
        if name not in known or known[name].is_nested:
            what = "is not a column of" if name not in known else "is a nested column of"
            raise ConfigError(
                f"'{name}' {what} {table.config.name}, so its rows cannot be sorted by it. The "
                f"columns are {', '.join(n for n, c in known.items() if not c.is_nested)}.",
                key=SORT_KEY,
            )


def _carried_out(
    run: Clustering,
    running: RunningClustering,
    groups: Sequence[PlannedGroup],
    columns: Sequence[str],
    layout: ClusteringLayout,
) -> dict[Group, str]:
    """Rewrite ``groups`` and commit; the input groups that were left out, and why."""
    running.quiet = partial(run.tasks.ended, running.instant)
    with running:
        if running.phase is Phase.REQUESTED:
            running.put_inflight(b"")
        written = written_columns(run.table, run.place, running.timeline, running.instant)
        tasks = _tasks(run, running, groups, written)
        spec = spec_of(run, running.instant, written.schema)
        stats: list[WriteStat] = []
        begun: set[int] = set()
        bounded = run.allowance is not None and run.allowance.is_bounded
        for part in [{n: task} for n, task in tasks.items()] if bounded else [tasks]:
            if begun and run.is_over:
                break
            stats += run.tasks.run(spec, part, columns, layout.value)
            begun |= part.keys()
            log.info("%s: %d of %d groups are rewritten", running.who, len(begun), len(tasks))
        running.seal(partial(run.tasks.ended, running.instant), [s.path for s in stats])
        by_prefix: dict[str, list[WriteStat]] = {}
        for stat in stats:
            by_prefix.setdefault(stat.file_id.rpartition("-")[0], []).append(stat)
        rewritten = [
            Rewritten(
                frozenset((s.partition_path, s.file_id) for s in group.slices),
                tuple(by_prefix.get(tasks[number].prefix, ())),
            )
            for number, group in enumerate(groups)
            if number in begun
        ]
        metadata, left = running.complete(rewritten, written.schema, written.version)
        if metadata is None:
            running.abort()
    late = (s for number, group in enumerate(groups) if number not in begun for s in group.slices)
    return {**dict.fromkeys(((s.partition_path, s.file_id) for s in late), NO_TIME), **left}


def _tasks(
    run: Clustering,
    running: RunningClustering,
    groups: Sequence[PlannedGroup],
    written: WrittenColumns,
) -> dict[int, ClusterTask]:
    """A task for each group; logs are merged as a read of the plan's timeline merges them."""
    every = [each for group in groups for each in group.slices]
    order = None
    if any(each.logs for each in every):
        counted = counted_instants(run.table.view(running.timeline), None)
        columns = written.schema.columns
        order = merge_spec(run.table.config, run.place, columns, counted, SparkSchema())
    slices = iter(written.files.orders(written.schema, every))
    return {
        number: ClusterTask(
            group.partition_path,
            tuple(islice(slices, len(group.slices))),
            group.outputs,
            run.writer.clock.uuid(),
            order,
        )
        for number, group in enumerate(groups)
    }


def spec_of(run: Clustering, instant: InstantTime, schema: SparkSchema) -> WriteSpec:
    """How the workers write the files of ``instant``."""
    nonce = run.writer.clock.random_int(NONCE_BOUND)
    spec = rewrite_spec(run.options, run.table.config, run.place, instant, schema, nonce)
    return replace(spec, target_file_bytes=run.options.cluster_target_bytes)


# --- clusterings that are pending ---------------------------------------------------------------


def _settled(run: Clustering, timeline: Timeline) -> list[ClusteredFile]:
    """Roll back plans of pyhudi whose owner is dead, and carry out those that Apache Hudi left."""
    roll_back_dead(run.writer)
    found: list[ClusteredFile] = []
    for pending, requested in planned_clusterings(run.table, timeline):
        if not yields(requested) and pending.state is State.REQUESTED:
            found += _finished(run, pending, requested)
    return found


def _finished(
    run: Clustering, pending: Instant, requested: RequestedReplace
) -> list[ClusteredFile]:
    """Carry out a plan that Apache Hudi has requested and nobody has begun."""
    table, plan = run.table, requested.clustering_plan
    assert plan is not None
    running = RunningClustering.found(run.writer, pending)
    try:
        running.put_inflight(b"")
    except FileExists:
        running.leave()
        return []
    view = table.view(running.timeline)
    live = {(each.partition_path, each.file_id): each for each in completed_slices(view)}
    groups: list[PlannedGroup] = []
    rows: list[ProposedSlice] = []
    for group in plan.input_groups:
        found = [live.get((s.partition_path, s.file_id)) for s in group.slices]
        known = [f for f, s in zip(found, group.slices, strict=True) if f and _is_as_planned(f, s)]
        number = len(groups)
        if known and len(known) == len(group.slices):
            groups.append(PlannedGroup(tuple(known), group.num_output_file_groups or 1))
            why = f"the plan of the pending clustering {pending.time} names it"
            rows += [ProposedSlice(f, number, why) for f in known]
        else:
            why = f"it is not as the clustering {pending.time} planned it"
            rows += [ProposedSlice(f, None, why) for f in found if f]
    params = plan.strategy.strategy_params if plan.strategy is not None else {}
    columns = tuple(name.strip() for name in params.get(SORT_KEY, "").split(",") if name.strip())
    layouts = {each.value.lower(): each for each in ClusteringLayout} | {
        "z-order": ClusteringLayout.Z_ORDER
    }
    layout = layouts.get(params.get(LAYOUT_KEY, "").lower(), ClusteringLayout.LINEAR)
    left = _carried_out(run, running, groups, columns, layout)
    return [_done(row, left, pending.time) for row in rows]


def _is_as_planned(slice_: FileSlice, planned: ClusteringSlice) -> bool:
    """Whether the plan names the base file and all logs that have completed.

    It may name more: logs of writes that failed since.
    """
    base = slice_.base.name if slice_.base is not None else ""
    named = {path.rpartition("/")[2] for path in planned.delta_file_paths or ()}
    logs = {log.name for log in slice_.logs}
    return (planned.data_file_path or "").rpartition("/")[2] == base and logs <= named


# --- entries ------------------------------------------------------------------------------------


def _row(planned: ProposedSlice, goes: ClusteringFate = ClusteringFate.LEFT) -> ClusteredFile:
    of = planned.slice
    return ClusteredFile(
        of.partition_path,
        of.files[0].name,
        of.size_bytes,
        ClusteringFate.LEFT if planned.group is None else goes,
        planned.group,
        planned.why,
        logs=len(of.logs),
    )


def _group_of(planned: ProposedSlice) -> Group:
    return planned.slice.partition_path, planned.slice.file_id


def _done(planned: ProposedSlice, left: Mapping[Group, str], instant: InstantTime) -> ClusteredFile:
    """The entry of a file after the commit."""
    own = left.get(_group_of(planned))
    if own is not None:
        return replace(_row(planned), why=own)
    row = _row(planned, ClusteringFate.CLUSTERED)
    return row if planned.group is None else replace(row, clustering=instant)
