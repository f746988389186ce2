"""Bloom filters of base-file footers, bit for bit as Apache Hudi writes them.

Rules: spec/bloom_filters.md B1.

A filter never says "no" to a key that was added. It has two forms: SIMPLE is one row of bits;
DYNAMIC_V0 is a list of equal rows that grows with the keys. The code works on whole key columns.
The hash is a chain of up to 30 MurmurHash2 rounds per key, so each key's words are mixed once, and
each round costs two operations per word over all keys of a slice.

This module is sent to executors by value; of pyhudi it imports only errors.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.errors import TableCorrupt

SIMPLE = "SIMPLE"
DYNAMIC_V0 = "DYNAMIC_V0"
FOOTER_KEY = "org.apache.hudi.bloomfilter"
FOOTER_TYPE_KEY = "hoodie_bloom_filter_type_code"
FOOTER_MIN_KEY = "hoodie_min_record_key"
FOOTER_MAX_KEY = "hoodie_max_record_key"

# Hudi's defaults: hoodie.index.bloom.num_entries, hoodie.index.bloom.fpp and
# hoodie.bloom.index.filter.dynamic.max.entries.
DEFAULT_ENTRIES = 60_000
DEFAULT_FPP = 1e-9
DEFAULT_MAX_ENTRIES = 100_000

# Texts, since a compiled Struct cannot be sent by value.
_HEADER = ">iibi"  # version, hashes, hash type, bits
_DYNAMIC = ">iii"  # entries per row, keys in the current row, rows
_HEADER_BYTES, _DYNAMIC_BYTES = struct.calcsize(_HEADER), struct.calcsize(_DYNAMIC)
_VERSION = -1
_MURMUR = 1
_M = np.uint32(0x5BD1E995)
_SLICE_ROWS = 8_192  # a slice's words and hashes stay in the processor's cache
_SLICE_BYTES = 4_194_304  # the bound on the padded words of a slice with long keys

Bits = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]


def size_for(entries: int, fpp: float) -> tuple[int, int]:
    """(bits, hashes) of a filter for ``entries`` keys at false-positive rate ``fpp``."""
    bits = math.ceil(entries * -math.log(fpp) / math.log(2) ** 2)
    return bits, math.ceil(math.log(2) * bits / entries)


class BloomFilter:
    """A filter of either form; ``bits`` and ``hashes`` hold for each of its rows."""

    def __init__(
        self, type_code: str, bits: int, hashes: int, entries: int = 0, max_entries: int = 0
    ) -> None:
        """An empty filter; ``entries`` (per row) and ``max_entries`` matter to DYNAMIC_V0."""
        if type_code not in (SIMPLE, DYNAMIC_V0):
            raise ValueError(f"'{type_code}' is not a type of bloom filter")
        self.type_code = type_code
        self.bits = bits
        self.hashes = hashes
        self.entries = entries
        self.max_entries = max_entries
        self._rows: list[Bits] = [np.zeros(-(-bits // 8), dtype=np.uint8)]
        self._current = 0  # keys counted in the current row
        self._full_turns = 0  # keys added since the filter reached its largest size

    @classmethod
    def sized(
        cls,
        entries: int,
        fpp: float = DEFAULT_FPP,
        type_code: str = SIMPLE,
        max_entries: int = DEFAULT_MAX_ENTRIES,
    ) -> BloomFilter:
        """An empty filter for ``entries`` keys; the dynamic form grows up to ``max_entries``."""
        bits, hashes = size_for(max(entries, 1), fpp)
        return cls(type_code, bits, hashes, max(entries, 1), max_entries)

    @classmethod
    def always_true(cls) -> BloomFilter:
        """Eight bytes with every bit set: "maybe" for each key.

        For files whose writer has no bloom index. Hudi's bloom writers fail on a file without a
        filter; with this one they compare keys.
        """
        filter_ = cls(SIMPLE, 64, 1)
        filter_._rows[0][:] = 0xFF
        return filter_

    @classmethod
    def from_footer(cls, text: str, type_code: str | None, path: str = "") -> BloomFilter:
        """The filter in a Parquet footer; no type code means SIMPLE.

        ``TableCorrupt`` with ``path`` if the text is not such a filter.
        """
        try:
            data = base64.b64decode(text, validate=True)
            return cls._decode(data, type_code or SIMPLE)
        except (ValueError, struct.error) as cause:
            rule = f"{FOOTER_KEY} is a serialized bloom filter in Base64"
            raise TableCorrupt(
                f"The footer of '{path}' breaks the rule \"{rule}\": {cause}. Rewrite the file "
                "by clustering its partition, or restore it from a copy.",
                path=path,
                rule=rule,
            ) from cause

    @classmethod
    def _decode(cls, data: bytes, type_code: str) -> BloomFilter:
        bits, hashes = _read_header(data, 0)
        filter_ = cls(type_code, bits, hashes)
        size = len(filter_._rows[0])
        if type_code == SIMPLE:
            filter_._rows = [_read_row(data, _HEADER_BYTES, size)]
            return filter_
        filter_.entries, filter_._current, rows = struct.unpack_from(_DYNAMIC, data, _HEADER_BYTES)
        begin = _HEADER_BYTES + _DYNAMIC_BYTES
        if rows < 1 or len(data) != begin + rows * (_HEADER_BYTES + size):
            raise ValueError(f"{len(data)} bytes do not hold {rows} rows of {bits} bits")
        starts = range(begin, len(data), _HEADER_BYTES + size)
        if any(_read_header(data, start) != (bits, hashes) for start in starts):
            raise ValueError("its rows differ in size")
        filter_._rows = [_read_row(data, start + _HEADER_BYTES, size) for start in starts]
        filter_.max_entries = max(rows * filter_.entries, DEFAULT_MAX_ENTRIES)
        return filter_

    def to_footer(self) -> str:
        """The footer's text; its type code is stored beside it, unless it is SIMPLE."""
        header = struct.pack(_HEADER, _VERSION, self.hashes, _MURMUR, self.bits)
        if self.type_code == SIMPLE:
            data = header + self._rows[0].tobytes()
        else:
            counts = struct.pack(_DYNAMIC, self.entries, self._current, len(self._rows))
            data = header + counts + b"".join(header + row.tobytes() for row in self._rows)
        return base64.b64encode(data).decode("ascii")

    def add(self, keys: pa.Array | pa.ChunkedArray) -> None:
        """Add a string column; nulls are skipped. The order of keys shapes a DYNAMIC_V0 filter."""
        for positions in _positions(keys, self.bits, self.hashes):
            if self.type_code == SIMPLE:
                _set_bits(self._rows[0], positions)
            else:
                self._add_growing(positions)

    def _add_growing(self, positions: Positions) -> None:
        """Fill the current row; add rows while that is allowed; then use all rows in turn."""
        done = 0
        while done < len(positions):
            room = self.entries - self._current
            if room <= 0 and len(self._rows) * self.entries >= self.max_entries:
                self._add_round(positions[done:])
                return
            if room <= 0:
                self._rows.append(np.zeros_like(self._rows[0]))
                self._current, room = 0, self.entries
            taken = positions[done : done + room]
            _set_bits(self._rows[-1], taken)
            self._current += len(taken)
            done += len(taken)

    def _add_round(self, positions: Positions) -> None:
        """After the filter is full: like Hudi, row 0 gets the first two keys, then rows in turn."""
        turns = self._full_turns + np.arange(len(positions))
        targets = np.maximum(turns - 1, 0) % len(self._rows)
        for number, row in enumerate(self._rows):
            _set_bits(row, positions[targets == number])
        self._full_turns += len(positions)
        self._current += len(positions)

    def might_contain(self, keys: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
        """bool[n]: whether each key may have been added; false is certain, null is false."""
        valid = np.asarray(keys.is_valid())
        answers = np.zeros(len(keys), dtype=np.bool_)
        found = [self._test(positions) for positions in _positions(keys, self.bits, self.hashes)]
        if found:
            answers[valid] = np.concatenate(found)
        return answers

    def _test(self, positions: Positions) -> npt.NDArray[np.bool_]:
        bytes_at, masks = positions >> 3, (1 << (positions & 7)).astype(np.uint8)
        answers = np.zeros(len(positions), dtype=np.bool_)
        for row in self._rows:
            answers |= ((row[bytes_at] & masks) != 0).all(axis=1)
        return answers

    @property
    def rows(self) -> int:
        """Rows of bits; 1 for SIMPLE."""
        return len(self._rows)

    def capacity(self, fpp: float = DEFAULT_FPP) -> int:
        """About the number of keys that fit at the false-positive rate ``fpp``."""
        per_row = self.bits * math.log(2) ** 2 / -math.log(fpp)
        return round(per_row * len(self._rows))


def _read_header(data: bytes, at: int) -> tuple[int, int]:
    version, hashes, hash_type, bits = struct.unpack_from(_HEADER, data, at)
    if version != _VERSION or hash_type != _MURMUR or hashes < 1 or bits < 1:
        raise ValueError(
            f"its header is (version {version}, {hashes} hashes, hash {hash_type}, {bits} bits)"
        )
    return bits, hashes


def _read_row(data: bytes, at: int, size: int) -> Bits:
    if len(data) < at + size:
        raise ValueError(f"it ends after {len(data)} of {at + size} bytes")
    return np.frombuffer(data, dtype=np.uint8, count=size, offset=at).copy()


def _set_bits(row: Bits, positions: Positions) -> None:
    flat = positions.ravel()
    if len(row) > len(flat):  # few keys for many bits: avoid work on the whole row
        np.bitwise_or.at(row, flat >> 3, (1 << (flat & 7)).astype(np.uint8))
        return
    flags = np.zeros(len(row) * 8, dtype=np.uint8)
    flags[flat] = 1
    row |= np.packbits(flags, bitorder="little")


def _positions(keys: pa.Array | pa.ChunkedArray, bits: int, hashes: int) -> Iterator[Positions]:
    """int64[rows, hashes] bit positions of the non-null keys, slice by slice, in order."""
    chunks = keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]
    for chunk in chunks:
        column = chunk.drop_null() if chunk.null_count else chunk
        column = column if column.type == pa.string() else column.cast(pa.string())
        for at in range(0, len(column), _SLICE_ROWS):
            yield from _slice_positions(column.slice(at, _SLICE_ROWS), bits, hashes)


