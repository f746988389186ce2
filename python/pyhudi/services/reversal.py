"""Takes a clustering back that landed while a preferred write ran (RFC-22, priorities).

The format has no "un-replace": a replaced file group is gone. So the rows of before come back in
new file groups, by a commit of its own, and the write moves its files into these.

Invariants: the reversal changes no row; it replaces only files that nobody has changed since the
clustering; its time is right before that of the write, so the write's files are the newer ones,
and no commit has a later time.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from pyhudi.errors import CommitConflict, HudiError
from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata, WriteStat
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.plans import RequestedReplace, render_requested_replace
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.format.table_config import TableType
from pyhudi.rows.change_spec import Slice
from pyhudi.rows.curves import LINEAR
from pyhudi.rows.log_spec import ClusterTask, LogSlice
from pyhudi.services.clustering import Clustering, spec_of
from pyhudi.slices.files import BaseFile
from pyhudi.timeline.active import COMMITS, Timeline
from pyhudi.timeline.schema import table_schema
from pyhudi.timeline.schema_history import SchemaHistory
from pyhudi.timeline.table import Table
from pyhudi.timeline.view import FileSystemView
from pyhudi.transactions.conflicts.comparison import (
    Footprint,
    Group,
    footprint,
    footprint_of,
    judge,
)
from pyhudi.transactions.conflicts.meanwhile import Meanwhile
from pyhudi.transactions.conflicts.schema_conflicts import same_schema
from pyhudi.transactions.heartbeat import Heartbeat
from pyhudi.transactions.instants import take_time_before
from pyhudi.transactions.pessimistic import is_pessimistic
from pyhudi.transactions.phases import Phase, check_move
from pyhudi.transactions.times.times import time_before
from pyhudi.transactions.transaction import Transaction
from pyhudi.transactions.writer import Writer

log = logging.getLogger(__name__)

OPERATION = "CLUSTER"
#: in the extra metadata of a reversal: the clustering that it takes back
REVERSES = "pyhudi.clustering.reverses"


@dataclass(frozen=True, slots=True)
class _Plan:
    """What comes back, and what goes.

    ``now`` is the timeline that it was planned on; ``inputs`` are the files that the clustering
    replaced, each with the prefix of its new group's id; ``outputs`` are the groups that the
    clustering wrote.
    """

    now: Timeline
    clustering: InstantTime
    inputs: tuple[tuple[BaseFile, str], ...]
    outputs: Mapping[str, tuple[FileId, ...]]
    schema: SparkSchema

    @property
    def prefixes(self) -> dict[Group, str]:
        return {(f.partition_path, f.file_id): prefix for f, prefix in self.inputs}


class _No(Exception):
    """Why a clustering cannot be taken back."""


def put_back(
    run: Clustering,
    write: Transaction,
    metadata: CommitMetadata,
    ours: Footprint,
    lost: CommitConflict,
) -> CommitMetadata | None:
    """Take back the clustering against which the sealed ``write`` has lost, in its partitions.

    Returns the write's metadata for the groups that came back, to be committed by the same
    transaction; None if the clustering stays. Then the write has to be done again, as after any
    lost race. ``metadata`` and ``ours`` are those that ``lost`` refused.
    """
    try:
        plan = _planned(run, write, metadata, ours, lost)
        reversal = _Reversal.before(run.writer, write.instant, plan)
        with reversal:
            return _carried_out(run, reversal, write, metadata, plan)
    except _No as no:
        log.info("clustering %s stays: %s", lost.theirs, no)
    except HudiError as error:
        log.warning("clustering %s stays, since its reversal failed: %s", lost.theirs, error)
    return None


def _planned(
    run: Clustering,
    write: Transaction,
    metadata: CommitMetadata,
    ours: Footprint,
    lost: CommitConflict,
) -> _Plan:
    table = run.table
    now = table.timeline()
    theirs, clustering = _clustering(table, now, write, lost)
    if any(commit.time > write.instant for commit in now.commits):
        raise _No("a later commit has completed")
    _check_write(table, now, metadata, ours)
    if run.writer.policy.conflicts.judge is not judge:
        raise _No("the rule of conflicts compares more than file groups")
    for other, done in Meanwhile(table, write.timeline, now).commits():
        if other.time != theirs.time and judge(ours, footprint_of(other, done)).conflict:
            raise _No(f"commit {other.time} is in conflict with the write as well")
    view = table.view(now)
    view.check()
    replaced = clustering.replaced or {}
    schema = table_schema(table, now, None)
    declared = metadata.extra.get(SCHEMA_KEY)
    if schema is None or declared is None or not same_schema(schema, _parsed(declared)):
        raise _No("the write changes the columns")
    partitions = sorted({p for p, group in ours.updated if group in replaced.get(p, ())})
    if not partitions:
        raise _No("the write lost for another reason")
    outputs = {p: _outputs(view, clustering, p) for p in partitions}
    files = [_file_before(view, p, group) for p in partitions for group in replaced[p]]
    _check_merged(metadata, files)
    inputs = tuple((file, run.writer.clock.uuid()) for file in files)
    return _Plan(now, theirs.time, inputs, outputs, schema)


def _parsed(declaration: str) -> SparkSchema:
    return SparkSchema.of_avro(json.loads(declaration))


def _clustering(
    table: Table, now: Timeline, write: Transaction, lost: CommitConflict
) -> tuple[Instant, CommitMetadata]:
    """The clustering that was first, and its metadata."""
    found = [i for i in now.commits if i.time == lost.theirs and i.action is Action.REPLACECOMMIT]
    metadata = COMMITS.get(table.storage, now, found[0]) if found else CommitMetadata()
    if metadata.operation.upper() != OPERATION or REVERSES in metadata.extra:
        raise _No("what was first is no clustering")
    if found[0].time >= time_before(write.instant):
        raise _No("it was planned after the write began, so its files would count as newer")
    return found[0], metadata


def _check_write(table: Table, now: Timeline, metadata: CommitMetadata, ours: Footprint) -> None:
    """``_No`` for a write or a table whose files say more than their rows."""
    if metadata.replaced or ours.replaced_partitions or ours.buckets:
        raise _No("the write replaces file groups, or has them by a hash")
    if table.config.table_type is not TableType.COPY_ON_WRITE:
        raise _No("the table is merge-on-read: rows of before may be in logs")
    if table.config.cdc_enabled or is_pessimistic(table.config):
        raise _No("the table has change logs, or pessimistic writers")
    if SchemaHistory(table, now).current() is not None:
        raise _No("the table has a schema history")


def _outputs(
    view: FileSystemView, clustering: CommitMetadata, partition: str
) -> tuple[FileId, ...]:
    """The groups that the clustering wrote, if they are still as it wrote them."""
    found = []
    for stat in clustering.stats:
        if stat.partition_path != partition:
            continue
        slices = view.groups.get(partition, {}).get(stat.file_id, ())
        base = slices[-1].base if slices else None
        changed = base is None or base.path != stat.path
        if changed or (partition, stat.file_id) in view.replaced:
            raise _No(f"{partition}/{stat.file_id}, which it wrote, was changed since")
        found.append(stat.file_id)
    return tuple(found)


def _file_before(view: FileSystemView, partition: str, group: FileId) -> BaseFile:
    """The file of a group when it was replaced."""
    slices = view.groups.get(partition, {}).get(group, ())
    base = slices[-1].base if slices else None
    if base is None:
        raise _No(f"{partition}/{group}, which it replaced, was cleaned")
    return base


def _check_merged(metadata: CommitMetadata, files: list[BaseFile]) -> None:
    """``_No`` unless the write merged into just these files, and left rows in each."""
    before = {(f.partition_path, f.file_id): f.instant for f in files}
    for stat in metadata.stats:
        instant = before.get((stat.partition_path, stat.file_id))
        if instant is not None and (stat.prev_commit != instant or not stat.num_writes):
            raise _No(f"the write left no rows in {stat.file_id}, or began from another file")


def _carried_out(
    run: Clustering,
    reversal: _Reversal,
    write: Transaction,
    metadata: CommitMetadata,
    plan: _Plan,
) -> CommitMetadata:
    """Write the files of both, then commit the reversal."""
    reversal.quiet = partial(run.tasks.ended, reversal.instant)
    reversal.put_inflight(b"")
    tasks = {
        number: _copy(file.partition_path, file.path, prefix)
        for number, (file, prefix) in enumerate(plan.inputs)
    }
    restored = _written(run, reversal.instant, plan.schema, tasks)
    quiet = partial(run.tasks.ended, reversal.instant)
    reversal.seal(quiet, [stat.path for stat in restored.values()])
    moved = _moved(run, write, metadata, plan, restored)
    quiet = partial(run.tasks.ended, write.instant)
    write.seal_again(quiet, [stat.path for stat in moved.stats])
    extra = {SCHEMA_KEY: plan.schema.declaration(run.table.config.name), REVERSES: plan.clustering}
    done = CommitMetadata(OPERATION, tuple(restored.values()), extra, plan.outputs)
    ours = footprint(reversal.who, done, frozenset(), False)
    reversal.commit(done, ours, reversal.check_newest)
    log.warning("%s took clustering %s back", write.who, plan.clustering)
    return moved


def _moved(
    run: Clustering,
    write: Transaction,
    metadata: CommitMetadata,
    plan: _Plan,
    restored: Mapping[str, WriteStat],
) -> CommitMetadata:
    """The write's metadata with the files that it merged moved into the groups that come back."""
    prefixes = plan.prefixes
    ours = {
        number: (stat, prefixes[stat.partition_path, stat.file_id])
        for number, stat in enumerate(metadata.stats)
        if (stat.partition_path, stat.file_id) in prefixes
    }
    tasks = {
        number: _copy(stat.partition_path, stat.path, prefix)
        for number, (stat, prefix) in ours.items()
    }
    written = _written(run, write.instant, plan.schema, tasks)
    stats = list(metadata.stats)
    for number, (stat, prefix) in ours.items():
        new, before = written[prefix], restored.get(prefix)
        stats[number] = replace(
            stat,
            file_id=new.file_id,
            path=new.path,
            prev_commit=None if before is None else time_before(write.instant),
            prev_base_file=None,
            total_write_bytes=new.total_write_bytes,
            file_size_bytes=new.file_size_bytes,
        )
    return replace(metadata, stats=tuple(stats))


