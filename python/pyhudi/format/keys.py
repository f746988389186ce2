"""Record keys, partition paths and the bucket hash: text rules of spec/keys.md K1 to K6.

Paths are exactly those of Apache Hudi, so that both find the same folders. The module is sent to
executors by value; of pyhudi it imports only errors.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.errors import InvalidRecord

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
NULL_KEY = "__null__"
EMPTY_KEY = "__empty__"
RESERVED = ".hoodie"

# Hive's list, which Hudi has copied; found by trying each character in Hudi 1.2.0.
ESCAPED_CHARACTERS = "".join(map(chr, range(32))) + "\"#%'*/:=?[\\]^{\x7f"
_ESCAPED = re.compile(f"[{re.escape(ESCAPED_CHARACTERS)}]")
_PERCENT = re.compile(r"%([0-9a-fA-F]{2})")
_DASHED_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})", re.ASCII)
_SLASHED_DATE = re.compile(r"(\d{4})/(\d{2})/(\d{2})", re.ASCII)


def escape_path(value: str) -> str:
    """A value as one path element: each special character as ``%XX``; a space stays."""
    return _ESCAPED.sub(lambda found: f"%{ord(found.group()):02X}", value)


def unescape_path(element: str) -> str:
    """The inverse of ``escape_path``; a ``%`` that does not begin an escape stays."""
    return _PERCENT.sub(lambda found: chr(int(found.group(1), 16)), element)


def partition_path(
    fields: Sequence[str],
    values: Sequence[str | None],
    *,
    hive_style: bool,
    url_encode: bool,
    slash_separated_dates: bool = False,
) -> str:
    """The relative folder of a row; null and empty values become Hive's default partition.

    ``InvalidRecord`` if a value would lead out of the table or cannot be a folder name.
    """
    elements = []
    for field, value in zip(fields, values, strict=True):
        element = DEFAULT_PARTITION if value is None or value == "" else value
        if url_encode:
            element = escape_path(element)
        elif slash_separated_dates:
            element = _DASHED_DATE.sub(r"\1/\2/\3", element)
        if any(part in ("", ".", "..") for part in element.split("/")):
            raise InvalidRecord(
                f"The partition value '{value}' of column '{field}' cannot be a folder name. "
                "Correct it, or set hoodie.datasource.write.partitionpath.urlencode for a new "
                "table.",
                column=field,
            )
        elements.append(f"{field}={element}" if hive_style else element)
    return "/".join(elements)


def check_partition_path(path: str) -> None:
    """``InvalidRecord`` for a path that would leave the table or hide in its metadata."""
    if path == "":
        return
    parts = path.split("/")
    strange = any(part in ("", ".", "..") for part in parts) or parts[0] == RESERVED
    # No backslash: on some systems it separates folders.
    if strange or "\0" in path or "\\" in path:
        # Encoding leaves a name as it is, and frees one of its slashes.
        encoded = (
            ", or make the table with hoodie.datasource.write.partitionpath.urlencode=true"
            if len(parts) > 1 or not strange
            else ""
        )
        raise InvalidRecord(
            f"The partition path '{path}' from the data is not a folder inside the table. "
            f"Correct the partition column{encoded}.",
            column="_hoodie_partition_path",
        )


def partition_values(
    fields: Sequence[str],
    path: str,
    *,
    hive_style: bool,
    url_encode: bool,
    slash_separated_dates: bool = False,
) -> list[str | None] | None:
    """The partition columns' texts in a folder's path.

    ``None`` if the path does not separate them, for example if an unescaped value has slashes.
    """
    if not fields:
        return []
    elements = [path] if len(fields) == 1 else path.split("/")
    if len(elements) != len(fields):
        return None
    values: list[str | None] = []
    for field, element in zip(fields, elements, strict=True):
        if hive_style:
            if not element.startswith(f"{field}="):
                return None
            element = element[len(field) + 1 :]
        if slash_separated_dates:
            element = _SLASHED_DATE.sub(r"\1-\2-\3", element)
        value = unescape_path(element) if url_encode else element
        values.append(None if element == DEFAULT_PARTITION else value)
    return values


def composite_key(fields: Sequence[str], values: Sequence[str | None]) -> str:
    """The record key of several columns: ``id:1,ts:2``.

    ``InvalidRecord`` if every part is null or empty, as in Hudi.
    """
    if all(value is None or value == "" for value in values):
        raise InvalidRecord(
            f"All columns of the record key ({', '.join(fields)}) are null or empty in one row. "
            "At least one must have a value.",
            column=",".join(fields),
        )
    return ",".join(
        f"{field}:{_key_part(value)}" for field, value in zip(fields, values, strict=True)
    )


def _key_part(value: str | None) -> str:
    if value is None:
        return NULL_KEY
    return value if value != "" else EMPTY_KEY


def split_composite_key(key: str, fields: Sequence[str]) -> list[str | None] | None:
    """The parts of ``composite_key(fields, ...)``; ``None`` if ``key`` does not have that form.

    Values may have commas and colons, but not the text ``,<field>:``.
    """
    heads = [f"{field}:" for field in fields]
    if not heads or not key.startswith(heads[0]):
        return None
    rest = key[len(heads[0]) :]
    texts = []
    for head in heads[1:]:
        text, separator, rest = rest.partition("," + head)
        if not separator:
            return None
        texts.append(text)
    texts.append(rest)
    return [None if text == NULL_KEY else "" if text == EMPTY_KEY else text for text in texts]


def java_string_hash(text: str) -> int:
    """``String.hashCode``: a signed 32-bit number over UTF-16 units."""
    units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), dtype="<u2")
    value = 0
    for unit in units.tolist():
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def bucket_of(values: Sequence[str | None], buckets: int) -> int:
    """The bucket of a row from the texts of its index columns: ``List.hashCode`` modulo buckets."""
    value = 1
    for text in values:
        value = (31 * value + (0 if text is None else java_string_hash(text))) & 0xFFFFFFFF
    return (value & 0x7FFFFFFF) % buckets


_SLICE_ROWS = 32_768
_INVERSE_31 = np.uint32(pow(31, -1, 1 << 32))


def buckets_of(
    columns: Sequence[pa.Array | pa.ChunkedArray], buckets: int
) -> npt.NDArray[np.int32]:
    """``bucket_of`` for whole string columns of equal length; null counts as Java's null."""
    combined: npt.NDArray[np.uint32] = np.ones(len(columns[0]), dtype=np.uint32)
    for column in columns:
        combined = combined * np.uint32(31) + java_string_hashes(column).view(np.uint32)
    return ((combined & np.uint32(0x7FFFFFFF)) % np.uint32(buckets)).astype(np.int32)


