from __future__ import annotations

from typing import Any

import pytest

from pyhudi.errors import ConfigError
from pyhudi.format.new_table import new_table_properties
from pyhudi.format.properties import render_properties
from pyhudi.format.table_config import KeyGenerator, MergeMode, parse_table_config
from tests import golden_tables

PATH = ".hoodie/hoodie.properties"
EVENT = MergeMode.EVENT_TIME_ORDERING
FACTS: dict[str, Any] = {
    "record_key_fields": ("id",),
    "partition_fields": (),
    "ordering_fields": ("ts",),
    "merge_mode": EVENT,
    "key_generator": KeyGenerator.NON_PARTITION,
}


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("mode", [EVENT, MergeMode.COMMIT_TIME_ORDERING])
def test_what_is_written_reads_back_as_asked(version: int, mode: MergeMode) -> None:
    values = new_table_properties(
        name="t", database="d", version=version, **FACTS | {"merge_mode": mode}
    )

    config = parse_table_config(render_properties(values), PATH)

    assert (config.name, config.database, config.version) == ("t", "d", version)
    assert config.merge_mode is mode
    assert config.ordering_fields == ("ts",)
    assert config.key_generator is KeyGenerator.NON_PARTITION
    assert config.utc


# Where pyhudi differs on purpose: the zone, and the ordering field's name that all readers of
# versions 6 and 8 know (1.2.0 writes ordering.fields, which 0.15.0 and 1.0.2 overlook).
OWN = {"hoodie.table.timeline.timezone"}


@pytest.mark.parametrize("golden", ["h0150_v6-cow_np", "h102_v8-cow_np", "h120_v9-cow_part"])
def test_a_new_table_has_the_keys_of_hudi_s_own(golden: str) -> None:
    theirs = parse_table_config(golden_tables.BY_NAME[golden].files()[PATH], PATH)
    ours = new_table_properties(
        name=theirs.name,
        version=theirs.version,
        record_key_fields=theirs.record_key_fields,
        partition_fields=theirs.partition_fields,
        ordering_fields=theirs.ordering_fields,
        merge_mode=theirs.merge_mode,
        key_generator=theirs.key_generator,
    )

    differing = {key for key in theirs.raw if theirs.raw[key] != ours.get(key)}
    extra = set(ours) - set(theirs.raw)

    # 0.15.0 assumes the payload that pyhudi spells out; 1.0.2 has no table format to name.
    spelled_out = {6: {"hoodie.compaction.payload.class"}, 8: {"hoodie.table.format"}, 9: set()}
    assert differing == OWN
    assert extra - {"hoodie.table.partition_extractor_class"} == spelled_out[theirs.version]


def test_a_keyless_table_names_no_record_key_and_extras_win() -> None:
    values = new_table_properties(
        name="t", version=9, **FACTS | {"record_key_fields": ()},
        extra={"hoodie.table.cdc.enabled": "true"}, create_schema={"type": "record"},
    )  # fmt: skip

    assert "hoodie.table.recordkey.fields" not in values
    assert values["hoodie.table.cdc.enabled"] == "true"
    assert values["hoodie.table.create.schema"] == '{"type":"record"}'


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"version": 7}, "hoodie.write.table.version"),
        ({"merge_mode": MergeMode.CUSTOM}, "hoodie.record.merge.mode"),
        ({"key_generator": KeyGenerator.USER_PROVIDED}, "hoodie.table.keygenerator.type"),
        ({"version": 8, "ordering_fields": ("a", "b")}, "hoodie.table.ordering.fields"),
    ],
)
def test_a_table_that_readers_would_misread_is_refused(changes: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as error:
        new_table_properties(name="t", **{"version": 9, **FACTS, **changes})
    assert error.value.facts["key"] == key


def test_version_9_takes_several_ordering_fields() -> None:
    values = new_table_properties(name="t", version=9, **FACTS | {"ordering_fields": ("a", "b")})

    assert values["hoodie.table.ordering.fields"] == "a,b"
