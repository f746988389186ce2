"""The metadata of a commit: write statistics, replaced file groups and extra metadata.

It is JSON in layout 1, Avro in layout 2 (spec/timeline.md T5). The first bytes show which, so an
upgraded table reads in the same way. Timelines have thousands of these, so parsing does only what
is necessary.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyhudi.format.avro_file import is_avro, read_record, write_record
from pyhudi.format.corruption import corrupt
from pyhudi.format.filenames import FileId, parse_log_file_name

SCHEMA_KEY = "schema"
#: in the metadata of a commit by event time: how many of its rows lost against those of base files
OUTDATED_KEY = "pyhudi.rows.outdated"
#: the operation of a log compaction's commit
LOG_COMPACT = "LOG_COMPACT"
_RULE = "a commit holds write statistics by partition"
#: measured memory of a parsed commit: itself, each file that it wrote, each group that it replaced
_COMMIT_BYTES, _STAT_BYTES, _GROUP_BYTES = 1_000, 800, 150
_NO_COMMIT = "null"  # Hudi's text for "there was no previous commit"


@dataclass(frozen=True, slots=True)
class WriteStat:
    """One file that a commit wrote.

    ``path`` is relative to the table and empty in workload profiles; ``prev_commit`` is ``None``
    for a new file group. Counts are rows; ``num_writes`` are all rows in the file. The last five
    belong to log files and change logs.
    """

    file_id: FileId
    path: str
    partition_path: str
    prev_commit: str | None = None
    num_writes: int = 0
    num_inserts: int = 0
    num_updates: int = 0
    num_deletes: int = 0
    total_write_bytes: int = 0
    file_size_bytes: int = 0
    prev_base_file: str | None = None
    log_version: int | None = None
    log_offset: int | None = None
    base_file: str | None = None
    log_files: tuple[str, ...] | None = None
    cdc_stats: Mapping[str, int] | None = None

    @property
    def is_log(self) -> bool:
        """Whether the file is a log."""
        return parse_log_file_name(self.path.rpartition("/")[2]) is not None

    @property
    def deletes_in_log(self) -> bool:
        """Whether the file is a log that a write added, with deletes."""
        return self.log_version is not None and self.num_deletes > 0


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """A commit's contents; ``replaced`` is ``None`` unless it is a replace commit."""

    operation: str = "UNKNOWN"
    stats: tuple[WriteStat, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)
    replaced: Mapping[str, tuple[FileId, ...]] | None = None
    compacted: bool = False

    @property
    def log_compacted(self) -> bool:
        """Whether it is the commit of a log compaction."""
        return self.operation.upper() == LOG_COMPACT

    @property
    def memory_bytes(self) -> int:
        """About the bytes of this in memory, from measurements."""
        groups = sum(map(len, self.replaced.values())) if self.replaced else 0
        texts = sum(map(len, self.extra.values()))
        return _COMMIT_BYTES + texts + len(self.stats) * _STAT_BYTES + groups * _GROUP_BYTES


def parse_commit(data: bytes, path: str) -> CommitMetadata:
    """The metadata in a commit-like file of either form; an empty file gives empty metadata.

    ``TableCorrupt`` with ``path`` if the bytes are neither, or lack a part of a commit.
    """
    if not data:
        return CommitMetadata()
    return commit_from_record(read_commit_record(data, path), path)


def read_commit_record(data: bytes, path: str) -> dict[str, Any]:
    """The record of such a file with all its fields, also those that pyhudi does not use."""
    return read_record(data, path) if is_avro(data) else _json(data, path)


def _json(data: bytes, path: str) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError as cause:
        raise corrupt(path, _RULE, f"neither JSON nor Avro ({cause})") from cause
    if not isinstance(value, dict):
        raise corrupt(path, _RULE, "the JSON is not an object")
    return value


