"""The blocks of a Hudi log file (spec/log_files.md L1); the caller decodes their contents.

Archived timelines of layout 1 are also such files. Incomplete blocks are skipped up to the next
magic, as in every reader: a crash may leave half a block at the end. A log of one write alone has
none, once that write has completed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.errors import TableCorrupt
from pyhudi.format.corruption import corrupt

Positions = npt.NDArray[np.int64]

MAGIC = b"#HUDI#"
LOG_VERSION = 1
AVRO_BLOCK_VERSION = 3
#: of an Avro data block's content, that say how many records it has
COUNT_BYTES: Final = 8
#: before each record
LENGTH_BYTES: Final = 4
# Texts: a compiled form cannot be sent to workers by value.
_LONG, _INT, _INT2 = ">q", ">i", ">ii"
_LONG_BYTES, _INT_BYTES, _INT2_BYTES = 8, 4, 8
#: of a file that are searched for a magic at once
_WINDOW_BYTES: Final = 1 << 20


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


@dataclass(frozen=True, slots=True)
class FoundBlock:
    """A block whose content is still in its file, ``length`` bytes from ``at`` on."""

    block_type: BlockType
    header: Mapping[int, str]
    at: int
    length: int

    def content(self, source: RandomAccess) -> Raw:
        """Its content."""
        return source.read_at(self.length, self.at)


#: bytes, or a view of some
Raw: TypeAlias = "bytes | memoryview[int]"


class RandomAccess(Protocol):
    """Random access to a file, as of ``pyarrow.NativeFile``; fewer bytes come only at its end."""

    def size(self) -> int: ...

    def read_at(self, nbytes: int, offset: int) -> Raw: ...


class InMemory:
    """Bytes in memory, which its pieces share if it is given a view of them."""

    def __init__(self, data: Raw) -> None:
        self._data = data

    def size(self) -> int:
        """Their number."""
        return len(self._data)

    def read_at(self, nbytes: int, offset: int) -> Raw:
        """``nbytes`` from ``offset`` on, or as many as there are."""
        return self._data[offset : offset + nbytes]


def read_blocks(data: bytes) -> Iterator[LogBlock]:
    """The complete blocks of a log file, in order; incomplete ones are skipped."""
    source = InMemory(data)
    for found in find_blocks(source):
        yield LogBlock(found.block_type, found.header, bytes(found.content(source)))


def find_blocks(source: RandomAccess, whole: str | None = None) -> Iterator[FoundBlock]:
    """The same, without reading their contents.

    ``whole`` is the path of a log that must have nothing else: ``TableCorrupt`` if it does.
    """
    size, done = source.size(), 0
    at = _next_magic(source, 0, size)
    while at >= 0:
        block, end = _block(source, at, size)
        if whole is not None and (block is None or at > done):
            raise _damaged(whole, done, size)
        if block is None:
            # Not past the magic: an incomplete "#HUDI" may share its last byte with a complete one.
            at = _next_magic(source, at + 1, size)
            continue
        yield block
        done = end
        at = _next_magic(source, end, size)
    if whole is not None and done < size:
        raise _damaged(whole, done, size)


def _damaged(path: str, at: int, size: int) -> TableCorrupt:
    rule = "a log of one write is made of whole blocks (spec/log_files.md L1)"
    return corrupt(path, rule, f"of its {size} bytes those from {at} on are no whole block")


def _next_magic(source: RandomAccess, at: int, size: int) -> int:
    """Where the next magic begins, -1 if there is none; mostly it is at ``at``."""
    if source.read_at(len(MAGIC), at) == MAGIC:
        return at
    while at < size:
        found = bytes(source.read_at(_WINDOW_BYTES, at)).find(MAGIC)
        if found >= 0:
            return at + found
        at += _WINDOW_BYTES - len(MAGIC) + 1
    return -1


def _block(source: RandomAccess, at: int, size: int) -> tuple[FoundBlock | None, int]:
    """(block, its end) at the magic in ``at``; no block if its lengths contradict each other."""
    begin = at + len(MAGIC) + _LONG_BYTES
    if begin > size:
        return None, at
    (length,) = struct.unpack(_LONG, source.read_at(_LONG_BYTES, begin - _LONG_BYTES))
    end = begin + length
    if length < _LONG_BYTES or end > size:
        return None, at
    if struct.unpack(_LONG, source.read_at(_LONG_BYTES, end - _LONG_BYTES))[0] != (
        length + len(MAGIC)
    ):
        return None, at
    try:
        version, kind = struct.unpack(_INT2, source.read_at(_INT2_BYTES, begin))
        if version != LOG_VERSION:
            return None, at
        header, here = _header(source, begin + _INT2_BYTES)
        (held,) = struct.unpack(_LONG, source.read_at(_LONG_BYTES, here))
    except (struct.error, ValueError):
        return None, at
    here += _LONG_BYTES
    if held < 0 or here + held > size:
        return None, at
    return FoundBlock(BlockType(kind), header, here, held), end


def _header(source: RandomAccess, at: int) -> tuple[dict[int, str], int]:
    (count,) = struct.unpack(_INT, source.read_at(_INT_BYTES, at))
    at += _INT_BYTES
    entries: dict[int, str] = {}
    for _ in range(count):
        key, length = struct.unpack(_INT2, source.read_at(_INT2_BYTES, at))
        at += _INT2_BYTES
        if length < 0:
            raise ValueError("a header's text has a length below 0")
        entries[key] = str(source.read_at(length, at), "utf-8")
        at += length
    return entries, at


def avro_records(block: LogBlock, path: str) -> Iterator[bytes]:
    """The records of an Avro data block, each as bare Avro binary of the header's schema.

    ``TableCorrupt`` if the content does not have the announced records.
    """
    starts, ends = avro_spans(block.content, path)
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        yield block.content[start:end]


def avro_count(content: Raw, path: str) -> int:
    """How many records an Avro data block announces; ``TableCorrupt`` if it does not."""
    rule = "an Avro data block begins with the number of its records"
    try:
        count = int(struct.unpack_from(_INT2, content, 0)[1])
    except struct.error as cause:
        raise corrupt(path, rule, f"it ends after {len(content)} bytes") from cause
    if count < 0:
        raise corrupt(path, rule, f"it announces {count} records")
    return count


def avro_spans(content: Raw, path: str) -> tuple[Positions, Positions]:
    """Where the records of an Avro data block begin and end in its content; errors as above."""
    rule = "an Avro data block holds its announced records"
    size = len(content)
    length_at, found = struct.Struct(_INT).unpack_from, []
    try:
        _, count = struct.unpack_from(_INT2, content, 0)
        at = _INT2_BYTES
        for _ in range(count):
            (length,) = length_at(content, at)
            at += LENGTH_BYTES
            if length < 0 or at + length > size:
                raise corrupt(path, rule, f"a record of {length} bytes does not fit")
            found.append(at)
            at += length
    except struct.error as cause:
        raise corrupt(path, rule, f"it ends after {size} bytes") from cause
    starts = np.array(found, np.int64)
    return starts, np.append(starts[1:] - LENGTH_BYTES, at)[: len(starts)]


def avro_frames(content: Raw, starts: Positions, ends: Positions) -> pa.LargeBinaryArray:
    """The records at ``avro_spans``, each behind its length; shares the memory of ``content``."""
    if not len(starts):
        return pa.array([], pa.large_binary())
    offsets = np.append(starts - LENGTH_BYTES, ends[-1:]).astype("<i8")
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
