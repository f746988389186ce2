"""Tables whose rules pyhudi does not know are refused by the property that says so."""

from __future__ import annotations

import pytest

from pyhudi.errors import UnsupportedTable
from pyhudi.format.new_table import new_table_properties
from pyhudi.format.properties import render_properties
from pyhudi.format.table_config import KeyGenerator, MergeMode, parse_table_config
from pyhudi.storage.memory import MemoryStorage
from pyhudi.timeline.table import Table
from pyhudi.transactions.writable import refuse_writes_to

MODEL = "org.apache.hudi.common.model."


def table(**more: str) -> Table:
    properties = new_table_properties(
        name="t",
        version=9,
        record_key_fields=["id"],
        partition_fields=["dt"],
        ordering_fields=["ts"],
        merge_mode=MergeMode.EVENT_TIME_ORDERING,
        key_generator=KeyGenerator.SIMPLE,
        extra={key.replace("__", "."): value for key, value in more.items()},
    )
    return Table(MemoryStorage(), parse_table_config(render_properties(properties), "/t"))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.record.merge.mode", "CUSTOM"),
        ("hoodie.compaction.payload.class", MODEL + "PartialUpdateAvroPayload"),
        ("hoodie.record.merge.strategy.id", "1897ef5f-18bc-4557-939c-9d6a8afd1519"),
        ("hoodie.compaction.record.merger.strategy", "1897ef5f-18bc-4557-939c-9d6a8afd1519"),
        ("hoodie.table.partial.update.mode", "IGNORE_DEFAULTS"),
        ("hoodie.record.merge.property.hoodie.payload.delete.field", "Op"),
        ("hoodie.payload.delete.field", "Op"),
        ("hoodie.payload.delete.marker", "D"),
        ("hoodie.table.keygenerator.type", "USER_PROVIDED"),
        ("hoodie.table.cdc.supplemental.logging.mode", "ALL"),
    ],
)
def test_an_unknown_rule_is_named(key: str, value: str) -> None:
    with pytest.raises(UnsupportedTable, match=f"{key}={value}"):
        refuse_writes_to(table(**{"hoodie.table.cdc.enabled": "true", key: value}))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.compaction.payload.class", MODEL + "DefaultHoodieRecordPayload"),
        ("hoodie.compaction.payload.class", MODEL + "OverwriteWithLatestAvroPayload"),
        ("hoodie.compaction.payload.class", MODEL + "EventTimeAvroPayload"),
        ("hoodie.record.merge.strategy.id", "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"),
        ("hoodie.record.merge.strategy.id", "00000000-0000-0000-0000-000000000000"),
        ("hoodie.table.partial.update.mode", ""),
    ],
)
def test_a_known_rule_passes(key: str, value: str) -> None:
    refuse_writes_to(table(**{key: value}))


@pytest.mark.parametrize("fields", ["dt", "dt:SIMPLE,at", "dt:UPPER"])
def test_a_custom_generator_of_which_a_part_is_unknown_is_refused(fields: str) -> None:
    generator = {"hoodie.table.keygenerator.type": "CUSTOM"}
    with pytest.raises(UnsupportedTable, match=f"hoodie.table.partition.fields={fields}"):
        refuse_writes_to(table(**generator, **{"hoodie.table.partition.fields": fields}))
    known = {"hoodie.table.partition.fields": "dt:simple,at:TIMESTAMP"}
    refuse_writes_to(table(**generator, **known))


def test_change_logs_are_not_written_to_tables_of_version_6() -> None:
    """Apache Hudi's writers of version 6 give their markers another kind."""
    properties = new_table_properties(
        name="t", version=6, record_key_fields=["id"], partition_fields=[], ordering_fields=[],
        merge_mode=MergeMode.COMMIT_TIME_ORDERING, key_generator=KeyGenerator.NON_PARTITION,
        extra={"hoodie.table.cdc.enabled": "true"},
    )  # fmt: skip
    config = parse_table_config(render_properties(properties), "/t")
    with pytest.raises(UnsupportedTable, match="change logs in table version 6"):
        refuse_writes_to(Table(MemoryStorage(), config))
