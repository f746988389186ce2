"""The incoming rows of one group, so that a merge can ask for the rows of one unit of the old file.

A few rows are held together and looked up unit by unit. Many rows are routed first: the old file's
keys are read once, their hashes show the unit of each incoming row, and the rows of each unit form
a bucket. Memory then holds one bucket, and 8 bytes for each key of the old file.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.rows.hashing import Hashes, key_hashes
from pyhudi.rows.merge_rules import Positions, combined
from pyhudi.rows.old_file import OldFile
from pyhudi.rows.ordering import Mask
from pyhudi.rows.rows import joined, single
from pyhudi.rows.spec import DELETE, KEY_COLUMN, WriteSpec
from pyhudi.rows.spill import BucketStore

# The number of buckets for keys that the old file does not have.
_NEW_BUCKETS = 64
_NEW_BUCKET_SHIFT = np.uint64(24)


class HeldRows:
    """Incoming rows in memory: each unit searches its keys among all of them."""

    def __init__(self, spec: WriteSpec, tables: list[pa.Table]) -> None:
        rows = combined(spec, joined(tables))
        self._rows = rows.combine_chunks()
        self._seen = np.zeros(rows.num_rows, dtype=np.bool_)

    def of_unit(self, unit: int) -> pa.Table:
        """The rows that may belong to a unit: here all rows."""
        return self._rows

    def settle(self, unit: int, matched: Positions) -> None:
        """The rows at these positions of ``of_unit(unit)`` were found in the old file."""
        self._seen[matched] = True

    def rest(self) -> Iterator[pa.Table]:
        """The rows that were found in no unit."""
        yield self._rows.filter(pa.array(~self._seen)) if self._seen.any() else self._rows

    def close(self) -> None:
        """Does nothing: there is nothing to release."""


class RoutedRows:
    """Incoming rows in buckets: one for each unit of the old file, and some for new keys."""

    def __init__(
        self, spec: WriteSpec, old: OldFile | None, schema: pa.Schema, spare_bits: int = 0
    ) -> None:
        """``schema`` is that of incoming tables, delete marks included; see ``KeyHomes``."""
        self._spec, self._old = spec, old
        self._units = 0 if old is None else old.unit_count
        self._homes = KeyHomes(old, spare_bits)
        self._store = BucketStore(
            schema, self._units + _NEW_BUCKETS, spec.memory_bytes, spec.spill_folder
        )
        self._last: pa.Table | None = None
        self._left: list[pa.Table] = []
        self._doubtful: list[pa.Table] = []

    def add(self, rows: pa.Table) -> None:
        """Route rows to their buckets."""
        hashes = key_hashes(single(rows.column(KEY_COLUMN)))
        picks, buckets, known = self._homes.find(hashes)
        fresh = np.flatnonzero(~known)
        spread = (hashes[fresh] >> _NEW_BUCKET_SHIFT) % np.uint64(_NEW_BUCKETS)
        picks = np.concatenate((picks, fresh))
        buckets = np.concatenate((buckets, spread.astype(np.int64) + self._units))
        self._store.add(rows, picks, buckets)

    def of_unit(self, unit: int) -> pa.Table:
        """The rows whose keys may be in this unit."""
        self._last = combined(self._spec, self._store.read(unit)).combine_chunks()
        return self._last

    def settle(self, unit: int, matched: Positions) -> None:
        """The rows at these positions of ``of_unit(unit)`` were found in the old file.

        The other rows are here because two keys share a hash. They are new, unless that hash occurs
        in more than one unit: such rows are judged at the end.
        """
        rows = self._last
        assert rows is not None
        seen = np.zeros(rows.num_rows, dtype=np.bool_)
        seen[matched] = True
        if seen.all():
            return
        left = rows.filter(pa.array(~seen)).combine_chunks()
        doubtful = self._homes.ambiguous(key_hashes(single(left.column(KEY_COLUMN))))
        self._left.append(left.filter(pa.array(~doubtful)))
        self._doubtful.append(left.filter(pa.array(doubtful)))

    def rest(self) -> Iterator[pa.Table]:
        """The rows that were found in no unit."""
        yield from self._left
        doubtful = combined(self._spec, joined(self._doubtful)) if self._doubtful else None
        if doubtful is not None and doubtful.num_rows and self._old is not None:
            for keys in self._old.unit_keys():
                known = pc.is_in(doubtful.column(KEY_COLUMN), value_set=keys)
                doubtful = doubtful.filter(pc.invert(known))
            yield doubtful
        for bucket in range(self._units, self._units + _NEW_BUCKETS):
            yield combined(self._spec, self._store.read(bucket))

    def close(self) -> None:
        """Delete the spilled rows."""
        self._store.close()


class KeyHomes:
    """The units of the old file that have keys with a given hash.

    One sorted array, 8 bytes per key: the upper bits of the hash, then the unit's number.
    """

    def __init__(self, old: OldFile | None, spare_bits: int = 0) -> None:
        """``spare_bits`` of the hash are not used, so that more keys share one, for tests."""
        units = 0 if old is None else old.unit_count
        self._low = np.uint64((1 << (max(1, units.bit_length()) + spare_bits)) - 1)
        self._homes = np.empty(0 if old is None else old.rows, dtype=np.uint64)
        if old is None:
            return
        end = 0
        for unit, keys in enumerate(old.unit_keys()):
            hashes = key_hashes(keys)
            self._homes[end : end + len(hashes)] = (hashes & ~self._low) | np.uint64(unit)
            end += len(hashes)
        self._homes = self._homes[:end]
        self._homes.sort()

    def find(self, hashes: Hashes) -> tuple[Positions, Positions, Mask]:
        """(row, unit) for each hash and each unit that has it, and bool[n]: some unit has it."""
        # Sorted hashes go through the array in order instead of jumping around.
        order = np.argsort(hashes)
        first, counts = self._ranges(hashes[order])
        total = int(counts.sum())
        begins = np.repeat(first - (np.cumsum(counts) - counts), counts)
        units = (self._homes[begins + np.arange(total)] & self._low).astype(np.int64)
        picks = np.repeat(order, counts)
        new = np.ones(total, dtype=np.bool_)
        new[1:] = (picks[1:] != picks[:-1]) | (units[1:] != units[:-1])
        known = np.zeros(len(hashes), dtype=np.bool_)
        known[order] = counts > 0
        return picks[new].astype(np.int64), units[new], known

    def ambiguous(self, hashes: Hashes) -> Mask:
        """bool[n]: whether keys with this hash are in more than one unit."""
        return self._ranges(hashes)[1] > 1

    def _ranges(self, hashes: Hashes) -> tuple[Positions, Positions]:
        stem = hashes & ~self._low
        first = np.searchsorted(self._homes, stem, side="left")
        last = np.searchsorted(self._homes, stem | self._low, side="right")
        return first, last - first


IncomingRows = HeldRows | RoutedRows


class Inbox:
    """Takes the incoming rows of one group, and decides how they are held."""

    # Above this number, lookups of all rows in each unit cost more than routing.
    _MOST_HELD_LOOKUPS = 4_000_000

    def __init__(self, spec: WriteSpec, old: OldFile | None, schema: pa.Schema) -> None:
        """``schema`` is that of incoming tables without delete marks."""
        fields = [schema.field(0), pa.field(DELETE, pa.bool_()), *list(schema)[1:]]
        self._spec, self._old, self._schema = spec, old, pa.schema(fields)
        self._tables: list[pa.Table] = []
        self._bytes = 0
        self._routed: RoutedRows | None = None

    def add(self, rows: pa.Table) -> None:
        """Take rows; above the memory bound they are routed."""
        self._tables.append(rows)
        self._bytes += rows.nbytes
        limit = self._spec.memory_bytes
        if self._bytes > (limit if self._routed is None else limit // 4):
            self._route()

    def settled(self) -> IncomingRows:
        """All rows, after the last one has come."""
        rows = sum(table.num_rows for table in self._tables)
        units = 0 if self._old is None else self._old.unit_count
        if self._routed is None and rows * units <= self._MOST_HELD_LOOKUPS:
            return HeldRows(self._spec, self._tables)
        self._route()
        assert self._routed is not None
        return self._routed

    def _route(self) -> None:
        if self._routed is None:
            self._routed = RoutedRows(self._spec, self._old, self._schema)
        share = max(1, self._spec.memory_bytes // 4)
        while self._tables:
            run, size = [], 0
            while self._tables and size <= share:
                run.append(self._tables.pop(0))
                size += run[-1].nbytes
            marked = joined([*run, self._schema.empty_table()])
            self._routed.add(marked)
        self._bytes = 0
