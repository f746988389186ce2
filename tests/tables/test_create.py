"""What a new table may be: checked before any file is made."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, cast

import pytest

from pyhudi.application.runtime import Runtime
from pyhudi.config import resolve_write
from pyhudi.errors import ConfigError, SchemaConflict, UnsupportedTable
from pyhudi.format.spark_schema import Column, SparkSchema
from pyhudi.format.table_config import TableConfig, TableType
from pyhudi.locks.base import LockOwner
from pyhudi.locks.in_process import InProcessLock, InProcessLocks
from pyhudi.storage.base import Storage
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.tables.create import (
    check_adoption,
    create_table,
    discard_table,
    lay_timeline,
    new_table_config,
)
from pyhudi.timeline.table import Table, open_table, table_exists
from pyhudi.transactions.presence import make_table
from pyhudi.transactions.writer import Writer, WriterPolicy
from pyhudi.writes.prepare import timestamp_format
from tests.fakes import FakeClock


def make(storage: MemoryStorage, config: TableConfig) -> None:
    clock = FakeClock()
    make_table(
        Writer(Table(storage, config), InProcessLock(InProcessLocks(), "t"), clock, WriterPolicy())
    )


def config_of(
    given: dict[str, str], *columns: tuple[str, Any], record: bool = False
) -> TableConfig:
    schema = schema_of(*(columns or (("id", "long"),)))
    return new_table_config("/data/t", resolve_write(given), schema, record_schema=record)


def schema_of(*columns: tuple[str, Any]) -> SparkSchema:
    return SparkSchema(tuple(Column(name, kind) for name, kind in columns))


SCHEMA = schema_of(("id", "long"), ("event", schema_of(("at", "long")).json()))


def test_an_ordering_column_may_lie_inside_a_struct() -> None:
    options = resolve_write(
        {
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.table.ordering.fields": "EVENT.at",
        }
    )
    config = new_table_config("/data/t", options, SCHEMA, record_schema=False)
    assert config.ordering_fields == ("event.at",)


@pytest.mark.parametrize(
    ("column", "kind"),
    [("event", "struct<at:bigint>"), ("event.times", "array<bigint>")],
)
def test_an_ordering_column_has_plain_values(column: str, kind: str) -> None:
    fields = [("at", "long")]
    if "." in column:
        fields = [("times", {"type": "array", "elementType": "long", "containsNull": False})]
    given = {"primaryKey": "id", "hoodie.table.ordering.fields": column}
    with pytest.raises(ConfigError, match=f"column '{column}' is {kind}, but its values must"):
        config_of(given, ("id", "long"), ("event", schema_of(*fields).json()))


def test_a_table_is_named_by_its_folder_where_no_option_names_it() -> None:
    options = resolve_write({"hoodie.datasource.write.recordkey.field": "id"})
    assert new_table_config("/data/trips", options, SCHEMA, record_schema=False).name == "trips"


def test_columns_are_recorded_in_their_own_spelling() -> None:
    schema = schema_of(("Id", "long"), ("Ts", "long"), ("City", "long"))
    options = resolve_write(
        {
            "primaryKey": "id",
            "hoodie.table.ordering.fields": "TS",
            "hoodie.datasource.write.partitionpath.field": "city",
        }
    )
    config = new_table_config("/data/t", options, schema, record_schema=False)
    assert config.record_key_fields == ("Id",)
    assert config.ordering_fields == ("Ts",)
    assert config.partition_fields == ("City",)


@pytest.mark.parametrize("names", [("id", "ID"), ("id", "a b"), ()], ids=["twice", "unfit", "none"])
def test_columns_that_no_table_can_have_are_refused(names: tuple[str, ...]) -> None:
    schema = schema_of(*((name, "long") for name in names))
    with pytest.raises(SchemaConflict):
        new_table_config("/data/t", resolve_write({}), schema, record_schema=True)


@pytest.mark.parametrize("file", ["part-0.parquet", "a/b/part-0.parquet"])
def test_a_folder_with_files_of_something_else_becomes_no_table(file: str) -> None:
    storage = MemoryStorage()
    config = new_table_config("/data/t", resolve_write({}), SCHEMA, record_schema=False)
    storage.put_if_absent(file, b"rows")
    with pytest.raises(ConfigError, match=f"other files, such as '{file}'"):
        make(storage, config)
    assert not table_exists(storage)


def test_hidden_files_do_not_keep_a_folder_from_becoming_a_table() -> None:
    storage = MemoryStorage()
    config = new_table_config("/data/t", resolve_write({}), SCHEMA, record_schema=False)
    for file in ("_SUCCESS", ".part-0.crc", ".hoodie/.temp/x", "_tmp/x", "p/.hoodie_partition"):
        storage.put_if_absent(file, b"rows")
    make(storage, config)
    assert table_exists(storage)


@pytest.mark.parametrize("version", ["6", "8", "9"])
def test_a_merge_on_read_table_names_its_type_and_its_merge(version: str) -> None:
    mor = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    config = config_of({**mor, "hoodie.write.table.version": version})
    assert config.table_type is TableType.MERGE_ON_READ
    merge = "hoodie.compaction.payload.class" if version == "6" else "hoodie.record.merge.mode"
    assert config.raw[merge], "Apache Hudi cannot read the table without it"


def test_change_logs_of_a_merge_on_read_table_are_those_of_versions_8_and_9() -> None:
    asked = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    asked |= {"hoodie.table.cdc.enabled": "true"}
    assert config_of(asked).cdc_enabled
    with pytest.raises(UnsupportedTable, match="no change logs in version 6"):
        config_of({**asked, "hoodie.write.table.version": "6"})


def test_a_table_at_the_root_of_its_storage_needs_a_name() -> None:
    schema = schema_of(("id", "long"))
    with pytest.raises(ConfigError, match=r"no name: set hoodie\.table\.name"):
        new_table_config("/", resolve_write({}), schema, record_schema=False)


def test_the_columns_are_recorded_where_asked_for_with_those_of_the_partition_last() -> None:
    given = {"hoodie.datasource.write.partitionpath.field": "p"}
    recorded = config_of(given, ("p", "string"), ("id", "long"), record=True).create_schema
    assert recorded is not None
    assert [f["name"] for f in recorded["fields"]] == ["id", "p"]
    assert config_of(given, ("p", "string"), ("id", "long")).create_schema is None


PARTITION, GENERATOR = "hoodie.datasource.write.partitionpath.field", "keygenerator.type"
DATES = {
    "hoodie.keygen.timebased.timestamp.type": "DATE_STRING",
    "hoodie.keygen.timebased.input.dateformat": "yyyy-MM-dd",
    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM",
}
SCALARS = {
    "hoodie.keygen.timebased.timestamp.type": "SCALAR",
    "hoodie.keygen.timebased.timestamp.scalar.time.unit": "DAYS",
    "hoodie.keygen.timebased.output.dateformat": "yyyy",
}


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"primaryKey": "id"}, "NON_PARTITION"),
        ({"primaryKey": "id,p"}, "NON_PARTITION"),
        ({"primaryKey": "id", PARTITION: "p"}, "SIMPLE"),
        ({"primaryKey": "id", PARTITION: "p,q"}, "COMPLEX"),
        ({"primaryKey": "id,q", PARTITION: "p"}, "COMPLEX"),
        ({"primaryKey": "id", PARTITION: "p", **DATES}, "TIMESTAMP"),
        (
            {"primaryKey": "id", PARTITION: "p", f"hoodie.datasource.write.{GENERATOR}": "COMPLEX"},
            "COMPLEX",
        ),
    ],
)
def test_the_key_generator_follows_from_keys_and_partitions(
    given: dict[str, str], kind: str
) -> None:
    config = config_of(given, ("id", "long"), ("p", "string"), ("q", "string"))
    assert config.raw["hoodie.table.keygenerator.type"] == kind


@pytest.mark.parametrize("given", [DATES, SCALARS], ids=["DATE_STRING", "SCALAR"])
def test_what_timestamp_partitions_need_is_recorded_and_nothing_else(given: dict[str, str]) -> None:
    config = config_of({"primaryKey": "id", PARTITION: "p", **given}, ("id", "long"), ("p", "long"))
    assert {k: v for k, v in config.raw.items() if ".timebased." in k} == given


@pytest.mark.parametrize(
    ("given", "mode"),
    [
        ({}, "COMMIT_TIME_ORDERING"),
        ({"orderingFields": "ts"}, "EVENT_TIME_ORDERING"),
        (
            {"orderingFields": "ts", "recordMergeMode": "COMMIT_TIME_ORDERING"},
            "COMMIT_TIME_ORDERING",
        ),
        ({"orderingFields": "ts", "recordMergeMode": "EVENT_TIME_ORDERING"}, "EVENT_TIME_ORDERING"),
        ({"recordMergeMode": "COMMIT_TIME_ORDERING"}, "COMMIT_TIME_ORDERING"),
    ],
)
def test_the_merge_mode_follows_from_the_ordering_column_where_none_is_given(
    given: dict[str, str], mode: str
) -> None:
    config = config_of({"primaryKey": "id", **given}, ("id", "long"), ("ts", "long"))
    assert config.raw["hoodie.record.merge.mode"] == mode


def test_event_time_without_an_ordering_column_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs an ordering column"):
        config_of({"primaryKey": "id", "recordMergeMode": "EVENT_TIME_ORDERING"})


def test_a_table_of_a_pessimistic_writer_is_one_of_pessimistic_writers() -> None:
    mode = {"hoodie.write.concurrency.mode": "PESSIMISTIC_CONCURRENCY_CONTROL"}
    assert "pyhudi.write.concurrency.mode" in config_of(mode).raw
    assert "pyhudi.write.concurrency.mode" not in config_of({}).raw


class Creator:
    """Makes a table and gives it up, its lock in the test's hand."""

    def __init__(self, storage: Storage | None = None, version: str = "9") -> None:
        clock, locks = FakeClock(), InProcessLocks()
        self.storage = storage or MemoryStorage("memory:/created", clock)
        self.lock, absent = InProcessLock(locks, "t", clock), cast(Any, None)
        self.runtime = Runtime(
            clock,
            lambda root: MemoryStorage(root, clock),
            absent,
            lambda table, options: InProcessLock(locks, "t", clock),
            absent,
        )
        self.options = resolve_write({"hoodie.write.lock.wait_time_ms": "10"})
        config = config_of({"hoodie.write.table.version": version})
        self.table = create_table(self.runtime, self.storage, config, self.options)

    def gives_up(self) -> bool:
        return discard_table(self.runtime, self.table, self.options)


