"""The seven operations, each a short path through the same steps.

``bulk`` writes rows where they are, in a single pass. ``grouped`` writes rows by file group:
tag, profile, assign, write. Both end in ``finish``: seal, reconcile, commit.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyhudi.config import ConcurrencyMode, Operation
from pyhudi.errors import ConfigError
from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata
from pyhudi.format.filenames import FileId
from pyhudi.format.schemas import canonical_json
from pyhudi.reads.filters import matching_partitions
from pyhudi.slices.files import FileSlice
from pyhudi.transactions.conflicts.comparison import Group, footprint
from pyhudi.transactions.transaction import Committed
from pyhudi.writes.collected import HERE_BYTES, collected, write_collected
from pyhudi.writes.grouped import write_grouped
from pyhudi.writes.intent import Overwrite
from pyhudi.writes.key_conflicts import KeyCheck, checks_keys
from pyhudi.writes.keys.expressions import PARTITION_PATH
from pyhudi.writes.keys.partition_paths import delete_pattern_matches
from pyhudi.writes.orders import bulk_work, bulk_work_here, combines, sized_rows
from pyhudi.writes.stage import Written, job, run_here
from pyhudi.writes.write_context import Write, few_rows

log = logging.getLogger(__name__)

#: in the metadata of a commit that was made after lost races: how many, of how many allowed
RETRIES_KEY = "pyhudi.conflict.retries"

Replaced = Mapping[str, tuple[FileId, ...]]


@dataclass(frozen=True, slots=True)
class Result:
    """What the write stage did, before it is committed."""

    written: Written
    replaced: Replaced | None = None
    #: partitions that are replaced as a whole
    swept: frozenset[str] = frozenset()


def run_operation(write: Write) -> Committed:
    """Do the operation of ``write`` and commit it."""
    operation = write.operation
    if operation is Operation.DELETE_PARTITION:
        return finish(write, delete_partitions(write))
    if operation in (Operation.INSERT_OVERWRITE, Operation.INSERT_OVERWRITE_TABLE):
        return finish(write, overwrite(write))
    if single_pass(write):
        return finish(write, Result(bulk(write)))
    rows = collected(write)
    written = write_grouped(write) if rows is None else write_collected(write, rows)
    return finish(write, Result(written))


def single_pass(write: Write) -> bool:
    """Whether rows can be written where they are: nothing to look up, combine or hash.

    Generated keys are made by the task that writes the rows, so an insert without keys is one.
    """
    if write.index.hashed:
        return False
    if write.operation is Operation.BULK_INSERT:
        return not combines(write)
    return write.operation is Operation.INSERT and not write.config.record_key_fields


def bulk(write: Write) -> Written:
    """Rows written where they are: one pass, no shuffle unless a sort mode asks for one."""
    write.transaction.inflight(None)
    rows = sized_rows(write)
    few = few_rows(write, rows, HERE_BYTES)
    if few is not None:
        return run_here(bulk_work_here(write), few)
    return write.stage.run(rows, bulk_work(write))


def overwrite(write: Write) -> Result:
    """New groups beside the old ones; the old ones are replaced by the same commit."""
    if write.options.concurrency_mode is ConcurrencyMode.PESSIMISTIC:
        write = with_swept_locked(write)
    if combines(write) or write.index.hashed:
        written = write_grouped(write, only_new_groups=True)
    else:
        written = bulk(write)
    old, swept = swept_by(write, {f.partition_path for f in written.files})
    return Result(written, replaced_by(old), frozenset(swept))


def swept_by(write: Write, named: set[str]) -> tuple[Sequence[FileSlice], set[str]]:
    """The slices, and the partitions, that an overwrite with rows in ``named`` replaces."""
    view = write.view
    if write.operation is Operation.INSERT_OVERWRITE_TABLE:
        old = view.live()
        swept = named | {f.partition_path for f in old}
    else:
        swept = set(named)
        if write.intent.overwrite is Overwrite.FILTER:
            swept |= set(chosen_partitions(write))
        old = view.live(partitions=swept)
    write.transaction.check_targets(old)
    return old, swept


def chosen_partitions(write: Write) -> list[str]:
    """The partitions that the filters of a statement choose."""
    types = {field["name"]: field["type"] for field in write.prepared.schema["fields"]}
    return matching_partitions(write.config, types, write.view.partitions(), write.intent.filters)


def with_swept_locked(write: Write) -> Write:
    """The same write, once it has the locks of all groups that it will replace.

    Its partitions must be known before its rows are written: they are kept, and counted first.
    """
    named: set[str] = set()
    if write.operation is not Operation.INSERT_OVERWRITE_TABLE:
        rows = write.kept.checkpointed(write.prepared)
        write = replace(write, prepared=replace(write.prepared, rows=rows))
        named = partitions_of(write)
    old, swept = swept_by(write, named)
    write.transaction.check_updates(groups_of(old), swept=swept)
    return write


def partitions_of(write: Write) -> set[str]:
    """The partition paths of the prepared rows."""
    with job(write.spark, write.describe("find partitions")):
        named = write.prepared.rows.select(PARTITION_PATH).distinct().collect()
    return {row[0] for row in named}


def groups_of(slices: Iterable[FileSlice]) -> set[Group]:
    """The file groups of slices."""
    return {(each.partition_path, each.file_id) for each in slices}


def delete_partitions(write: Write) -> Result:
    """A replace commit without data: whole partitions vanish."""
    patterns = write.options.partitions_to_delete
    existing = write.view.partitions()
    if write.intent.overwrite is Overwrite.FILTER:
        doomed = chosen_partitions(write)
    elif patterns:
        doomed = [p for p in existing if any(delete_pattern_matches(x, p) for x in patterns)]
        unknown = [x for x in patterns if not any(delete_pattern_matches(x, p) for p in existing)]
        if unknown:
            log.warning("delete_partition: the table has no partition %s", ", ".join(unknown))
    else:
        wanted = partitions_of(write)
        doomed = [p for p in existing if p in wanted]
    if not write.config.partition_fields:
        raise ConfigError(
            "The table is not partitioned, so it has no partition to delete. To empty it use "
            "TRUNCATE TABLE or insert_overwrite_table.",
            key="hoodie.datasource.write.operation",
        )
    old = write.view.live(partitions=doomed)
    write.transaction.check_targets(old)
    write.transaction.check_updates(groups_of(old), swept=doomed)
    write.transaction.inflight(None)
    return Result(Written(), replaced_by(old), frozenset(doomed))


def replaced_by(slices: Iterable[FileSlice]) -> dict[str, tuple[FileId, ...]]:
    """Partition path -> ids of the groups that a replace commit takes away."""
    found: dict[str, list[FileId]] = {}
    for each in slices:
        found.setdefault(each.partition_path, []).append(each.file_id)
    return {partition: tuple(ids) for partition, ids in found.items()}


def finish(write: Write, result: Result) -> Committed:
    """Seal, reconcile and commit (ARCHITECTURE.md, "One commit, end to end")."""
    transaction = write.transaction
    transaction.seal(
        lambda timeout_s: (
            not result.written.staged or write.runtime.jobs.ended(write.tracked_as, timeout_s)
        ),
        [file.path for file in result.written.files],
    )
    extra = {**write.options.commit_metadata, SCHEMA_KEY: canonical_json(write.prepared.avro)}
    if write.kept.retries:
        extra[RETRIES_KEY] = f"{write.kept.retries} of {write.options.conflict_retries}"
    metadata = CommitMetadata(
        write.operation.value.upper(), result.written.files, extra, result.replaced
    )
    check = KeyCheck(write, result.written.files) if checks_keys(write) else None
    if check is not None and write.options.concurrency_mode is not ConcurrencyMode.SINGLE_WRITER:
        check.look_ahead()
    who = f"{write.operation.value} {write.instant}"
    bucketed = write.index.hashed
    return transaction.commit(metadata, footprint(who, metadata, result.swept, bucketed), check)
