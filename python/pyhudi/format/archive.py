"""Archived timelines of both layouts, read only (spec/archive.md A1, A2).

Layout 1 has log files with three Avro entries per instant. Layout 2 has Parquet files, listed by a
manifest, with one row per completed instant. Both give the same ``ArchivedInstant``. This layer
does no I/O, so the caller lists the files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.format.avro_file import read_datum
from pyhudi.format.commit_metadata import CommitMetadata, commit_from_record, parse_commit
from pyhudi.format.corruption import corrupt
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.log_blocks import BlockType, HeaderKey, LogBlock, avro_records, read_blocks

VERSION_FILE = "_version_"
_LOG_NAME = re.compile(r"\.commits_\.archive\.(\d+)_\d+-\d+-\d+", re.ASCII)
_HISTORY_COLUMNS = ("instantTime", "completionTime", "action", "metadata", "plan")

# Where HoodieArchivedMetaEntry keeps a commit's contents, by action.
COMMIT_FIELDS = {
    Action.COMMIT: "hoodieCommitMetadata",
    Action.DELTACOMMIT: "hoodieCommitMetadata",
    Action.REPLACECOMMIT: "hoodieReplaceCommitMetadata",
}
OTHER_FIELDS = {
    Action.CLEAN: "hoodieCleanMetadata",
    Action.ROLLBACK: "hoodieRollbackMetadata",
    Action.SAVEPOINT: "hoodieSavePointMetadata",
    Action.INDEXING: "hoodieIndexCommitMetadata",
}


@dataclass(frozen=True, slots=True)
class ArchivedInstant:
    """An archived instant with its contents still encoded.

    ``contents`` are the completed file's bytes (layout 2) or its decoded record (layout 1);
    ``plan`` has the requested file's bytes, if layout 2 kept them; ``path`` is the archive file.
    """

    instant: Instant
    contents: bytes | Mapping[str, Any] | None
    plan: bytes | None
    path: str

    def commit(self) -> CommitMetadata:
        """The commit's metadata, decoded now; empty for actions that are not commits."""
        if self.instant.action not in COMMIT_FIELDS or not self.contents:
            return CommitMetadata()
        if isinstance(self.contents, bytes):
            return parse_commit(self.contents, self.path)
        return commit_from_record(self.contents, self.path)


def archive_log_number(file_name: str) -> int | None:
    """The n of ``.commits_.archive.n_1-0-1`` (layout 1); ``None`` for other names.

    Read the files in the order of their numbers.
    """
    found = _LOG_NAME.fullmatch(file_name)
    return None if found is None else int(found.group(1))


def read_archive_log(data: bytes, path: str) -> list[ArchivedInstant]:
    """Every entry of a layout 1 archive file: usually three states per instant, in file order.

    ``TableCorrupt`` if an entry cannot be decoded.
    """
    return [
        archived
        for block in read_blocks(data)
        if block.block_type is BlockType.AVRO_DATA
        for archived in _entries(block, path)
    ]


def read_archive_log_backwards(data: bytes, path: str) -> Iterator[list[ArchivedInstant]]:
    """The same block by block, the last block first, so that a search for the newest can stop."""
    for block in reversed(list(read_blocks(data))):
        if block.block_type is BlockType.AVRO_DATA:
            yield _entries(block, path)


def _entries(block: LogBlock, path: str) -> list[ArchivedInstant]:
    rule = "an archived timeline holds HoodieArchivedMetaEntry records"
    schema = block.header.get(HeaderKey.SCHEMA, "").encode()
    try:
        return [_entry(read_datum(record, schema), path) for record in avro_records(block, path)]
    except (ValueError, TypeError, KeyError, IndexError, EOFError) as cause:
        raise corrupt(path, rule, f"{type(cause).__name__}: {cause}") from cause


def _entry(record: Mapping[str, Any], path: str) -> ArchivedInstant:
    action = Action(record["actionType"])
    # Writers before 0.5 archived only completed instants and recorded no state.
    state = State((record.get("actionState") or State.COMPLETED.value).lower())
    holder = COMMIT_FIELDS.get(action) or OTHER_FIELDS.get(action)
    contents = record.get(holder) if holder is not None and state is State.COMPLETED else None
    instant = Instant(InstantTime(record["commitTime"]), action, state)
    return ArchivedInstant(instant, contents, None, path)


def parse_history_version(data: bytes, path: str) -> str:
    """The file name of the newest manifest, from ``_version_`` (layout 2)."""
    text = data.decode("utf-8", "replace").strip()
    if not (text.isascii() and text.isdecimal()):
        raise corrupt(path, "_version_ holds the number of a manifest", f"'{text[:80]}'")
    return f"manifest_{text}"


def parse_manifest(data: bytes, path: str) -> list[str]:
    """The names of the history's Parquet files, oldest first; nothing else there counts."""
    return sorted(parse_manifest_sizes(data, path))


def parse_manifest_sizes(data: bytes, path: str) -> dict[str, int]:
    """The same with the size of each file in bytes, by name; -1 where the manifest has none."""
    rule = "a manifest lists the history's files"
    try:
        found = {e["fileName"]: int(e.get("fileLen", -1)) for e in json.loads(data)["files"]}
    except (ValueError, KeyError, TypeError, AttributeError) as cause:
        raise corrupt(path, rule, f"{type(cause).__name__}: {cause}") from cause
    if not all(isinstance(name, str) and "/" not in name for name in found):
        raise corrupt(path, rule, f"{sorted(found)}")
    return found


def manifest_number(file_name: str) -> int | None:
    """The n of ``manifest_n`` (layout 2); ``None`` for other names."""
    found = re.fullmatch(r"manifest_(\d+)", file_name, re.ASCII)
    return None if found is None else int(found[1])


def history_file_range(file_name: str) -> tuple[InstantTime, InstantTime] | None:
    """(least, greatest) instant in ``<min>_<max>_<level>.parquet``; ``None`` for other names."""
    found = re.fullmatch(r"(\d+)_(\d+)_\d+\.parquet", file_name, re.ASCII)
    return None if found is None else (InstantTime(found[1]), InstantTime(found[2]))


def history_file_level(file_name: str) -> int | None:
    """The level in ``<min>_<max>_<level>.parquet``; ``None`` for other names."""
    found = re.fullmatch(r"\d+_\d+_(\d+)\.parquet", file_name, re.ASCII)
    return None if found is None else int(found[1])


def read_history_file(data: bytes, path: str) -> list[ArchivedInstant]:
    """The completed instants in one Parquet file of layout 2, sorted by instant.

    ``TableCorrupt`` if it is not such a file.
    """
    rule = "a history file holds HoodieLSMTimelineInstant rows"
    try:
        table = pq.read_table(pa.BufferReader(data), columns=list(_HISTORY_COLUMNS))
        return [_row(row, path) for row in table.to_pylist()]
    except (pa.ArrowException, KeyError, ValueError) as cause:
        raise corrupt(path, rule, str(cause)) from cause


def _row(row: Mapping[str, Any], path: str) -> ArchivedInstant:
    instant = Instant(
        InstantTime(row["instantTime"]),
        Action(row["action"]),
        State.COMPLETED,
        InstantTime(row["completionTime"]),
    )
    return ArchivedInstant(instant, row["metadata"], row["plan"], path)
