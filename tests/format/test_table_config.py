from __future__ import annotations

import pytest

from pyhudi.errors import TableCorrupt, UnsupportedTable
from pyhudi.format.properties import render_properties
from pyhudi.format.table_config import (
    KeyGenerator,
    MergeMode,
    TableConfig,
    TableType,
    parse_table_config,
    without_metadata_table,
)
from tests import golden_tables

PATH = ".hoodie/hoodie.properties"
MINIMUM = {
    "hoodie.table.name": "t",
    "hoodie.table.type": "COPY_ON_WRITE",
    "hoodie.table.version": "9",
    "hoodie.timeline.layout.version": "2",
}


def parse(values: dict[str, str]) -> TableConfig:
    return parse_table_config(render_properties(values), PATH)


def with_(**changes: str) -> dict[str, str]:
    """The minimum with ``table__type`` standing for ``hoodie.table.type``."""
    return MINIMUM | {f"hoodie.{k.replace('__', '.')}": v for k, v in changes.items()}


def test_the_minimum_that_hudi_reads_is_read() -> None:
    config = parse(MINIMUM)

    assert (config.timeline_folder, config.history_folder) == (
        ".hoodie/timeline",
        ".hoodie/timeline/history",
    )
    assert config.merge_mode is MergeMode.COMMIT_TIME_ORDERING
    assert config.key_generator is KeyGenerator.NON_PARTITION
    assert config.populate_meta_fields
    assert not config.utc


def golden(name: str) -> TableConfig:
    return parse_table_config(golden_tables.BY_NAME[name].files()[PATH], PATH)


def test_a_table_of_0_15_is_understood() -> None:
    config = golden("h0150_v6-mor_log")

    assert (config.name, config.version, config.layout) == ("mor_log", 6, 1)
    assert (config.timeline_folder, config.history_folder) == (".hoodie", ".hoodie/archived")
    assert config.table_type is TableType.MERGE_ON_READ
    assert config.ordering_fields == ("ts",)
    assert config.merge_mode is MergeMode.COMMIT_TIME_ORDERING  # OverwriteWithLatestAvroPayload


def test_a_table_of_1_2_is_understood() -> None:
    config = golden("h120_v9-cow_hive_cplx")

    assert config.record_key_fields == ("id", "ts")
    assert config.partition_fields == ("dt", "name")
    assert config.key_generator is KeyGenerator.COMPLEX
    assert config.hive_style
    assert config.url_encode
    assert golden("h120_v9-cow_cdc").cdc_enabled
    assert golden("h120_v9-cow_rli").metadata_partitions[-1] == "record_index"
    schema = golden("h120_v9-sql_mor").create_schema
    assert schema is not None
    assert schema["name"] == "sql_mor_record"


def test_a_version_6_table_ignores_the_timeline_path_that_1_2_writes_into_it() -> None:
    config = golden("h120_v6-cow_np")

    assert config.raw["hoodie.timeline.path"] == "timeline"
    assert (config.timeline_folder, config.history_folder) == (".hoodie", ".hoodie/history")


@pytest.mark.parametrize("version", ["0", "5", "7", "10"])
def test_other_versions_are_unsupported_with_a_remedy(version: str) -> None:
    with pytest.raises(UnsupportedTable, match="versions 6, 8 and 9") as error:
        parse(with_(table__version=version))
    assert error.value.facts["feature"] == f"table version {version}"


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"table__name": ""}, "hoodie.table.name is present"),
        ({"table__version": "nine"}, "hoodie.table.version is a number"),
        ({"timeline__layout__version": "1"}, "of version 9 has hoodie.timeline.layout.version 2"),
        ({"table__version": "6"}, "of version 6 has hoodie.timeline.layout.version 1"),
        ({"table__checksum": "1"}, "hoodie.table.checksum is the CRC-32"),
        ({"table__type": "COPY"}, "hoodie.table.type is COPY_ON_WRITE or MERGE_ON_READ"),
        ({"record__merge__mode": "LUCKY"}, "hoodie.record.merge.mode is one of"),
        ({"table__create__schema": "{"}, "hoodie.table.create.schema is an Avro record"),
        ({"table__create__schema": "[]"}, "hoodie.table.create.schema is an Avro record"),
    ],
)
def test_corrupt_properties_name_path_and_rule(changes: dict[str, str], rule: str) -> None:
    with pytest.raises(TableCorrupt) as error:
        parse(with_(**changes))
    assert rule in str(error.value.facts["rule"])
    assert error.value.facts["path"] == PATH
    assert str(error.value).startswith("[TABLE_CORRUPT] ")


@pytest.mark.parametrize(
    ("changes", "feature"),
    [
        ({"table__base__file__format": "ORC"}, "base file format ORC"),
        ({"table__multiple__base__file__formats__enable": "true"}, "several base file formats"),
        ({"table__format": "iceberg"}, "table format iceberg"),
        ({"bootstrap__base__path": "/old"}, "bootstrap base files"),
    ],
)
def test_unserved_tables_name_the_feature(changes: dict[str, str], feature: str) -> None:
    with pytest.raises(UnsupportedTable) as error:
        parse(with_(**changes))
    assert feature in str(error.value.facts["feature"])


@pytest.mark.parametrize(
    ("generator", "kind"),
    [
        ("org.apache.hudi.keygen.SimpleKeyGenerator", KeyGenerator.SIMPLE),
        ("org.apache.hudi.keygen.ComplexAvroKeyGenerator", KeyGenerator.COMPLEX),
        ("com.example.Own", KeyGenerator.USER_PROVIDED),
    ],
)
def test_key_generator_classes_are_understood(generator: str, kind: KeyGenerator) -> None:
    assert parse(with_(table__keygenerator__class=generator)).key_generator is kind


def test_a_missing_key_generator_is_inferred_from_the_fields() -> None:
    one = with_(table__recordkey__fields="a", table__partition__fields="p")
    two = with_(table__recordkey__fields="a, b", table__partition__fields="p:SIMPLE,q:TIMESTAMP")

    assert parse(one).key_generator is KeyGenerator.SIMPLE
    assert parse(two).key_generator is KeyGenerator.COMPLEX
    assert parse(two).record_key_fields == ("a", "b")
    assert parse(two).partition_fields == ("p", "q")


def test_an_ordering_field_without_a_mode_orders_by_event_time() -> None:
    assert parse(with_(table__ordering__fields="ts")).merge_mode is MergeMode.EVENT_TIME_ORDERING
    own = with_(compaction__payload__class="com.example.OwnPayload")
    assert parse(own).merge_mode is MergeMode.CUSTOM


def test_dropping_the_metadata_table_empties_both_keys_and_keeps_the_rest() -> None:
    raw = golden("h120_v9-cow_rli").raw

    dropped = without_metadata_table(raw)

    config = parse(dropped)
    assert config.metadata_partitions == config.metadata_partitions_inflight == ()
    assert {k: v for k, v in dropped.items() if "metadata.partitions" not in k} == {
        k: v for k, v in raw.items() if "metadata.partitions" not in k
    }