def _slice_positions(keys: pa.StringArray, bits: int, hashes: int) -> Iterator[Positions]:
    raw, bounds = _raw_bytes(keys)
    longest = int((bounds[1:] - bounds[:-1]).max())
    if len(keys) > 1 and longest * len(keys) > _SLICE_BYTES:
        half = len(keys) // 2
        yield from _slice_positions(keys.slice(0, half), bits, hashes)
        yield from _slice_positions(keys.slice(half), bits, hashes)
        return
    yield _Murmur(raw, bounds).positions(bits, hashes)


def _raw_bytes(keys: pa.StringArray) -> tuple[Bits, npt.NDArray[np.int64]]:
    """(UTF-8 of all keys, n + 1 bounds into it)."""
    _, offsets, data = keys.buffers()
    stored = np.frombuffer(offsets, dtype=np.int32)[keys.offset : keys.offset + len(keys) + 1]
    raw = np.frombuffer(b"" if data is None else data, dtype=np.uint8)[stored[0] : stored[-1]]
    return raw, stored.astype(np.int64) - stored[0]


class _Murmur:
    """A slice of keys laid out for MurmurHash2: mixed words, longest keys first.

    Words do not depend on the seed, so they are mixed once and serve every round of the chain.
    """

    def __init__(self, raw: Bits, bounds: npt.NDArray[np.int64]) -> None:
        lengths = bounds[1:] - bounds[:-1]
        self._order = np.argsort(-lengths, kind="stable")
        self._lengths = lengths[self._order]
        starts = bounds[:-1][self._order]
        padded = np.concatenate((raw, np.zeros(3, dtype=np.uint8)))
        self._words: list[npt.NDArray[np.uint32]] = []
        for word in range(int(self._lengths[0]) // 4):
            # Keys are sorted, so those that still have this word are a prefix.
            having = int(np.searchsorted(-self._lengths, -(4 * word + 4), side="right"))
            self._words.append(_mixed_words(padded, starts[:having] + 4 * word))
        self._tails = self._mixed_tails(padded, starts + self._lengths)

    def _mixed_tails(self, raw: Bits, ends: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
        """The last one to three bytes, each sign-extended and taken from the key's end."""
        left = self._lengths & 3
        signed = raw.view(np.int8)
        tails = np.zeros(len(ends), dtype=np.int32)
        for distance in (1, 2, 3):
            has = left >= distance
            tails[has] ^= signed[ends[has] - distance].astype(np.int32) << (8 * (distance - 1))
        return tails.view(np.uint32)

    def positions(self, bits: int, hashes: int) -> Positions:
        """int64[n, hashes] in the keys' own order: ``abs(hash mod bits)`` of each round."""
        result = np.empty((len(self._order), hashes), dtype=np.int64)
        seed = np.zeros(len(self._order), dtype=np.uint32)
        for turn in range(hashes):
            seed = self._hash(seed)
            # Java's remainder has the dividend's sign: |h % b| = |h| % b.
            result[self._order, turn] = np.abs(seed.view(np.int32).astype(np.int64)) % bits
        return result

    def _hash(self, seed: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        hashed = seed ^ self._lengths.astype(np.uint32)
        for words in self._words:
            head = hashed[: len(words)]
            head *= _M
            head ^= words
        has_tail = (self._lengths & 3) != 0
        hashed = np.where(has_tail, (hashed ^ self._tails) * _M, hashed)
        hashed ^= hashed >> np.uint32(13)
        hashed *= _M
        hashed ^= hashed >> np.uint32(15)
        return hashed


def _mixed_words(raw: Bits, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    words = raw[starts].astype(np.uint32)
    for place in (1, 2, 3):
        words |= raw[starts + place].astype(np.uint32) << np.uint32(8 * place)
    words *= _M
    words ^= words >> np.uint32(24)
    words *= _M
    return words
