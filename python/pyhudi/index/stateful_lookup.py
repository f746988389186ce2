"""A lookup through the state: covered files answer from memory, the others are read and remembered.

The answer is that of reading all files, but for one freedom: a key that only one file may have
counts as being there, without a look at the file. That is harmless to a write which merges by key:
the merge compares the keys, and adds a row that it does not find. Keys that several files may have
are looked up in them, since each copy of a key changes. ``sure`` looks all of them up.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

import numpy as np
import pyarrow as pa

from pyhudi.index.key_state import FILE_BYTES, GroupChange, KeyState, Positions
from pyhudi.recent import Recent
from pyhudi.rows.hashing import Hashes, key_hashes
from pyhudi.slices.files import BaseFile

#: what one lookup adds to the state at most: it passes through the driver's JVM
MOST_LOADED: Final = 64 << 20
HASH_BYTES: Final = 8

Wanted = Mapping[str, pa.Array]
#: path, positions in ``wanted`` of the file's partition, and hashes: see ``matches.Match``
Answer = tuple[str, bytes, bytes | None]
#: reads files for ``wanted`` keys; the mapping is ``MatchSpec.remembered``
Ask = Callable[[Sequence[BaseFile], Wanted, Mapping[str, bool]], Iterable[Answer]]


@dataclass(frozen=True, slots=True)
class KeyLookup:
    """The figures of one lookup.

    ``probed`` counts keys, each once in its partition, and ``hits`` those that have a place.
    ``files_known`` answered from the state, ``files_read`` were not in it, ``files_verified`` were
    read because several files had a key, or might have. ``bytes_held`` is the state of the table.
    """

    probed: int = 0
    hits: int = 0
    files_known: int = 0
    files_read: int = 0
    files_verified: int = 0
    bytes_held: int = 0

    def figures(self) -> dict[str, int]:
        """The same by the names under which a stream shows them."""
        return {
            "indexProbed": self.probed,
            "indexHits": self.hits,
            "indexFilesKnown": self.files_known,
            "indexFilesRead": self.files_read + self.files_verified,
            "indexBytes": self.bytes_held,
        }


@dataclass(slots=True)
class _OfTable:
    """The states of one table, by partition, and the bound that its last writer gave."""

    states: Recent[str, KeyState] = field(default_factory=Recent)
    most_bytes: int = 0


class KeyStates:
    """The states of an application, by table and partition; for any thread.

    A table's states stay within the bound of its own writers, and all together within the largest
    of these bounds. The least recently used partition of a table is dropped first, and for the
    common bound that of the least recently used table. A state is a value, so two threads at once
    can lose one's news, and the files in question are read again.
    """

    def __init__(self, unused_bits: int = 0) -> None:
        self._unused_bits = unused_bits
        self._tables: OrderedDict[str, _OfTable] = OrderedDict()
        self._lock = Lock()

    @property
    def nbytes(self) -> int:
        """What all states take."""
        with self._lock:
            return sum(table.states.weight for table in self._tables.values())

    def nbytes_of(self, root: str) -> int:
        """What the states of a table take."""
        with self._lock:
            return self._tables[root].states.weight if root in self._tables else 0

    def of(self, root: str, partition: str) -> KeyState:
        """The state of a partition, empty if there is none."""
        return self._get(root, partition) or KeyState(unused_bits=self._unused_bits)

    def met(self, root: str, partition: str) -> bool:
        """Whether an earlier lookup in this partition has left a state, perhaps an empty one."""
        return self._get(root, partition) is not None

    def keep(self, root: str, partition: str, state: KeyState, most_bytes: int) -> None:
        """Put a state in place of an earlier one; a state above the table's bound is not kept."""
        weight = state.nbytes
        with self._lock:
            table = self._tables.setdefault(root, _OfTable())
            self._tables.move_to_end(root)
            table.most_bytes = most_bytes
            if weight > most_bytes:
                table.states.forget(lambda key: key == partition)
            else:
                table.states.put(partition, state, weight)
            table.states.shrink(most_bytes)
            self._shrink()

    def learn(
        self, root: str, changes: Mapping[str, Sequence[GroupChange]], most_bytes: int
    ) -> None:
        """What a commit of ours, known to have completed, changed, by partition.

        A partition for whose news there is no room keeps the rest: the new files stay unknown.
        """
        for partition, of_partition in changes.items():
            state = self.of(root, partition).after(of_partition)
            if state.nbytes <= most_bytes:
                self.keep(root, partition, state, most_bytes)

    def kept(self) -> tuple[tuple[str, str], ...]:
        """Table and partition of each state, the least recently used of each first."""
        with self._lock:
            tables = self._tables.items()
            return tuple((root, each) for root, table in tables for each in table.states.kept())

    def forget(self, root: str) -> None:
        """Drop the states of a table."""
        with self._lock:
            self._tables.pop(root, None)

    def _get(self, root: str, partition: str) -> KeyState | None:
        with self._lock:
            table = self._tables.get(root)
            if table is None:
                return None
            self._tables.move_to_end(root)
            return table.states.get(partition)

    def _shrink(self) -> None:
        """Bring all tables together within the largest bound of one."""
        over = sum(table.states.weight for table in self._tables.values())
        over -= max(table.most_bytes for table in self._tables.values())
        for root, table in list(self._tables.items()):
            if over <= 0:
                break
            before = table.states.weight
            table.states.shrink(max(0, before - over))
            over -= before - table.states.weight
            if not table.states.weight:
                del self._tables[root]


