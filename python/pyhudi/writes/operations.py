"""The steps of one attempt, in order; they are the same for all operations.

The ways to write (``plan.py``) decide which rows go where: one pass over the rows, by file group,
or with partitions that are replaced. This module claims, publishes and commits.
"""

from __future__ import annotations

from dataclasses import replace

from pyhudi.config import ConcurrencyMode, Operation, WriteOptions
from pyhudi.errors import CommitConflict
from pyhudi.format.commit_metadata import OUTDATED_KEY, SCHEMA_KEY, CommitMetadata
from pyhudi.format.schema_history import LATEST_SCHEMA_KEY
from pyhudi.format.table_config import TableConfig
from pyhudi.index.kinds import kind_of
from pyhudi.services.clustering import Clustering
from pyhudi.services.reversal import put_back
from pyhudi.transactions.conflicts.comparison import Footprint, footprint, with_logs_for
from pyhudi.transactions.conflicts.deletes import FORCED_KEY
from pyhudi.transactions.schema_saving import redefined_version
from pyhudi.transactions.transaction import Committed
from pyhudi.writes.arrival import NothingArrived
from pyhudi.writes.cluster_stage import SparkTasks
from pyhudi.writes.collected import Collected, collected
from pyhudi.writes.grouped import Grouped
from pyhudi.writes.key_conflicts import KeyCheck, checks_keys
from pyhudi.writes.key_lookup import learn
from pyhudi.writes.named_slices import naming_slices
from pyhudi.writes.orders import combines, combining
from pyhudi.writes.overwrites import Overwriting, PartitionsDeleted
from pyhudi.writes.placement.event_time import by_event_time
from pyhudi.writes.plan import Replaced, Way
from pyhudi.writes.retries import most_retries
from pyhudi.writes.single_pass import SinglePass
from pyhudi.writes.stage import Written
from pyhudi.writes.write_context import Write

#: in the metadata of a commit after lost races: their number, and the number allowed
RETRIES_KEY = "pyhudi.conflict.retries"

_OVERWRITING = frozenset({Operation.INSERT_OVERWRITE, Operation.INSERT_OVERWRITE_TABLE})


def run_operation(write: Write) -> Committed:
    """Place the rows of ``write``, claim their file groups, write them and commit.

    ``NothingArrived`` if a single pass over an epoch met no row, or an overwrite by a stream that
    adds rows: its instant is then undone.
    """
    transaction = write.transaction
    way = way_of(write)
    transaction.check_targets(way.targets)
    plan = way.plan()
    transaction.check_updates(plan.updated, plan.created, plan.swept)
    transaction.inflight(plan.profile)
    written = plan.write()
    transaction.revived |= written.leaning
    if transaction.epoch is not None and not written.files and _means_nothing(write):
        raise NothingArrived
    replaced = way.replaced(written)
    if replaced is not None:
        transaction.check_targets(replaced.slices)
    done = commit(write, written, replaced)
    learn(write)
    return done


def _means_nothing(write: Write) -> bool:
    """Whether an epoch without rows is one that does nothing.

    Spark has batches without rows for reasons of its own, as when a watermark moves.
    """
    return single_pass(write) or (write.operation in _OVERWRITING and write.intent.adds)


def way_of(write: Write) -> Way:
    """How the rows are written."""
    operation = write.operation
    if operation is Operation.DELETE_PARTITION:
        return PartitionsDeleted.of(write)
    if operation in _OVERWRITING:
        return Overwriting.of(write, new_groups)
    if single_pass(write):
        return SinglePass(write)
    table = collected(write)
    return Grouped.of(write) if table is None else Collected.of(write, table)


def new_groups(write: Write) -> Way:
    """How rows are written next to the table's existing rows."""
    if combines(write) or write.index.hashed:
        return Grouped.of(write, only_new_groups=True)
    return SinglePass(write)


def single_pass(write: Write) -> bool:
    """Whether rows can be written without a shuffle: nothing to look up, combine or hash.

    The task that writes the rows also generates keys, so an insert without keys is one.
    """
    return is_single_pass(write.config, write.options, write.operation)


def is_single_pass(config: TableConfig, options: WriteOptions, operation: Operation) -> bool:
    """The same, before there is an attempt."""
    if kind_of(options).hashed:
        return False
    if operation is Operation.BULK_INSERT:
        return not combining(config, options, operation)
    return operation is Operation.INSERT and not config.record_key_fields


def commit(write: Write, written: Written, replaced: Replaced | None) -> Committed:
    """Seal, reconcile and commit (ARCHITECTURE.md, "One commit, end to end")."""
    transaction = write.transaction
    transaction.seal(
        lambda timeout_s: (
            not written.staged or write.runtime.jobs.ended(write.tracked_as, timeout_s)
        ),
        [path for file in written.files for path in (file.path, *(file.cdc_stats or ()))],
    )
    declaration = write.prepared.schema.declaration(write.config.name)
    extra = {**write.options.commit_metadata, SCHEMA_KEY: declaration}
    if write.prepared.gone:
        history = transaction.keep_history()
        extra[LATEST_SCHEMA_KEY] = redefined_version(
            history, write.instant, declaration, write.prepared.gone
        )
    if write.kept.retries:
        most = most_retries(write.options.conflict_retries, transaction.epoch)
        extra[RETRIES_KEY] = f"{write.kept.retries} of {most}"
    if by_event_time(write) and any(file.deletes_in_log for file in written.files):
        extra[FORCED_KEY] = str(written.forced).lower()
    if written.outdated:
        extra[OUTDATED_KEY] = str(written.outdated)
    metadata = CommitMetadata(
        write.operation.value.upper(),
        naming_slices(write, written.files),
        extra,
        None if replaced is None else replaced.by_partition(),
    )
    check = KeyCheck(write, written.files) if checks_keys(write) else None
    if check is not None and write.options.concurrency_mode is not ConcurrencyMode.SINGLE_WRITER:
        check.look_ahead()
    who = f"{write.operation.value} {write.instant}"
    swept = frozenset() if replaced is None else replaced.partitions
    bucketed = write.index.hashed
    gone = 0 if replaced is None else write.view.rows_of(replaced.slices)
    changes = write.prepared.changes
    ours = with_logs_for(footprint(who, metadata, swept, bucketed), written.untouched, bucketed)
    try:
        done = transaction.commit(metadata, ours, check)
    except CommitConflict as lost:
        healed = _put_back(write, metadata, ours, lost)
        if healed is None:
            raise
        check = None if check is None else KeyCheck(write, healed.stats)
        done = transaction.commit(healed, footprint(who, healed, swept, bucketed), check)
    done = replace(done, rows_replaced=gone)
    if changes is None:
        return done
    inserted = sum(stat.num_inserts for stat in done.metadata.stats)
    logged = max(0, inserted - changes.inserted - changes.moved)
    return replace(done, rows_moved=changes.moved, rows_logged=logged)


def _put_back(
    write: Write, metadata: CommitMetadata, ours: Footprint, lost: CommitConflict
) -> CommitMetadata | None:
    """The commit after the clustering that was first is taken back; None if it is not."""
    if not write.options.reverse_clustering:
        return None
    tasks = SparkTasks(write.runtime, write.spark, write.table)
    place = write.runtime.filesystem(write.table.storage.root)
    run = Clustering(write.transaction.writer, write.options, place, tasks)
    return put_back(run, write.transaction, metadata, ours, lost)
