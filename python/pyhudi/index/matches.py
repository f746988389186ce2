"""Index lookup for input in the driver's memory: which of the wanted keys a base file has.

The answer has positions, not keys, so it is small. This module is sent by value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pyhudi.index.lookup import KEY, possible
from pyhudi.rows.damage import readable
from pyhudi.rows.spec import FileSystemSpec


@dataclass(frozen=True, slots=True)
class MatchSpec:
    """Where to look: ``wanted`` maps partition paths to the incoming keys, each once."""

    root: str
    fs: FileSystemSpec
    wanted: Mapping[str, pa.Array]
    use_bloom: bool = False


#: one base file: ordinal, path relative to the table, partition path
File = tuple[int, str, str]
#: its matches: ordinal, and int32 positions in ``wanted`` of its partition, as bytes
Match = tuple[int, bytes]


def match_files(spec: MatchSpec) -> Callable[[Iterable[File]], Iterator[Match]]:
    """A function over base files: to call here, or with ``telling`` for ``mapPartitions``."""

    def run(files: Iterable[File]) -> Iterator[Match]:
        filesystem = spec.fs.open()
        for ordinal, path, partition in files:
            keys = spec.wanted.get(partition)
            if keys is not None and len(keys):
                place = f"{spec.root}/{path}"
                with readable(path), filesystem.open_input_file(place) as source:
                    found = positions(pq.ParquetFile(source), keys, spec.use_bloom)
                yield ordinal, found.tobytes()

    return run


def positions(
    file: pq.ParquetFile, keys: pa.Array, use_bloom: bool
) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """The positions in ``keys`` of the keys that the file holds, ascending by row."""
    nothing = np.empty(0, np.int32)
    if len(possible(file.metadata.metadata or {}, keys, use_bloom)) == 0:
        return nothing
    found = [nothing]
    for group in range(file.num_row_groups):
        column = file.read_row_group(group, columns=[KEY], use_threads=False).column(0)
        for chunk in column.chunks:
            at = pc.index_in(chunk, value_set=keys)
            if at.null_count < len(at):
                found.append(at.drop_null().to_numpy())
    return np.concatenate(found).astype(np.int32, copy=False)
