"""One write, end to end: from a DataFrame and options to a commit.

The steps and their order are those of ARCHITECTURE.md, "One commit, end to end"; everything that
can refuse the input does so before the first file is touched. A lost race is written again as a new
instant.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

from pyspark.sql import DataFrame

from pyhudi.application.after_commit import after_commit, compacts_inline
from pyhudi.application.batches import Turn
from pyhudi.application.runtime import Runtime
from pyhudi.config import Operation, WriteOptions, ignored_warning, resolve_write
from pyhudi.errors import (
    RACES,
    CommitConflict,
    CommitUnknown,
    HistoryExpired,
    StreamConflict,
    TableCorrupt,
    TableExists,
    TableNotFound,
)
from pyhudi.format.stream_marks import Epoch
from pyhudi.format.table_config import TableConfig
from pyhudi.locks.cancelling import to_its_end
from pyhudi.locks.group_locks import GroupLocks
from pyhudi.locks.timed import TimedLock
from pyhudi.reads.filters import require_whole_partitions
from pyhudi.storage.base import Storage
from pyhudi.tables.create import create_table, discard_table, new_table_config
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.promises import moved
from pyhudi.timeline.schema import table_schema
from pyhudi.timeline.table import Table, open_table
from pyhudi.transactions.epochs import EpochDone, check_epoch, remember_empty
from pyhudi.transactions.pessimistic import declare_pessimistic, is_pessimistic
from pyhudi.transactions.presence import find_table
from pyhudi.transactions.recovery.undoing import check_undoing
from pyhudi.transactions.transaction import Committed, Transaction
from pyhudi.transactions.writable import refuse_writes_to
from pyhudi.writes.added_columns import check_added, check_analysed
from pyhudi.writes.arrival import NothingArrived, check_columns_stay, receive
from pyhudi.writes.cluster_stage import SparkTasks
from pyhudi.writes.compact_first import compacted_first
from pyhudi.writes.intent import (
    REPLACING,
    Intent,
    Overwrite,
    Route,
    action_of,
    decide,
    heeded,
    settled,
)
from pyhudi.writes.kept import Kept
from pyhudi.writes.keys.key_encoding import named_by_rule, named_in_table
from pyhudi.writes.keys.key_samples import check_keys
from pyhudi.writes.non_blocking import is_ordered, refuse_coordination
from pyhudi.writes.operations import is_single_pass, run_operation
from pyhudi.writes.overtaken import end_of, overtaken
from pyhudi.writes.own_reads import OwnReads, given_up
from pyhudi.writes.partial_updates import refuse_unfilled
from pyhudi.writes.placement.buckets import refuse_other_buckets
from pyhudi.writes.placement.indexes import INDEXES
from pyhudi.writes.prepare import (
    Prepared,
    own_columns,
    prepare,
    prepare_partitions,
    table_schema_after,
)
from pyhudi.writes.replaced_columns import redefined
from pyhudi.writes.retries import Retries, most_retries
from pyhudi.writes.row_changes import prepare_changes
from pyhudi.writes.stage import tracked_key, worker_error
from pyhudi.writes.write_context import Write

log = logging.getLogger(__name__)

#: how often another writer may make the table between the look for it and its creation
CREATION_RACES = 5


@dataclass(frozen=True, slots=True)
class Request:
    """A caller's request, the same for all attempts.

    ``since`` is the state of the table from which ``df`` was computed, if it was: conflicts count
    from there on. ``changes``: the rows are those of a statement that changes rows.
    ``epoch``: they are those of a micro-batch. ``redefines``: the columns of ``df`` are the table's
    from then on.
    """

    runtime: Runtime
    df: DataFrame
    options: WriteOptions
    operation: Operation
    intent: Intent
    redefines: bool = False
    kept: Kept = field(default_factory=Kept)
    groups: GroupLocks | None = None
    since: Timeline | None = None
    changes: bool = False
    epoch: Epoch | None = None


def write_table(
    runtime: Runtime,
    df: DataFrame,
    root: str,
    options: Mapping[str, str],
    session: Mapping[str, str],
    intent_of: Callable[[bool], Intent | None],
    reads: OwnReads | None = None,
    written_by: Turn | None = None,
) -> Committed | None:
    """Write ``df`` to the table at ``root``; makes the table if there is none.

    ``intent_of(exists)`` gives the intent, None to do nothing. ``reads`` has the scans of ``df``
    that read this table, ``written_by`` the micro-batch that ``df`` is of. Returns the commit; None
    also if the table has the batch already, or the batch has no rows. Raises the errors of
    ``errors.py``; after all of them except ``CommitUnknown`` nothing is visible.
    """
    storage = runtime.storage(root)
    for _ in range(CREATION_RACES):
        found = find_table(storage, runtime.clock)
        intent = _intended(intent_of, found, written_by, options, session)
        if intent is None:
            return None
        if found is None and intent.route is Route.SQL:
            found = open_table(storage)  # the catalog has it, so this says what is missing
        if found is not None:
            refuse_writes_to(found)
        raw = found.config.raw if found else None
        resolved = resolve_write(options, raw, heeded(intent, session))
        redefines = intent.overwrite is Overwrite.REPLACE and not resolved.null_for_missing
        intent = settled(intent, resolved, session)
        operation = decide(intent, resolved)
        redefines &= operation is Operation.INSERT_OVERWRITE_TABLE
        try:
            epoch = None if written_by is None else written_by.epoch(resolved)
            request = Request(runtime, df, resolved, operation, intent, redefines, epoch=epoch)
            if found is not None:
                _refuse_unsuited(found.config, resolved, operation)
            table = found or _new_table(storage, request)
        except TableExists:
            # Another writer made the table: decide again whether and how to write to it.
            continue
        _warn(resolved, root, written_by)
        try:
            done = _written_if_new(request, table, reads if found else None, found is None)
        except TableNotFound:
            if found is None or intent.route is Route.SQL:
                raise
            # Its creator's write failed, and the creator removed it: this write is the first.
            continue
        if done is None:
            return None
        tasks = _tasks(request, table)
        after_commit(runtime, table, resolved, action_of(operation, table.config), done, tasks)
        return done
    raise TableExists(
        f"Other writers make and remove tables at {root} while this write begins. Nothing was "
        "written. Try again when they have ended.",
        path=root,
    )


def write_changes(
    runtime: Runtime,
    changes: DataFrame,
    root: str,
    options: Mapping[str, str],
    session: Mapping[str, str],
    operation: Operation,
    reads: OwnReads,
    written_by: Turn | None = None,
) -> Committed | None:
    """Write the ``changes`` of a statement that was evaluated on ``reads`` (``row_changes.py``).

    ``operation`` is upsert or delete. A lost race is not repeated here, since the changes were
    computed from the rows that they change: ``again_in_ms`` of the error says when to evaluate the
    statement again. None if the statement belongs to a micro-batch, and the table has it.
    """
    table = open_table(runtime.storage(root))
    refuse_writes_to(table)
    resolved = resolve_write(options, table.config.raw, session)
    refuse_coordination(table.config, resolved, operation)
    _warn(resolved, root, written_by)
    intent = Intent(Route.SQL)
    epoch = None if written_by is None else written_by.epoch(resolved)
    request = Request(runtime, changes, resolved, operation, intent, changes=True, epoch=epoch)
    done = _written_if_new(request, table, reads, created=False)
    if done is None:
        return None
    tasks = _tasks(request, table)
    after_commit(runtime, table, resolved, action_of(operation, table.config), done, tasks)
    return done


def _refuse_unsuited(config: TableConfig, options: WriteOptions, operation: Operation) -> None:
    """``ConfigError`` for rows that cannot be written so to such a table."""
    refuse_coordination(config, options, operation)
    refuse_unfilled(config, options, operation)


def _tasks(request: Request, table: Table) -> SparkTasks | None:
    """What the services after a commit need, if one may be due that rewrites files."""
    if not (request.options.cluster_inline or compacts_inline(table, request.options)):
        return None
    return _spark_tasks(request, table)


def _spark_tasks(request: Request, table: Table) -> SparkTasks:
    return SparkTasks(request.runtime, request.df.sparkSession, table)


def _intended(
    intent_of: Callable[[bool], Intent | None],
    found: Table | None,
    written_by: Turn | None,
    options: Mapping[str, str],
    session: Mapping[str, str],
) -> Intent | None:
    """The intent, None for a batch that is repeated and had made the table itself."""
    try:
        return intent_of(found is not None)
    except TableExists:
        if found is None or written_by is None:
            raise
        if not _is_in(found, written_by, options, session):
            raise
        return None


def _written_if_new(
    request: Request, table: Table, reads: OwnReads | None, created: bool
) -> Committed | None:
    """``_written_or_again``; None if the table has the micro-batch, or it has no rows."""
    try:
        done = _written_or_again(request, table, reads, created)
        return replace(done, ended_s=request.runtime.clock.monotonic())
    except (EpochDone, NothingArrived) as nothing:
        if request.epoch is not None and isinstance(nothing, NothingArrived):
            remember_empty(table, request.epoch)
        log.info("%s: nothing to write: %s", table.config.name, nothing)
        return None


def _written_or_again(
    request: Request, table: Table, reads: OwnReads | None, created: bool
) -> Committed:
    """Write; if the rows were read from this table, a lost race says when to evaluate again."""
    if reads is None:
        return _written(request, table, created)
    kept = Kept(retries=reads.evaluated or 0)
    try:
        return _written(replace(request, kept=kept, since=reads.state), table, created)
    except RACES as late:
        again = _retries(replace(request, kept=kept))
        late.again_in_ms = None if reads.evaluated is None else again.evaluated_in_ms(table, late)
        if isinstance(late, CommitConflict) and late.again_in_ms is None and not request.changes:
            raise given_up(late) from None
        raise


def _warn(options: WriteOptions, root: str, written_by: Turn | None) -> None:
    warning = ignored_warning(options.ignored)
    if warning is None:
        return
    if written_by is None:
        log.warning(warning)
    else:
        _warn_run(written_by.batch.run, root, warning)


@lru_cache(maxsize=1_000)  # each batch of a stream brings the same options
def _warn_run(run: str, root: str, text: str) -> None:
    """Warn once in the run of a streaming query, and once for each table that it writes."""
    log.warning(text)


def _written(request: Request, table: Table, created: bool) -> Committed:
    try:
        return _locked(request, table)
    except (CommitUnknown, NothingArrived):
        raise
    except Exception:
        if created:
            with to_its_end():
                discard_table(request.runtime, table, request.options)
        raise


def _locked(request: Request, table: Table) -> Committed:
    """Write; the attempts of a pessimistic write share their locks."""
    runtime, options = request.runtime, request.options
    groups = runtime.group_locks(table, options)
    if groups is None:
        return _with_retries(request, table)
    if not is_pessimistic(table.config):
        table = declare_pessimistic(runtime.writer(table, options))
    with groups:
        return _with_retries(replace(request, groups=groups), table)


def _new_table(storage: Storage, request: Request) -> Table:
    """Create the table after all checks that need no data have passed; ``TableExists``."""
    df, operation, options = request.df, request.operation, request.options
    incoming = own_columns(df.schema)
    schema = table_schema_after(incoming, None, "table", operation, options)
    # A micro-batch without rows makes no commit that would tell the columns of the table.
    recorded = request.epoch is not None
    config = new_table_config(storage.root, options, schema, record_schema=recorded)
    refuse_writes_to(Table(storage, config))
    _refuse_unsuited(config, options, operation)
    prepare(df, config, None, operation, options, named_by_rule(config, options))
    return create_table(request.runtime, storage, config, options)


def _with_retries(request: Request, table: Table) -> Committed:
    kept = request.kept

    def attempt(table: Table, again: bool) -> Committed:
        options = request.options
        if again or request.intent.analysed:
            # The rows have all columns of the old table; a column added since then is null.
            options = replace(options, null_for_missing=True)
        return _tried(replace(request, options=options), table)

    done = _retries(request).run(attempt, table)
    waited_ms = round(kept.lock_wait_s * 1000)
    rows_in = None if kept.table is None else kept.table.num_rows
    return replace(
        done,
        lock_wait_ms=waited_ms,
        conflicts_retried=kept.retries,
        rows_in=rows_in,
        looked_up=kept.lookup.figures() if kept.lookup is not None else {},
    )


def _is_in(
    table: Table, turn: Turn, options: Mapping[str, str], session: Mapping[str, str]
) -> bool:
    """Whether the table has this write of a micro-batch."""
    epoch = turn.epoch(resolve_write(options, table.config.raw, session))
    try:
        check_epoch(table, table.timeline(), epoch)
    except EpochDone:
        return True
    except StreamConflict:
        pass
    return False


def _retries(request: Request) -> Retries:
    runtime, options, epoch = request.runtime, request.options, request.epoch
    return Retries(
        runtime.clock,
        most_retries(options.conflict_retries, epoch),
        request.kept,
        lambda table: runtime.writer(table, options),
        epoch,
        once=request.since is not None,
        compact=lambda table, groups: compacted_first(
            runtime, table, options, _spark_tasks(request, table), groups
        ),
    )


def _tried(request: Request, table: Table) -> Committed:
    """One attempt; if the table changed while the attempt listed it, the race is lost."""
    try:
        return _attempt(request, table)
    except HistoryExpired as expired:
        if not expired.moved:
            raise
        raise overtaken(request.operation, table, expired) from expired
    except TableCorrupt as broken:
        end = end_of(table, broken)
        if end is None:
            raise
        why = moved(table.storage, f"{broken.path} was {end}")
        raise overtaken(request.operation, table, why) from broken


def _attempt(request: Request, table: Table) -> Committed:
    runtime, options, operation = request.runtime, request.options, request.operation
    before = request.since or table.timeline()
    if request.epoch is not None:
        check_epoch(table, before, request.epoch)
    prepared = _checked(request, table, before)
    if request.epoch is not None:
        single_pass = is_single_pass(table.config, options, operation)
        receive(runtime, table.config, options, operation, prepared, request.kept, single_pass)
    writer = runtime.writer(table, options)
    if request.since is not None:
        # Rows that were computed from the table must not pass by rows that came since.
        strict = replace(writer.policy.conflicts, logs_pass=False)
        writer = replace(writer, policy=replace(writer.policy, conflicts=strict))
    lock = TimedLock(writer.lock, runtime.clock)
    transaction = Transaction.begin(
        replace(writer, lock=lock),
        action_of(operation, table.config),
        operation.value,
        request.groups,
        request.since,
        runtime.cancelled,
    )
    tracked = tracked_key(table.storage.root, transaction.instant)
    transaction.quiet = partial(runtime.jobs.quiet, tracked)
    transaction.ordered = is_ordered(table.config, operation)
    try:
        with transaction:
            return _operated(request, table, before, prepared, transaction)
    finally:
        runtime.jobs.forget(tracked)
        request.kept.lock_wait_s += lock.waited_s


def _operated(
    request: Request, table: Table, before: Timeline, prepared: Prepared, transaction: Transaction
) -> Committed:
    """The attempt after its begin; ``prepared`` are the rows, prepared for the state ``before``."""
    runtime, options, operation = request.runtime, request.options, request.operation
    try:
        if request.epoch is not None:
            transaction.write_epoch(request.epoch, before)
        request.kept.check_columns(transaction.keep_history())
        if transaction.timeline.keys() != before.keys():
            # Another commit came in between: it may have changed the schema.
            prepared = _checked(request, table, transaction.timeline)
        request.kept.fit(prepared)
        write = Write(
            runtime, table, options, operation, request.intent, prepared, transaction, request.kept
        )
        return run_operation(write)
    except runtime.spark_errors as e:
        # An error of the rows themselves: an expression, a UDF or a source of the caller.
        raise worker_error(e, f"pyhudi {operation.value} {table.config.name}") from e


def _checked(request: Request, table: Table, timeline: Timeline) -> Prepared:
    """The prepared rows, after checks that nothing on ``timeline`` forbids the write."""
    options, operation, intent = request.options, request.operation, request.intent
    # Checked first: while commits are being undone, files are missing on purpose.
    check_undoing(table, timeline, f"{operation.value} to {table.config.name}", None)
    current = table_schema(table, timeline, None)
    view = table.view(timeline)
    if operation not in REPLACING:  # those read no rows, and work even if a file was lost
        view.check()
    if intent.filters and current is not None:
        require_whole_partitions(table.config, current.types, view.partitions(), intent.filters)
    if operation not in (Operation.DELETE_PARTITION, Operation.INSERT_OVERWRITE_TABLE):
        INDEXES[options.index_type].check(table.config, options, view)
        if not (request.changes and operation is Operation.DELETE):  # finds rows by their files
            check_keys(request.runtime, table, view, current, options)
    if operation not in (Operation.DELETE, Operation.DELETE_PARTITION):
        refuse_other_buckets(table, timeline)
    if operation is Operation.DELETE_PARTITION and current is not None:
        by_name = bool(options.partitions_to_delete) or intent.overwrite is Overwrite.FILTER
        return prepare_partitions(request.df, table.config, current, options, by_name)
    named = named_in_table(request.runtime, table, view, operation, options)
    if request.changes and current is not None:
        prefix = f"{request.runtime.clock.uuid()}_"
        return prepare_changes(request.df, table.config, current, options, named, prefix)
    if intent.analysed and current is not None and timeline is not request.since:
        check_analysed(request.df.schema, current)
    gone, target = frozenset[str](), current
    if request.redefines and current is not None:
        found = redefined(table, current, own_columns(request.df.schema))
        gone, target = found.gone, found.schema
    prepared = prepare(request.df, table.config, target, operation, options, named)
    if gone:
        return replace(prepared, gone=gone)
    check_added(table, timeline, current, prepared.schema)
    if request.epoch is not None:
        check_columns_stay(current, prepared.schema, options, request.epoch)
    return prepared
