"""What the driver tells a worker, and what a worker reports: values without behaviour.

All of it travels by value, so the fields are plain: no enum of another module, no open handle.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa
from pyarrow import fs

from pyhudi.errors import UnsupportedTable
from pyhudi.rows.announce import MarkersPlace
from pyhudi.rows.by_value import ByValue

EVENT_TIME = "EVENT_TIME_ORDERING"
COMMIT_TIME = "COMMIT_TIME_ORDERING"

GROUP = "_pyhudi_group"
DELETE = "_pyhudi_delete"

COMMIT_TIME_COLUMN = "_hoodie_commit_time"
SEQNO_COLUMN = "_hoodie_commit_seqno"
KEY_COLUMN = "_hoodie_record_key"
PARTITION_COLUMN = "_hoodie_partition_path"
FILE_NAME_COLUMN = "_hoodie_file_name"
META_COLUMNS = (
    COMMIT_TIME_COLUMN,
    SEQNO_COLUMN,
    KEY_COLUMN,
    PARTITION_COLUMN,
    FILE_NAME_COLUMN,
)

STAT_SCHEMA = pa.schema(
    [
        ("file_id", pa.string()),
        ("path", pa.string()),
        ("partition_path", pa.string()),
        ("prev_base_file", pa.string()),
        ("prev_instant", pa.string()),
        ("num_writes", pa.int64()),
        ("num_inserts", pa.int64()),
        ("num_updates", pa.int64()),
        ("num_deletes", pa.int64()),
        ("file_size_bytes", pa.int64()),
        ("min_key", pa.string()),
        ("max_key", pa.string()),
        ("marker", pa.string()),
    ]
)
"""One row per file written; ``path`` is relative to the table, ``marker`` CREATE or MERGE."""

STAT_DDL = ", ".join(
    f"{column.name} {'string' if pa.types.is_string(column.type) else 'bigint'}"
    for column in STAT_SCHEMA
)
"""``STAT_SCHEMA`` as Spark's ``mapInArrow`` takes it."""

#: what an older file calls things, where that is not what the table calls them: by the table's
#: names (``element``, ``key`` and ``value`` in lists and maps) the file's name, and what is inside
FileNames: TypeAlias = Mapping[str, tuple[str, "FileNames | None"]]

#: with pauses that double: a store that throttles (503 SlowDown) is waited for, not given up
S3_ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class FileSystemSpec(ByValue):
    """Where the data files live; ``options`` are those of the pyarrow class for ``kind``.

    ``local`` has none. ``s3``: access_key, secret_key, session_token, region, endpoint_override,
    scheme, path_style ("true" or "false"), anonymous. ``hdfs``: host (with its scheme, for any
    file system of Hadoop's), port, user. Secrets do not show in the value's text.
    """

    kind: str = "local"
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def open(self) -> fs.FileSystem:
        """A fresh file system handle; ``ValueError`` for an unknown kind.

        ``UnsupportedTable`` where this machine lacks what pyarrow needs to reach HDFS.
        """
        options = dict(self.options)
        if self.kind == "local":
            return fs.LocalFileSystem()
        if self.kind == "s3":
            return _s3(options)
        if self.kind == "hdfs":
            return _hdfs(options)
        raise ValueError(f"no file system of kind '{self.kind}'")


def _hdfs(options: dict[str, str]) -> fs.FileSystem:
    try:
        # Port 0: the host is a URI, and says all.
        return fs.HadoopFileSystem(
            options["host"], int(options.get("port", "0")), user=options.get("user")
        )
    except (OSError, ImportError) as e:
        reason = str(e).strip().partition("\n")[0].rstrip(".")
        raise UnsupportedTable(
            f"Data files on '{options['host']}' are out of reach on {socket.gethostname()}: "
            f"{reason}. pyarrow opens them by Hadoop's libhdfs.so and a JVM. On the driver and "
            "each executor set HADOOP_HOME (or ARROW_LIBHDFS_DIR, the folder of libhdfs.so), "
            "JAVA_HOME, and CLASSPATH to what 'hadoop classpath --glob' prints; for executors by "
            "spark.executorEnv.NAME.",
            feature="HDFS without libhdfs",
        ) from e


def _s3(options: dict[str, str]) -> fs.S3FileSystem:
    path_style = options.pop("path_style", "false") == "true"
    anonymous = options.pop("anonymous", "false") == "true"
    settings = {
        **options,
        "anonymous": anonymous,
        "force_virtual_addressing": not path_style,
        "retry_strategy": fs.AwsStandardS3RetryStrategy(max_attempts=S3_ATTEMPTS),
    }
    try:
        # A small file takes one request; else each is a multipart upload, which takes three.
        return fs.S3FileSystem(allow_delayed_open=True, **settings)
    except TypeError:  # an older pyarrow
        return fs.S3FileSystem(**settings)


@dataclass(frozen=True, slots=True)
class GroupPlan(ByValue):
    """One file group to write: a new one if ``base_file`` is ``None``, else a merge into it.

    ``base_file`` is relative to the table; ``base_instant`` is the instant in its name. ``names``
    is there where the file calls a column, or a part of one, by another name than the table.
    """

    ordinal: int
    file_id: str
    partition_path: str
    base_file: str | None = None
    base_instant: str | None = None
    names: FileNames | None = None


@dataclass(frozen=True, slots=True)
class BloomSpec(ByValue):
    """The bloom filter of new files, for writers with the bloom index (spec/bloom_filters.md B2).

    ``dynamic`` chooses DYNAMIC_V0, sized by ``entries`` and growing up to ``max_entries``; without
    it the filter is a SIMPLE one made for the file's number of rows.
    """

    fpp: float = 1e-9
    dynamic: bool = False
    entries: int = 60_000
    max_entries: int = 100_000


@dataclass(frozen=True, slots=True)
class WriteSpec(ByValue):
    """One write of one table, the same for all of its tasks.

    ``root`` is the table's path as ``fs`` takes it (``bucket/prefix`` on S3). ``schema`` has the
    data columns in table order, without meta columns, and ``avro_schema`` is the same with them.
    ``key_columns`` serve error messages only. ``memory_bytes`` bounds the incoming rows that a
    task holds; beyond it they go to ``spill_folder`` (the temporary folder if ``None``).
    """

    root: str
    fs: FileSystemSpec
    instant: str
    schema: pa.Schema
    avro_schema: str
    write_nonce: int
    merge_mode: str = COMMIT_TIME
    ordering_columns: tuple[str, ...] = ()
    key_columns: tuple[str, ...] = ()
    key_from: str | None = None
    """The text or integer column whose value is the record key (simple key generator): incoming
    rows may then leave the key out, and a merge reads the old file's keys once, not twice."""
    codec: str = "snappy"
    row_group_rows: int = 128 * 1024
    row_group_bytes: int = 32 << 20
    target_file_bytes: int = 120 << 20
    bloom: BloomSpec | None = None
    combine: bool = False
    """Rows of a new group may repeat a key and must be combined (merges always combine)."""
    match_keys: bool = True
    """Look incoming keys up in the base file; ``False`` appends them (plain inserts)."""
    always_delete: bool = False
    """Rows marked as deleted win whatever their ordering value (the operation ``delete``)."""
    memory_bytes: int = 96 << 20
    max_open_files: int = 32
    markers: MarkersPlace | None = None
    """The service that takes the markers; ``None``: each is an empty file."""
    spill_folder: str | None = None
