"""The change log beside a base file: what a commit did to each row (spec/log_files.md L7).

Workers read it, so this module and what it imports need only pyarrow.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.format.avro_columns import AvroColumns
from pyhudi.format.avro_writing import encode_columns
from pyhudi.format.corruption import corrupt
from pyhudi.format.log_blocks import (
    BlockType,
    HeaderKey,
    LogBlock,
    avro_content,
    avro_spans,
    read_blocks,
    render_block,
)

OP, TIME, BEFORE, AFTER = "op", "ts_ms", "before", "after"
INSERT, UPDATE, DELETE = "i", "u", "d"
#: the field that names the row, if the log lacks an image
LOGGED_KEY = "record_key"
RULE = "a change log holds Avro records with op and images (spec/log_files.md L7)"


class LogContent(str, Enum):
    """What a table's change logs have: hoodie.table.cdc.supplemental.logging.mode."""

    OP_KEY_ONLY = "OP_KEY_ONLY"
    DATA_BEFORE = "DATA_BEFORE"
    DATA_BEFORE_AFTER = "DATA_BEFORE_AFTER"


def change_log_schema(content: LogContent, table: Mapping[str, Any]) -> str:
    """The Avro schema of a log's records, from the table's Avro record without meta columns."""
    text = ["null", "string"]
    key = _field(LOGGED_KEY, text)
    if content is LogContent.OP_KEY_ONLY:
        fields = [{"name": OP, "type": text[::-1]}, {"name": LOGGED_KEY, "type": text[::-1]}]
        return json.dumps({"type": "record", "name": "Record", "fields": fields})
    space = table.get("namespace", "")
    plain = {name: value for name, value in table.items() if name != "namespace"}
    before = _field(BEFORE, ["null", plain])
    if content is LogContent.DATA_BEFORE:
        fields = [_field(OP, text), key, before]
    else:
        after = _field(AFTER, ["null", table["name"]])
        fields = [_field(OP, text), _field(TIME, text), before, after]
    return json.dumps({"type": "record", "name": "CDC", "namespace": space, "fields": fields})


def _field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "default": None}


def render_changes(columns: Mapping[str, pa.Array], instant: str, schema: str) -> bytes:
    """A block of a change log, a record a row; columns that ``schema`` lacks are left out."""
    header: dict[int, str] = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: schema}
    content = avro_content(encode_columns(columns, schema))
    return render_block(BlockType.CDC_DATA, header, content)


@dataclass(frozen=True, slots=True)
class LoggedChanges:
    """The changes of one block: their operations, and the keys if the log has them.

    ``images`` are the images that the log has, by name, as arrays of structs.
    """

    ops: pa.Array
    keys: pa.Array | None
    images: Mapping[str, pa.StructArray]

    def only(self, ops: str) -> LoggedChanges:
        """The changes whose operation is among ``ops``."""
        kept = pc.is_in(self.ops, value_set=pa.array(list(ops), pa.string()))
        if pc.all(kept).as_py() is not False:
            return self
        keys = self.keys.filter(kept) if self.keys is not None else None
        images = {name: image.filter(kept) for name, image in self.images.items()}
        return LoggedChanges(self.ops.filter(kept), keys, images)

    def part(self, start: int, rows: int) -> LoggedChanges:
        """At most ``rows`` changes from ``start`` on."""
        keys = self.keys.slice(start, rows) if self.keys is not None else None
        images = {name: image.slice(start, rows) for name, image in self.images.items()}
        return LoggedChanges(self.ops.slice(start, rows), keys, images)


def logged_changes(data: bytes, path: str) -> Iterator[LoggedChanges]:
    """The changes in a log, block by block.

    ``TableCorrupt`` with ``path`` if a block does not decode.
    """
    for block in read_blocks(data):
        if block.block_type is BlockType.CDC_DATA:
            yield _of_block(block, path)


def _of_block(block: LogBlock, path: str) -> LoggedChanges:
    starts, ends = avro_spans(block.content, path)
    try:
        columns = AvroColumns(block.header.get(HeaderKey.SCHEMA, ""))
        found = columns.decode(block.content, starts, ends)
        images = {name: found[name] for name in (BEFORE, AFTER) if name in found}
        return LoggedChanges(found[OP], found.get(LOGGED_KEY), images)
    except (ValueError, KeyError, TypeError, IndexError, pa.ArrowException) as error:
        raise corrupt(path, RULE, f"a block does not decode ({error!r})") from error
