"""The driver's orders to a worker, and the worker's report: values without behaviour.

They are sent by value, so the fields are plain: no enum of another module, no open handle.
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
#: file id of the group that holds a row, in rows that change; null for a new row
HOME = "_pyhudi_home"
#: the column of a table that marks a row as deleted
SOFT_DELETE = "_hoodie_is_deleted"

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
        ("change_log", pa.string()),
        ("change_log_bytes", pa.int64()),
        ("log_version", pa.int64()),
        ("copies", pa.int64()),
        ("forced", pa.int64()),
        ("outdated", pa.int64()),
    ]
)
"""One row per base file written, with its change log, or per log file, which has a version; paths
are relative to the table, ``marker`` is CREATE, MERGE or APPEND. ``copies`` is 1 for a log that
changes a key which the base file has more than once, ``forced`` the number of a log's deletes
that win in any case, by event time (spec/merging.md R1), ``outdated`` that of the rows which lose
against the base file's. A row without a path is of a group that got no file: all its rows lost."""

STAT_DDL = ", ".join(
    f"{column.name} {'string' if pa.types.is_string(column.type) else 'bigint'}"
    for column in STAT_SCHEMA
)
"""``STAT_SCHEMA`` as Spark's ``mapInArrow`` takes it."""

#: names of an older file that differ from the table's: the table's name (``element``, ``key`` and
#: ``value`` in lists and maps) -> the file's name, and the same for its parts
FileNames: TypeAlias = Mapping[str, tuple[str, "FileNames | None"]]

#: the pauses double: a store that throttles (503 SlowDown) is tried again, not given up
S3_ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class FileSystemSpec(ByValue):
    """The file system of the data files; ``options`` are those of pyarrow's class for ``kind``.

    ``local`` has none. ``s3``: access_key, secret_key, session_token, region, endpoint_override,
    scheme, path_style ("true" or "false"), anonymous. ``hdfs``: host (with its scheme, for any
    file system of Hadoop's), port, user. Secrets do not show in the value's text.
    """

    kind: str = "local"
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def open(self) -> fs.FileSystem:
        """A new file system handle; ``ValueError`` for an unknown kind.

        ``UnsupportedTable`` if this machine lacks what pyarrow needs for HDFS.
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
        # Port 0: the host is a URI that has everything.
        return fs.HadoopFileSystem(
            options["host"], int(options.get("port", "0")), user=options.get("user")
        )
    except (OSError, ImportError) as e:
        reason = str(e).strip().partition("\n")[0].rstrip(".")
        raise UnsupportedTable(
            f"{socket.gethostname()} cannot reach data files on '{options['host']}': {reason}. "
            "pyarrow needs Hadoop's libhdfs.so and a JVM for them. On the driver and on each "
            "executor set HADOOP_HOME (or ARROW_LIBHDFS_DIR, the folder of libhdfs.so), JAVA_HOME, "
            "and CLASSPATH to what 'hadoop classpath --glob' prints; for executors use "
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
        # So a small file takes one request; a multipart upload would take three.
        return fs.S3FileSystem(allow_delayed_open=True, **settings)
    except TypeError:  # an older pyarrow
        return fs.S3FileSystem(**settings)


#: what becomes of rows for a log whose key the base file has more than once: a new base file takes
#: its place; they are logged, as their positions tell the copies apart; the write is refused
REWRITE, BY_POSITION, REFUSE = "rewrite", "position", "refuse"


@dataclass(frozen=True, slots=True)
class GroupPlan(ByValue):
    """One file group to write: a new one if ``base_file`` is ``None``, otherwise a merge into it.

    ``base_file`` is relative to the table; ``base_instant`` is the instant in its name. ``names``
    is set if the file's name of a column, or of a part of it, differs from the table's. With a
    ``log_version`` the rows go to a log of that version beside the base file, if there is one;
    ``copies`` says what is done instead if the base file has one of their keys more than once.
    """

    ordinal: int
    file_id: str
    partition_path: str
    base_file: str | None = None
    base_instant: str | None = None
    names: FileNames | None = None
    log_version: int | None = None
    copies: str = REFUSE


@dataclass(frozen=True, slots=True)
class BloomSpec(ByValue):
    """The bloom filter of new files, for writers with the bloom index (spec/bloom_filters.md B2).

    ``dynamic`` chooses DYNAMIC_V0, which begins with ``entries`` and grows to ``max_entries``.
    Otherwise the filter is SIMPLE, with the size for the file's number of rows.
    """

    fpp: float = 1e-9
    dynamic: bool = False
    entries: int = 60_000
    max_entries: int = 100_000


@dataclass(frozen=True, slots=True)
class ChangeLogSpec(ByValue):
    """The change logs beside merged files: the Avro schema of their records."""

    schema: str


@dataclass(frozen=True, slots=True)
class Filled(ByValue):
    """Values that give way to those of the row below (spec/merging.md R6): null, or ``marker`` in
    columns of strings, and ``in_bytes`` as well."""

    marker: str | None = None
    in_bytes: bool = False


@dataclass(frozen=True, slots=True)
class WriteSpec(ByValue):
    """One write of one table; all its tasks get the same.

    ``root`` is the table's path in the form for ``fs`` (``bucket/prefix`` on S3). ``schema`` has
    the data columns in table order, without meta columns; ``avro_schema`` also has these.
    ``key_columns`` are only for error messages. ``memory_bytes`` bounds the incoming rows that a
    task holds in memory; more go to ``spill_folder`` (``None``: the temporary folder).
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
    """The text or integer column whose value is the record key (simple key generator). Incoming
    rows may then leave the key out, and a merge reads the old file's keys once, not twice."""
    codec: str = "snappy"
    row_group_rows: int = 128 * 1024
    row_group_bytes: int = 32 << 20
    target_file_bytes: int = 120 << 20
    bloom: BloomSpec | None = None
    combine: bool = False
    """Rows of a new group may repeat a key and must be combined (merges always combine)."""
    match_keys: bool = True
    """Whether incoming keys are looked up in the base file; ``False``: appended (inserts)."""
    always_delete: bool = False
    """Rows marked as deleted always win, whatever their ordering value (operation ``delete``)."""
    memory_bytes: int = 96 << 20
    max_open_files: int = 32
    markers: MarkersPlace | None = None
    """The place for the markers; ``None``: each marker is an empty file."""
    spill_folder: str | None = None
    change_log: ChangeLogSpec | None = None
    """``None``: the table has no change logs."""
    layout: int = 2
    """Of the timeline; a log of layout 1 is named by its slice, and has no positions."""
    keys_known: bool = False
    """Rows come to a log only if the base file has their keys, since the index looks them up."""
    filled: Filled | None = None
    """Which values of a row come from the row below; ``None`` if its own ones count, all."""
    alone: bool = True
    """Other writers add no logs to its file groups, or one of them begins again."""
    exact: bool = False
    """The rows are those of a statement: their own values count, whatever ``filled`` says."""

    @property
    def by_event_time(self) -> bool:
        """Whether ordering values decide which row of a key wins."""
        return self.merge_mode == EVENT_TIME and bool(self.ordering_columns)

    @property
    def fills(self) -> Filled | None:
        """``filled`` where the write itself fills values in: those of a statement stay."""
        return None if self.exact else self.filled
