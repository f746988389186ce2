"""Planning a clustering: its rules, the slices of the table that it may take, and its plan.

Invariant: a plan has no group of another pending plan, and none that a living write has announced.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from pyhudi.choices import ClusteringChoice
from pyhudi.config import WriteOptions
from pyhudi.errors import ConfigError
from pyhudi.format.plans import (
    ClusteringGroup,
    ClusteringPlan,
    ClusteringSlice,
    ClusteringStrategy,
    RequestedReplace,
)
from pyhudi.services.clustering_plan import (
    ClusteringFacts,
    ClusteringProposal,
    ClusteringRules,
    Group,
    merged_bytes,
    plan_clustering,
)
from pyhudi.services.clustering_run import announced
from pyhudi.services.column_ranges import ColumnRanges
from pyhudi.services.partition_choice import stated_partitions
from pyhudi.services.planned_groups import compacting_groups, unreadable_plan
from pyhudi.services.slice_merging import completed_slices
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.pending import planned_clusterings
from pyhudi.timeline.table import Table
from pyhudi.transactions.conflicts.clustering_plans import YIELDS, groups_of
from pyhudi.transactions.writer import Writer

EXECUTION: Final = (
    "org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy"
)
CHOICE_KEY: Final = "hoodie.clustering.plan.strategy.class"
SORT_KEY: Final = "hoodie.clustering.plan.strategy.sort.columns"
TARGET_KEY: Final = "hoodie.clustering.plan.strategy.target.file.max.bytes"
LAYOUT_KEY: Final = "hoodie.layout.optimize.strategy"
MB: Final = 1 << 20


def rules_of(options: WriteOptions) -> ClusteringRules:
    """The rules that the options state; ``ConfigError`` for a pattern that is none."""
    selected, pattern = options.cluster_partitions, options.cluster_partition_regex
    key = "hoodie.clustering.plan.strategy.partition.regex.pattern"
    partitions, regex = stated_partitions(selected, pattern, key)
    if options.cluster_choice is ClusteringChoice.OVERLAP and not options.cluster_columns:
        raise ConfigError(
            "Files overlap in the columns by which they are sorted, and no column is named. Set "
            f"{SORT_KEY}.",
            key=SORT_KEY,
        )
    return ClusteringRules(
        choice=options.cluster_choice,
        sort_columns=options.cluster_columns,
        small_bytes=options.cluster_small_bytes,
        target_bytes=options.cluster_target_bytes,
        group_bytes=options.cluster_group_bytes,
        most_groups=options.cluster_groups,
        partitions=partitions,
        regex=regex,
    )


def check_repeatable(options: WriteOptions) -> None:
    """``ConfigError`` if each clustering by ``options`` would rewrite what the last one wrote."""
    if options.cluster_choice is ClusteringChoice.ALL and options.cluster_columns:
        raise ConfigError(
            f"'{CHOICE_KEY}' is 'ALL', and columns to sort by are named, so each clustering would "
            "rewrite the whole table. Choose SMALL_FILES or OVERLAP where clusterings are "
            "repeated, or call pyhudi.cluster once.",
            key=CHOICE_KEY,
        )


def proposal_of(
    writer: Writer,
    timeline: Timeline,
    rules: ClusteringRules,
    ranges: ColumnRanges,
    only: Collection[Group] | None = None,
) -> ClusteringProposal:
    """What a clustering under ``timeline`` would rewrite; of ``only`` these groups, unless None.

    Errors as of ``FileSystemView.slices``.
    """
    table = writer.table
    view = table.view(timeline)
    view.check()
    slices = tuple(
        each
        for each in completed_slices(view)
        if only is None or (each.partition_path, each.file_id) in only
    )
    busy: dict[Group, str] = announced(writer, timeline)
    busy |= compacting_groups(table, timeline)
    for pending, requested in planned_clusterings(table, timeline):
        why = f"clustering {pending.time} is to rewrite it"
        busy |= dict.fromkeys(groups_of(requested), why)
    if (hidden := unreadable_plan(table, timeline)) is not None:
        busy = {(each.partition_path, each.file_id): hidden for each in slices}
    found = {}
    if rules.sort_columns:
        bases = (each.base for each in slices if rules.chosen(each.partition_path))
        found = ranges.of(base.path for base in bases if base is not None)
    return plan_clustering(ClusteringFacts(slices, busy, found), rules)


def rendered(table: Table, proposal: ClusteringProposal, options: WriteOptions) -> RequestedReplace:
    """The plan as its file has it: absolute paths (spec/timeline.md T9)."""
    root = table.storage.root
    groups = []
    for group in proposal.groups:
        slices = tuple(
            ClusteringSlice(
                f"{root}/{each.base.path}" if each.base is not None else "",
                tuple(f"{root}/{log.path}" for log in each.logs),
                each.file_id,
                each.partition_path,
                "",
            )
            for each in group.slices
        )
        logs = [log.size_bytes for each in group.slices for log in each.logs]
        read = float(sum(each.size_bytes for each in group.slices) // MB)
        written = float(sum(map(merged_bytes, group.slices)) // MB)
        metrics = {
            "TOTAL_LOG_FILES": float(len(logs)),
            "TOTAL_LOG_FILES_SIZE": float(sum(logs)),
            "TOTAL_IO_READ_MB": read,
            "TOTAL_IO_WRITE_MB": written,
            "TOTAL_IO_MB": read + written,
        }
        groups.append(ClusteringGroup(slices, metrics, group.outputs))
    params = {TARGET_KEY: str(options.cluster_target_bytes)}
    if options.cluster_columns:
        params[SORT_KEY] = ",".join(options.cluster_columns)
        params[LAYOUT_KEY] = options.cluster_layout.value
    plan = ClusteringPlan(tuple(groups), ClusteringStrategy(EXECUTION, params), {YIELDS: "true"})
    return RequestedReplace("CLUSTER", plan, {}, 1)
