"""Markers on the driver's side: what an instant may have written, as it announced itself.

A worker puts the marker before the data file, so a file without a marker cannot exist. Layout:
spec/markers.md M1 to M6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from pyhudi.format.filenames import parse_data_file_name, parse_log_file_name
from pyhudi.format.instants import InstantTime
from pyhudi.format.markers import (
    Marker,
    MarkerKind,
    is_marker_list,
    marker_folder,
    parse_marker,
    parse_marker_list,
)
from pyhudi.format.partition_metadata import FILE_NAME as PARTITION_METADATA
from pyhudi.slices.file_listing import StorageListing
from pyhudi.storage.base import PassesTemporariesOver, Storage

DELETE_BATCH = 1_000
DELETE_THREADS = 8
READ_THREADS = 8


class MarkerGate(Protocol):
    """The place that takes a write's markers, if that is not the storage itself."""

    def seal(self, timeout_s: float) -> bool:
        """Take no more; whether no write of markers is under way after the time."""

    def drop(self) -> None:
        """Forget the instant."""


def marked_files(storage: Storage, instant: InstantTime) -> list[str] | None:
    """Data files (relative to the table) that ``instant`` has markers for, sorted.

    None if the instant has no marker folder, so that the caller must list instead; so too if its
    markers go while they are read, since an instant of another writer has settled. Both kinds
    that Hudi writes are read, also together: one empty file per marker, and the timeline
    server's lists. Hudi rewrites a list in place, so a crash can cut off names of existing files:
    if a list does not end as it should, the table is listed as well. A log of layout 1 may hold
    blocks of other writes too (``failed_logs.py``).
    """
    folder = marker_folder(instant)
    files = storage.walk(folder)
    if not files:
        return None
    found: set[Marker] = set()
    lists = []
    for file in files:
        relative = file.path[len(folder) + 1 :]
        if is_marker_list(relative):
            lists.append(file.path)
        elif (marker := parse_marker(relative)) is not None:
            found.add(marker)
    with ThreadPoolExecutor(READ_THREADS) as pool:
        try:
            contents = dict(zip(lists, pool.map(storage.read, lists), strict=True))
        except FileNotFoundError:
            return None
    for path, data in contents.items():
        found.update(parse_marker_list(data, path))
    paths = {
        marker.data_path
        for marker in found
        if belongs_to(marker.data_path, instant) or _is_appended(marker)
    }
    if not all(data.endswith(b"\n") for data in contents.values()):
        paths.update(listed_files(storage, instant))
    return sorted(paths)


def _is_appended(marker: Marker) -> bool:
    # Old writers named the base file of the slice.
    name = marker.data_path.rsplit("/", 1)[-1]
    return marker.kind is MarkerKind.APPEND and parse_log_file_name(name) is not None


def belongs_to(path: str, instant: InstantTime) -> bool:
    """Whether a data file's own name says that ``instant`` wrote it.

    Of a log file in layout 1 it says that ``instant`` began its slice (spec/markers.md M6).
    """
    name = parse_data_file_name(path.rsplit("/", 1)[-1])
    return name is not None and name.instant == instant


def files_of(storage: Storage, instant: InstantTime) -> list[str]:
    """Data files of an instant by its markers, or by a full listing if it has none."""
    marked = marked_files(storage, instant)
    return listed_files(storage, instant) if marked is None else marked


def listed_files(storage: Storage, instant: InstantTime) -> list[str]:
    """Data files of an instant by their names, from a listing of the whole table."""
    files = StorageListing(storage).files()
    return sorted(file.path for file in files if belongs_to(file.path, instant))


def delete_markers(storage: Storage, instant: InstantTime) -> None:
    """Remove the marker folder of an instant that has settled."""
    storage.delete_folder(marker_folder(instant))


def delete_files(
    storage: Storage, paths: Iterable[str], progress: Callable[[], None] | None = None
) -> None:
    """Delete data files in parallel batches; files already gone are no error.

    A killed task may have left the metadata of a new partition under a temporary name
    (``rows/base_file.py``): that is deleted too.

    ``progress`` is called after each batch, so that the caller can renew its lease.
    """
    todo = list(paths)
    if isinstance(storage, PassesTemporariesOver):
        todo += sorted({own for path in todo if (own := _own_metadata(path))})
    batches = [todo[i : i + DELETE_BATCH] for i in range(0, len(todo), DELETE_BATCH)]
    with ThreadPoolExecutor(min(DELETE_THREADS, len(batches) or 1)) as pool:
        for _ in pool.map(storage.delete, batches):
            if progress is not None:
                progress()


def _own_metadata(path: str) -> str | None:
    """Where the task that wrote a data file first put the metadata of the partition."""
    folder, slash, name = path.rpartition("/")
    parsed = parse_data_file_name(name)
    token = parsed.write_token if parsed else None
    return f"{folder}{slash}{PARTITION_METADATA}_{token}" if token else None
