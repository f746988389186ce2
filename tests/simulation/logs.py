"""Logs of merge-on-read tables here: real blocks under real names, whose content is JSON.

A data block has rows, key to the list of those who changed it; a delete block has keys. Which logs
and which blocks count, and in which order, is decided by the product's code; only the rows are
merged here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

from pyhudi.format.filenames import FileId, LogFileName, parse_log_file_name
from pyhudi.format.instants import InstantTime
from pyhudi.format.log_blocks import BlockType, HeaderKey, read_blocks, render_block
from pyhudi.reads.log_slices import counted_slices
from pyhudi.rows.log_parts import parts_of
from pyhudi.rows.log_spec import CountedInstants
from pyhudi.services.slice_merging import counted_instants
from pyhudi.slices.files import FileSlice, in_order
from pyhudi.storage.base import Storage
from pyhudi.timeline.view import FileSystemView

Rows = dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The slices of a table, with the logs whose rows may count, and the instants that do."""

    slices: Sequence[FileSlice]
    counted: CountedInstants

    def rows(self, storage: Storage) -> list[Rows]:
        """The rows of each slice."""
        return [rows_of_slice(storage, each, self.counted) for each in self.slices]


def snapshot(view: FileSystemView) -> Snapshot:
    """What a query of the table's newest state reads; errors as of ``view.slices``."""
    table = SimpleNamespace(config=SimpleNamespace(layout=view.timeline.layout))
    query = cast("Any", SimpleNamespace(view=lambda: view, until=None, table=table))
    return Snapshot(counted_slices(query, view.slices()), counted_instants(view, None))


def rows_of_slice(storage: Storage, of: FileSlice, counted: CountedInstants) -> Rows:
    """The rows that the base file and the logs of a slice leave."""
    logs = [log.path for log in in_order(of.logs)]
    return merged(storage, of.base.path if of.base is not None else None, logs, counted)


def merged(
    storage: Storage, base: str | None, logs: Iterable[str], counted: CountedInstants
) -> Rows:
    """The same by the paths of the files, the logs in their order."""
    rows: Rows = json.loads(storage.read(base)) if base is not None else {}
    order = cast("Any", SimpleNamespace(counted=counted, whole_logs=False))
    for part in parts_of(order, [(path, storage.read(path)) for path in logs], {}):
        _put(rows, set(), part.deletes, json.loads(bytes(part._content)))
    return rows


def rows_by_name(storage: Storage, of: FileSlice, counted: CountedInstants) -> Rows:
    """What a reader makes of a slice that knows no log compaction, as hudi-rs: it merges all logs
    in the order of their names."""
    rows: Rows = json.loads(storage.read(of.base.path)) if of.base is not None else {}
    for log in in_order(of.logs):
        for block in read_blocks(storage.read(log.path)):
            if block.header.get(HeaderKey.INSTANT_TIME, "") in counted:
                _put(rows, set(), block.block_type is BlockType.DELETE, json.loads(block.content))
    return rows


def compacted_log(
    storage: Storage, logs: Iterable[str], counted: CountedInstants, instant: InstantTime
) -> tuple[bytes, int]:
    """The log of a log compaction that stands for ``logs``, and how many rows it has."""
    rows: Rows = {}
    gone: set[str] = set()
    order = cast("Any", SimpleNamespace(counted=counted, whole_logs=False))
    parts = parts_of(order, [(path, storage.read(path)) for path in logs], {})
    for part in parts:
        _put(rows, gone, part.deletes, json.loads(bytes(part._content)))
    replaced = dict.fromkeys(part.instant for part in parts)
    return log_data(instant, rows, gone, replaced), len(rows)


def _put(rows: Rows, gone: set[str], deletes: bool, content: Any) -> None:
    """Let the events of one block come over those before: ``rows``, and keys that are ``gone``."""
    for key in content:
        if deletes:
            rows.pop(key, None)
            gone.add(key)
        elif _value(content[key]) >= _value(rows.get(key)):
            rows[key] = content[key]
            gone.discard(key)


def _value(row: Sequence[str] | None) -> int:
    """The ordering value behind the name of a row's writer; -1 where event time does not decide."""
    return int(row[1]) if row is not None and len(row) == 2 and row[1].isdigit() else -1


def log_data(
    instant: InstantTime,
    rows: Mapping[str, list[str]],
    gone: Iterable[str] = (),
    replaced: Iterable[str] = (),
) -> bytes:
    """A log of one write: its rows, then the keys that it deletes.

    ``replaced`` are the instants that it stands for, if a log compaction writes it.
    """
    header: dict[int, str] = {HeaderKey.INSTANT_TIME: instant}
    if instants := ",".join(replaced):
        header[HeaderKey.COMPACTED_BLOCK_TIMES] = instants
    data, deleted = b"", sorted(gone)
    if rows:
        data += render_block(BlockType.AVRO_DATA, header, json.dumps(dict(rows)).encode())
    if deleted:
        data += render_block(BlockType.DELETE, header, json.dumps(deleted).encode())
    return data


def log_path(
    partition: str, file_id: FileId, instant: InstantTime, version: int, token: str
) -> str:
    return f"{partition}/{LogFileName(file_id, instant, version, token).render()}"


def named_log(path: str) -> LogFileName | None:
    """The name of a log of the table's rows; None for other files."""
    return None if path.startswith(".hoodie/") else parse_log_file_name(path.rpartition("/")[2])


def is_data(path: str) -> bool:
    """Whether a file holds rows of the table."""
    base = path.endswith(".parquet") and not path.startswith(".hoodie/")
    return base or named_log(path) is not None


def instants_in(storage: Storage, path: str) -> set[str]:
    """The instants of a log's blocks; those of commands are none."""
    blocks = read_blocks(storage.read(path))
    found = (b for b in blocks if b.block_type is not BlockType.COMMAND)
    return {block.header.get(HeaderKey.INSTANT_TIME, "") for block in found}


def taken_back(storage: Storage, paths: Iterable[str]) -> set[str]:
    """The instants that a command in one of these logs takes back."""
    return {
        block.header.get(HeaderKey.TARGET_INSTANT_TIME, "")
        for path in paths
        for block in read_blocks(storage.read(path))
        if block.block_type is BlockType.COMMAND
    }
