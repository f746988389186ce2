"""A 64-bit hash of record keys, over whole columns.

It distributes keys but does not identify them: its users still compare the keys themselves. It is
used only within one application, so it may change with any release.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Hashes = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.int64]

_WORD_BYTES = 8
_MULTIPLY = np.uint64(0x9E3779B97F4A7C15)
_FINISH = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)
_THIRD = np.uint64(29)


def key_hashes(keys: pa.StringArray) -> Hashes:
    """uint64[n] hashes of the keys' UTF-8 bytes; keys are not null."""
    rows = len(keys)
    if not rows:
        return np.zeros(0, dtype=np.uint64)
    _, offset_buffer, data = keys.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int32)[keys.offset : keys.offset + rows + 1]
    raw = np.frombuffer(b"" if data is None else data, dtype=np.uint8)[offsets[0] : offsets[-1]]
    padded = np.concatenate((raw, np.zeros(_WORD_BYTES, dtype=np.uint8)))
    # The word that begins at each byte: a view, not a copy.
    words = np.ndarray((len(raw) + 1,), dtype="<u8", buffer=padded, strides=(1,))
    starts = (offsets[:-1] - offsets[0]).astype(np.int64)
    lengths = np.diff(offsets).astype(np.int64)
    hashes = lengths.astype(np.uint64) * _MULTIPLY
    longest, shortest = int(lengths.max()), int(lengths.min())
    for at in range(0, longest, _WORD_BYTES):
        if shortest >= at + _WORD_BYTES:
            _mix(hashes, words[starts + at])
            continue
        having = np.flatnonzero(lengths > at)
        left = np.minimum(lengths[having] - at, _WORD_BYTES)
        surplus = ((_WORD_BYTES - left) * 8).astype(np.uint64)
        mixed = hashes[having]
        _mix(mixed, words[starts[having] + at] << surplus)
        hashes[having] = mixed
    hashes *= _FINISH
    hashes ^= hashes >> _HALF
    return hashes


def _mix(hashes: Hashes, words: Hashes) -> None:
    """Mix one word into each hash. Products carry only upwards; shifts bring upper bits down."""
    mixed = words * _FINISH
    mixed ^= mixed >> _HALF
    mixed *= _MULTIPLY
    mixed ^= mixed >> _THIRD
    hashes ^= mixed
    hashes *= _MULTIPLY
    hashes ^= hashes >> _HALF


def ranges(entries: Hashes, stems: Hashes, low: np.uint64) -> tuple[Positions, Positions]:
    """Where sorted ``entries`` that differ from each stem in its ``low`` bits begin, and their
    number."""
    first = np.searchsorted(entries, stems)
    counts = np.zeros(len(stems), dtype=np.int64)
    if len(entries):
        hit = np.flatnonzero(entries[np.minimum(first, len(entries) - 1)] & ~low == stems)
        hit = hit[first[hit] < len(entries)]
        last = np.searchsorted(entries, stems[hit] | low, side="right")
        counts[hit] = last - first[hit]
    return first, counts


def spread(first: Positions, counts: Positions) -> tuple[Positions, Positions]:
    """(range, entry) for each entry of ranges that begin at ``first``."""
    total = int(counts.sum())
    which = np.repeat(np.arange(len(counts)), counts)
    begins = np.repeat(first - (np.cumsum(counts) - counts), counts)
    return which, begins + np.arange(total)
