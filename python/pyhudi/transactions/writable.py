"""Which tables pyhudi may write: only those whose rules it knows.

If a table's merge, key or delete rule is another class of Hudi or a custom class, a write would
silently do the wrong thing. Reading is safe, since the rows in its files are already merged.
"""

from __future__ import annotations

from pyhudi.errors import UnsupportedTable
from pyhudi.format.table_config import (
    SERVED_PAYLOADS,
    SERVED_STRATEGIES,
    KeyGenerator,
    MergeMode,
    TableConfig,
)
from pyhudi.hudi_keys import DELETE_MARKS
from pyhudi.timeline.table import Table

MERGE_MODE, PAYLOAD = "hoodie.record.merge.mode", "hoodie.compaction.payload.class"
STRATEGIES = ("hoodie.record.merge.strategy.id", "hoodie.compaction.record.merger.strategy")
LOGGING = "hoodie.table.cdc.supplemental.logging.mode"
PARTIAL_UPDATE = "hoodie.table.partial.update.mode"
#: properties such as delete markers, which tables of special payload classes have
MERGE_PROPERTY = "hoodie.record.merge.property."
CUSTOM_KINDS = frozenset({"SIMPLE", "TIMESTAMP"})


def refuse_writes_to(table: Table) -> None:
    """``UnsupportedTable`` for the kinds of table that pyhudi can only read."""
    config = table.config
    feature = _kind(config) or unlogged(config)
    _refuse(table, feature or _merging(config) or _key_generation(config))


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
    if payload and payload not in SERVED_PAYLOADS:
        return f"merging by {PAYLOAD}={raw[PAYLOAD]}"
    for key in STRATEGIES:
        if raw.get(key) and raw[key] not in SERVED_STRATEGIES:
            return f"merging by {key}={raw[key]}"
    if config.merge_mode is MergeMode.CUSTOM:
        return f"merging by {MERGE_MODE}=CUSTOM"
    named = (PARTIAL_UPDATE, *DELETE_MARKS)
    special = [k for k in raw if k in named or k.startswith(MERGE_PROPERTY)]
    given = next((key for key in sorted(special) if raw[key].strip()), None)
    return None if given is None else f"merging by {given}={raw[given]}"


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
