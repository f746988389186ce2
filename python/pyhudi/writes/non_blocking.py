"""Writers without coordination: which writes may be such ones, and where their order decides.

Invariant: such a write adds logs, to buckets that all writers name alike, and does nothing else
(docs/decisions/non_blocking.md).
"""

from __future__ import annotations

from pyhudi.config import ConcurrencyMode, Operation, WriteOptions
from pyhudi.errors import ConfigError
from pyhudi.format.table_config import MergeMode, TableConfig, TableType
from pyhudi.index.kinds import kind_of
from pyhudi.payloads import PARTIAL_UPDATE
from pyhudi.transactions.pessimistic import MODE_KEY
from pyhudi.writes.intent import REPLACING


def refuse_coordination(config: TableConfig, options: WriteOptions, operation: Operation) -> None:
    """``ConfigError`` for a write without coordination that cannot be one.

    The combinations are those that Apache Hudi refuses, too.
    """
    if options.concurrency_mode is not ConcurrencyMode.NON_BLOCKING:
        return
    found = _of_the_table(config) or _of_the_write(options, operation)
    if found is not None:
        raise ConfigError(
            f"'{MODE_KEY}' is {options.concurrency_mode.value}, but {found}. Nothing was written.",
            key=MODE_KEY,
        )


def is_ordered(config: TableConfig, operation: Operation) -> bool:
    """Whether the order of logs decides which rows win, and not the values of the rows alone.

    A delete of the operation delete wins against every row before it (spec/merging.md R2).
    """
    by_event = config.merge_mode is MergeMode.EVENT_TIME_ORDERING and config.ordering_fields
    return not by_event or operation is Operation.DELETE


def _of_the_table(config: TableConfig) -> str | None:
    instead = f"Use {ConcurrencyMode.OPTIMISTIC.value}"
    if config.table_type is not TableType.MERGE_ON_READ:
        return (
            "the table is copy-on-write: such a writer only adds logs, which it has none of. "
            f"{instead}, or make a table with hoodie.datasource.write.table.type=MERGE_ON_READ"
        )
    if config.layout == 1:
        return (
            f"the table has version {config.version}, whose logs of one slice cannot come from "
            f"two writers at once. {instead}, or let Apache Hudi upgrade the table to version 8"
        )
    if mode := config.raw.get(PARTIAL_UPDATE):
        return (
            f"the table has {PARTIAL_UPDATE}={mode}: a row would take values from one that another "
            f"writer deletes meanwhile. {instead}"
        )
    return None


def _of_the_write(options: WriteOptions, operation: Operation) -> str | None:
    instead = f"use {ConcurrencyMode.OPTIMISTIC.value}"
    if not kind_of(options).hashed:
        return (
            f"hoodie.index.type is {options.index_type.value}: two writers would add one new key "
            "to two file groups. Set hoodie.index.type=BUCKET and "
            f"hoodie.bucket.index.num.buckets if the table has buckets, otherwise {instead}"
        )
    if operation in REPLACING:
        return (
            f"the operation is {operation.value}, which replaces file groups: rows that others add "
            f"to them would be lost. For this write {instead}"
        )
    return None
