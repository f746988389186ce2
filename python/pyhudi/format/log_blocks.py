"""The blocks of a Hudi log file (spec/log_files.md L1); the caller decodes their contents.

Archived timelines of layout 1 are also such files. Incomplete blocks are skipped up to the next
magic, as in every reader: a crash may leave half a block at the end.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from pyhudi.format.corruption import corrupt

MAGIC = b"#HUDI#"
LOG_VERSION = 1
_LONG = struct.Struct(">q")
_INT = struct.Struct(">i")
_INT2 = struct.Struct(">ii")


class BlockType(IntEnum):
    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6


class HeaderKey(IntEnum):
    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8


@dataclass(frozen=True, slots=True)
class LogBlock:
    """One block; ``header`` by ordinal (see ``HeaderKey``), unknown ordinals included."""

    block_type: BlockType
    header: Mapping[int, str]
    content: bytes


def read_blocks(data: bytes) -> Iterator[LogBlock]:
    """The complete blocks of a log file, in order; incomplete ones are skipped."""
    at = data.find(MAGIC)
    while at >= 0:
        block, end = _block(data, at)
        if block is None:
            # Not past the magic: an incomplete "#HUDI" may share its last byte with a complete one.
            at = data.find(MAGIC, at + 1)
            continue
        yield block
        at = data.find(MAGIC, end)


def _block(data: bytes, at: int) -> tuple[LogBlock | None, int]:
    """(block, its end) at the magic in ``at``; no block if its lengths contradict each other."""
    begin = at + len(MAGIC) + _LONG.size
    if begin > len(data):
        return None, at
    (size,) = _LONG.unpack_from(data, begin - _LONG.size)
    end = begin + size
    if size < _LONG.size or end > len(data):
        return None, at
    if _LONG.unpack_from(data, end - _LONG.size)[0] != size + len(MAGIC):
        return None, at
    try:
        version, kind = _INT2.unpack_from(data, begin)
        if version != LOG_VERSION:
            return None, at
        header, here = _header(data, begin + _INT2.size)
        (length,) = _LONG.unpack_from(data, here)
        content = data[here + _LONG.size : here + _LONG.size + length]
        if length < 0 or len(content) != length:
            return None, at
        return LogBlock(BlockType(kind), header, content), end
    except (struct.error, ValueError):
        return None, at


def _header(data: bytes, at: int) -> tuple[dict[int, str], int]:
    (count,) = _INT.unpack_from(data, at)
    at += _INT.size
    entries: dict[int, str] = {}
    for _ in range(count):
        key, length = _INT2.unpack_from(data, at)
        at += _INT2.size
        entries[key] = data[at : at + length].decode("utf-8")
        at += length
    return entries, at


def avro_records(block: LogBlock, path: str) -> Iterator[bytes]:
    """The records of an Avro data block, each as bare Avro binary of the header's schema.

    ``TableCorrupt`` if the content does not have the announced records.
    """
    rule = "an Avro data block holds its announced records"
    try:
        _, count = _INT2.unpack_from(block.content, 0)
        at = _INT2.size
        for _ in range(count):
            (length,) = _INT.unpack_from(block.content, at)
            record = block.content[at + _INT.size : at + _INT.size + length]
            if length < 0 or len(record) != length:
                raise corrupt(path, rule, f"a record of {length} bytes does not fit")
            yield record
            at += _INT.size + length
    except struct.error as cause:
        raise corrupt(path, rule, f"it ends after {len(block.content)} bytes") from cause


def render_block(block_type: BlockType, header: Mapping[int, str], content: bytes) -> bytes:
    """The bytes of one block; ``read_blocks`` gives it back."""
    entries = b""
    for key, value in header.items():
        text = value.encode("utf-8")
        entries += _INT2.pack(key, len(text)) + text
    body = _INT2.pack(LOG_VERSION, block_type) + _INT.pack(len(header)) + entries
    body += _LONG.pack(len(content)) + content + _INT.pack(0)
    size = len(body) + _LONG.size
    return MAGIC + _LONG.pack(size) + body + _LONG.pack(size + len(MAGIC))
