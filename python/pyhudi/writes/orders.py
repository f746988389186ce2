"""The write's specification: what the driver decides for all tasks of one write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import DataFrame

from pyhudi.config import Operation, SortMode, WriteOptions
from pyhudi.format.instants import InstantTime
from pyhudi.format.markers import MarkerForm
from pyhudi.format.table_config import TableConfig
from pyhudi.rows.announce import HeldMarkers, MarkersPlace
from pyhudi.rows.bulk import bulk_write
from pyhudi.rows.groups import write_groups
from pyhudi.rows.shipping import shipped
from pyhudi.rows.spec import FileNames, Filled, GroupPlan, WriteSpec
from pyhudi.services.file_schemas import FileSchemas
from pyhudi.services.rewriting import bloom_spec, change_log_spec
from pyhudi.services.slice_merging import filled
from pyhudi.transactions.markers.marker_log import Batching
from pyhudi.writes.keys.expressions import PARTITION_PATH, RECORD_KEY
from pyhudi.writes.placement.logged_slices import logged_deletes
from pyhudi.writes.stage import Work
from pyhudi.writes.write_context import Write

NONCE_BOUND = 1_000_000_000
ON_HDFS = ("hdfs:", "viewfs:")
INSERTS = frozenset({Operation.INSERT, Operation.BULK_INSERT})


def write_spec(write: Write) -> WriteSpec:
    """The spec of one write; the nonce makes its file names unique among all writes."""
    options, config = write.options, write.config
    full = write.prepared.schema.with_meta_columns().avro(config.name)
    filesystem, root = write.runtime.filesystem(write.table.storage.root)
    return WriteSpec(
        root=root,
        fs=filesystem,
        instant=write.instant,
        schema=write.prepared.arrow,
        avro_schema=json.dumps(full),
        write_nonce=write.runtime.clock.random_int(NONCE_BOUND),
        merge_mode=config.merge_mode.value,
        ordering_columns=write.ordering_fields,
        key_columns=config.record_key_fields,
        codec=options.codec.value,
        row_group_bytes=options.row_group_bytes,
        target_file_bytes=options.max_file_bytes,
        bloom=bloom_spec(options) if write.index.filtered else None,
        combine=combines(write),
        match_keys=write.operation not in INSERTS,
        always_delete=write.operation is Operation.DELETE,
        change_log=change_log_spec(config, write.prepared.schema),
        layout=config.layout,
        keys_known=not write.index.hashed,
        filled=_filled(config),
        alone=not write.only_logs,
        exact=write.prepared.changes is not None,
    )


def _filled(config: TableConfig) -> Filled | None:
    """Apache Hudi's writers find a marker in bytes, too, and its readers do not."""
    found = filled(config)
    return None if found is None else replace(found, in_bytes=True)


def combines(write: Write) -> bool:
    """Whether incoming rows with the same key are combined before they are written."""
    return combining(write.config, write.options, write.operation)


def combining(config: TableConfig, options: WriteOptions, operation: Operation) -> bool:
    """The same, before there is an attempt."""
    wanted = {Operation.UPSERT: options.combine_before_upsert, Operation.DELETE: True}
    keyed = bool(config.record_key_fields)
    return keyed and wanted.get(operation, options.combine_before_insert)


def marker_form(write: Write) -> MarkerForm:
    """The form that an option names, otherwise lists; on HDFS direct markers, as in Hudi."""
    on_hdfs = write.table.storage.root.startswith(ON_HDFS)
    return write.options.marker_form or (
        MarkerForm.DIRECT if on_hdfs else MarkerForm.TIMELINE_SERVER_BASED
    )


def marked(write: Write, staged: bool) -> WriteSpec:
    """``write_spec`` with the place for its markers, which is decided before the first marker.

    ``staged`` says whether Spark tasks write the files, or this process.
    """
    spec, options, markers = write_spec(write), write.options, write.runtime.markers
    if markers is None or marker_form(write) is MarkerForm.DIRECT:
        return spec
    if staged and not markers.server_runs(options.marker_port):
        return spec
    opened = markers.service.open(write.table.storage, write.instant, batching(options))
    write.transaction.keep_markers(opened)
    place: MarkersPlace = HeldMarkers(opened.ask)
    return replace(spec, markers=markers.address(opened.key) if staged else place)


def batching(options: WriteOptions) -> Batching:
    """How the driver's server gathers requests for markers."""
    return Batching(options.marker_interval_ms, options.marker_threads)


def bulk_work(write: Write) -> Work:
    """The worker function of a single pass, for Spark tasks."""
    return shipped(bulk_write, marked(write, staged=True), write.runtime.clock.uuid())


def bulk_work_here(write: Write) -> Work:
    """The same for this process."""
    return bulk_write(marked(write, staged=False), write.runtime.clock.uuid())


def group_work(write: Write, groups: Mapping[int, GroupPlan], task_of: Mapping[int, int]) -> Work:
    """The worker function of a write by file groups, for Spark tasks; each group is in one."""
    plans = with_names(write, groups)
    deletes = logged_deletes(write, plans)
    return shipped(write_groups, marked(write, staged=True), plans, dict(task_of), deletes)


def group_work_here(write: Write, groups: Mapping[int, GroupPlan]) -> Work:
    """The same for this process, which counts as task 0."""
    plans = with_names(write, groups)
    tasks = dict.fromkeys(plans, 0)
    return write_groups(marked(write, staged=False), plans, tasks, logged_deletes(write, plans))


def with_names(write: Write, groups: Mapping[int, GroupPlan]) -> dict[int, GroupPlan]:
    """The plans with the column names of their base files, if columns have ids."""
    history = write.transaction.keep_history()
    if history.current() is None:
        return dict(groups)
    timeline = write.transaction.timeline
    schemas = FileSchemas(write.runtime.filesystem, write.table, timeline, history)
    names: dict[str, FileNames | None] = {}
    found = {}
    for ordinal, plan in groups.items():
        if plan.base_file is None or plan.base_instant is None:
            found[ordinal] = plan
            continue
        if plan.base_instant not in names:
            instant = InstantTime(plan.base_instant)
            schema = write.prepared.schema
            names[plan.base_instant] = schemas.names_of(instant, plan.base_file, schema)
        found[ordinal] = replace(plan, names=names[plan.base_instant])
    return found


def sized_rows(write: Write) -> DataFrame:
    """The input of a bulk insert, arranged by its sort mode; NONE leaves it as it is."""
    rows = write.prepared.rows
    mode = write.options.bulk_sort_mode
    order = [c for c in (PARTITION_PATH, RECORD_KEY) if c in rows.columns]
    if mode is SortMode.GLOBAL_SORT:
        return rows.sort(*order)
    if mode is SortMode.PARTITION_SORT:
        return rows.sortWithinPartitions(*order)
    if mode is SortMode.PARTITION_PATH_REPARTITION:
        return rows.repartition(PARTITION_PATH).sortWithinPartitions(PARTITION_PATH)
    if mode is SortMode.PARTITION_PATH_REPARTITION_AND_SORT:
        return rows.repartition(PARTITION_PATH).sortWithinPartitions(*order)
    return rows
