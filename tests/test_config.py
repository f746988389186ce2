from __future__ import annotations

import dataclasses
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.choices import Order
from pyhudi.config import (
    READ_TABLE,
    WRITE_TABLE,
    Codec,
    ConcurrencyMode,
    DuplicatePolicy,
    FailedWrites,
    IndexType,
    LockProvider,
    Operation,
    Option,
    QueryType,
    Scope,
    TimestampType,
    WriteOptions,
    callback_headers,
    ignored_warning,
    resolve_read,
    resolve_write,
)
from pyhudi.errors import ConfigError
from pyhudi.format.table_config import KeyGenerator, MergeMode, TableType

# hoodie.properties of a table by Hudi 1.2.0, as far as options are concerned.
TABLE = {
    "hoodie.table.name": "rides",
    "hoodie.table.type": "COPY_ON_WRITE",
    "hoodie.table.version": "9",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.partition.fields": "city",
    "hoodie.table.ordering.fields": "ts",
    "hoodie.table.keygenerator.type": "SIMPLE",
    "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.datasource.write.hive_style_partitioning": "true",
}


def text_of(value: object) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    return ",".join(value) if isinstance(value, tuple) else str(value)


def test_the_defaults_are_the_tables_defaults() -> None:
    resolved = resolve_write({})
    assert resolved == dataclasses.replace(WriteOptions(), failed_writes=FailedWrites.EAGER)
    assert (resolved.table_version, resolved.index_type) == (9, IndexType.SIMPLE)
    assert (resolved.codec, resolved.max_file_bytes) == (Codec.SNAPPY, 125829120)


def test_hudis_names_reach_their_fields_with_their_types() -> None:
    resolved = resolve_write(
        {
            "hoodie.table.name": "rides",
            "hoodie.datasource.write.operation": "bulk_insert",
            "hoodie.datasource.write.recordkey.field": "id, region",
            "hoodie.datasource.write.hive_style_partitioning": "TRUE",
            "hoodie.index.type": "bucket",
            "hoodie.bucket.index.num.buckets": "8",
            "hoodie.index.bloom.fpp": "0.001",
            "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
        }
    )
    assert resolved.table_name == "rides"
    assert resolved.operation is Operation.BULK_INSERT
    assert resolved.record_key_fields == ("id", "region")
    assert resolved.hive_style is True
    assert (resolved.index_type, resolved.bucket_count) == (IndexType.BUCKET, 8)
    assert resolved.bloom_fpp == 0.001
    assert resolved.timestamp_type is TimestampType.EPOCH_MILLIS


@pytest.mark.parametrize("row", [*WRITE_TABLE, *READ_TABLE], ids=lambda row: str(row.key))
def test_every_default_is_a_value_of_its_option(row: Option) -> None:
    if row.default is not None:
        assert row.parse(row.key, text_of(row.default)) == row.default
    assert row.why.endswith(".")
    assert len(row.why) <= 100


def test_no_key_belongs_to_two_options() -> None:
    keys = [key.lower() for row in (*WRITE_TABLE, *READ_TABLE) for key in row.keys]
    assert sorted(set(keys)) == sorted(keys)


@pytest.mark.parametrize(
    ("alias", "field"),
    [
        ("primaryKey", "record_key_fields"),
        ("preCombineField", "ordering_fields"),
        ("orderingFields", "ordering_fields"),
        ("hoodie.datasource.write.precombine.field", "ordering_fields"),
        ("hoodie.table.precombine.field", "ordering_fields"),
        ("hoodie.table.partition.fields", "partition_fields"),
        ("hoodie.deltastreamer.keygen.timebased.timezone", "timestamp_zone"),
    ],
)
def test_an_older_or_shorter_name_means_the_same(alias: str, field: str) -> None:
    value = getattr(resolve_write({alias: "x"}), field)
    assert value in ("x", ("x",))


def test_keys_are_found_in_any_case() -> None:
    assert resolve_write({"primarykey": "id"}).record_key_fields == ("id",)
    assert resolve_write({"HOODIE.TABLE.NAME": "Rides"}).table_name == "Rides"


