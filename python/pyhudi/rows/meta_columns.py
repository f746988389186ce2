"""The values of the meta columns, made for whole columns (spec/data_files.md D3)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

TEXT = pa.string()
CODED_TEXT = pa.dictionary(pa.int32(), TEXT)


def constant(value: str, rows: int) -> pa.DictionaryArray:
    """``rows`` times one text, as a dictionary of one entry: Parquet stores 0 bits per row."""
    codes = pa.array(np.zeros(rows, dtype=np.int32))
    return pa.DictionaryArray.from_arrays(codes, pa.array([value], TEXT))


def sequence(prefix: str, start: int, rows: int) -> pa.StringArray:
    """``<prefix><start>``, ``<prefix><start + 1>``, ... as text without leading zeros."""
    parts = []
    end = start + rows
    while start < end:
        width = len(str(start))
        stop = min(end, 10**width)
        parts.append(_same_width(prefix.encode(), start, stop - start, width))
        start = stop
    return pa.concat_arrays(parts) if parts else pa.array([], TEXT)


def _same_width(prefix: bytes, start: int, rows: int, width: int) -> pa.StringArray:
    text = np.empty((rows, len(prefix) + width), dtype=np.uint8)
    text[:, : len(prefix)] = np.frombuffer(prefix, dtype=np.uint8)
    # Dividing 32-bit numbers takes half the time.
    left: npt.NDArray[np.integer] = np.arange(start, start + rows, dtype=np.int64)
    if width <= 9:
        left = left.astype(np.int32)
    for column in range(len(prefix) + width - 1, len(prefix) - 1, -1):
        quotient = left // 10
        text[:, column] = left - quotient * 10 + ord("0")
        left = quotient
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(text.shape[1])
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(text))


def key_range(keys: pa.Array) -> tuple[str, str] | None:
    """Smallest and largest key in Java's order, which compares UTF-16 units; ``None`` if empty.

    Arrow's order, by UTF-8 bytes, is the same unless a key has a character above U+FFFF.
    """
    if not len(keys):
        return None
    if not _has_supplementary(keys):
        extremes = pc.min_max(keys)
        return extremes["min"].as_py(), extremes["max"].as_py()
    texts = pc.unique(keys).to_pylist()
    return min(texts, key=java_order), max(texts, key=java_order)


def java_order(text: str) -> bytes:
    """A sort key that orders texts like Java's ``String.compareTo``."""
    return text.encode("utf-16-be", "surrogatepass")


def _has_supplementary(keys: pa.Array) -> bool:
    data = keys.buffers()[2]
    if data is None or not data.size:
        return False
    octets: npt.NDArray[np.uint8] = np.frombuffer(data, dtype=np.uint8)
    return bool(octets.max() >= 0xF0)
