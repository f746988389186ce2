"""Looks for one record key in base files, without Spark and without reading whole files.

The footer's key range and bloom filter rule most files out. Of the others two columns are read, the
key and the instant that wrote the row, a batch at a time; statistics rule row groups out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pyhudi.format.instants import InstantTime
from pyhudi.index.lookup import BATCH_ROWS, KEY, MAX_KEY, MIN_KEY, possible
from pyhudi.rows.spec import COMMIT_TIME_COLUMN, FileSystemSpec

THREADS = 16


class Look(Enum):
    """What a look into one base file has shown."""

    HELD = "held"
    ABSENT = "absent"
    #: the footer alone says that the key is not there
    RULED_OUT = "ruled out"
    #: deleted since the listing
    GONE = "gone"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Sighting:
    """The outcome for the file at ``path``: the rows that have the key, and who wrote them.

    ``written_by`` is the newest ``_hoodie_commit_time`` of these rows: the instant that gave the
    key its value, also in a later file that only carries the row along.
    """

    path: str
    look: Look
    rows: int = 0
    written_by: InstantTime | None = None


def sightings(place: tuple[FileSystemSpec, str], paths: Iterable[str], key: str) -> list[Sighting]:
    """Look for ``key`` in each of the base files ``paths``, relative to the root of ``place``."""
    spec, root = place
    filesystem = spec.open()
    wanted = pa.array([key], pa.string())

    def one(path: str) -> Sighting:
        try:
            with filesystem.open_input_file(f"{root}/{path}") as source:
                return _in_file(path, pq.ParquetFile(source), wanted)
        except FileNotFoundError:
            return Sighting(path, Look.GONE)
        except (OSError, KeyError, pa.ArrowException):
            return Sighting(path, Look.UNREADABLE)

    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(one, paths))


def key_ranges(
    place: tuple[FileSystemSpec, str], paths: Iterable[str]
) -> list[tuple[str, str] | None]:
    """Least and greatest key in the footer of each file; None if it has none, or is unreadable."""
    spec, root = place
    filesystem = spec.open()

    def one(path: str) -> tuple[str, str] | None:
        try:
            with filesystem.open_input_file(f"{root}/{path}") as source:
                footer = pq.read_metadata(source).metadata or {}
        except (OSError, pa.ArrowException):
            return None
        low, high = footer.get(MIN_KEY), footer.get(MAX_KEY)
        return None if low is None or high is None else (low.decode(), high.decode())

    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(one, paths))


def _in_file(path: str, file: pq.ParquetFile, wanted: pa.Array) -> Sighting:
    if not len(possible(file.metadata.metadata or {}, wanted, use_bloom=True)):
        return Sighting(path, Look.RULED_OUT)
    groups = list(_groups_with(file, wanted[0].as_py()))
    rows, times = 0, []
    for batch in file.iter_batches(
        BATCH_ROWS, groups, columns=[KEY, COMMIT_TIME_COLUMN], use_threads=False
    ):
        found = batch.filter(pc.is_in(batch.column(KEY).cast(pa.string()), value_set=wanted))
        if found.num_rows:
            rows += found.num_rows
            times += [str(time) for time in found.column(COMMIT_TIME_COLUMN).to_pylist()]
    if not rows:
        return Sighting(path, Look.ABSENT)
    return Sighting(path, Look.HELD, rows, InstantTime(max(times)))


def _groups_with(file: pq.ParquetFile, key: str) -> Iterator[int]:
    """The row groups that may have the key by their statistics."""
    column = file.schema.names.index(KEY)
    for at in range(file.num_row_groups):
        chunk = file.metadata.row_group(at).column(column)
        if _may_hold(chunk.statistics if chunk.is_stats_set else None, key):
            yield at


def _may_hold(statistics: Any, key: str) -> bool:
    if statistics is None or not statistics.has_min_max or not isinstance(statistics.min, str):
        return True
    low, high = statistics.min.encode(), statistics.max.encode()
    return bool(low <= key.encode() <= high)
