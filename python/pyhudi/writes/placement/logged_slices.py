"""The slices with logs that a write has to look into, as it sends them to its workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from pyhudi.config import Operation, resolve_read
from pyhudi.format.filenames import FileId
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.format.table_config import TableType
from pyhudi.reads.log_slices import counted_slices, log_orders, merge_spec
from pyhudi.reads.scan import Query
from pyhudi.rows.log_spec import LoggedSlices, MergeSpec
from pyhudi.rows.spec import KEY_COLUMN, GroupPlan
from pyhudi.services.slice_merging import filled
from pyhudi.slices.files import FileSlice
from pyhudi.timeline.pending import planned_compactions
from pyhudi.transactions.conflicts.comparison import Group
from pyhudi.writes.placement.event_time import by_event_time
from pyhudi.writes.placement.log_looks import Deleting
from pyhudi.writes.write_context import Write


def query_of(write: Write) -> Query:
    """The table as the attempt sees it."""
    options = resolve_read({}, {}, False)
    return Query(write.runtime, write.table, write.transaction.timeline, None, options)


def slices_of(write: Write, query: Query, groups: Mapping[Group, int]) -> list[FileSlice]:
    """The slices of ``groups`` that have a base file and logs, with the logs that count."""
    return [each for each in _with_logs(write, query, groups) if each.base is not None]


def _with_logs(write: Write, query: Query, groups: Mapping[Group, int]) -> list[FileSlice]:
    held = write.view.slices(partitions={partition for partition, _ in groups})
    mine = [s for s in held if s.logs and (s.partition_path, s.file_id) in groups]
    return [each for each in counted_slices(query, mine) if each.logs]


def logged_deletes(write: Write, plans: Mapping[int, GroupPlan]) -> LoggedSlices | None:
    """The slices of ``plans`` whose logs have deletes that a row may come after too late
    (``rows/late_rows.py``); None if there are none.

    A compaction of them lets such rows in, so the next attempt is told which they are.
    """
    logged = {
        (plan.partition_path, FileId(plan.file_id)): ordinal
        for ordinal, plan in plans.items()
        if plan.log_version is not None
    }
    write.kept.logged = write.kept.deleting = frozenset()
    if not logged:
        return None
    query = query_of(write)
    slices = _with_logs(write, query, logged)
    write.kept.logged = _groups(slices)
    planned = _planned(write)
    # Of a group of logs alone only a compaction makes a base file, with rows that may come back.
    slices = [s for s in slices if s.base is not None or (s.partition_path, s.file_id) in planned]
    fills = filled(write.config) is not None
    ordered = by_event_time(write) and write.ordering_fields
    if not slices or not (ordered or fills) or write.operation is Operation.DELETE:
        return None
    order = merge_spec(query, SparkSchema())
    slices = Deleting(write, order).slices(slices, forced=not fills)
    write.kept.deleting = _groups(slices)
    found = _as_sent(query, order, slices, logged)
    mine = {logged[group]: planned[group] for group in logged.keys() & planned.keys()}
    return None if found is None else replace(found, planned=mine)


def _planned(write: Write) -> dict[Group, tuple[str, frozenset[str]]]:
    """Of the groups of pending compactions: which blocks are merged, as of ``LoggedSlices``."""
    return {
        (each.partition_path, each.file_id): (pending.time, frozenset(each.log_paths))
        for pending, plan in planned_compactions(write.table, write.transaction.timeline)
        for each in plan.operations
    }


def merged_values(
    write: Write, groups: Mapping[Group, int], beside: pa.Schema
) -> LoggedSlices | None:
    """The slices of ``groups`` whose rows have newer values in the columns ``beside`` in logs;
    None if none has logs."""
    if write.config.table_type is not TableType.MERGE_ON_READ or not len(beside):
        return None
    query = query_of(write)
    slices = slices_of(write, query, groups)
    if not slices:
        return None
    rows = pa.struct([pa.field(KEY_COLUMN, pa.string()), *beside])
    order = replace(merge_spec(query, SparkSchema()), rows=rows)
    return _as_sent(query, order, slices, groups)


def _groups(slices: Sequence[FileSlice]) -> frozenset[Group]:
    return frozenset((each.partition_path, each.file_id) for each in slices)


def _as_sent(
    query: Query, order: MergeSpec, slices: Sequence[FileSlice], ordinals: Mapping[Group, int]
) -> LoggedSlices | None:
    if not slices:
        return None
    places = [ordinals[each.partition_path, each.file_id] for each in slices]
    return LoggedSlices(order, dict(zip(places, log_orders(query, slices), strict=True)))
