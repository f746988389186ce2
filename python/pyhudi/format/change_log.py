"""The change log beside a base file: what a commit did to each row (spec/log_files.md L7).

Workers read it, so this module and what it imports need only pyarrow.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pyhudi.format.avro_values import decoder
from pyhudi.format.corruption import corrupt
from pyhudi.format.log_blocks import BlockType, HeaderKey, LogBlock, avro_records, read_blocks
from pyhudi.format.schemas import avro_to_arrow

OP, TIME, BEFORE, AFTER = "op", "ts_ms", "before", "after"
INSERT, UPDATE, DELETE = "i", "u", "d"
#: the field that names the row, if the log lacks an image
LOGGED_KEY = "record_key"
RULE = "a change log holds Avro records with op and images (spec/log_files.md L7)"


@dataclass(frozen=True, slots=True)
class LoggedChanges:
    """The records of one block, as dicts by field.

    ``images`` are the images that the log has, ``image`` is their Arrow type.
    """

    records: Sequence[dict[str, Any]]
    images: tuple[str, ...]
    image: pa.StructType


def logged_changes(data: bytes, path: str, ops: str) -> Iterator[LoggedChanges]:
    """The changes in a log whose operation is among ``ops``, block by block.

    ``TableCorrupt`` with ``path`` if a block does not decode.
    """
    for block in read_blocks(data):
        if block.block_type is BlockType.CDC_DATA:
            yield _of_block(block, path, ops)


def _of_block(block: LogBlock, path: str, ops: str) -> LoggedChanges:
    text = block.header.get(HeaderKey.SCHEMA, "")
    try:
        decode = decoder(text)
        kinds = {field["name"]: field["type"] for field in json.loads(text)["fields"]}
        records = []
        for raw in avro_records(block, path):
            record = decode(raw, 0)[0]
            if record[OP] in ops:
                records.append(record)
    except (ValueError, KeyError, TypeError, IndexError, struct.error) as error:
        raise corrupt(path, RULE, f"a block does not decode ({error!r})") from error
    images = tuple(name for name in (BEFORE, AFTER) if name in kinds)
    return LoggedChanges(records, images, _image(kinds[BEFORE]) if images else pa.struct([]))


def _image(union: Any) -> pa.StructType:
    """The Arrow type of the images, from the Avro union of their record with null."""
    record = next(each for each in union if each != "null") if isinstance(union, list) else union
    return pa.struct(list(avro_to_arrow(record)))
