"""Writes by file group: tag, profile, assign, write (ARCHITECTURE.md, "One commit, end to end").

The input is evaluated once and kept; a lost block of it is a clear failure, since Spark cannot
recompute what was checkpointed locally.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pyhudi.config import DuplicatePolicy, Operation
from pyhudi.errors import InvalidRecord
from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.filenames import bucket_file_id
from pyhudi.index.lookup import KEY, ORDINAL
from pyhudi.rows.spec import DELETE, GROUP, GroupPlan
from pyhudi.slices.files import BaseFile
from pyhudi.writes.kept import Tagged
from pyhudi.writes.keys.expressions import PARTITION_PATH, RECORD_KEY
from pyhudi.writes.keys.partition_paths import check_partition_paths
from pyhudi.writes.orders import combines, group_work
from pyhudi.writes.placement.assign import Assignment, Sizing, assign
from pyhudi.writes.placement.buckets import BUCKET, bucket_files, with_bucket
from pyhudi.writes.placement.sizing import sizing_of
from pyhudi.writes.placement.tag import (
    BASE_PARTITION,
    base_keys,
    one_per_key,
    tag_global,
    tag_partitioned,
)
from pyhudi.writes.placement.task_routes import as_sql_array, balanced, routes, task_count
from pyhudi.writes.placement.workload import new_file_id, workload
from pyhudi.writes.prepare import HOME
from pyhudi.writes.row_changes import SHOWN, check_homes, refuse_known_keys
from pyhudi.writes.stage import Written, job
from pyhudi.writes.write_context import Write

SLOTS = "_pyhudi_slots"
ROUTE = "_pyhudi_route"


def write_grouped(write: Write, only_new_groups: bool = False) -> Written:
    """Write the prepared rows by file group."""
    rows = write.kept.checkpointed(write.prepared)
    partitions = _partition_counts(write, rows)
    if not partitions:
        write.transaction.inflight(CommitMetadata(operation=write.operation.value.upper()))
        return Written()
    files = [] if only_new_groups else _candidates(write, partitions)
    write.transaction.check_targets(files)
    if write.prepared.changes is not None and write.prepared.changes.adds:
        _refuse_known(write, rows, files)
    if write.index.hashed:
        return _write_buckets(write, rows, files)
    tagged = _tagged(write, rows, files)
    updates, inserts = _profile(write, tagged)
    if write.prepared.changes is not None:
        check_homes(write.prepared.changes, sum(inserts.values()))
    sizing = sizing_of(write, files)
    if write.operation is Operation.DELETE:
        inserts = {}
    assignment = assign(files, updates, inserts, sizing, lambda _: new_file_id(write))
    return _write(write, _placed(write, tagged, assignment), assignment, updates, inserts)


def _partition_counts(write: Write, rows: DataFrame) -> dict[str, int]:
    with job(write.spark, write.describe("read the input")):
        found = rows.groupBy(PARTITION_PATH).count().collect()
    counts = {row[0]: row[1] for row in found}
    check_partition_paths(counts)
    return counts


def _candidates(write: Write, partitions: dict[str, int]) -> list[BaseFile]:
    """Newest base files that rows may belong to; a global index looks everywhere."""
    everywhere = write.index.everywhere
    return write.view.latest(partitions=None if everywhere else partitions)


def _tagged(write: Write, rows: DataFrame, files: Sequence[BaseFile]) -> DataFrame:
    """Rows with the ordinal of the base file that holds their key, null for new keys."""
    if write.prepared.changes is not None:
        homes = [(file.file_id, ordinal) for ordinal, file in enumerate(files)]
        known = write.spark.createDataFrame(homes, f"{HOME} string, {ORDINAL} int")
        return rows.join(F.broadcast(known), HOME, "left")
    inserting = write.operation in (Operation.INSERT, Operation.BULK_INSERT)
    if combines(write) and write.index.everywhere:
        rows = one_per_key(write, rows)
    elif combines(write) and inserting:
        # An insert into an existing file looks at no keys: its rows are combined here.
        rows = one_per_key(write, rows, (PARTITION_PATH, KEY))
    policy = write.options.duplicate_policy
    untagged = inserting and (policy is DuplicatePolicy.NONE or RECORD_KEY not in rows.columns)
    if untagged or not files:
        return rows.withColumn(ORDINAL, F.lit(None).cast("int"))
    if write.index.everywhere:
        tagged = tag_global(write, rows, files)
    else:
        tagged = tag_partitioned(write, rows, files)
    tagged = tagged.localCheckpoint(eager=False)
    write.kept.tagged = Tagged(tagged, files)
    if inserting:
        return _without_duplicates(write, tagged)
    if write.operation is Operation.DELETE:
        return tagged.where(F.col(ORDINAL).isNotNull())
    return tagged


def _refuse_known(write: Write, rows: DataFrame, files: Sequence[BaseFile]) -> None:
    """``InvalidRecord`` where ``files`` hold the keys of new rows."""
    new, held = rows.where(F.col(HOME).isNull()), base_keys(write, files)
    if write.index.everywhere:
        # A row that moves leaves the partition that held it.
        leaving = rows.where(F.col(HOME).isNotNull() & F.col(DELETE)).select(KEY)
        new = new.join(leaving, KEY, "left_anti")
        found = new.join(held, KEY, "left_semi")
    else:
        held = held.withColumnRenamed(BASE_PARTITION, PARTITION_PATH)
        found = new.join(held, [KEY, PARTITION_PATH], "left_semi")
    with job(write.spark, write.describe("look for the new keys")):
        shown = found.select(KEY).limit(SHOWN).collect()
    refuse_known_keys([row[0] for row in shown], write.config)


def _without_duplicates(write: Write, tagged: DataFrame) -> DataFrame:
    """Drop inserts whose key exists, or refuse them and name some of the keys."""
    if write.options.duplicate_policy is DuplicatePolicy.FAIL:
        with job(write.spark, write.describe("look for duplicates")):
            found = tagged.where(F.col(ORDINAL).isNotNull()).select(KEY).limit(5).collect()
        if found:
            keys = ", ".join(row[0] for row in found)
            raise InvalidRecord(
                f"The table already has rows with these keys: {keys}. "
                "hoodie.datasource.insert.dup.policy is fail: remove them from the input, or "
                "use upsert.",
                column=",".join(write.config.record_key_fields),
            )
    return tagged.where(F.col(ORDINAL).isNull())


def _profile(write: Write, tagged: DataFrame) -> tuple[dict[int, int], dict[str, int]]:
    """Rows by ordinal, and new rows by partition path."""
    with job(write.spark, write.describe("find file groups")):
        found = tagged.groupBy(PARTITION_PATH, ORDINAL).count().collect()
    updates: dict[int, int] = {}
    inserts: dict[str, int] = {}
    for partition, ordinal, count in found:
        if ordinal is None:
            inserts[partition] = count
        else:
            updates[ordinal] = updates.get(ordinal, 0) + count
    return updates, inserts


def _placed(write: Write, tagged: DataFrame, assignment: Assignment) -> DataFrame:
    """Rows with their group: the tagged ordinal, or a slot chosen by the hash of the key."""
    if not assignment.slots:
        return tagged.withColumn(GROUP, F.col(ORDINAL))
    slots = write.spark.createDataFrame(
        [(p, list(s)) for p, s in assignment.slots.items()],
        f"{PARTITION_PATH} string, {SLOTS} array<int>",
    )
    columns = [RECORD_KEY] if RECORD_KEY in tagged.columns else list(write.prepared.data_columns)
    hashed = F.xxhash64(*[F.col(f"`{c}`") for c in columns])
    slot = F.pmod(hashed, F.size(SLOTS)).cast("int")
    chosen = F.element_at(F.col(SLOTS), slot + F.lit(1))
    joined = tagged.join(F.broadcast(slots), PARTITION_PATH, "left")
    return joined.withColumn(GROUP, F.coalesce(F.col(ORDINAL), chosen))


def _write_buckets(write: Write, rows: DataFrame, files: Sequence[BaseFile]) -> Written:
    """The bucket index: a row's group is its key's hash, nothing is looked up."""
    count = write.options.bucket_count
    ordinals = bucket_files(files, count)
    changes, strangers = write.prepared.changes, F.lit(0)
    if changes is not None:
        rows, strangers = _tagged(write, rows, files), F.count_if(F.col(ORDINAL).isNull())
    bucketed = with_bucket(write, rows, files).localCheckpoint(eager=False)
    with job(write.spark, write.describe("find buckets")):
        grouped = bucketed.groupBy(PARTITION_PATH, BUCKET).agg(F.count("*"), strangers)
        counts = sorted(grouped.collect())
    if changes is not None:
        check_homes(changes, sum(row[3] for row in counts))
    updates: dict[int, int] = {}
    inserts: dict[str, int] = {}
    slots: dict[str, list[int]] = {}
    fresh: dict[int, tuple[str, int]] = {}
    for partition, bucket, rows_in, _ in counts:
        ordinal = ordinals.get((partition, bucket))
        if ordinal is None and write.operation is Operation.DELETE:
            continue  # there is nothing to delete from
        if ordinal is None:
            ordinal = len(files) + len(fresh)
            fresh[ordinal] = (partition, bucket)
            inserts[partition] = inserts.get(partition, 0) + rows_in
        updates[ordinal] = rows_in
        slots.setdefault(partition, [-1] * count)[bucket] = ordinal
    assignment = bucket_assignment(write, files, updates, fresh, slots)
    table = write.spark.createDataFrame(
        list(slots.items()), f"{PARTITION_PATH} string, {SLOTS} array<int>"
    )
    group = F.element_at(F.col(SLOTS), F.col(BUCKET) + F.lit(1))
    placed = bucketed.join(F.broadcast(table), PARTITION_PATH).withColumn(GROUP, group)
    placed = placed.where(F.col(GROUP) >= 0)
    return _write(write, placed, assignment, updates, inserts)


def bucket_assignment(
    write: Write,
    files: Sequence[BaseFile],
    rows_of: dict[int, int],
    fresh: dict[int, tuple[str, int]],
    slots: dict[str, list[int]],
) -> Assignment:
    """Groups of a bucket write: existing ones by ordinal, new ones named by their bucket."""
    sizing: Sizing = sizing_of(write, files)
    groups, sizes = {}, {}
    for ordinal, rows_in in rows_of.items():
        base = 0
        if ordinal in fresh:
            partition, bucket = fresh[ordinal]
            file_id = bucket_file_id(bucket, write.runtime.clock.uuid())
            groups[ordinal] = GroupPlan(ordinal, file_id, partition)
        else:
            file, base = files[ordinal], files[ordinal].size_bytes
            groups[ordinal] = GroupPlan(
                ordinal, file.file_id, file.partition_path, file.path, file.instant
            )
        sizes[ordinal] = base + rows_in * sizing.row_bytes
    return Assignment(groups, slots, sizes, rows_of)


def _write(
    write: Write,
    placed: DataFrame,
    assignment: Assignment,
    updates: dict[int, int],
    inserts: dict[str, int],
) -> Written:
    """Publish the profile and run the write stage: one group in one task, sorted by group."""
    # A bucket has the same name for every writer, so it can be locked before it exists.
    bucketed = write.index.hashed
    write.transaction.check_updates(assignment.updated(), assignment.created() if bucketed else ())
    write.transaction.inflight(workload(write, assignment, updates, inserts))
    if not assignment.groups:
        return Written()
    tasks = task_count(len(assignment.groups), write.spark.sparkContext.defaultParallelism)
    task_of = balanced(assignment.bytes_of, tasks)
    route_of = routes(tasks)
    table = [0] * (max(task_of) + 1)
    for ordinal, task in task_of.items():
        table[ordinal] = route_of[task]
    routed = F.element_at(
        F.split(F.lit(as_sql_array(table)), ",").cast("array<int>"), F.col(GROUP) + F.lit(1)
    )
    wanted = [GROUP, *[c for c in (RECORD_KEY, DELETE) if c in placed.columns]]
    wanted += list(write.prepared.data_columns)
    rows = (
        placed.withColumn(ROUTE, routed)
        .repartition(tasks, ROUTE)
        .sortWithinPartitions(GROUP)
        .select(*[F.col(f"`{c}`") for c in wanted])
    )
    work = group_work(write, assignment.groups, task_of)
    return write.stage.run(rows, work)