@pytest.mark.parametrize(
    ("key", "value", "field", "meaning"),
    [
        ("type", "cow", "table_type", TableType.COPY_ON_WRITE),
        ("type", "mor", "table_type", TableType.MERGE_ON_READ),
        (
            "hoodie.datasource.write.keygenerator.class",
            "org.apache.hudi.keygen.ComplexKeyGenerator",
            "key_generator",
            KeyGenerator.COMPLEX,
        ),
        (
            "hoodie.datasource.write.keygenerator.class",
            "org.apache.hudi.keygen.NonpartitionedAvroKeyGenerator",
            "key_generator",
            KeyGenerator.NON_PARTITION,
        ),
        ("hoodie.table.keygenerator.type", "SIMPLE_AVRO", "key_generator", KeyGenerator.SIMPLE),
        ("hoodie.table.keygenerator.type", "CUSTOM", "key_generator", KeyGenerator.CUSTOM),
        (
            "hoodie.datasource.write.payload.class",
            "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
            "merge_mode",
            MergeMode.COMMIT_TIME_ORDERING,
        ),
        (
            "hoodie.table.legacy.payload.class",
            "DefaultHoodieRecordPayload",
            "merge_mode",
            MergeMode.EVENT_TIME_ORDERING,
        ),
        (
            "hoodie.record.merge.strategy.id",
            "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
            "merge_mode",
            MergeMode.EVENT_TIME_ORDERING,
        ),
        (
            "hoodie.write.lock.provider",
            "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider",
            "lock_provider",
            LockProvider.STORAGE,
        ),
    ],
)
def test_hudis_class_names_and_short_forms_are_values(
    key: str, value: str, field: str, meaning: Enum
) -> None:
    resolved = resolve_write({key: value})
    assert getattr(resolved.lock if field.startswith("lock") else resolved, field) is meaning


def test_a_misspelt_key_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"'hoodie\.datasource\.write\.recordkey\.field'") as e:
        resolve_write({"hoodie.datasource.write.recordkey.fields": "id"})
    assert e.value.key == "hoodie.datasource.write.recordkey.fields"
    assert e.value.nearest == "hoodie.datasource.write.recordkey.field"
    with pytest.raises(ConfigError, match="hoodie.index.type"):
        resolve_write({}, session={"hoodie.index.typ": "BLOOM"})
    with pytest.raises(ConfigError, match="hoodie.datasource.query.type"):
        resolve_read({"hoodie.datasource.query.typo": "snapshot"})
    with pytest.raises(ConfigError, match="no option has a similar name"):
        resolve_write({"hoodie.zzz": "1"})


@given(st.text(st.characters(codec="ascii", categories=["Ll", "Nd"]), min_size=12))
def test_no_unknown_hoodie_key_passes_unnoticed(name: str) -> None:
    with pytest.raises(ConfigError):
        resolve_write({f"hoodie.{name}": "1"})


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("hoodie.parquet.max.file.size", "120MB", "a whole number"),
        ("hoodie.bucket.index.num.buckets", "0", "it must be at least 1"),
        ("hoodie.index.bloom.fpp", "small", "a number"),
        ("hoodie.combine.before.upsert", "yes", "true or false"),
        ("hoodie.index.type", "HBASE", "SIMPLE, GLOBAL_SIMPLE, BLOOM, GLOBAL_BLOOM, BUCKET"),
        ("hoodie.datasource.write.payload.class", "com.example.MyPayload", "EVENT_TIME_ORDERING"),
        ("payloadClass", "com.example.MyPayload", "AWSDmsAvroPayload, PartialUpdateAvroPayload"),
        ("hoodie.table.legacy.payload.class", "com.example.MyPayload", "EVENT_TIME_ORDERING"),
        ("hoodie.record.merge.mode", "CUSTOM", "EVENT_TIME_ORDERING, COMMIT_TIME_ORDERING"),
        ("hoodie.populate.meta.fields", "false", "only 'true'"),
        ("hoodie.table.cdc.enabled", "yes", "true or false"),
        ("hoodie.table.cdc.supplemental.logging.mode", "ALL", "OP_KEY_ONLY, DATA_BEFORE"),
    ],
)
def test_a_value_that_does_not_fit_names_what_would(key: str, value: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected) as e:
        resolve_write({key: value})
    assert e.value.key == key


def test_two_names_of_one_option_must_agree() -> None:
    same = {"primaryKey": "id", "hoodie.datasource.write.recordkey.field": "id"}
    assert resolve_write(same).record_key_fields == ("id",)
    with pytest.raises(ConfigError, match="'key' and 'id'"):
        resolve_write({**same, "primaryKey": "key"})