@pytest.mark.parametrize(
    ("version", "folders"),
    [("6", []), ("8", [".hoodie/timeline", ".hoodie/timeline/history"]),
     ("9", [".hoodie/timeline", ".hoodie/timeline/history"])],
)  # fmt: skip
def test_a_new_table_has_the_folders_that_apache_hudi_lists(
    tmp_path: Path, version: str, folders: list[str]
) -> None:
    creator = Creator(LocalStorage(str(tmp_path)), version)
    found = [path for path in tmp_path.rglob("*") if path.is_dir()]
    assert [path.relative_to(tmp_path).as_posix() for path in found] == [".hoodie", *folders]
    assert creator.gives_up()
    assert not list(tmp_path.rglob("timeline"))


def test_a_timeline_without_a_folder_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / ".hoodie").touch()
    with caplog.at_level(logging.WARNING):
        lay_timeline(Table(LocalStorage(str(tmp_path)), config_of({})))
    assert "after its first commit" in caplog.text


def test_a_creator_that_cannot_take_its_table_away_says_so_and_hides_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    creator = Creator()
    creator.lock.acquire(1, LockOwner("another", "there", 1))
    with caplog.at_level(logging.WARNING):
        assert not creator.gives_up()
    assert "empty table stays" in caplog.text
    assert table_exists(creator.storage)


