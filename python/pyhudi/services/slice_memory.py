"""What the driver remembers of slices with logs: their merges, and columns that filters asked for.

A base file is never written twice, nor is a log whose name has the instant of its write
(``TableConfig.logs_name_their_write``). So what is known of such a slice stays true.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from pyhudi.recent import Recent
from pyhudi.rows.log_spec import LogSlice, Merged, MergeSpec

MOST_BYTES = 64 << 20
#: what an array, and each text of a key, takes beside its values
OVERHEAD = 200
#: the root of a table, a base file and its logs, and what decides between their rows
Key = tuple[str, str, tuple[str, ...], str]


@dataclass(frozen=True, slots=True)
class SliceMemory:
    """A slice's merge, and by name and type the columns of the rows of logs that count."""

    merged: Merged
    columns: Mapping[tuple[str, str], pa.Array] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """How much memory it takes, about."""
        arrays = [self.merged.masked, *self.merged.kept, *self.columns.values()]
        blocks = self.merged.blocks
        arrays += [block.landmarks for block in blocks]
        places = sum(len(block.path) for block in blocks)
        return places + sum(int(each.nbytes) + OVERHEAD for each in arrays)


class LogMemory:
    """The slices that were read last, for all tables of an application; for any thread."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._slices: Recent[Key, SliceMemory] = Recent(most=most_bytes)

    def get(self, key: Key) -> SliceMemory | None:
        """What is known of a slice."""
        return self._slices.get(key)

    def put(self, key: Key, known: SliceMemory) -> None:
        """Keep ``known``, unless it takes most of the memory alone."""
        root, base, logs, rules = key
        texts = (root, base, rules, *logs)
        weight = known.nbytes + sum(len(text) + OVERHEAD for text in texts)
        if weight <= self._most // 2:
            self._slices.put(key, known, weight)


def key_of(spec: MergeSpec, of: LogSlice) -> Key:
    """The name of a slice, whose ``of.logs`` all count, under the rules of ``spec``.

    The columns that are read of its rows have no part in it.
    """
    names = sorted(of.names.items()), of.base and of.base.names
    rules = f"{spec.ordering} {spec.ordering_paths} {spec.marker} {names}"
    return spec.root, of.base.path if of.base is not None else "", of.logs, rules