def commit_from_record(record: Mapping[str, Any], path: str) -> CommitMetadata:
    """The metadata in a decoded record; JSON and Avro have the same field names."""
    try:
        by_partition = record.get("partitionToWriteStats") or {}
        stats = tuple(
            _stat(entry, partition)
            for partition, entries in by_partition.items()
            for entry in entries
        )
        replaced = record.get("partitionToReplaceFileIds")
        if "partitionToReplaceFileIds" in record:
            replaced = {key: tuple(ids) for key, ids in (replaced or {}).items()}
        extra = record.get("extraMetadata") or {}
        return CommitMetadata(
            operation=record.get("operationType") or "UNKNOWN",
            stats=stats,
            extra={key: value for key, value in extra.items() if value is not None},
            replaced=replaced,
            compacted=bool(record.get("compacted")),
        )
    except (AttributeError, TypeError, KeyError, ValueError) as cause:
        raise corrupt(path, _RULE, f"a value is of another kind ({cause})") from cause


def _stat(entry: Mapping[str, Any], partition: str) -> WriteStat:
    get = entry.get
    previous, log_files = get("prevCommit"), get("logFiles")
    return WriteStat(
        get("fileId") or FileId(""),
        get("path") or "",
        partition,
        None if previous == _NO_COMMIT else previous,
        get("numWrites") or 0,
        get("numInserts") or 0,
        get("numUpdateWrites") or 0,
        get("numDeletes") or 0,
        get("totalWriteBytes") or 0,
        get("fileSizeInBytes") or 0,
        get("prevBaseFile"),
        get("logVersion"),
        get("logOffset"),
        get("baseFile"),
        None if log_files is None else tuple(log_files),
        get("cdcStats"),
    )


def render_commit(metadata: CommitMetadata, layout: int) -> bytes:
    """The file's bytes: JSON for layout 1, Avro for layout 2.

    It has the form of a replace commit if and only if ``metadata.replaced`` is not ``None``.
    """
    record = commit_to_record(metadata)
    if layout == 1:
        return json.dumps(record, indent=2, separators=(",", " : ")).encode()
    is_replace = metadata.replaced is not None
    return write_record(
        "HoodieReplaceCommitMetadata" if is_replace else "HoodieCommitMetadata", record
    )


def commit_to_record(metadata: CommitMetadata) -> dict[str, Any]:
    """The record of a commit with Hudi's field names, for both JSON and Avro."""
    by_partition: dict[str, list[dict[str, Any]]] = {}
    for stat in metadata.stats:
        by_partition.setdefault(stat.partition_path, []).append(_entry(stat))
    record: dict[str, Any] = {
        "partitionToWriteStats": by_partition,
        "compacted": metadata.compacted,
        "extraMetadata": dict(metadata.extra),
        "operationType": metadata.operation,
    }
    if metadata.replaced is not None:
        record["partitionToReplaceFileIds"] = {
            partition: list(ids) for partition, ids in metadata.replaced.items()
        }
    return record


def _entry(stat: WriteStat) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "fileId": stat.file_id,
        "path": stat.path or None,
        "prevCommit": _NO_COMMIT if stat.prev_commit is None else stat.prev_commit,
        "numWrites": stat.num_writes,
        "numDeletes": stat.num_deletes,
        "numUpdateWrites": stat.num_updates,
        "numInserts": stat.num_inserts,
        "totalWriteBytes": stat.total_write_bytes,
        "totalWriteErrors": 0,
        "partitionPath": stat.partition_path,
        "totalLogRecords": 0,
        "totalUpdatedRecordsCompacted": 0,
        "totalLogBlocks": 0,
        "totalCorruptLogBlock": 0,
        "totalRollbackBlocks": 0,
        "fileSizeInBytes": stat.file_size_bytes,
        "totalLogFilesCompacted": 0,
        "totalLogReadTimeMs": 0,
        "totalLogSizeCompacted": 0,
        # None is possible in Avro, but a JSON reader of layout 1 may not know the newer keys.
        **({"prevBaseFile": stat.prev_base_file} if stat.prev_base_file is not None else {}),
        **({"cdcStats": dict(stat.cdc_stats)} if stat.cdc_stats is not None else {}),
    }
    log = {"logVersion": stat.log_version, "logOffset": stat.log_offset, "baseFile": stat.base_file}
    entry |= {key: value for key, value in log.items() if value is not None}
    if stat.log_files is not None:
        entry["logFiles"] = list(stat.log_files)
    return entry