def test_keys_without_effect_are_collected_for_one_warning() -> None:
    resolved = resolve_write(
        {
            "hoodie.archive.async": "true",
            "hoodie.upsert.shuffle.parallelism": "200",
            "hoodie.datasource.write.row.writer.enable": "true",
            "hoodie.metadata.enable": "true",
            "hoodie.write.markers.type": "DIRECT",
        },
        session={"hoodie.log.compaction.enable": "false"},
    )
    assert resolved.ignored == (
        "hoodie.archive.async",
        "hoodie.datasource.write.row.writer.enable",
        "hoodie.log.compaction.enable",
        "hoodie.metadata.enable",
        "hoodie.upsert.shuffle.parallelism",
    )
    warning = ignored_warning(resolved.ignored)
    assert warning is not None
    assert all(key in warning for key in resolved.ignored)
    assert ignored_warning(()) is None


def test_the_table_is_not_asked_again() -> None:
    resolved = resolve_write({}, TABLE)
    assert resolved.table_name == "rides"
    assert resolved.record_key_fields == ("id",)
    assert resolved.partition_fields == ("city",)
    assert resolved.ordering_fields == ("ts",)
    assert resolved.key_generator is KeyGenerator.SIMPLE
    assert resolved.merge_mode is MergeMode.EVENT_TIME_ORDERING
    assert resolved.hive_style is True


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.table.name", "trips"),
        ("hoodie.datasource.write.recordkey.field", "uuid"),
        ("hoodie.datasource.write.partitionpath.field", ""),
        ("hoodie.datasource.write.partitionpath.urlencode", "true"),
        ("hoodie.datasource.write.table.type", "MERGE_ON_READ"),
        ("hoodie.record.merge.mode", "COMMIT_TIME_ORDERING"),
        ("hoodie.write.table.version", "6"),
    ],
)
def test_an_option_may_repeat_the_table_but_not_contradict_it(key: str, value: str) -> None:
    resolve_write({"hoodie.table.name": "rides", "type": "cow", "primaryKey": "id"}, TABLE)
    with pytest.raises(ConfigError, match="A table keeps what it was created with") as e:
        resolve_write({key: value}, TABLE)
    assert e.value.key == key


def test_a_key_for_a_table_without_one_is_refused() -> None:
    keyless = {"hoodie.table.name": "log", "hoodie.table.version": "9"}
    with pytest.raises(ConfigError, match="hoodie.table.recordkey.fields"):
        resolve_write({"primaryKey": "id"}, keyless)


def test_what_a_table_says_in_words_unknown_here_is_left_to_its_own_judge() -> None:
    custom = {**TABLE, "hoodie.table.keygenerator.type": "USER_MADE"}
    assert resolve_write({}, custom).key_generator is None


def test_the_call_outranks_the_session_and_the_table_both() -> None:
    session = {"hoodie.index.type": "BLOOM", "hoodie.write.table.version": "6"}
    assert resolve_write({}, session=session).index_type is IndexType.BLOOM
    assert resolve_write({"hoodie.index.type": "SIMPLE"}, session=session).index_type is (
        IndexType.SIMPLE
    )
    assert resolve_write({}, session=session).table_version == 6
    assert resolve_write({}, TABLE, session).table_version == 9


def test_several_writers_clean_up_by_heartbeat() -> None:
    mode = {"hoodie.write.concurrency.mode": "optimistic_concurrency_control"}
    resolved = resolve_write(mode)
    assert resolved.concurrency_mode is ConcurrencyMode.OPTIMISTIC
    assert resolved.failed_writes is FailedWrites.LAZY
    never = resolve_write({**mode, "hoodie.clean.failed.writes.policy": "NEVER"})
    assert never.failed_writes is FailedWrites.NEVER


def test_a_pessimistic_table_is_followed_and_may_only_be_repeated() -> None:
    key, word = "hoodie.write.concurrency.mode", "PESSIMISTIC_CONCURRENCY_CONTROL"
    table = {**TABLE, "pyhudi.write.concurrency.mode": word}
    for options, session in (({}, {}), ({key: word}, {}), ({}, {key: "single_writer"})):
        resolved = resolve_write(options, table, session)
        assert resolved.concurrency_mode is ConcurrencyMode.PESSIMISTIC
        assert resolved.failed_writes is FailedWrites.LAZY
    for other in ("single_writer", "optimistic_concurrency_control"):
        with pytest.raises(
            ConfigError, match=f"(?i){key}.*{other}.*pyhudi.write.*{word}"
        ) as refused:
            resolve_write({key: other.upper()}, table)
        assert refused.value.facts["key"] == key
    assert resolve_write({}, TABLE).concurrency_mode is ConcurrencyMode.SINGLE_WRITER