def test_a_creator_says_whether_its_table_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    creator = Creator()
    creator.storage.put_if_absent(".hoodie/.heartbeat/20240101000000000", b"")
    assert not creator.gives_up()
    assert "another writer already uses it" in caplog.text
    creator.storage.delete_folder(".hoodie/.heartbeat")
    caplog.clear()
    assert creator.gives_up()
    assert caplog.text == ""
    assert not table_exists(creator.storage)


def existing(record: bool = True) -> Table:
    storage = MemoryStorage("memory:/adopted")
    make(storage, config_of({"primaryKey": "id"}, ("Id", "long"), ("v", "string"), record=record))
    return open_table(storage)


ELEMENTS = {"type": "array", "elementType": "string", "containsNull": True}


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ([("Id", "long")], "v"),
        ([("Id", "long"), ("v", "string"), ("more", "long")], "more"),
        ([("Id", "long"), ("v", "long")], "v"),
        ([("Id", "long"), ("v", ELEMENTS)], "v"),
    ],
    ids=["one is missing", "one is too many", "another type", "a list of them"],
)
def test_a_definition_that_is_not_that_of_the_table_is_refused(
    columns: list[tuple[str, Any]], named: str
) -> None:
    schema = schema_of(*columns)
    with pytest.raises(SchemaConflict, match=f"column '{named}'"):
        check_adoption(existing(), schema, {})


