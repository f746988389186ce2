"""The indexes: which base files may hold the keys of a write, and which file group a row goes to.

One class for each kind, in place of conditions in each step. What a kind means for the other steps
is a row of facts in ``index/kinds.py``. An input that the driver holds goes the same way on arrays
(``collected.py``), for the kinds that look keys up by partition.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pyhudi.choices import IndexType
from pyhudi.config import DuplicatePolicy, Operation, WriteOptions
from pyhudi.errors import InvalidRecord
from pyhudi.format.filenames import bucket_file_id, shared_bucket_file_id
from pyhudi.format.table_config import TableConfig
from pyhudi.index.lookup import KEY, ORDINAL
from pyhudi.rows.spec import GROUP, GroupPlan
from pyhudi.slices.files import BaseFile
from pyhudi.timeline.view import FileSystemView
from pyhudi.writes.kept import Tagged
from pyhudi.writes.keys.expressions import PARTITION_PATH, RECORD_KEY
from pyhudi.writes.orders import INSERTS, combines
from pyhudi.writes.placement.assign import KEY_SHARE, Assignment, assign, existing_group
from pyhudi.writes.placement.buckets import (
    BUCKET,
    bucket_files,
    hash_fields,
    refuse_bucket_names,
    with_bucket,
)
from pyhudi.writes.placement.dead_keys import is_held
from pyhudi.writes.placement.log_groups import groups_of_logs, log_groups
from pyhudi.writes.placement.sizing import sizing_of
from pyhudi.writes.placement.tag import one_per_key, tag_global, tag_partitioned, with_homes
from pyhudi.writes.placement.workload import new_file_id
from pyhudi.writes.row_changes import check_homes
from pyhudi.writes.stage import job
from pyhudi.writes.write_context import Write

SLOTS = "_pyhudi_slots"


@dataclass(frozen=True, slots=True)
class Placed:
    """Rows with their ``GROUP``, and what is known of the groups.

    ``updates`` counts rows by ordinal of the base file, ``inserts`` new rows by partition path.
    """

    rows: DataFrame
    assignment: Assignment
    updates: Mapping[int, int]
    inserts: Mapping[str, int]


class Index(ABC):
    """How a write finds the file group of each key."""

    @abstractmethod
    def check(self, config: TableConfig, options: WriteOptions, view: FileSystemView) -> None:
        """``ConfigError`` if the names of the table's files contradict the index.

        A Hudi table records neither its index nor its number of buckets.
        """

    def candidates(self, view: FileSystemView, partitions: Iterable[str]) -> list[BaseFile]:
        """The newest base files that may hold keys of rows in ``partitions``."""
        return view.latest(partitions=partitions)

    @abstractmethod
    def place(self, write: Write, rows: DataFrame, files: Sequence[BaseFile]) -> Placed:
        """The group of each row; ``files`` are the candidates, their position is their ordinal."""


class SimpleIndex(Index):
    """Looks keys up in the base files of their partition. New keys fill small files."""

    def check(self, config: TableConfig, options: WriteOptions, view: FileSystemView) -> None:
        refuse_bucket_names(options, view)

    def combined(self, write: Write, rows: DataFrame) -> DataFrame:
        """Rows whose rivals would not meet in one group, combined before they are placed."""
        if combines(write) and write.operation in INSERTS:
            # An insert into an existing file looks at no keys: its rows are combined here.
            return one_per_key(write, rows, (PARTITION_PATH, KEY))
        return rows

    def tag(self, write: Write, rows: DataFrame, files: Sequence[BaseFile]) -> DataFrame:
        """Rows with the ordinal of the base file that holds their key, null for new keys."""
        return tag_partitioned(write, rows, files)

    def place(self, write: Write, rows: DataFrame, files: Sequence[BaseFile]) -> Placed:
        tagged = self._tagged(write, rows, files)
        updates, inserts = profile(write, tagged)
        logs = log_groups(write, files, inserts)
        if write.prepared.changes is not None:
            check_homes(write.prepared.changes, sum(inserts.values()))
        if write.operation is Operation.DELETE:
            inserts = {}
        sizing = sizing_of(write, files)
        assignment = assign(files, updates, inserts, sizing, lambda _: new_file_id(write), logs)
        return Placed(_slotted(write, tagged, assignment), assignment, updates, inserts)

    def _tagged(self, write: Write, rows: DataFrame, files: Sequence[BaseFile]) -> DataFrame:
        if write.prepared.changes is not None:
            return with_homes(write, rows, files)
        rows = self.combined(write, rows)
        inserting = write.operation in INSERTS
        policy = write.options.duplicate_policy
        untagged = inserting and (policy is DuplicatePolicy.NONE or RECORD_KEY not in rows.columns)
        if untagged or not files:
            return rows.withColumn(ORDINAL, F.lit(None).cast("int"))
        tagged = self.tag(write, rows, files)
        tagged = write.checkpointed(tagged, "find file groups")
        write.kept.tagged = Tagged(tagged, files)
        if inserting:
            return without_duplicates(write, tagged)
        if write.operation is Operation.DELETE:
            return tagged.where(is_held(tagged))
        return tagged


class BloomIndex(SimpleIndex):
    """The simple index on files with Bloom filters, which the lookup asks before it reads keys."""


class GlobalSimpleIndex(SimpleIndex):
    """Looks keys up in the base files of all partitions; a key has one place in the table."""

    def candidates(self, view: FileSystemView, partitions: Iterable[str]) -> list[BaseFile]:
        return view.latest()

    def combined(self, write: Write, rows: DataFrame) -> DataFrame:
        return one_per_key(write, rows) if combines(write) else rows

    def tag(self, write: Write, rows: DataFrame, files: Sequence[BaseFile]) -> DataFrame:
        return tag_global(write, rows, files)


class GlobalBloomIndex(GlobalSimpleIndex):
    """The global simple index, whose files have Bloom filters for other writers and readers."""


class BucketIndex(Index):
    """The hash of a key names its group, and nothing is looked up (spec/keys.md K6).

    So a group may begin with a log: such a candidate has no name.
    """

    def candidates(self, view: FileSystemView, partitions: Iterable[str]) -> list[BaseFile]:
        asked = list(partitions)
        return [*view.latest(partitions=asked), *groups_of_logs(view, asked)]

    def check(self, config: TableConfig, options: WriteOptions, view: FileSystemView) -> None:
        hash_fields(config, options)
        bucket_files(self.candidates(view, view.partitions()), options.bucket_count)

    def place(self, write: Write, rows: DataFrame, files: Sequence[BaseFile]) -> Placed:
        count = write.options.bucket_count
        ordinals = bucket_files(files, count)
        changes, strangers = write.prepared.changes, F.lit(0)
        if changes is not None:
            rows = with_homes(write, rows, files)
            strangers = F.count_if(F.col(ORDINAL).isNull())
        bucketed = with_bucket(write, rows, files)
        bucketed = write.checkpointed(bucketed, "find buckets")
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
        return Placed(placed.where(F.col(GROUP) >= 0), assignment, updates, inserts)


INDEXES: Final[Mapping[IndexType, Index]] = {
    IndexType.SIMPLE: SimpleIndex(),
    IndexType.GLOBAL_SIMPLE: GlobalSimpleIndex(),
    IndexType.BLOOM: BloomIndex(),
    IndexType.GLOBAL_BLOOM: GlobalBloomIndex(),
    IndexType.BUCKET: BucketIndex(),
}


def without_duplicates(write: Write, tagged: DataFrame) -> DataFrame:
    """Drop inserts whose key exists, or refuse them and name some of the keys."""
    if write.options.duplicate_policy is DuplicatePolicy.FAIL:
        with job(write.spark, write.describe("look for duplicates")):
            found = tagged.where(is_held(tagged)).select(KEY).limit(5).collect()
        if found:
            keys = ", ".join(row[0] for row in found)
            raise InvalidRecord(
                f"The table already has rows with these keys: {keys}. "
                "hoodie.datasource.insert.dup.policy is fail: remove them from the input, or "
                "use upsert.",
                column=",".join(write.config.record_key_fields),
            )
    return tagged.where(~is_held(tagged))


def profile(write: Write, tagged: DataFrame) -> tuple[dict[int, int], dict[str, int]]:
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


def _slotted(write: Write, tagged: DataFrame, assignment: Assignment) -> DataFrame:
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


def bucket_assignment(
    write: Write,
    files: Sequence[BaseFile],
    rows_of: dict[int, int],
    fresh: dict[int, tuple[str, int]],
    slots: dict[str, list[int]],
) -> Assignment:
    """Groups of a bucket write: existing ones by ordinal, new ones named by their bucket."""
    sizing, logs = sizing_of(write, files), log_groups(write, files)
    groups, sizes = {}, {}
    for ordinal, rows_in in rows_of.items():
        base = 0
        if ordinal in fresh:
            groups[ordinal] = _new_bucket(write, ordinal, *fresh[ordinal])
        else:
            file, base = files[ordinal], files[ordinal].size_bytes
            groups[ordinal] = existing_group(ordinal, file)
            if logs is not None:
                groups[ordinal] = logs.logged(groups[ordinal])
                base //= KEY_SHARE
        sizes[ordinal] = base + rows_in * sizing.row_bytes
    return Assignment(groups, slots, sizes, rows_of)


def _new_bucket(write: Write, ordinal: int, partition: str, bucket: int) -> GroupPlan:
    """The plan of a bucket without a group.

    Writers without coordination agree on its id. A group that was replaced stays invisible, so its
    id is not used again.
    """
    if not write.only_logs:
        return GroupPlan(ordinal, bucket_file_id(bucket, write.runtime.clock.uuid()), partition)
    ids = (shared_bucket_file_id(bucket, number) for number in itertools.count())
    file_id = next(each for each in ids if (partition, each) not in write.view.replaced)
    return GroupPlan(ordinal, file_id, partition, log_version=1)
