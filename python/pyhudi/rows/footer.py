"""The footer's key-values that Hudi's indexes read (spec/data_files.md D6).

The key range is always exact. There is a real bloom filter only if the writer's index reads it.
Otherwise a few bytes that say "maybe" keep Apache Hudi's bloom writers working.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from pyhudi.format.bloom import (
    DYNAMIC_V0,
    FOOTER_KEY,
    FOOTER_MAX_KEY,
    FOOTER_MIN_KEY,
    FOOTER_TYPE_KEY,
    SIMPLE,
    BloomFilter,
)
from pyhudi.rows.meta_columns import java_order, key_range
from pyhudi.rows.spec import BloomSpec

_ALWAYS_TRUE = BloomFilter.always_true().to_footer()


class Footer:
    """Collects the footer's facts about keys while rows are written."""

    def __init__(
        self, bloom: BloomSpec | None, rows: int | None = None, old: BloomFilter | None = None
    ) -> None:
        """``rows`` is the largest number of rows that the file may hold; ``None``: unknown, and the
        keys are held until the end. ``old`` is the filter of the merged file, which already has the
        copied keys."""
        self.key_range: tuple[str, str] | None = None
        self._bloom = bloom
        self._held: list[pa.Array] = []
        self._filter = old
        self._has_copied = old is not None
        if bloom is not None and old is None and (rows is not None or bloom.dynamic):
            self._filter = new_filter(bloom, rows or 0)

    def copied(self, keys: pa.Array) -> None:
        """These keys are copied from the old file."""
        self._widen(keys)
        if not self._has_copied:
            self._remember(keys)

    def added(self, keys: pa.Array) -> None:
        """These keys are new in the file."""
        self._widen(keys)
        self._remember(keys)

    def key_values(self, avro_schema: str) -> dict[str, str]:
        """The footer's entries, after all keys were added."""
        entries = {"parquet.avro.schema": avro_schema, "writer.model.name": "avro"}
        if self.key_range is not None:
            entries[FOOTER_MIN_KEY], entries[FOOTER_MAX_KEY] = self.key_range
        if self._bloom is None:
            return entries | {FOOTER_KEY: _ALWAYS_TRUE}
        if self._filter is None:
            self._filter = new_filter(self._bloom, sum(map(len, self._held)))
            for keys in self._held:
                self._filter.add(keys)
        entries[FOOTER_KEY] = self._filter.to_footer()
        if self._filter.type_code != SIMPLE:
            entries[FOOTER_TYPE_KEY] = self._filter.type_code
        return entries

    def _remember(self, keys: pa.Array) -> None:
        if self._filter is not None:
            self._filter.add(keys)
        elif self._bloom is not None:
            self._held.append(keys)

    def _widen(self, keys: pa.Array) -> None:
        found = key_range(keys)
        if found is None:
            return
        known = self.key_range
        if known is not None:
            low = min(known[0], found[0], key=java_order)
            found = low, max(known[1], found[1], key=java_order)
        self.key_range = found


def new_filter(bloom: BloomSpec, rows: int) -> BloomFilter:
    """An empty filter of the kind ``bloom`` for a file of ``rows`` rows."""
    if bloom.dynamic:
        return BloomFilter.sized(bloom.entries, bloom.fpp, DYNAMIC_V0, bloom.max_entries)
    return BloomFilter.sized(rows, bloom.fpp, SIMPLE)


def reusable_filter(
    bloom: BloomSpec | None, entries: Mapping[bytes, bytes], rows: int, path: str
) -> BloomFilter | None:
    """The old file's filter, if it is still large enough for ``rows`` rows.

    A SIMPLE filter is made again if there are more than twice the rows that it was made for;
    DYNAMIC_V0 grows by its own rules. ``None``: no filter can be used.
    """
    text = entries.get(FOOTER_KEY.encode())
    if bloom is None or text is None:
        return None
    code = entries.get(FOOTER_TYPE_KEY.encode())
    old = BloomFilter.from_footer(text.decode(), code.decode() if code else None, path)
    wanted = DYNAMIC_V0 if bloom.dynamic else SIMPLE
    if old.type_code != wanted:
        return None
    if old.type_code == SIMPLE and rows > 2 * old.capacity(bloom.fpp):
        return None
    return old
