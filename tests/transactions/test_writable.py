"""Tables whose rules pyhudi does not know are refused by the property that says so."""

from __future__ import annotations

import pytest

from pyhudi.errors import UnsupportedTable
from pyhudi.format.new_table import new_table_properties
from pyhudi.format.properties import render_properties
from pyhudi.format.table_config import KeyGenerator, MergeMode, parse_table_config
from pyhudi.payloads import DELETE_FIELD, DELETE_MARKER, PARTIAL_UPDATE, UNAVAILABLE
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
        ("hoodie.table.partial.update.mode", "KEEP_VALUES"),
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
        ("hoodie.table.partial.update.mode", "IGNORE_DEFAULTS"),
        ("hoodie.table.partial.update.mode", "FILL_UNAVAILABLE"),
        (UNAVAILABLE, "?"),
    ],
)
def test_a_known_rule_passes(key: str, value: str) -> None:
    refuse_writes_to(table(**{key: value}))


def test_a_mark_of_deletes_is_known_where_writers_and_readers_of_hudi_heed_the_same() -> None:
    field, marker = "hoodie.payload.delete.field", "hoodie.payload.delete.marker"
    marks = {DELETE_FIELD: "Op", DELETE_MARKER: "D"}
    refuse_writes_to(table(**marks))
    refuse_writes_to(table(**marks, **{field: "Op", marker: "D"}))
    for wrong in ({field: "Op", marker: "D"}, {**marks, marker: "X"}, {DELETE_MARKER: "D"}):
        with pytest.raises(UnsupportedTable, match="merging by hoodie"):
            refuse_writes_to(table(**wrong))


@pytest.mark.parametrize("mode", ["IGNORE_DEFAULTS", "FILL_UNAVAILABLE"])
def test_partial_updates_of_older_versions_and_with_change_logs_are_refused(mode: str) -> None:
    more = {PARTIAL_UPDATE: mode}
    with pytest.raises(UnsupportedTable, match=f"merging by {PARTIAL_UPDATE}={mode}"):
        refuse_writes_to(table(hoodie__table__version="8", **more))
    logs = {"hoodie.table.cdc.enabled": "true"}
    refuse_writes_to(table(**more, **logs))
    with pytest.raises(UnsupportedTable, match="change logs of merge-on-read with"):
        refuse_writes_to(table(**more, **logs, hoodie__table__type="MERGE_ON_READ"))


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