@pytest.mark.parametrize("names", [(), ("ID", "V")], ids=["nothing", "the same"])
def test_a_definition_that_says_the_same_or_nothing_passes(names: tuple[str, ...]) -> None:
    kinds = zip(names, ("long", "string"), strict=False)
    schema = schema_of(*kinds)
    check_adoption(existing(), schema, {"primaryKey": "id"})


def test_a_definition_that_differs_in_what_hudi_does_not_record_passes() -> None:
    """It has no short integers, and whether a list may hold nulls is no other type."""
    storage = MemoryStorage("memory:/alike")
    columns = (("n", "short"), ("tags", ELEMENTS))
    make(storage, config_of({}, *columns, record=True))
    said = schema_of(("n", "short"), ("tags", {**ELEMENTS, "containsNull": False}))
    check_adoption(open_table(storage), said, {})


def test_a_definition_of_a_table_that_tells_no_columns_passes() -> None:
    check_adoption(existing(record=False), SCHEMA, {})


def test_a_definition_with_a_property_that_the_table_has_otherwise_is_refused() -> None:
    with pytest.raises(ConfigError, match="'primaryKey' is 'v'"):
        check_adoption(existing(), SparkSchema(), {"primaryKey": "v"})


# ---- the zones of the timestamp key generator

KEYGEN = "hoodie.keygen.timebased."
BY_TIME = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "at",
    KEYGEN + "timestamp.type": "EPOCHMILLISECONDS",
    KEYGEN + "output.dateformat": "yyyy-MM-dd",
}
TIMED = (("id", "long"), ("at", "long"))


@pytest.mark.parametrize("side", ["input", "output"])
def test_a_zone_of_both_sides_and_another_one_of_one_side_make_no_table(side: str) -> None:
    zones = {KEYGEN + "timezone": "UTC", f"{KEYGEN}{side}.timezone": "Asia/Tokyo"}
    with pytest.raises(ConfigError, match=r"timezone=UTC is the zone of input and output"):
        config_of({**BY_TIME, **zones}, *TIMED)
    config_of({**BY_TIME, **zones, KEYGEN + "timezone": "Asia/Tokyo"}, *TIMED)


def test_in_a_table_with_both_the_zone_of_both_sides_holds_as_in_hudi() -> None:
    zones = {KEYGEN + "timezone": "UTC", KEYGEN + "output.timezone": "Asia/Tokyo"}
    found = timestamp_format(resolve_write({**BY_TIME, **zones}))
    assert found is not None
    assert (found.input_zone, found.output_zone) == ("UTC", "UTC")