class _Places:
    """The places of one partition's keys, as they become known."""

    def __init__(self, keys: pa.Array) -> None:
        self.keys = keys
        self.certain: dict[str, Positions] = {}
        self.likely: dict[str, Positions] = {}

    def doubtful(self, sure: bool) -> Positions:
        """The keys for which a file that may have them is to be read."""
        files = np.zeros(len(self.keys), np.int64)
        unread = np.zeros(len(self.keys), np.bool_)
        for at in self.certain.values():
            files[np.unique(at)] += 1
        for at in self.likely.values():
            files[at] += 1
            unread[at] = True
        return np.flatnonzero(unread & ((files > 1) | sure))

    def hits(self) -> int:
        held = np.zeros(len(self.keys), np.bool_)
        for at in (*self.certain.values(), *self.likely.values()):
            held[at] = True
        return int(held.sum())


@dataclass(frozen=True, slots=True)
class StatefulLookup:
    """Lookups in one table within ``most_bytes`` for the states; 0 leaves them out.

    ``row_bytes`` says what a row of the table takes in a file, about. Files of more than
    ``at_once_bytes`` together are read by executors, and their hashes have to travel: they are
    remembered from the second lookup in their partition on, so a single write pays nothing.
    """

    states: KeyStates
    root: str
    most_bytes: int
    ask: Ask
    row_bytes: Callable[[], int]
    at_once_bytes: int

    def places(
        self, wanted: Wanted, files: Sequence[BaseFile], read: dict[str, bytes], sure: bool = False
    ) -> tuple[list[tuple[int, Positions]], KeyLookup]:
        """For each file with any of the ``wanted`` keys its position in ``files``, and theirs.

        ``read`` has the answers of files that this write has read before, and gets those to come.
        """
        found = {partition: _Places(keys) for partition, keys in wanted.items()}
        by_partition: dict[str, list[BaseFile]] = {p: [] for p in wanted}
        for file in files:
            if file.partition_path in by_partition:
                by_partition[file.partition_path].append(file)
        states: dict[str, KeyState] = {}
        known, first = 0, set()
        for partition, mine in by_partition.items() if self.most_bytes else ():
            if not self.states.met(self.root, partition):
                first.add(partition)
            states[partition] = state = self.states.of(self.root, partition).of_view(
                {file.path for file in mine}
            )
            known += len(state.files)
            found[partition].likely = dict(state.find(key_hashes(wanted[partition])))
        unknown = self._read(found, by_partition, states, first, read)
        verified = self._verified(found, by_partition, sure)
        answers, nothing = [], _Places(pa.array([], pa.string()))
        for ordinal, file in enumerate(files):
            places = found.get(file.partition_path, nothing)
            at = places.certain.get(file.path)
            at = places.likely.get(file.path) if at is None else at
            if at is not None and len(at):
                answers.append((ordinal, at))
        probed, hits = sum(map(len, wanted.values())), sum(p.hits() for p in found.values())
        held = self.states.nbytes_of(self.root)
        return answers, KeyLookup(probed, hits, known, unknown, verified, held)

    def _read(
        self,
        found: Mapping[str, _Places],
        files: Mapping[str, Sequence[BaseFile]],
        states: Mapping[str, KeyState],
        first: Collection[str],
        read: dict[str, bytes],
    ) -> int:
        """Read the files that no state covers, and remember them; their number."""
        unknown = [
            file
            for partition, mine in files.items()
            for file in mine
            if file.path not in read
            and (partition not in states or file.path not in states[partition].files)
        ]
        remembered = self._remembered(unknown, states, first)
        wanted = {partition: places.keys for partition, places in found.items()}
        loaded: dict[str, dict[str, Hashes]] = {}
        pruned: dict[str, set[str]] = {}
        partition_of = {file.path: file.partition_path for file in unknown}
        room = self.most_bytes - sum(state.nbytes for state in states.values())
        for path, at, hashes in self.ask(unknown, wanted, remembered) if unknown else ():
            read[path] = at
            partition = partition_of[path]
            if hashes is not None:
                room -= FILE_BYTES + len(hashes)
            if hashes is not None and room >= 0:
                loaded.setdefault(partition, {})[path] = np.frombuffer(hashes, np.uint64)
            elif hashes is None and path in remembered:
                pruned.setdefault(partition, set()).add(path)
        for partition, state in states.items():
            news = loaded.get(partition, {})
            kept = state.with_read(news, pruned.get(partition, ()))
            self.states.keep(self.root, partition, kept, self.most_bytes)
        for partition, mine in files.items():
            places = found[partition]
            for file in mine:
                if file.path in read:
                    held = np.frombuffer(read[file.path], np.int32)
                    places.certain[file.path] = held.astype(np.int64)
                    places.likely.pop(file.path, None)
        return len(unknown)

    def _remembered(
        self,
        unknown: Sequence[BaseFile],
        states: Mapping[str, KeyState],
        first: Collection[str],
    ) -> dict[str, bool]:
        """Those of the unknown files for which there is room, and whether the keys must be read.

        A file whose footer alone answered a lookup is read at the next one: footers cost as well.
        """
        if sum(file.size_bytes for file in unknown) > self.at_once_bytes:
            unknown = [file for file in unknown if file.partition_path not in first]
        if not unknown or not states:
            return {}
        room = self.most_bytes - sum(state.nbytes for state in states.values())
        room = min(room, MOST_LOADED)
        row_bytes = max(1, self.row_bytes())
        chosen = {}
        for file in unknown:
            room -= FILE_BYTES + HASH_BYTES * (file.size_bytes // row_bytes + 1)
            if room < 0:
                break
            chosen[file.path] = file.path in states[file.partition_path].pruned
        return chosen

    def _verified(
        self, found: Mapping[str, _Places], files: Mapping[str, Sequence[BaseFile]], sure: bool
    ) -> int:
        """Read what the state cannot tell; the number of files."""
        wanted, asked, back = {}, [], {}
        for partition, places in found.items():
            doubtful = places.doubtful(sure)
            if not len(doubtful):
                continue
            wanted[partition], back[partition] = places.keys.take(pa.array(doubtful)), doubtful
            asked += [
                file
                for file in files[partition]
                if file.path in places.likely
                and np.isin(places.likely[file.path], doubtful, assume_unique=True).any()
            ]
        partition_of = {file.path: file.partition_path for file in asked}
        answers = {path: at for path, at, _ in (self.ask(asked, wanted, {}) if asked else ())}
        for path, partition in partition_of.items():
            places, doubtful = found[partition], back[partition]
            at = np.frombuffer(answers.get(path, b""), np.int32)
            rest = np.setdiff1d(places.likely[path], doubtful, assume_unique=True)
            places.likely[path] = np.union1d(rest, doubtful[at])
        return len(asked)
