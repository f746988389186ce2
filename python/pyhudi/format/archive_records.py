"""Writes the blocks of layout 1's archive (spec/archive.md A1); ``archive.py`` reads them.

An instant has a record for each of its states, in the order of the states.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pyhudi.format.archive import COMMIT_FIELDS, OTHER_FIELDS
from pyhudi.format.avro_file import packaged_schema, write_datum
from pyhudi.format.commit_metadata import read_commit_record
from pyhudi.format.corruption import corrupt
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.log_blocks import BlockType, HeaderKey, render_block

ENTRY = "HoodieArchivedMetaEntry"
#: the version of a data block's content
_BLOCK_VERSION = 3
_INT = struct.Struct(">i")
_JAVA_STRING = {"avro.java.string": "String"}
#: where the plan of a pending action is kept
_PLAN_FIELDS = {
    Action.CLEAN: "hoodieCleanerPlan",
    Action.COMPACTION: "hoodieCompactionPlan",
    Action.LOGCOMPACTION: "hoodieCompactionPlan",
    Action.REPLACECOMMIT: "hoodieRequestedReplaceMetadata",
}
#: where an inflight file's profile of the write is kept
_PROFILE_FIELDS = {
    Action.COMMIT: "hoodieCommitMetadata",
    Action.DELTACOMMIT: "hoodieCommitMetadata",
    Action.REPLACECOMMIT: "HoodieInflightReplaceMetadata",
    Action.CLEAN: "hoodieCleanerPlan",
}


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """A timeline file that is to be archived: its instant and state, its bytes, and its path.

    ``put`` is when the storage got it, in the table's zone.
    """

    instant: Instant
    data: bytes
    put: InstantTime
    path: str


def archive_log_name(number: int) -> str:
    """The name of a log file of the archive."""
    return f".commits_.archive.{number}_1-0-1"


def render_archive_block(files: Iterable[ArchivedFile]) -> bytes:
    """The block with these files' records. ``TableCorrupt`` if a file cannot be read."""
    records = [_rendered(file) for file in files]
    content = _INT.pack(_BLOCK_VERSION) + _INT.pack(len(records))
    content += b"".join(_INT.pack(len(record)) + record for record in records)
    return render_block(BlockType.AVRO_DATA, {HeaderKey.SCHEMA: _schema_text()}, content)


def _rendered(file: ArchivedFile) -> bytes:
    try:
        return write_datum(ENTRY, _record(file))
    except ValueError as cause:
        raise corrupt(file.path, "a timeline file fits into the archive", str(cause)) from cause


def _record(file: ArchivedFile) -> Mapping[str, Any]:
    instant = file.instant
    record: dict[str, Any] = {
        "commitTime": instant.time,
        "actionType": instant.action.value,
        "actionState": instant.state.value.upper(),
        "stateTransitionTime": file.put,
    }
    holder = _holder(instant)
    if holder is not None and file.data:
        record[holder] = read_commit_record(file.data, file.path)
    return record


def _holder(instant: Instant) -> str | None:
    if instant.state is State.COMPLETED:
        return COMMIT_FIELDS.get(instant.action) or OTHER_FIELDS.get(instant.action)
    fields = _PLAN_FIELDS if instant.state is State.REQUESTED else _PROFILE_FIELDS
    return fields.get(instant.action)


@cache
def _schema_text() -> str:
    return json.dumps(_with_java_strings(packaged_schema(ENTRY)), separators=(",", ":"))


def _with_java_strings(node: Any) -> Any:
    """The schema with Avro's hint for Java: Apache Hudi casts what it reads to ``String``."""
    if node == "string":
        return {"type": "string", **_JAVA_STRING}
    if isinstance(node, list):
        return [_with_java_strings(each) for each in node]
    if not isinstance(node, dict):
        return node
    below = {
        key: _with_java_strings(node[key]) for key in ("type", "items", "values") if key in node
    }
    if "fields" in node:
        below["fields"] = [_with_java_strings(each) for each in node["fields"]]
    return {**node, **below, **(_JAVA_STRING if node.get("type") == "map" else {})}