LEGACY = "hoodie.table.legacy.payload.class"
PAYLOAD = "hoodie.datasource.write.payload.class"
MODEL = "org.apache.hudi.common.model."
MERGES = "hoodie.record.merge.property."
CHANGES = (
    ("id", "long"), ("ts", "long"), ("Op", "string"), ("_change_operation_type", "string"),
    ("_event_lsn", "long"), ("_event_bin_file", "string"), ("_event_pos", "long"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("payload", "found"),
    [
        (
            "AWSDmsAvroPayload",
            {
                "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
                "hoodie.table.ordering.fields": "ts",
                MERGES + "hoodie.payload.delete.field": "Op",
                MERGES + "hoodie.payload.delete.marker": "D",
            },
        ),
        (
            "debezium.MySqlDebeziumAvroPayload",
            {
                "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
                "hoodie.table.ordering.fields": "_event_bin_file,_event_pos",
                MERGES + "hoodie.payload.delete.field": "_change_operation_type",
                MERGES + "hoodie.payload.delete.marker": "d",
            },
        ),
        (
            "debezium.PostgresDebeziumAvroPayload",
            {
                "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
                "hoodie.table.ordering.fields": "_event_lsn",
                "hoodie.table.partial.update.mode": "FILL_UNAVAILABLE",
                MERGES + "hoodie.payload.delete.field": "_change_operation_type",
                MERGES + "hoodie.payload.delete.marker": "d",
                MERGES + "hoodie.write.partial.update.unavailable.value": (
                    "__debezium_unavailable_value"
                ),
            },
        ),
        (
            "PartialUpdateAvroPayload",
            {
                "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
                "hoodie.table.ordering.fields": "ts",
                "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS",
            },
        ),
        (
            "OverwriteNonDefaultsWithLatestAvroPayload",
            {
                "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
                "hoodie.table.ordering.fields": "ts",
                "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS",
            },
        ),
    ],
)
@pytest.mark.parametrize("package", [MODEL, ""])
def test_a_payload_class_stands_for_the_properties_that_apache_hudi_records(
    payload: str, found: dict[str, str], package: str
) -> None:
    """Those of tables that Apache Hudi 1.2.0 made, which integration/ compares."""
    given = {PAYLOAD: package + payload, "primaryKey": "id"}
    if "Debezium" not in payload:
        given["preCombineField"] = "ts"
    raw = config_of(given, *CHANGES).raw
    words = ("merge", "payload", "partial", "ordering")
    told = {key: text for key, text in raw.items() if any(word in key for word in words)}
    assert told == {**found, LEGACY: MODEL + payload}
    resolve_write(given, raw)
    given[LEGACY] = given.pop(PAYLOAD)
    assert config_of(given, *CHANGES).raw == raw
    for other in {"AWSDmsAvroPayload", "PartialUpdateAvroPayload"} - {payload}:
        with pytest.raises(ConfigError, match="but the table has"):
            resolve_write({PAYLOAD: MODEL + other}, raw)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"hoodie.payload.delete.field": "Op"}, "hoodie.payload.delete.marker is not"),
        ({"hoodie.payload.delete.marker": "D"}, "hoodie.payload.delete.field is not"),
        ({"hoodie.table.partial.update.mode": "FILL_UNAVAILABLE"}, "unavailable.value is not"),
        ({"hoodie.write.partial.update.unavailable.value": "?"}, "FILL_UNAVAILABLE is not"),
        ({"hoodie.table.partial.update.mode": "KEEP_VALUES"}, "must be one of IGNORE_DEFAULTS"),
        (
            {"hoodie.payload.delete.field": "no", "hoodie.payload.delete.marker": "D"},
            "The delete column 'no'",
        ),
    ],
)
def test_half_of_a_rule_is_refused(given: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        config_of({**given, "primaryKey": "id"}, *CHANGES)


def test_older_versions_have_no_rules_of_partial_updates() -> None:
    given = {PAYLOAD: "PartialUpdateAvroPayload", "hoodie.write.table.version": "8"}
    with pytest.raises(UnsupportedTable, match="needs table version 9"):
        config_of({**given, "primaryKey": "id", "preCombineField": "ts"}, *CHANGES)
