"""The state in front of the index: in which base file of a partition a key is (RFC-24, step 4).

One sorted array for a partition, 8 bytes a row: the upper bits of the key's hash, then the number
of the base file. The state answers only for files that it covers, named by their paths. A path is
never written twice, so what the state has of a file cannot grow stale, whoever else writes.

Invariant: of each row in a covered file the array has one entry of its own; it may have more. So
"not here" is certain, while "here" is not: keys may share a hash, and rows may have been deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from pyhudi.rows.hashing import Hashes, ranges, spread

Positions = npt.NDArray[np.int64]

FILE_BITS: Final = 16
#: base files of one partition that a state can cover
MOST_FILES: Final = 1 << FILE_BITS
#: entries of rows that are gone, as a share of a file's entries; above it the file is read again
MOST_DEAD: Final = 1 / 8
#: steps that wait for the next lookup; a commit after so many has them taken
MOST_STEPS: Final = 8
#: what the name of a file takes, in bytes
FILE_BYTES: Final = 300
_NONE: Final = np.zeros(0, dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class GroupChange:
    """What our own commit did to a file group: its base file ``old`` became ``new``.

    ``added`` are the hashes of the keys that the commit inserted, one for each row; ``deleted``
    those of the keys that it may have deleted. The commit counted ``deletes`` deleted rows, and
    ``rows`` in the new file. ``old`` is None for a new group.
    """

    old: str | None
    new: str
    added: Hashes
    deleted: Hashes
    deletes: int
    rows: int


@dataclass(frozen=True, slots=True)
class Covered:
    """A base file whose keys the state has: its number, and how many entries are its own."""

    number: int
    entries: int


Loaded = Mapping[str, Hashes]
Step = Loaded | Sequence[GroupChange]


@dataclass(frozen=True, slots=True)
class KeyState:
    """The state of one partition: a value, so any thread may use it.

    ``steps`` have not reached the array yet: a process that looks up once never sorts them.
    ``pruned`` are files of which a lookup has only asked the footer. ``unused_bits`` of the hash do
    not count, so that more keys share one, for tests.
    """

    entries: Hashes = field(default_factory=lambda: _NONE)
    files: Mapping[str, Covered] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    pruned: frozenset[str] = frozenset()
    unused_bits: int = 0

    @property
    def nbytes(self) -> int:
        """The memory that it takes, about."""
        waiting = 0
        for step in self.steps:
            if isinstance(step, Mapping):
                waiting += sum(FILE_BYTES + hashes.nbytes for hashes in step.values())
            else:
                waiting += sum(FILE_BYTES + c.added.nbytes + c.deleted.nbytes for c in step)
        names = 1 + len(self.files) + len(self.pruned)
        return self.entries.nbytes + waiting + FILE_BYTES * names

    def after(self, changes: Sequence[GroupChange]) -> KeyState:
        """The state after a commit of ours."""
        state = self if len(self.steps) < MOST_STEPS else self._settled()
        return replace(state, steps=(*state.steps, changes))

    def with_read(self, loaded: Loaded, pruned: Collection[str]) -> KeyState:
        """The state with files that were read, and with those of which only the footer was."""
        steps = (*self.steps, loaded) if loaded else self.steps
        return replace(self, steps=steps, pruned=(self.pruned | set(pruned)) - loaded.keys())

    def of_view(self, paths: Collection[str]) -> KeyState:
        """All steps taken, and no file left that is not among ``paths``."""
        state = self._settled()
        gone = [path for path in state.files if path not in paths]
        pruned = frozenset(path for path in self.pruned if path in paths)
        return replace(state._without(gone), pruned=pruned)

    def find(self, hashes: Hashes) -> list[tuple[str, Positions]]:
        """The files that may have keys, each with the positions of their ``hashes``, ascending.

        No step may be left.
        """
        low, paths = self._low, {c.number: path for path, c in self.files.items()}
        which, entry = _entries(self.entries, hashes & ~low, low)
        numbers = (self.entries[entry] & low & np.uint64(MOST_FILES - 1)).astype(np.int64)
        order = np.lexsort((which, numbers))
        which, numbers = which[order], numbers[order]
        first = np.ones(len(which), np.bool_)
        first[1:] = (which[1:] != which[:-1]) | (numbers[1:] != numbers[:-1])
        which, numbers = which[first], numbers[first]
        bounds = np.flatnonzero(np.diff(numbers)) + 1
        found = np.split(which, bounds) if len(which) else []
        begins = [0, *bounds.tolist()]
        return [(paths[int(numbers[b])], at) for b, at in zip(begins, found, strict=False)]

    def _settled(self) -> KeyState:
        state = replace(self, steps=())
        for step in self.steps:
            state = state._loaded(step) if isinstance(step, Mapping) else state._changed(step)
        return state

    @property
    def _low(self) -> np.uint64:
        return np.uint64((1 << (FILE_BITS + self.unused_bits)) - 1)

    def _packed(self, hashes: Hashes, number: int) -> Hashes:
        return (hashes & ~self._low) | np.uint64(number)

    def _free(self) -> Iterator[int]:
        used = {covered.number for covered in self.files.values()}
        return (number for number in range(MOST_FILES) if number not in used)

    def _without(self, gone: Sequence[str]) -> KeyState:
        if not gone:
            return self
        dead = np.zeros(MOST_FILES, np.bool_)
        dead[[self.files[path].number for path in gone]] = True
        kept = ~dead[(self.entries & np.uint64(MOST_FILES - 1)).astype(np.intp)]
        files = {path: c for path, c in self.files.items() if path not in set(gone)}
        return replace(self, entries=self.entries[kept], files=files)

    def _loaded(self, read: Loaded) -> KeyState:
        """With the keys of files, as they were read."""
        state = self._without([path for path in read if path in self.files])
        files, parts = dict(state.files), []
        for number, (path, hashes) in zip(state._free(), read.items(), strict=False):
            parts.append(self._packed(hashes, number))
            files[path] = Covered(number, len(hashes))
        return replace(state, entries=_merged(state.entries, parts), files=files)

    def _changed(self, changes: Sequence[GroupChange]) -> KeyState:
        """With what a commit of ours changed, as far as the old files are covered."""
        files, kept, parts = dict(self.files), np.ones(len(self.entries), np.bool_), []
        free, doubtful = self._free(), []
        for change in changes:
            old = Covered(next(free, -1), 0) if change.old is None else files.get(change.old)
            if old is None or old.number < 0 or change.new in files:
                continue
            dead = self._dead(change, old.number)
            kept[dead] = False
            entries = old.entries - len(dead) + len(change.added)
            files.pop(change.old or "", None)
            files[change.new] = Covered(old.number, entries)
            parts.append(self._packed(change.added, old.number))
            if not 0 <= entries - change.rows <= MOST_DEAD * entries:
                doubtful.append(change.new)
        left = self.entries if kept.all() else self.entries[kept]
        return replace(self, entries=_merged(left, parts), files=files)._without(doubtful)

    def _dead(self, change: GroupChange, number: int) -> Positions:
        """The entries of the deleted rows; none if they are not certain.

        Each deleted row has an entry of its own. So if there are as many entries with these hashes
        as deleted rows, all of them are dead, and no other key has one of the hashes.
        """
        wanted = np.unique(self._packed(change.deleted, number))
        _, entry = _entries(self.entries, wanted, np.uint64(0))
        return entry if len(entry) == change.deletes else np.zeros(0, np.int64)


def _entries(entries: Hashes, stems: Hashes, low: np.uint64) -> tuple[Positions, Positions]:
    """(stem, entry) for each entry from a stem on up to the stem with all ``low`` bits."""
    # Sorted stems go through the array in order instead of jumping around.
    order = np.argsort(stems)
    which, entry = spread(*ranges(entries, stems[order], low))
    return order[which].astype(np.int64), entry


def _merged(entries: Hashes, parts: Sequence[Hashes]) -> Hashes:
    """All of them, sorted; two sorted runs are merged, which a stable sort does."""
    new = np.concatenate(parts) if parts else _NONE
    if not len(new):
        return entries
    new.sort()
    if not len(entries):
        return new
    both = np.concatenate((entries, new))
    both.sort(kind="stable")
    return both
