"""Each option changes an outcome: by two values here, or in the tests that are named here.

An option that is taken and does nothing costs its user more than one that is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pyhudi.application.after_commit import http_callback
from pyhudi.application.batches import MicroBatch, Turn
from pyhudi.config import WriteOptions, resolve_write, sql_insert_operation
from pyhudi.errors import HudiError
from pyhudi.format.spark_schema import Column, SparkSchema
from pyhudi.index.kinds import kind_of
from pyhudi.locks.dynamodb import DynamoTable
from pyhudi.locks.open import LockOpener, zookeeper_place
from pyhudi.option_tables import READ_TABLE, WRITE_TABLE
from pyhudi.payloads import DELETE_FIELD, DELETE_MARKER, PARTIAL_UPDATE
from pyhudi.services.archiver import rules_of
from pyhudi.services.clean import retention_of
from pyhudi.services.clustering_schedule import rules_of as clustering_rules
from pyhudi.services.compaction_schedule import rules_of as compaction_rules
from pyhudi.services.rewriting import bloom_spec
from pyhudi.storage.memory import MemoryStorage
from pyhudi.tables.create import new_table_config
from pyhudi.timeline.table import Table
from pyhudi.transactions.policy import writer_policy
from pyhudi.writes.intent import Intent, Overwrite, Route, decide, settled
from pyhudi.writes.orders import batching
from pyhudi.writes.placement.buckets import hash_fields
from pyhudi.writes.placement.sizing import guessed_row_bytes
from pyhudi.writes.prepare import timestamp_format
from tests.fakes import FakeClock

ROOT = Path(__file__).parent.parent
DS = "hoodie.datasource.write."
LOCK = "hoodie.write.lock."
KEYGEN = "hoodie.keygen.timebased."
CALLBACK = "hoodie.write.commit.callback."
CHECK = "hoodie.consistency.check."
SCHEMA = SparkSchema((Column("id", "long"), Column("city", "string"), Column("at", "string")))
KEYED = {"primaryKey": "id"}
BY_TIME = {
    **KEYED,
    DS + "partitionpath.field": "at",
    KEYGEN + "timestamp.type": "DATE_STRING",
    KEYGEN + "input.dateformat": "yyyy-MM-dd",
    KEYGEN + "output.dateformat": "yyyy/MM",
}
SCALAR = {**BY_TIME, KEYGEN + "timestamp.type": "SCALAR"}
PARTED = {**KEYED, DS + "partitionpath.field": "city"}
FILLS = {**KEYED, PARTIAL_UPDATE: "FILL_UNAVAILABLE"}
LOGGED = {**KEYED, "hoodie.table.cdc.enabled": "true"}
CALLS = {CALLBACK + "on": "true", CALLBACK + "http.url": "https://a/b"}
BY_COLUMN = {"hoodie.clustering.plan.strategy.sort.columns": "id"}
LATE = {CHECK + "enabled": "true"}
ZOOKEEPER = {
    LOCK + "provider": "zookeeper",
    LOCK + "zookeeper.url": "zk",
    LOCK + "zookeeper.base_path": "/locks",
}
DYNAMODB = {LOCK + "provider": "dynamodb", LOCK + "dynamodb.table": "locks"}
PROVISIONED = {**DYNAMODB, LOCK + "dynamodb.billing_mode": "PROVISIONED"}
HIVE = {
    LOCK + "provider": "hive_metastore",
    LOCK + "hivemetastore.database": "d",
    LOCK + "hivemetastore.table": "t",
    LOCK + "hivemetastore.uris": "thrift://a:9083",
}

Probe = Callable[[WriteOptions], object]


def made(options: WriteOptions) -> object:
    """The properties of a new table, and how its partition paths are made of times."""
    config = new_table_config("/data/t", options, SCHEMA, record_schema=False)
    return dict(config.raw), timestamp_format(options)


def turn(options: WriteOptions) -> object:
    return Turn(MicroBatch("query", "run", 3), 0).epoch(options)


def operation(options: WriteOptions) -> object:
    return decide(Intent(Route.SAVE), options)


def replaced(options: WriteOptions) -> object:
    return settled(Intent(Route.SAVE, Overwrite.ALL), options, {})


def hashed(options: WriteOptions) -> object:
    keyed = resolve_write({"primaryKey": "id,city"})
    return hash_fields(new_table_config("/data/t", keyed, SCHEMA, record_schema=False), options)


def row_bytes(options: WriteOptions) -> object:
    return guessed_row_bytes(SCHEMA, options.record_bytes)


def policy(options: WriteOptions) -> object:
    config = new_table_config("/data/t", resolve_write(KEYED), SCHEMA, record_schema=False)
    found = writer_policy(options, Table(MemoryStorage("memory:/t"), config), FakeClock())
    return repr({name: repr(getattr(found, name)).split(" at 0x")[0] for name in found.__slots__})


def lock(options: WriteOptions) -> object:
    opener = LockOpener(FakeClock(), lambda root: MemoryStorage(root))
    return repr(opener.open(options.lock, "rides", MemoryStorage("s3a://lake/rides")))


def place(options: WriteOptions) -> object:
    return zookeeper_place(options.lock, "rides", "/data/t")


def dynamodb(options: WriteOptions) -> object:
    return DynamoTable.of(options.lock, options.lock.dynamodb_table or "")


#: option -> what is set besides, two values, and what differs by them; None is "not set"
OUTCOMES: Mapping[str, tuple[Mapping[str, str], str | None, str | None, Probe]] = {
    "table_name": (KEYED, "a", "b", made),
    "database": (KEYED, "a", "b", made),
    "table_type": (KEYED, "COPY_ON_WRITE", "MERGE_ON_READ", made),
    "table_version": (KEYED, "6", "9", made),
    "record_key_fields": ({}, "id", "city", made),
    "partition_fields": (KEYED, "city", None, made),
    "ordering_fields": (KEYED, "at", None, made),
    "merge_mode": (
        {**KEYED, "preCombineField": "at"}, "COMMIT_TIME_ORDERING", "EVENT_TIME_ORDERING", made,
    ),
    "payload_class": (KEYED, "OverwriteWithLatestAvroPayload", None, made),
    "partial_updates": (KEYED, "IGNORE_DEFAULTS", None, made),
    "unavailable_value": (FILLS, "?", "none", made),
    "delete_field": ({**KEYED, DELETE_MARKER: "D"}, "city", "at", made),
    "delete_marker": ({**KEYED, DELETE_FIELD: "city"}, "D", "d", made),
    "key_generator": (PARTED, "COMPLEX", "SIMPLE", made),
    "hive_style": (PARTED, "true", "false", made),
    "url_encode": (PARTED, "true", "false", made),
    "change_logs": (KEYED, "true", "false", made),
    "change_log_content": (LOGGED, "OP_KEY_ONLY", "DATA_BEFORE", made),
    "timestamp_type": (BY_TIME, "DATE_STRING", "EPOCHMILLISECONDS", made),
    "timestamp_input_formats": (BY_TIME, "yyyy-MM-dd", "dd.MM.yyyy", made),
    "timestamp_output_format": (BY_TIME, "yyyy/MM", "yyyy", made),
    "timestamp_zone": (BY_TIME, "UTC", "Asia/Tokyo", made),
    "timestamp_input_zone": (BY_TIME, "UTC", "Asia/Tokyo", made),
    "timestamp_output_zone": (BY_TIME, "UTC", "Asia/Tokyo", made),
    "timestamp_unit": (SCALAR, "DAYS", "SECONDS", made),
    "operation": (KEYED, "insert", "upsert", operation),
    "overwrite_mode": (PARTED, "DYNAMIC", "STATIC", replaced),
    "insert_drop_duplicates": (KEYED, "true", "false", operation),
    "duplicate_policy": (KEYED, "drop", "none", operation),
    "stream_name": ({}, "a", "b", turn),
    "stream_replaces": ({}, "a", "*", turn),
    "commit_metadata_prefix": ({"_a": "1"}, "_", "x", lambda o: o.commit_metadata),
    "sql_insert_operation": (KEYED, "bulk_insert", "insert", sql_insert_operation),
    "index_type": (KEYED, "BLOOM", "GLOBAL_SIMPLE", kind_of),
    "bucket_fields": ({"hoodie.index.type": "BUCKET"}, "id", "city", hashed),
    "bloom_type": ({}, "SIMPLE", "DYNAMIC_V0", bloom_spec),
    "bloom_entries": ({}, "10", "20", bloom_spec),
    "bloom_fpp": ({}, "0.1", "0.01", bloom_spec),
    "bloom_max_entries": ({}, "10", "20", bloom_spec),
    "record_bytes": ({}, "10", "1024", row_bytes),
    "marker_interval_ms": ({}, "10", "50", batching),
    "marker_threads": ({}, "2", "20", batching),
    "await_visible": ({}, "true", "false", policy),
    "visible_first_ms": (LATE, "10", "20", policy),
    "visible_longest_ms": (LATE, "10", "20", policy),
    "visible_looks": (LATE, "3", "4", policy),
    "conflict_rule": ({}, "simple", "partition", policy),
    "early_conflicts": ({}, "true", "false", policy),
    "schema_conflicts": ({}, "simple", "reconcile", policy),
    "time_source": (ZOOKEEPER, "zookeeper", "clock", policy),
    "failed_writes": ({}, "EAGER", "LAZY", policy),
    "heartbeat_ms": ({}, "1000", "2000", policy),
    "heartbeat_misses": ({}, "2", "3", policy),
    "clean_policy": ({}, "KEEP_LATEST_COMMITS", "KEEP_LATEST_BY_HOURS", retention_of),
    "commits_retained": ({}, "1", "2", retention_of),
    "hours_retained": ({}, "1", "2", retention_of),
    "versions_retained": ({}, "1", "2", retention_of),
    "clean_partitions": ({}, "a", "a,b", retention_of),
    "clean_partition_regex": ({}, "a.*", "b.*", retention_of),
    "cluster_choice": (BY_COLUMN, "ALL", "OVERLAP", clustering_rules),
    "cluster_columns": ({}, "id", "id,city", clustering_rules),
    "cluster_target_bytes": ({}, "1", "2", clustering_rules),
    "cluster_small_bytes": ({}, "1", "2", clustering_rules),
    "cluster_group_bytes": ({}, "1", "2", clustering_rules),
    "cluster_groups": ({}, "1", "2", clustering_rules),
    "cluster_partitions": ({}, "a", "a,b", clustering_rules),
    "cluster_partition_regex": ({}, "a.*", "b.*", clustering_rules),
    "compact_choice": (
        {}, "UnBoundedCompactionStrategy", "BoundedIOCompactionStrategy", compaction_rules),
    "compact_log_bytes": ({}, "1", "2", compaction_rules),
    "compact_log_files": ({}, "1", "2", compaction_rules),
    "compact_io_mb": ({}, "1", "2", compaction_rules),
    "compact_partition_regex": ({}, "a.*", "b.*", compaction_rules),
    "keep_max_commits": ({}, "30", "40", rules_of),
    "keep_min_commits": ({}, "10", "20", rules_of),
    "callback_on": (CALLS, "true", "false", http_callback),
    "callback_url": (CALLS, "https://a/b", "https://a/c", http_callback),
    "callback_timeout_s": (CALLS, "1", "2", http_callback),
    "callback_api_key": (CALLS, "a", "b", http_callback),
    "callback_headers": (CALLS, "A:1", "A:2", http_callback),
    "lock_provider": ({}, "numbered_files", None, lock),
    "lock_wait_ms": ({}, "1000", "2000", policy),
    "lock_path": ({}, "/a", "/b", lock),
    "zookeeper_url": (ZOOKEEPER, "a", "b", place),
    "zookeeper_port": (ZOOKEEPER, "1", "2", place),
    "zookeeper_base_path": (ZOOKEEPER, "/a", "/b", place),
    "zookeeper_lock_key": (ZOOKEEPER, "a", "b", place),
    "zookeeper_session_timeout_ms": (ZOOKEEPER, "1000", "2000", place),
    "zookeeper_connection_timeout_ms": (ZOOKEEPER, "1000", "2000", place),
    "hive_database": (HIVE, "a", "b", lock),
    "hive_table": (HIVE, "a", "b", lock),
    "hive_uris": (HIVE, "thrift://a:1", "thrift://b:1", lock),
    "dynamodb_table": (DYNAMODB, "a", "b", dynamodb),
    "dynamodb_partition_key": (DYNAMODB, "a", "b", lock),
    "dynamodb_region": (DYNAMODB, "eu-west-1", "us-east-1", dynamodb),
    "dynamodb_endpoint_url": (DYNAMODB, "http://a", "http://b", dynamodb),
    "dynamodb_billing_mode": (DYNAMODB, "PROVISIONED", "PAY_PER_REQUEST", dynamodb),
    "dynamodb_read_capacity": (PROVISIONED, "1", "2", dynamodb),
    "dynamodb_write_capacity": (PROVISIONED, "1", "2", dynamodb),
    "dynamodb_creation_timeout_ms": (DYNAMODB, "1000", "2000", dynamodb),
    "storage_validity_s": ({LOCK + "provider": "storage"}, "1", "60", lock),
}  # fmt: skip

#: option -> the tests in which its value changes what is in the table, or what others may do, and
#: how they call it if not by its key
TESTED: Mapping[str, tuple[str, str]] = {
    "value_only_keys": ("tests/spark/test_keys.py", ""),
    "partitions_to_delete": ("tests/spark/test_pessimistic.py", ""),
    "combine_before_insert": ("tests/spark/test_option_rows.py", "COMBINE"),
    "combine_before_upsert": ("tests/spark/test_option_rows.py", "COMBINE"),
    "bulk_sort_mode": ("tests/spark/test_option_rows.py", ""),
    "null_for_missing": ("tests/spark/test_schema_history.py", "MISSING"),
    "stream_evolves": ("tests/spark/test_stream_sink.py", "EVOLVES"),
    "sql_insert_mode": ("tests/test_insert_operation.py", ""),
    "sql_bulk_insert": ("tests/test_insert_operation.py", ""),
    "bucket_count": ("tests/spark/test_keys.py", ""),
    "most_logged_percent": ("tests/spark/test_merge_on_read.py", "PERCENT"),
    "key_state_bytes": ("tests/spark/test_key_state.py", ""),
    "update_partition_path": ("tests/spark/test_option_rows.py", "STAYS"),
    "bloom_update_partition_path": ("tests/spark/test_option_rows.py", "STAYS"),
    "max_file_bytes": ("tests/spark/test_sizing.py", ""),
    "small_file_bytes": ("tests/spark/test_sizing.py", ""),
    "codec": ("tests/spark/test_sizing.py", ""),
    "row_group_bytes": ("tests/spark/test_sizing.py", ""),
    "marker_form": ("tests/writes/test_marker_form.py", ""),
    "marker_port": ("tests/application/test_application_markers.py", "server_runs"),
    "concurrency_mode": ("tests/spark/test_sizing.py", ""),
    "most_group_locks": ("tests/spark/test_pessimistic.py", ""),
    "conflict_retries": ("tests/writes/test_write.py", ""),
    "key_conflicts": ("tests/spark/test_racing_writers.py", ""),
    "clean_inline": ("tests/services/test_clean.py", ""),
    "cluster_layout": ("tests/services/test_clustering.py", ""),
    "cluster_inline": ("tests/services/test_repeated_clustering.py", ""),
    "cluster_trigger": ("tests/services/test_repeated_clustering.py", ""),
    "compact_inline": ("tests/spark/test_merge_on_read.py", ""),
    "compact_trigger": ("tests/spark/test_merge_on_read.py", ""),
    "log_compact_inline": ("tests/services/test_inline_compaction.py", "log_compaction_inline"),
    "log_compact_logs": (
        "tests/services/test_inline_compaction.py",
        "log_compaction_blocks_threshold",
    ),
    "reverse_clustering": ("tests/spark/test_clustering.py", "reverse_clustering"),
    "archive_inline": ("tests/services/test_archive.py", ""),
    "clean_trigger": ("tests/services/test_clean.py", ""),
    "table_services": ("tests/application/test_after_commit.py", ""),
    "lock_expire_minutes": ("tests/locks/test_filesystem.py", ""),
    "query_type": ("tests/writes/test_slices.py", ""),
    "begin": ("tests/reads/test_incremental.py", "BEGIN"),
    "end": ("tests/reads/test_incremental.py", "END"),
    "order": ("tests/reads/test_incremental.py", "order="),
    "change_form": ("tests/reads/test_incremental.py", "incremental.format"),
    "of_the_rest": ("tests/reads/test_incremental.py", "REST"),
    "end_schema": ("tests/reads/test_incremental.py", "END_SCHEMA"),
    "saves": ("integration/test_query_savepoint.py", "read.savepoint.enable"),
    "as_of": ("tests/spark/test_time_travel.py", "as__of__instant"),
    "start_offset": ("tests/reads/test_streams.py", "START"),
    "appends_only": ("tests/spark/test_stream_source.py", "streaming.appendsOnly"),
    "trigger_files": ("tests/reads/test_streams.py", "LIMIT_FILES"),
    "trigger_bytes": ("tests/spark/test_stream_source.py", "maxBytesPerTrigger"),
    "trigger_rows": ("tests/reads/test_streams.py", "LIMIT_ROWS"),
}

ROWS = {row.name: row for row in (*WRITE_TABLE, *READ_TABLE)}


def test_every_option_is_here_once() -> None:
    assert OUTCOMES.keys() | TESTED.keys() == ROWS.keys()
    assert not OUTCOMES.keys() & TESTED.keys()


@pytest.mark.parametrize("name", OUTCOMES)
def test_two_values_of_an_option_have_two_outcomes(name: str) -> None:
    given, one, other, probe = OUTCOMES[name]

    def outcome(value: str | None) -> object:
        said = {key: text for key, text in given.items() if key not in ROWS[name].keys}
        try:
            return probe(resolve_write(said if value is None else {**said, ROWS[name].key: value}))
        except HudiError as refused:
            return str(refused)

    assert outcome(one) != outcome(other)
    assert outcome(one) == outcome(one), "what differs is the option"


@pytest.mark.parametrize("name", TESTED)
def test_the_tests_of_an_option_set_it(name: str) -> None:
    file, called = TESTED[name]
    text = (ROOT / file).read_text()
    tail = ROWS[name].key.removeprefix(DS)
    assert any(each in text for each in ([called] if called else [name, tail, *ROWS[name].keys]))