def test_a_pessimistic_write_locks_no_partitions() -> None:
    rule = {"hoodie.write.lock.conflict.resolution.strategy": "partition"}
    mode = {"hoodie.write.concurrency.mode": "pessimistic_concurrency_control"}
    with pytest.raises(ConfigError, match="lock file groups"):
        resolve_write({**rule, **mode})
    assert resolve_write(rule).failed_writes is FailedWrites.EAGER


def test_dropping_duplicates_has_two_names() -> None:
    old = resolve_write({"hoodie.datasource.write.insert.drop.duplicates": "true"})
    assert old.duplicate_policy is DuplicatePolicy.DROP


def test_what_the_lock_is_told_is_typed_and_kept_together() -> None:
    resolved = resolve_write(
        {"hoodie.write.lock.zookeeper.url": "zk:2181"},
        session={
            "hoodie.write.lock.zookeeper.session_timeout_ms": "9000",
            "hoodie.write.lock.zookeeper.url": "other",
        },
    )
    assert resolved.lock.zookeeper_url == "zk:2181"
    assert resolved.lock.zookeeper_session_timeout_ms == 9000
    with pytest.raises(ConfigError, match=r"zookeeper\.url"):
        resolve_write({"hoodie.write.lock.zookeeper.urls": "zk:2181"})
    with pytest.raises(
        ConfigError, match=r"zookeeper\.port' is 'x', but it must be a whole number"
    ):
        resolve_write({"hoodie.write.lock.zookeeper.port": "x"})


def test_the_tables_of_options_share_no_name() -> None:
    names = [row.name for row in WRITE_TABLE]
    assert sorted(set(names)) == sorted(names)


def test_keys_of_the_commit_metadata_prefix_go_into_the_commit() -> None:
    resolved = resolve_write(
        {"hoodie.datasource.write.commitmeta.key.prefix": "hoodie.my.", "hoodie.my.run": "7"}
    )
    assert resolved.commit_metadata == {"hoodie.my.run": "7"}
    assert resolve_write({"_run": "7"}).commit_metadata == {"_run": "7"}
    with pytest.raises(ConfigError):
        resolve_write({"hoodie.datasource.write.commitmeta.key.prefix": "", "hoodie.my.run": "7"})


def test_keys_of_others_pass_through() -> None:
    assert resolve_write({"path": "/t", "mergeSchema": "true"}).other == {
        "path": "/t",
        "mergeSchema": "true",
    }


def test_a_read_takes_its_own_options_and_lets_a_writes_pass() -> None:
    resolved = resolve_read(
        {"as.of.instant": "2025-01-31", "path": "/t", "hoodie.populate.meta.fields": "false"},
        {"hoodie.datasource.query.type": "read_optimized", "hoodie.parquet.max.file.size": "1"},
    )
    assert resolved.as_of == "2025-01-31"
    assert resolved.query_type is QueryType.READ_OPTIMIZED
    assert (resolved.other, resolved.ignored) == ({"path": "/t"}, ())
    with pytest.raises(ConfigError, match="snapshot, read_optimized, incremental"):
        resolve_read({"hoodie.datasource.query.type": "changes"})


def test_a_range_of_commits_belongs_to_one_read() -> None:
    kind, begin = "hoodie.datasource.query.type", "hoodie.datasource.read.begin.instanttime"
    end = "hoodie.datasource.read.end.instanttime"
    given = {kind: "incremental", begin: "earliest"}
    read = resolve_read({**given, "hoodie.read.timeline.holes.resolution.policy": "BLOCK"})
    assert (read.query_type, read.begin, read.order) == (
        QueryType.INCREMENTAL, "earliest", Order.FENCED
    )  # fmt: skip
    for session in (given, {begin: "earliest"}, {end: "20240101000000000"}):
        with pytest.raises(ConfigError, match="an option of the one read"):
            resolve_read({}, session)
    for half in ({begin: "earliest"}, {end: "20240101000000000"}):
        with pytest.raises(ConfigError, match="Set it to 'incremental'"):
            resolve_read(half)


