"""Writes by file group: tag, profile, assign, write (ARCHITECTURE.md, "One commit, end to end").

The input is evaluated once and kept; a lost block of it is a clear failure, since Spark cannot
recompute what was checkpointed locally.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.index.lookup import KEY, ORDINAL
from pyhudi.rows.spec import DELETE, GROUP, HOME
from pyhudi.services.slice_merging import filled
from pyhudi.slices.files import BaseFile
from pyhudi.writes.keys.expressions import PARTITION_PATH, RECORD_KEY
from pyhudi.writes.keys.partition_paths import check_partition_paths
from pyhudi.writes.orders import group_work
from pyhudi.writes.placement.constants import ints
from pyhudi.writes.placement.dead_keys import DeadKeys, dead_keys, homes_of, keys_in_logs
from pyhudi.writes.placement.indexes import INDEXES, Placed
from pyhudi.writes.placement.tag import BASE_PARTITION, base_keys
from pyhudi.writes.placement.task_routes import balanced, routes, task_count
from pyhudi.writes.placement.workload import workload
from pyhudi.writes.plan import Plan, Replaced
from pyhudi.writes.row_changes import SHOWN, refuse_known_keys
from pyhudi.writes.stage import Written, job
from pyhudi.writes.write_context import Write

ROUTE = "_pyhudi_route"
_DEAD_HOME = "_pyhudi_dead_home"


@dataclass(frozen=True, slots=True)
class Grouped:
    """The rows on the executors, whether there are any, and the base files that may hold their
    keys."""

    write: Write
    rows: DataFrame
    has_rows: bool
    targets: Sequence[BaseFile]

    @classmethod
    def of(cls, write: Write, only_new_groups: bool = False) -> Grouped:
        """Evaluate the input and find the partitions that it has rows of."""
        rows = write.kept_rows()
        partitions = partition_counts(write, rows)
        if only_new_groups or not partitions:
            return cls(write, rows, bool(partitions), ())
        index = INDEXES[write.options.index_type]
        return cls(write, rows, True, index.candidates(write.view, partitions))

    def plan(self) -> Plan:
        """Look the keys up, and give each row its file group."""
        write, files = self.write, self.targets
        if not self.has_rows:
            return Plan(Written, profile=CommitMetadata(write.operation.value.upper()))
        rows = self.rows
        if write.prepared.changes is not None and write.prepared.changes.adds:
            dead = dead_keys(write, files)
            refuse_known(write, rows, files, dead)
            rows = _homed(write, rows, files, homes_of(write, files, dead))
        placed = INDEXES[write.options.index_type].place(write, rows, files)
        assignment = placed.assignment
        # A bucket has the same name for every writer, so it can be locked before it exists.
        return Plan(
            partial(write_placed, write, placed),
            assignment.updated(),
            assignment.created() if write.index.hashed else frozenset(),
            profile=workload(write, assignment, placed.updates, placed.inserts),
        )

    def replaced(self, written: Written) -> Replaced | None:
        """Nothing."""
        return None


def partition_counts(write: Write, rows: DataFrame) -> dict[str, int]:
    """Rows by partition path; errors of names that cannot be paths."""
    with job(write.spark, write.describe("read the input")):
        found = rows.groupBy(PARTITION_PATH).count().collect()
    counts = {row[0]: row[1] for row in found}
    check_partition_paths(counts)
    return counts


def _homed(write: Write, rows: DataFrame, files: Sequence[BaseFile], dead: DeadKeys) -> DataFrame:
    """``rows``, of which the new ones with dead keys of their partition have their home."""
    if not dead or write.index.hashed:
        return rows
    found = [
        (files[at].partition_path, key, files[at].file_id)
        for at, keys in dead.items()
        for key in keys.to_pylist()
    ]
    names = f"{PARTITION_PATH} string, {KEY} string, {_DEAD_HOME} string"
    homes = write.spark.createDataFrame(found, names).dropDuplicates([PARTITION_PATH, KEY])
    joined = rows.join(F.broadcast(homes), [PARTITION_PATH, KEY], "left")
    home = F.when(~F.col(DELETE), F.coalesce(F.col(HOME), F.col(_DEAD_HOME)))
    return joined.withColumn(HOME, home.otherwise(F.col(HOME))).drop(_DEAD_HOME)


def refuse_known(write: Write, rows: DataFrame, files: Sequence[BaseFile], dead: DeadKeys) -> None:
    """``InvalidRecord`` if ``files`` hold the keys of new rows; ``dead`` keys do not count."""
    # A group of logs alone has no base file to read.
    named = [at for at, file in enumerate(files) if file.name]
    new, held = rows.where(F.col(HOME).isNull()), base_keys(write, files, ordinals=named)
    if dead:
        gone = [(at, key) for at, keys in dead.items() for key in keys.to_pylist()]
        marks = write.spark.createDataFrame(gone, f"{ORDINAL} int, {KEY} string")
        held = held.join(F.broadcast(marks), [ORDINAL, KEY], "left_anti")
    if write.index.everywhere:
        # A row that moves leaves the partition that held it.
        leaving = rows.where(F.col(HOME).isNotNull() & F.col(DELETE)).select(KEY)
        new = new.join(leaving, KEY, "left_anti")
        found = new.join(held, KEY, "left_semi")
    else:
        held = held.withColumnRenamed(BASE_PARTITION, PARTITION_PATH)
        logged = keys_in_logs(write, files) if write.index.hashed else None
        if logged is not None:  # a bucket's log may have keys that its base file does not have
            held = held.select(KEY, PARTITION_PATH).unionByName(logged)
        found = new.join(held, [KEY, PARTITION_PATH], "left_semi")
    with job(write.spark, write.describe("look for the new keys")):
        shown = found.select(KEY).limit(SHOWN).collect()
    refuse_known_keys([row[0] for row in shown], write.config)


def write_placed(write: Write, placed: Placed) -> Written:
    """Run the write stage: one group in one task, sorted by group."""
    groups = placed.assignment.groups
    if not groups:
        return Written()
    tasks = task_count(len(groups), write.spark.sparkContext.defaultParallelism)
    task_of = balanced(placed.assignment.bytes_of, tasks)
    route_of = routes(tasks)
    table = [0] * (max(task_of) + 1)
    for ordinal, task in task_of.items():
        table[ordinal] = route_of[task]
    routed = F.element_at(ints(table), F.col(GROUP) + F.lit(1))
    marks = [RECORD_KEY, DELETE]
    if write.index.hashed and filled(write.config) is not None:
        marks.append(HOME)
    wanted = [GROUP, *[c for c in marks if c in placed.rows.columns]]
    wanted += list(write.prepared.data_columns)
    rows = (
        placed.rows.withColumn(ROUTE, routed)
        .repartition(tasks, ROUTE)
        .sortWithinPartitions(GROUP)
        .select(*[F.col(f"`{c}`") for c in wanted])
    )
    work = group_work(write, groups, task_of)
    return write.stage(len(groups)).run(rows, work)
