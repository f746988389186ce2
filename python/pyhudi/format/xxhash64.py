"""XXH64, the hash that Hudi uses in names, such as those of locks for a table's base path.

It follows the algorithm's published description; Hudi's seed is ``0xdabadaba``, sign-extended.
"""

from __future__ import annotations

from typing import Final

HUDI_SEED: Final = 0xFFFFFFFFDABADABA

_MASK: Final = (1 << 64) - 1
_P1: Final = 0x9E3779B185EBCA87
_P2: Final = 0xC2B2AE3D27D4EB4F
_P3: Final = 0x165667B19E3779F9
_P4: Final = 0x85EBCA77C2B2AE63
_P5: Final = 0x27D4EB2F165667C5


def xxh64(data: bytes, seed: int = HUDI_SEED) -> int:
    """The hash of ``data`` as an unsigned 64-bit number."""
    at, end = 0, len(data)
    if end >= 32:
        lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
        while at + 32 <= end:
            words = [int.from_bytes(data[i : i + 8], "little") for i in range(at, at + 32, 8)]
            lanes = [_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
            at += 32
        a, b, c, d = lanes
        value = _turn(a, 1) + _turn(b, 7) + _turn(c, 12) + _turn(d, 18)
        for lane in lanes:
            value = ((value ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        value = seed + _P5
    return _spread(_tail(data[at:], value + end))


def table_hash(base_path: str) -> str:
    """Sixteen digits for a table's base path; s3a counts as s3, as in Hudi."""
    bucket = base_path[:6].lower() == "s3a://"
    text = "s3://" + base_path[6:] if bucket else base_path
    return f"{xxh64(text.encode()):016X}"


def _tail(rest: bytes, value: int) -> int:
    """Mix in the last bytes, fewer than 32."""
    at = 0
    while at + 8 <= len(rest):
        word = int.from_bytes(rest[at : at + 8], "little")
        value = _turn(value ^ _round(0, word), 27) * _P1 + _P4
        at += 8
    if at + 4 <= len(rest):
        word = int.from_bytes(rest[at : at + 4], "little")
        value = _turn(value ^ (word * _P1), 23) * _P2 + _P3
        at += 4
    for byte in rest[at:]:
        value = _turn(value ^ (byte * _P5), 11) * _P1
    return value & _MASK


def _spread(value: int) -> int:
    value = ((value ^ (value >> 33)) * _P2) & _MASK
    value = ((value ^ (value >> 29)) * _P3) & _MASK
    return value ^ (value >> 32)


def _round(lane: int, word: int) -> int:
    return (_turn(lane + word * _P2, 31) * _P1) & _MASK


def _turn(value: int, bits: int) -> int:
    value &= _MASK
    return ((value << bits) | (value >> (64 - bits))) & _MASK
