"""Which tables pyhudi may write: only those whose rules it knows.

If a table's merge, key or delete rule is another class of Hudi or a custom class, a write would
silently do the wrong thing. Reading is safe, since the rows in its files are already merged.
"""

from __future__ import annotations

from pyhudi.choices import PartialUpdates
from pyhudi.errors import UnsupportedTable
from pyhudi.format.table_config import (
    PAYLOAD_MODES,
    SERVED_STRATEGIES,
    KeyGenerator,
    MergeMode,
    TableConfig,
    TableType,
)
from pyhudi.payloads import DELETE_MARKS, MERGE_PROPERTY, MODE, PARTIAL_UPDATE, UNAVAILABLE
from pyhudi.timeline.table import Table

PAYLOAD = "hoodie.compaction.payload.class"
STRATEGIES = ("hoodie.record.merge.strategy.id", "hoodie.compaction.record.merger.strategy")
LOGGING = "hoodie.table.cdc.supplemental.logging.mode"
#: the first table version whose readers know modes of partial updates (spec/merging.md R6)
PARTIAL_UPDATES_SINCE = 9
CUSTOM_KINDS = frozenset({"SIMPLE", "TIMESTAMP"})


def refuse_writes_to(table: Table) -> None:
    """``UnsupportedTable`` for the kinds of table that pyhudi can only read."""
    config = table.config
    feature = _kind(config) or unlogged(config) or _merging(config)
    _refuse(table, feature or _filled_logs(config) or _key_generation(config))


def refuse_kind_of(table: Table) -> None:
    """``UnsupportedTable`` for the kinds of table that no file is written into, however they merge
    and whatever logs their writes have."""
    _refuse(table, _kind(table.config))


def _refuse(table: Table, feature: str | None) -> None:
    if feature is not None:
        raise UnsupportedTable(
            f"The table {table.config.name} at {table.storage.root} cannot be written: {feature} "
            "is not supported yet. Read it with pyhudi, write it with Apache Hudi.",
            feature=feature,
        )


def _kind(config: TableConfig) -> str | None:
    if not config.populate_meta_fields:
        return "writing to tables without meta fields"
    if config.drop_partition_columns:
        return "writing to tables that drop their partition columns"
    return None


def unlogged(config: TableConfig) -> str | None:
    """What change logs a table wants that pyhudi does not write; None if it can."""
    if config.cdc_enabled and config.layout == 1:
        return "writing change logs in table version 6"
    if config.cdc_enabled and config.change_log is None:
        return f"{LOGGING}={config.raw[LOGGING]}"
    return None


def _merging(config: TableConfig) -> str | None:
    raw = config.raw
    payload = raw.get(PAYLOAD, "").rsplit(".", 1)[-1]
    if payload and payload not in PAYLOAD_MODES:
        return f"merging by {PAYLOAD}={raw[PAYLOAD]}"
    for key in STRATEGIES:
        if raw.get(key) and raw[key] not in SERVED_STRATEGIES:
            return f"merging by {key}={raw[key]}"
    if config.merge_mode is MergeMode.CUSTOM:
        return f"merging by {MODE}=CUSTOM"
    if (mode := unknown_partial_updates(config)) is not None:
        return f"merging by {PARTIAL_UPDATE}={mode}"
    special = {k: raw[k] for k in sorted(raw) if k in DELETE_MARKS or k.startswith(MERGE_PROPERTY)}
    special = {key: text for key, text in special.items() if text.strip()}
    # Apache Hudi's writers heed the names with the prefix, its reads of logs those without.
    marks = [special.get(MERGE_PROPERTY + name) for name in DELETE_MARKS]
    known = {UNAVAILABLE}
    if all(marks):
        known.update(MERGE_PROPERTY + name for name in DELETE_MARKS)
        known.update(n for n, mark in zip(DELETE_MARKS, marks, strict=True) if raw.get(n) == mark)
    given = next((key for key in special if key not in known), None)
    return None if given is None else f"merging by {given}={raw[given]}"


def unknown_partial_updates(config: TableConfig) -> str | None:
    """The mode of partial updates of a table, if it is one that pyhudi cannot merge by."""
    mode = config.raw.get(PARTIAL_UPDATE)
    known = mode in PartialUpdates.__members__ and config.version >= PARTIAL_UPDATES_SINCE
    return None if not mode or known else mode


def _filled_logs(config: TableConfig) -> str | None:
    """Change logs of partial updates that a compaction would have to write; None if it has none."""
    mode = config.raw.get(PARTIAL_UPDATE)
    if mode and config.cdc_enabled and config.table_type is TableType.MERGE_ON_READ:
        return f"writing change logs of merge-on-read with {PARTIAL_UPDATE}={mode}"
    return None


def _key_generation(config: TableConfig) -> str | None:
    if config.key_generator is KeyGenerator.USER_PROVIDED:
        keys = ("hoodie.table.keygenerator.type", "hoodie.table.keygenerator.class")
        key = next(key for key in keys if config.raw.get(key))
        return f"the key generator of {key}={config.raw[key]}"
    if config.key_generator is KeyGenerator.CUSTOM:
        strange = set(config.partition_kinds) - CUSTOM_KINDS
        if strange:
            fields = config.raw["hoodie.table.partition.fields"]
            return (
                f"a custom key generator with hoodie.table.partition.fields={fields}, not each "
                "of them <column>:SIMPLE or <column>:TIMESTAMP,"
            )
    return None