def java_string_hashes(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.int32]:
    """``String.hashCode`` of each value, int32[n]; 0 for null."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    parts = [
        _hash_slice(chunk.slice(at, _SLICE_ROWS).cast(pa.string()))
        for chunk in chunks
        for at in range(0, len(chunk), _SLICE_ROWS)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int32)


def _hash_slice(array: pa.StringArray) -> npt.NDArray[np.int32]:
    """Hash by differences of running sums: one pass, even for long values.

    With r the inverse of 31 modulo 2**32, units u[i] at global positions i and a value in
    [a, b): its hash is 31**(b-1) * sum(u[i] * r**i), all modulo 2**32.
    """
    units, bounds = utf16_units(array)
    with np.errstate(over="ignore"):
        weights = np.full(len(units) + 1, _INVERSE_31, dtype=np.uint32)
        weights[:1] = 1
        np.multiply.accumulate(weights, out=weights)
        sums = np.zeros(len(units) + 1, dtype=np.uint32)
        np.add.accumulate(units.astype(np.uint32) * weights[:-1], out=sums[1:], dtype=np.uint32)
        scale = np.full(len(units) + 1, 31, dtype=np.uint32)
        scale[:1] = _INVERSE_31  # scale[b] = 31**(b-1)
        np.multiply.accumulate(scale, out=scale)
        hashes = (sums[bounds[1:]] - sums[bounds[:-1]]) * scale[bounds[1:]]
    if array.null_count:
        hashes[np.asarray(array.is_null())] = 0
    return hashes.view(np.int32)


def utf16_units(array: pa.StringArray) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int64]]:
    """(all UTF-16 units, n + 1 bounds): value i is ``units[bounds[i]:bounds[i + 1]]``."""
    _, offsets_buffer, data_buffer = array.buffers()
    if len(array) == 0 or offsets_buffer is None:
        return np.zeros(0, dtype=np.uint16), np.zeros(len(array) + 1, dtype=np.int64)
    stored = np.frombuffer(offsets_buffer, dtype=np.int32)
    offsets = stored[array.offset : array.offset + len(array) + 1].astype(np.int64)
    data = b"" if data_buffer is None else data_buffer
    raw = np.frombuffer(data, dtype=np.uint8)[offsets[0] : offsets[-1]]
    offsets -= offsets[0]
    if not len(raw) or raw.max() < 0x80:
        return raw.astype(np.uint16), offsets
    # Units that begin at each byte: none at a continuation, two at a four-byte character.
    begins = ((raw & 0xC0) != 0x80).astype(np.int64) + (raw >= 0xF0)
    before = np.zeros(len(raw) + 1, dtype=np.int64)
    np.cumsum(begins, out=before[1:])
    text = raw.tobytes().decode("utf-8")
    return np.frombuffer(text.encode("utf-16-le"), dtype="<u2"), before[offsets]
