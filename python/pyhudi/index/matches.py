"""Index lookup for input in the driver's memory: which of the wanted keys a base file has.

The answer has positions, not keys, so it is small. For files whose keys the driver wants to
remember (``key_state.py``) it also has the hashes of all their keys. This module is sent by value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pyhudi.index.lookup import KEY, possible
from pyhudi.rows.damage import readable
from pyhudi.rows.hashing import Hashes, key_hashes, ranges, spread
from pyhudi.rows.spec import FileSystemSpec

Found = npt.NDArray[np.int32]

#: of so many first bits of a hash, at most, a probe knows whether it has such a key
_MOST_TOP_BITS = 20


@dataclass(frozen=True, slots=True)
class MatchSpec:
    """Where to look: ``wanted`` maps partition paths to the incoming keys, each once.

    ``remembered`` has the paths of files whose hashes are wanted; True also if the footer shows
    that no key is in the file.
    """

    root: str
    fs: FileSystemSpec
    wanted: Mapping[str, pa.Array]
    use_bloom: bool = False
    remembered: Mapping[str, bool] = field(default_factory=dict)


#: one base file: ordinal, path relative to the table, partition path
File = tuple[int, str, str]
#: its matches: ordinal, int32 positions in ``wanted`` of its partition, as bytes, and the uint64
#: hashes of its keys, as bytes, if they were wanted and the keys were read
Match = tuple[int, bytes, bytes | None]


def match_files(spec: MatchSpec) -> Callable[[Iterable[File]], Iterator[Match]]:
    """A function over base files: to call here, or with ``telling`` for ``mapPartitions``."""

    def run(files: Iterable[File]) -> Iterator[Match]:
        filesystem = spec.fs.open()
        probes: dict[str, Probe] = {}
        for ordinal, path, partition in files:
            keys = spec.wanted.get(partition)
            if keys is not None and len(keys):
                place, hashes = f"{spec.root}/{path}", None
                with readable(path), filesystem.open_input_file(place) as source:
                    file = pq.ParquetFile(source)
                    entries = file.metadata.metadata or {}
                    sought = len(possible(entries, keys, spec.use_bloom)) > 0
                    if path in spec.remembered and (sought or spec.remembered[path]):
                        probe = probes.setdefault(partition, Probe(keys))
                        found, hashes = probe.positions(file)
                    else:
                        found = positions(file, keys) if sought else np.empty(0, np.int32)
                yield ordinal, found.tobytes(), None if hashes is None else hashes.tobytes()

    return run


def positions(file: pq.ParquetFile, keys: pa.Array) -> Found:
    """The positions in ``keys`` of the keys that the file holds, ascending by row."""
    found = [np.empty(0, np.int32)]
    for chunk in _chunks(file):
        at = pc.index_in(chunk, value_set=keys)
        if at.null_count < len(at):
            found.append(at.drop_null().to_numpy())
    return np.concatenate(found).astype(np.int32, copy=False)


class Probe:
    """The wanted keys by their hashes: the same answer, and the hashes of all keys in the file.

    Reading and hashing takes 1.4 times as long as ``positions`` for a few keys, and less for many.
    """

    def __init__(self, keys: pa.Array, unused_bits: int = 0) -> None:
        """``unused_bits`` of the hash do not count, so that more keys share one, for tests."""
        self._keys, self._low = keys, np.uint64((1 << unused_bits) - 1)
        hashes = key_hashes(keys) & ~self._low
        self._order = np.argsort(hashes)
        self._hashes = hashes[self._order]
        # Nearly all keys of a file are sorted out by their first bits, without a search.
        bits = min(_MOST_TOP_BITS, len(keys).bit_length() + 4)
        self._shift = np.uint64(64 - bits)
        self._tops = np.zeros(1 << bits, np.bool_)
        self._tops[self._top(self._hashes)] = True

    def positions(self, file: pq.ParquetFile) -> tuple[Found, Hashes]:
        """As ``positions``, with the hashes of the file's keys."""
        found, all_hashes = [np.empty(0, np.int32)], [np.zeros(0, np.uint64)]
        for chunk in _chunks(file):
            hashes = key_hashes(chunk)
            all_hashes.append(hashes)
            found.append(self._in(chunk, hashes & ~self._low))
        return np.concatenate(found), np.concatenate(all_hashes)

    def _in(self, keys: pa.Array, hashes: Hashes) -> Found:
        likely = np.flatnonzero(self._tops[self._top(hashes)])
        which, at = spread(*ranges(self._hashes, hashes[likely], np.uint64(0)))
        rows, wanted = likely[which], self._order[at]
        same = pc.equal(keys.take(pa.array(rows)), self._keys.take(pa.array(wanted)))
        equal = pc.fill_null(same, False).to_numpy(zero_copy_only=False)
        found: Found = wanted[equal].astype(np.int32)
        return found

    def _top(self, hashes: Hashes) -> npt.NDArray[np.intp]:
        return (hashes >> self._shift).astype(np.intp)


def _chunks(file: pq.ParquetFile) -> Iterator[pa.Array]:
    """The keys of a file, by row group."""
    for group in range(file.num_row_groups):
        column = file.read_row_group(group, columns=[KEY], use_threads=False).column(0)
        for chunk in column.chunks:
            yield chunk if chunk.type == pa.string() else chunk.cast(pa.string())
