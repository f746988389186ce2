"""Apache Hudi's archiver, played on a table: instants leave the active timeline for the archive.

As Hudi does it: the archive is written first, then the instant's files go, the completed one last.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.format.archive import VERSION_FILE, archive_log_number, parse_manifest
from pyhudi.format.avro_file import packaged_schema
from pyhudi.format.commit_metadata import commit_to_record, parse_commit
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.log_blocks import BlockType, HeaderKey, render_block
from pyhudi.timeline.table import Table

_ENTRY = "HoodieArchivedMetaEntry"
_FIELDS = {
    Action.COMMIT: "hoodieCommitMetadata",
    Action.REPLACECOMMIT: "hoodieReplaceCommitMetadata",
}


def archive(table: Table, *times: InstantTime) -> None:
    """Archive the completed instants of these times in one run of the archiver."""
    timeline = table.timeline()
    instants = [i for i in timeline.completed if i.time in times]
    assert {i.time for i in instants} == set(times)
    keep = _keep_1 if table.config.layout == 1 else _keep_2
    keep(table, [(i, table.storage.read(timeline.file_of(i))) for i in instants])
    folder = table.config.timeline_folder
    for instant in instants:
        files = [f for f in table.storage.list(folder) if f.name.startswith(instant.time)]
        done = timeline.file_of(instant)
        table.storage.delete([f.path for f in files if f.path != done])
        table.storage.delete([done])


def _keep_1(table: Table, found: Iterable[tuple[Instant, bytes]]) -> None:
    schema = packaged_schema(_ENTRY)
    records = [
        _datum(_entry(instant, state, data if state is State.COMPLETED else None), schema)
        for instant, data in found
        for state in State
    ]
    content = struct.pack(">ii", 1, len(records))
    content += b"".join(struct.pack(">i", len(r)) + r for r in records)
    block = render_block(BlockType.AVRO_DATA, {HeaderKey.SCHEMA: json.dumps(schema)}, content)
    folder = table.config.history_folder
    numbers = [archive_log_number(f.name) or 0 for f in table.storage.list(folder)]
    number = max(numbers, default=0) + 1
    table.storage.put_if_absent(f"{folder}/.commits_.archive.{number}_1-0-1", block)


def _entry(instant: Instant, state: State, data: bytes | None) -> dict[str, Any]:
    record: dict[str, Any] = {
        "commitTime": instant.time,
        "actionType": instant.action.value,
        "actionState": state.value.upper(),
    }
    if data and instant.action in _FIELDS:
        record[_FIELDS[instant.action]] = commit_to_record(parse_commit(data, instant.time))
    return record


def _datum(record: dict[str, Any], schema: dict[str, Any]) -> bytes:
    body = BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), record)
    return body.getvalue()


def _keep_2(table: Table, found: list[tuple[Instant, bytes]]) -> None:
    rows = [
        {
            "instantTime": instant.time,
            "completionTime": instant.completion_time or instant.time,
            "action": instant.action.value,
            "metadata": data,
            "plan": None,
            "version": 1,
        }
        for instant, data in found
    ]
    kinds = [pa.string(), pa.string(), pa.string(), pa.binary(), pa.binary(), pa.int32()]
    names = ("instantTime", "completionTime", "action", "metadata", "plan", "version")
    out = BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(zip(names, kinds, strict=True))), out)
    storage, folder = table.storage, table.config.history_folder
    times = [instant.time for instant, _ in found]
    name = f"{min(times)}_{max(times)}_0.parquet"
    storage.put_if_absent(f"{folder}/{name}", out.getvalue())
    number, kept = 0, []
    if storage.exists(f"{folder}/{VERSION_FILE}"):
        number = int(storage.read(f"{folder}/{VERSION_FILE}"))
        manifest = f"{folder}/manifest_{number}"
        kept = parse_manifest(storage.read(manifest), manifest)
    files = [{"fileName": each, "fileLen": 1} for each in [*kept, name]]
    text = json.dumps({"files": files}).encode()
    storage.put_if_absent(f"{folder}/manifest_{number + 1}", text)
    storage.replace(f"{folder}/{VERSION_FILE}", str(number + 1).encode())
