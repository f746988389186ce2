"""The epochs of a stream: deterministic rows, one Parquet file to an epoch, equal for all engines.

Events of eight columns with a key of text that says nothing of their time, partitioned by day. An
event's number gives its key, its day and, with a version, all other values; so the rows that a
table must have in the end follow from the numbers alone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

KEY = "id"
DAY = "day"
ORDERING = "ts"
SCHEMA = (
    "id string, ts timestamp, day string, user bigint, kind string, amount double, paid boolean, "
    "note string"
)
COLUMNS = ("id", "ts", "day", "user", "kind", "amount", "paid", "note")
APPEND, RECENT, SPREAD = "append", "upsert, recent keys", "upsert, spread keys"
WORKLOADS = (APPEND, RECENT, SPREAD)
_START = np.datetime64("2024-01-01", "us")
_KINDS = [f"kind-{number:02d}" for number in range(20)]
_CHUNK = 500_000

Numbers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Stream:
    """A table of ``rows`` events in ``days`` days, and epochs of ``size`` events after them.

    Nine of ten events of an upsert's epoch are new, and belong to the day that the stream has
    reached. The others are known: to RECENT of the last day's worth of events, to SPREAD of all.
    """

    workload: str
    rows: int
    days: int
    size: int

    @property
    def per_day(self) -> int:
        return max(1, self.rows // self.days)

    def epoch(self, number: int) -> Numbers:
        """The numbers of the events of an epoch, counted from 0."""
        known = 0 if self.workload == APPEND else self.size // 10
        news = self.size - known
        first = self.rows + number * news
        span = self.per_day if self.workload == RECENT else first
        draw = np.random.default_rng([number, span])
        old = first - 1 - draw.choice(span, min(known, span), replace=False)
        return np.concatenate([np.sort(old), np.arange(first, first + news)]).astype(np.int64)

    def events(self, numbers: Numbers, versions: Numbers) -> pa.Table:
        """The rows of these events, each in its version."""
        words = numbers.astype(np.uint64)
        drawn = _mixed(_mixed(words) ^ versions.astype(np.uint64))
        days = (_START.astype("datetime64[D]") + numbers // self.per_day).astype(str)
        # A later version is a second later, of the same day still as far as the table knows.
        ts = _START + numbers * 1_000 + versions * 1_000_000
        columns = {
            "id": _texts(_mixed(words)),
            "ts": pa.array(ts).cast(pa.timestamp("us", tz="UTC")),
            "day": pa.array(days),
            "user": pa.array((drawn % np.uint64(200_000)).astype(np.int64)),
            "kind": pa.array(_KINDS).take(pa.array((drawn % np.uint64(20)).astype(np.int64))),
            "amount": pa.array((drawn >> np.uint64(44)).astype(np.float64) / 100),
            "paid": pa.array((drawn & np.uint64(1)).astype(np.bool_)),
            "note": _texts(drawn),
        }
        return pa.table({name: columns[name] for name in COLUMNS})

    def write_bulk(self, folder: Path) -> Path:
        """The rows of the table before the stream, as version 0."""
        return self._write_all(folder, np.zeros(self.rows, np.int64))

    def write_epochs(self, folder: Path, epochs: int) -> list[Path]:
        """A file for each epoch, in the order in which Spark's file source takes them."""
        folder.mkdir(parents=True, exist_ok=True)
        files = []
        for number in range(epochs):
            numbers = self.epoch(number)
            file = folder / f"{number:06d}.parquet"
            pq.write_table(self.events(numbers, np.full(len(numbers), number + 1)), file)
            # The source goes by the time of modification, and knows nothing below a millisecond.
            os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
            files.append(file)
        return files

    def write_expected(self, folder: Path, epochs: int) -> Path:
        """The rows that the table must have after ``epochs``."""
        last = [self.epoch(number) for number in range(epochs)]
        versions = np.zeros(max([self.rows, *(int(n[-1]) + 1 for n in last)]), np.int64)
        for number, numbers in enumerate(last):
            versions[numbers] = number + 1
        return self._write_all(folder, versions)

    def _write_all(self, folder: Path, versions: Numbers) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        for first in range(0, len(versions), _CHUNK):
            numbers = np.arange(first, min(first + _CHUNK, len(versions)), dtype=np.int64)
            rows = self.events(numbers, versions[numbers])
            pq.write_table(rows, folder / f"part-{first // _CHUNK:04d}.parquet")
        return folder


def _mixed(words: Words) -> Words:
    """Splitmix64: no two words become one."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _texts(words: Words) -> pa.Array:
    """Sixteen hexadecimal digits for each word."""
    digits = words.astype(">u8").tobytes().hex()
    data = pa.py_buffer(digits.encode())
    offsets = pa.py_buffer(np.arange(0, len(digits) + 1, 16, dtype=np.int32).tobytes())
    return pa.StringArray.from_buffers(len(words), offsets, data)
