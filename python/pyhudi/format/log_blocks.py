"""The blocks of a Hudi log file (spec/log_files.md L1); the caller decodes their contents.

Archived timelines of layout 1 are also such files. Incomplete blocks are skipped up to the next
magic, as in every reader: a crash may leave half a block at the end.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.format.corruption import corrupt

Positions = npt.NDArray[np.int64]

MAGIC = b"#HUDI#"
LOG_VERSION = 1
AVRO_BLOCK_VERSION = 3
# Texts: a compiled form cannot be sent to workers by value.
_LONG, _INT, _INT2 = ">q", ">i", ">ii"
_LONG_BYTES, _INT_BYTES, _INT2_BYTES = 8, 4, 8


class BlockType(IntEnum):
    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6
    #: a whole block of a type that a newer writer must have
    UNKNOWN = -1

    @classmethod
    def _missing_(cls, value: object) -> BlockType:
        return cls.UNKNOWN


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
    begin = at + len(MAGIC) + _LONG_BYTES
    if begin > len(data):
        return None, at
    (size,) = struct.unpack_from(_LONG, data, begin - _LONG_BYTES)
    end = begin + size
    if size < _LONG_BYTES or end > len(data):
        return None, at
    if struct.unpack_from(_LONG, data, end - _LONG_BYTES)[0] != size + len(MAGIC):
        return None, at
    try:
        version, kind = struct.unpack_from(_INT2, data, begin)
        if version != LOG_VERSION:
            return None, at
        header, here = _header(data, begin + _INT2_BYTES)
        (length,) = struct.unpack_from(_LONG, data, here)
        content = data[here + _LONG_BYTES : here + _LONG_BYTES + length]
        if length < 0 or len(content) != length:
            return None, at
        return LogBlock(BlockType(kind), header, content), end
    except (struct.error, ValueError):
        return None, at


def _header(data: bytes, at: int) -> tuple[dict[int, str], int]:
    (count,) = struct.unpack_from(_INT, data, at)
    at += _INT_BYTES
    entries: dict[int, str] = {}
    for _ in range(count):
        key, length = struct.unpack_from(_INT2, data, at)
        at += _INT2_BYTES
        entries[key] = data[at : at + length].decode("utf-8")
        at += length
    return entries, at


def avro_records(block: LogBlock, path: str) -> Iterator[bytes]:
    """The records of an Avro data block, each as bare Avro binary of the header's schema.

    ``TableCorrupt`` if the content does not have the announced records.
    """
    for start, end in zip(*(spans.tolist() for spans in avro_spans(block, path)), strict=True):
        yield block.content[start:end]


def avro_count(block: LogBlock, path: str) -> int:
    """How many records an Avro data block announces; ``TableCorrupt`` if it does not."""
    rule = "an Avro data block begins with the number of its records"
    try:
        count = int(struct.unpack_from(_INT2, block.content, 0)[1])
    except struct.error as cause:
        raise corrupt(path, rule, f"it ends after {len(block.content)} bytes") from cause
    if count < 0:
        raise corrupt(path, rule, f"it announces {count} records")
    return count


def avro_spans(block: LogBlock, path: str) -> tuple[Positions, Positions]:
    """Where the records of an Avro data block begin and end in its content; errors as above."""
    rule = "an Avro data block holds its announced records"
    content, size = block.content, len(block.content)
    length_at, found = struct.Struct(_INT).unpack_from, []
    try:
        _, count = struct.unpack_from(_INT2, content, 0)
        at = _INT2_BYTES
        for _ in range(count):
            (length,) = length_at(content, at)
            at += _INT_BYTES
            if length < 0 or at + length > size:
                raise corrupt(path, rule, f"a record of {length} bytes does not fit")
            found.append(at)
            at += length
    except struct.error as cause:
        raise corrupt(path, rule, f"it ends after {size} bytes") from cause
    starts = np.array(found, np.int64)
    return starts, np.append(starts[1:] - _INT_BYTES, at)[: len(starts)]


def avro_frames(content: bytes, starts: Positions, ends: Positions) -> pa.LargeBinaryArray:
    """The records at ``avro_spans``, each behind its length; shares the memory of ``content``."""
    if not len(starts):
        return pa.array([], pa.large_binary())
    offsets = np.append(starts - _INT_BYTES, ends[-1:]).astype("<i8")
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(content)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(starts), buffers)


def avro_content(records: Sequence[bytes]) -> bytes:
    """The content of an Avro data block; ``avro_records`` gives the records back."""
    parts = []
    for record in records:
        parts += [struct.pack(_INT, len(record)), record]
    return framed_content(b"".join(parts), len(records))


def framed_content(framed: bytes, count: int) -> bytes:
    """The content of an Avro data block whose ``count`` records have their lengths before them."""
    return struct.pack(_INT2, AVRO_BLOCK_VERSION, count) + framed


def render_block(block_type: BlockType, header: Mapping[int, str], content: bytes) -> bytes:
    """The bytes of one block; ``read_blocks`` gives it back."""
    entries = b""
    for key, value in header.items():
        text = value.encode("utf-8")
        entries += struct.pack(_INT2, key, len(text)) + text
    body = struct.pack(_INT2, LOG_VERSION, block_type) + struct.pack(_INT, len(header)) + entries
    body += struct.pack(_LONG, len(content)) + content + struct.pack(_INT, 0)
    size = len(body) + _LONG_BYTES
    return MAGIC + struct.pack(_LONG, size) + body + struct.pack(_LONG, size + len(MAGIC))
