"""The least and greatest values of columns in base files, from the files' footers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.rows.spec import FileSystemSpec
from pyhudi.services.clustering_plan import Range

THREADS = 16


class ColumnRanges:
    """Ranges of ``columns`` by path; a file is read once, since its content never changes."""

    def __init__(self, place: tuple[FileSystemSpec, str], columns: Sequence[str]) -> None:
        """``place`` is the file system of the data files, and the table's root on it."""
        spec, self._root = place
        self._filesystem = spec.open()
        self._columns = columns
        self._known: dict[str, tuple[Range, ...]] = {}

    def of(self, paths: Iterable[str]) -> dict[str, tuple[Range, ...]]:
        """The ranges in the files ``paths``, relative to the table; None where one is unknown."""
        new = [path for path in paths if path not in self._known]
        with ThreadPoolExecutor(THREADS) as threads:
            self._known.update(zip(new, threads.map(self._read, new), strict=True))
        return _comparable(self._known)

    def _read(self, path: str) -> tuple[Range, ...]:
        try:
            with self._filesystem.open_input_file(f"{self._root}/{path}") as source:
                metadata = pq.read_metadata(source)
        except (OSError, pa.ArrowException):
            return ()
        return tuple(_range(metadata, column) for column in self._columns)


def _comparable(known: Mapping[str, tuple[Range, ...]]) -> dict[str, tuple[Range, ...]]:
    """``known``; where a column changed its type, ranges of the rarer types are unknown."""
    kinds = Counter(
        (at, _kind(each)) for held in known.values() for at, each in enumerate(held) if each
    )
    most = {at: kind for (at, kind), _ in reversed(kinds.most_common())}
    return {
        path: tuple(
            each if each is not None and _kind(each) == most[at] else None
            for at, each in enumerate(held)
        )
        for path, held in known.items()
    }


def _kind(of: tuple[Any, Any]) -> str:
    """The type of a range's values; numbers of all types compare with each other."""
    numbers = (int, float, Decimal)
    return "number" if isinstance(of[0], numbers) else type(of[0]).__name__


def _range(metadata: pq.FileMetaData, column: str) -> Range:
    names = [metadata.schema.column(at).path for at in range(len(metadata.schema))]
    if column not in names:
        return None
    at = names.index(column)
    low, high = [], []
    for number in range(metadata.num_row_groups):
        statistics = metadata.row_group(number).column(at).statistics
        if statistics is None or not statistics.has_min_max:
            return None
        is_day = statistics.logical_type.type == "DATE"
        try:
            low.append(statistics.min_raw if is_day else statistics.min)
            high.append(statistics.max_raw if is_day else statistics.max)
        except (OverflowError, ValueError):
            return None  # Python has no times after the year 9999
    return (min(low), max(high)) if low else None
