"""Row positions as portable 64-bit Roaring bitmaps (spec/log_files.md L3).

The form is public: buckets by the upper 32 bits, in each a 32-bit bitmap whose containers hold the
lower 16 bits of up to 65,536 numbers as a list, as 8,192 bytes of bits, or as runs.
"""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int64]

_RUNS, _PLAIN = 12_347, 12_346
_LISTED = 4_096
_BITS_BYTES = 8_192
#: bitmaps with runs and fewer containers have no offsets
_WITHOUT_OFFSETS = 4
#: numbers of 64 bits, the first of them for the sign
_MOST_BUCKETS = 1 << 31
_MOST_CONTAINERS = 1 << 16


def positions_in(data: bytes) -> Positions:
    """The numbers of a bitmap, ascending; ``ValueError`` if the bytes are no bitmap."""
    try:
        (buckets,) = struct.unpack_from("<q", data)
        _check(0 <= buckets <= _MOST_BUCKETS)
        at, found = 8, [np.zeros(0, np.int64)]
        for _ in range(buckets):
            (high,) = struct.unpack_from("<I", data, at)
            _check(high < _MOST_BUCKETS)
            numbers, at = _bitmap(data, at + 4)
            found.append(numbers + (high << 32))
        positions = np.concatenate(found)
        _check(bool((positions[1:] > positions[:-1]).all()))
    except (struct.error, ValueError) as error:
        raise ValueError(f"{len(data)} bytes are no bitmap of positions") from error
    return positions


def _check(holds: bool) -> None:
    if not holds:
        raise ValueError


def _bitmap(data: bytes, at: int) -> tuple[Positions, int]:
    """The numbers of a 32-bit bitmap that begins at ``at``, and its end."""
    (cookie,) = struct.unpack_from("<I", data, at)
    at += 4
    runs = cookie & 0xFFFF == _RUNS
    if runs:
        containers = (cookie >> 16) + 1
        flags = np.frombuffer(data, np.uint8, (containers + 7) // 8, at)
        with_runs = np.unpackbits(flags, bitorder="little")[:containers].tolist()
        at += len(flags)
    elif cookie == _PLAIN:
        (containers,) = struct.unpack_from("<i", data, at)
        _check(0 <= containers <= _MOST_CONTAINERS)
        at += 4
        with_runs = [0] * containers
    else:
        raise ValueError(f"a bitmap does not begin with {cookie}")
    described = np.frombuffer(data, "<u2", 2 * containers, at).astype(np.int64)
    at += 4 * containers
    if not runs or containers >= _WITHOUT_OFFSETS:
        at += 4 * containers
    found = [np.zeros(0, np.int64)]
    for number in range(containers):
        key, size = int(described[2 * number]), int(described[2 * number + 1]) + 1
        low, at = _container(data, at, size, bool(with_runs[number]))
        found.append(low + (key << 16))
    return np.concatenate(found), at


def _container(data: bytes, at: int, size: int, runs: bool) -> tuple[Positions, int]:
    if runs:
        (count,) = struct.unpack_from("<H", data, at)
        pairs = np.frombuffer(data, "<u2", 2 * count, at + 2).astype(np.int64).reshape(-1, 2)
        _check(bool((pairs.sum(axis=1) < 1 << 16).all()))
        parts = [np.arange(start, start + more + 1) for start, more in pairs.tolist()]
        return np.concatenate([np.zeros(0, np.int64), *parts]), at + 2 + 4 * count
    if size > _LISTED:
        bits = np.frombuffer(data, np.uint8, _BITS_BYTES, at)
        return np.flatnonzero(np.unpackbits(bits, bitorder="little")), at + _BITS_BYTES
    return np.frombuffer(data, "<u2", size, at).astype(np.int64), at + 2 * size


def bitmap_of(positions: Positions) -> bytes:
    """The bitmap of ascending numbers without repeats; ``positions_in`` gives them back.

    ``ValueError`` for others: readers would pair them with other rows.
    """
    if not bool((positions[1:] > positions[:-1]).all()):
        raise ValueError("positions do not ascend")
    highs = positions >> 32
    parts = [struct.pack("<q", len(np.unique(highs)))]
    for high in np.unique(highs).tolist():
        low = (positions[highs == high] & 0xFFFFFFFF).astype(np.uint32)
        parts += [struct.pack("<I", high), _plain_bitmap(low)]
    return b"".join(parts)


def _plain_bitmap(numbers: npt.NDArray[np.uint32]) -> bytes:
    keys, starts = np.unique(numbers >> 16, return_index=True)
    ends = [*starts[1:].tolist(), len(numbers)]
    lows = (numbers & 0xFFFF).astype("<u2")
    at = 8 + 8 * len(keys)
    described, offsets, contents = [], [], []
    for key, start, end in zip(keys.tolist(), starts.tolist(), ends, strict=True):
        part = lows[start:end]
        if len(part) > _LISTED:
            bits = np.zeros(8 * _BITS_BYTES, np.uint8)
            bits[part] = 1
            content = np.packbits(bits, bitorder="little").tobytes()
        else:
            content = part.tobytes()
        described.append(struct.pack("<HH", key, len(part) - 1))
        offsets.append(struct.pack("<I", at))
        contents.append(content)
        at += len(content)
    head = struct.pack("<Ii", _PLAIN, len(keys))
    return b"".join([head, *described, *offsets, *contents])