def _copy(partition: str, path: str, prefix: str) -> ClusterTask:
    """The order to put the rows of a base file into a new file group."""
    return ClusterTask(partition, (LogSlice(Slice(path), "", ()),), 1, prefix)


def _written(
    run: Clustering, instant: InstantTime, schema: SparkSchema, tasks: Mapping[int, ClusterTask]
) -> dict[str, WriteStat]:
    """The files that the tasks wrote, by the prefix of their group's id."""
    stats = run.tasks.run(spec_of(run, instant, schema), tasks, (), LINEAR)
    return {stat.file_id.rpartition("-")[0]: stat for stat in stats}


class _Reversal(Transaction):
    """The reversal in progress; its time is right before that of the write."""

    @classmethod
    def before(cls, writer: Writer, write: InstantTime, plan: _Plan) -> _Reversal:
        """Request it; ``_No`` if that time cannot be had. Conflicts count from the plan on."""
        what = f"reversal of clustering {plan.clustering}, as"
        self = cls(writer, Action.REPLACECOMMIT, what)
        check_move(self.phase, Phase.REQUESTED, State.REQUESTED)
        beats = Heartbeat(
            writer.table.storage, writer.clock, time_before(write), writer.policy.heartbeat
        )
        beats.beat()
        content = render_requested_replace(RequestedReplace())
        taken = take_time_before(writer, Action.REPLACECOMMIT, content, write)
        if taken is None:
            beats.stop()
            raise _No("the time right before the write is taken, or may have been undone")
        self.instant, self.timeline = taken, plan.now
        self._heartbeat = beats
        self._move(Phase.REQUESTED, State.REQUESTED)
        beats.go_on()
        return self

    def check_newest(self, theirs: Instant, metadata: CommitMetadata) -> None:
        """``CommitConflict`` if a later commit has completed.

        A writer of Apache Hudi that began after that one would not compare itself with ours.
        """
        if theirs.time > self.instant:
            raise CommitConflict(
                f"{self.who} is older than commit {theirs.time}, which has completed. Nothing of "
                "it is visible.",
                ours=self.instant,
                theirs=theirs.time,
                overlap=(theirs.time,),
            )
