"""The words that options choose from: Hudi's enumerations, and the other names Hudi has for them.

A Hudi user may give a class name where pyhudi knows a word (key generators, lock providers,
payloads), with or without its package; ``SYNONYMS`` translates.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from pyhudi.format.table_config import (
    PAYLOAD_MODES,
    STRATEGY_MODES,
    KeyGenerator,
    MergeMode,
    TableType,
)


class Operation(str, Enum):
    BULK_INSERT = "bulk_insert"
    INSERT = "insert"
    UPSERT = "upsert"
    DELETE = "delete"
    INSERT_OVERWRITE = "insert_overwrite"
    INSERT_OVERWRITE_TABLE = "insert_overwrite_table"
    DELETE_PARTITION = "delete_partition"


class IndexType(str, Enum):
    SIMPLE = "SIMPLE"
    GLOBAL_SIMPLE = "GLOBAL_SIMPLE"
    BLOOM = "BLOOM"
    GLOBAL_BLOOM = "GLOBAL_BLOOM"
    BUCKET = "BUCKET"


class BloomType(str, Enum):
    SIMPLE = "SIMPLE"
    DYNAMIC_V0 = "DYNAMIC_V0"


class Codec(str, Enum):
    SNAPPY = "snappy"
    GZIP = "gzip"
    ZSTD = "zstd"
    LZ4 = "lz4"
    UNCOMPRESSED = "uncompressed"


class DuplicatePolicy(str, Enum):
    NONE = "none"
    DROP = "drop"
    FAIL = "fail"


class PartialUpdates(str, Enum):
    IGNORE_DEFAULTS = "IGNORE_DEFAULTS"
    FILL_UNAVAILABLE = "FILL_UNAVAILABLE"


class OverwriteMode(str, Enum):
    STATIC = "static"
    DYNAMIC = "dynamic"


class SortMode(str, Enum):
    NONE = "NONE"
    GLOBAL_SORT = "GLOBAL_SORT"
    PARTITION_SORT = "PARTITION_SORT"
    PARTITION_PATH_REPARTITION = "PARTITION_PATH_REPARTITION"
    PARTITION_PATH_REPARTITION_AND_SORT = "PARTITION_PATH_REPARTITION_AND_SORT"


class LockProvider(str, Enum):
    FILE_SYSTEM = "filesystem"
    NUMBERED_FILES = "numbered_files"
    STORAGE = "storage"
    ZOOKEEPER = "zookeeper"
    ZOOKEEPER_IMPLICIT = "zookeeper_implicit"
    HIVE_METASTORE = "hive_metastore"
    DYNAMODB = "dynamodb"
    DYNAMODB_IMPLICIT = "dynamodb_implicit"
    IN_PROCESS = "in_process"


class TimeSourceType(str, Enum):
    CLOCK = "clock"
    ZOOKEEPER = "zookeeper"
    DYNAMODB = "dynamodb"


class BillingMode(str, Enum):
    PAY_PER_REQUEST = "PAY_PER_REQUEST"
    PROVISIONED = "PROVISIONED"


class ConcurrencyMode(str, Enum):
    SINGLE_WRITER = "SINGLE_WRITER"
    OPTIMISTIC = "OPTIMISTIC_CONCURRENCY_CONTROL"
    NON_BLOCKING = "NON_BLOCKING_CONCURRENCY_CONTROL"
    PESSIMISTIC = "PESSIMISTIC_CONCURRENCY_CONTROL"


#: pyhudi's own property of a table whose writers all lock file groups, and the mark of their
#: commits. Apache Hudi has no such mode; it keeps the property and ignores it.
CONCURRENCY_PROPERTY: Final = "pyhudi.write.concurrency.mode"


class ConflictRule(str, Enum):
    SIMPLE = "simple"
    PARTITION = "partition"
    BUCKET = "bucket"
    PREFER_WRITER = "prefer_writer"


class SchemaConflicts(str, Enum):
    SIMPLE = "simple"
    RECONCILE = "reconcile"


class FailedWrites(str, Enum):
    EAGER = "EAGER"
    LAZY = "LAZY"
    NEVER = "NEVER"


class CleanPolicy(str, Enum):
    COMMITS = "KEEP_LATEST_COMMITS"
    HOURS = "KEEP_LATEST_BY_HOURS"
    VERSIONS = "KEEP_LATEST_FILE_VERSIONS"


class ClusteringChoice(str, Enum):
    """Which files a clustering rewrites: small ones, those whose ranges overlap, or all."""

    SMALL_FILES = "SMALL_FILES"
    OVERLAP = "OVERLAP"
    ALL = "ALL"


class CompactionChoice(str, Enum):
    """Which slices with logs a compaction takes, and in which order.

    Those with the largest logs, or with the most, each up to a bound of bytes; as they come up to
    that bound; or all.
    """

    LOG_SIZE = "LogFileSizeBasedCompactionStrategy"
    LOG_COUNT = "LogFileNumBasedCompactionStrategy"
    BOUNDED = "BoundedIOCompactionStrategy"
    ALL = "UnBoundedCompactionStrategy"


class ClusteringLayout(str, Enum):
    """How a clustering arranges rows by several columns."""

    LINEAR = "LINEAR"
    Z_ORDER = "ZORDER"
    HILBERT = "HILBERT"


class TimestampType(str, Enum):
    UNIX_TIMESTAMP = "UNIX_TIMESTAMP"
    DATE_STRING = "DATE_STRING"
    MIXED = "MIXED"
    EPOCH_MILLIS = "EPOCHMILLISECONDS"
    EPOCH_MICROS = "EPOCHMICROSECONDS"
    SCALAR = "SCALAR"


class InsertMode(str, Enum):
    UPSERT = "upsert"
    STRICT = "strict"
    NON_STRICT = "non-strict"


class QueryType(str, Enum):
    SNAPSHOT = "snapshot"
    READ_OPTIMIZED = "read_optimized"
    INCREMENTAL = "incremental"


class ChangeForm(str, Enum):
    """What an incremental read gives of a row.

    ``LATEST_STATE``: its newest state in the range. ``CDC``: each change with the images before
    and after it as JSON texts, as in Hudi. ``CDC_COLUMNS``: the same with the images as structs.
    """

    LATEST_STATE = "latest_state"
    CDC = "cdc"
    CDC_COLUMNS = "cdc_columns"


class Order(str, Enum):
    """How commits are followed: the three options of RFC-22's "Incremental reads".

    ``COMPLETED``: by completion time, each commit once, as soon as it is visible. ``FENCED``: by
    instant time, only commits before the first pending write. ``REQUESTED``: by instant time, all
    visible commits; those after a pending write come again until that write has ended.
    """

    REQUESTED = "requested"
    FENCED = "fenced"
    COMPLETED = "completed"


def offered(kind: type[Enum]) -> list[Enum]:
    """The members that an option may take: no table is made with custom code."""
    # By identity: equal texts of two enumerations are equal to Python.
    hidden = (MergeMode.CUSTOM, KeyGenerator.USER_PROVIDED)
    return [each for each in kind if not any(each is one for one in hidden)]


# What Hudi users write instead of an enum's value: class names without their package, and the
# short forms of SQL. `hoodie.record.merge.strategy.id` names merge modes by UUID
# (spec/properties.md P4).
SYNONYMS: Mapping[type[Enum], Mapping[str, Enum]] = {
    TableType: {"cow": TableType.COPY_ON_WRITE, "mor": TableType.MERGE_ON_READ},
    MergeMode: {**PAYLOAD_MODES, **STRATEGY_MODES},
    KeyGenerator: {
        f"{name}{flavour}KeyGenerator": generator
        for name, generator in {
            "Simple": KeyGenerator.SIMPLE,
            "Complex": KeyGenerator.COMPLEX,
            "Nonpartitioned": KeyGenerator.NON_PARTITION,
            "TimestampBased": KeyGenerator.TIMESTAMP,
            "Custom": KeyGenerator.CUSTOM,
            "GlobalDelete": KeyGenerator.GLOBAL_DELETE,
        }.items()
        for flavour in ("", "Avro")
    }
    | {f"{generator.value}_AVRO": generator for generator in KeyGenerator},
    LockProvider: {
        "StorageBasedLockProvider": LockProvider.STORAGE,
        "FileSystemBasedLockProvider": LockProvider.FILE_SYSTEM,
        "ZookeeperBasedLockProvider": LockProvider.ZOOKEEPER,
        "ZookeeperBasedImplicitBasePathLockProvider": LockProvider.ZOOKEEPER_IMPLICIT,
        "HiveMetastoreBasedLockProvider": LockProvider.HIVE_METASTORE,
        "DynamoDBBasedLockProvider": LockProvider.DYNAMODB,
        "DynamoDBBasedImplicitPartitionKeyLockProvider": LockProvider.DYNAMODB_IMPLICIT,
        "InProcessLockProvider": LockProvider.IN_PROCESS,
    },
    TimeSourceType: {"WAIT_TO_ADJUST_SKEW": TimeSourceType.CLOCK},
    BloomType: {"BLOOM_FILTER": BloomType.SIMPLE},
    ConflictRule: {
        "SimpleConcurrentFileWritesConflictResolutionStrategy": ConflictRule.SIMPLE,
        "BucketIndexConcurrentFileWritesConflictResolutionStrategy": ConflictRule.BUCKET,
        "PreferWriterConflictResolutionStrategy": ConflictRule.PREFER_WRITER,
    },
    ClusteringChoice: {
        "SparkSizeBasedClusteringPlanStrategy": ClusteringChoice.SMALL_FILES,
        "SparkRecentDaysClusteringPlanStrategy": ClusteringChoice.SMALL_FILES,
        "SparkSelectedPartitionsClusteringPlanStrategy": ClusteringChoice.SMALL_FILES,
    },
    ClusteringLayout: {"z-order": ClusteringLayout.Z_ORDER},
    SchemaConflicts: {"SimpleSchemaConflictResolutionStrategy": SchemaConflicts.SIMPLE},
    Order: {"BLOCK": Order.FENCED, "USE_TRANSITION_TIME": Order.COMPLETED},
}