def test_every_option_that_a_table_records_is_of_the_tables_scope() -> None:
    recorded = {row.name for row in WRITE_TABLE if row.scope is Scope.TABLE}
    assert {"table_name", "record_key_fields", "merge_mode", "timestamp_type"} <= recorded
    assert not {"operation", "index_type", "lock_provider"} & recorded


@pytest.mark.parametrize(
    "key",
    ["timestampAsOf", "versionAsOf", "as_of_instant", "asOfInstant", "as-of-timestamp",
     "snapshot-id", "timestampasof"],
)  # fmt: skip
def test_other_names_of_time_travel_are_refused_on_reads(key: str) -> None:
    with pytest.raises(ConfigError, match=r"set as\.of\.instant to") as refused:
        resolve_read({key: "2024-01-01"})
    assert refused.value.facts["key"] == key


@pytest.mark.parametrize("text", ["", " "])
def test_an_empty_point_in_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"as\.of\.instant is empty"):
        resolve_read({"As.Of.Instant": text})


def test_a_table_may_be_told_its_columns_in_another_case() -> None:
    table = {"hoodie.table.recordkey.fields": "Id", "hoodie.table.partition.fields": "City"}
    given = {"primaryKey": "ID", "hoodie.datasource.write.partitionpath.field": "city"}
    resolved = resolve_write(given, table)
    assert resolved.record_key_fields == ("Id",)
    assert resolved.partition_fields == ("City",)


OCC = {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}
CLEAN = "hoodie.clean.failed.writes.policy"


def test_with_several_writers_eager_is_lazy_as_in_hudi_and_the_warning_names_it() -> None:
    eager = resolve_write({**OCC, CLEAN: "EAGER"})
    assert eager.failed_writes is FailedWrites.LAZY
    assert CLEAN in (ignored_warning(eager.ignored) or "")
    assert resolve_write({**OCC, CLEAN: "LAZY"}).ignored == ()
    assert resolve_write({CLEAN: "EAGER"}).ignored == ()
    assert resolve_write({**OCC, CLEAN: "NEVER"}).failed_writes is FailedWrites.NEVER


@pytest.mark.parametrize(
    ("source", "given", "missing"),
    [
        ("zookeeper", {}, "hoodie.write.lock.zookeeper.url"),
        (
            "zookeeper",
            {"hoodie.write.lock.zookeeper.url": "h:1"},
            "hoodie.write.lock.zookeeper.base_path",
        ),
        ("dynamodb", {}, "hoodie.write.lock.dynamodb.table"),
    ],
)
def test_a_counter_of_instant_times_needs_its_place(
    source: str, given: dict[str, str], missing: str
) -> None:
    with pytest.raises(ConfigError, match="hoodie.time.generator.type") as error:
        resolve_write({"hoodie.time.generator.type": source, **given})
    assert error.value.key == missing


def test_hudis_own_time_generator_is_the_clock() -> None:
    resolved = resolve_write({"hoodie.time.generator.type": "WAIT_TO_ADJUST_SKEW"})
    assert resolved == resolve_write({})


CALLBACK = "hoodie.write.commit.callback."


@pytest.mark.parametrize("url", ["", "host:80/path", "ftp://host/", "http://"])
def test_a_callback_without_an_address_is_refused(url: str) -> None:
    given = {CALLBACK + "on": "true", CALLBACK + "http.url": url}
    with pytest.raises(ConfigError) as error:
        resolve_write(given)
    assert error.value.key == CALLBACK + "http.url"
    assert resolve_write({**given, CALLBACK + "on": "false"}).callback_on is False


def test_headers_of_a_callback_are_told_apart() -> None:
    assert callback_headers(" A:1; B-c : x:y ;") == {"A": "1", "B-c": "x:y"}
    assert callback_headers("") == {}


@pytest.mark.parametrize("text", ["A", "A:", ":1", "A b:1", "A:1;B"])
def test_a_header_that_is_none_is_refused(text: str) -> None:
    given = {CALLBACK + "on": "true", CALLBACK + "http.url": "http://h/"}
    with pytest.raises(ConfigError, match="Name:value;Name:value"):
        resolve_write({**given, CALLBACK + "http.custom.headers": text})
