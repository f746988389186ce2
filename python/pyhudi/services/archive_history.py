"""Puts files into layout 2's archive: the Parquet file, then a manifest, then ``_version_``.

Invariant: the table's lock is held. What dies in between leaves files that no manifest names, or a
manifest above the newest one. A program that stood still until its lock was another's may set
``_version_`` back. So readers take the files of all manifests above it too, and the next archive
adopts them: instants that are in two files, or also on the timeline, do no harm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyhudi.errors import FileExists, WriteFailed
from pyhudi.format.archive import (
    VERSION_FILE,
    history_file_level,
    history_file_range,
    manifest_number,
    parse_manifest,
)
from pyhudi.format.history_files import (
    HistoryRow,
    history_file_name,
    merge_history_files,
    render_history_file,
    render_manifest,
)
from pyhudi.timeline.archived import history_version, whole_history
from pyhudi.transactions.writer import Writer

#: so many files of a level become one of the next level, as in Apache Hudi
BATCH = 10
#: larger files are not merged: they are read as a whole
MERGED_BYTES = 100_000_000
#: manifests that stay with their files, for readers that began with an older one
MANIFESTS = 3


def add_to_history(writer: Writer, rows: Sequence[HistoryRow]) -> None:
    """Put ``rows``, none of which is archived yet, as a file of level 0.

    ``WriterFenced`` if the lock is lost, ``WriteFailed`` if the archive then lacks the file.
    """
    storage, folder = writer.table.storage, writer.table.config.history_folder
    number, files = history_version(storage, folder)
    times = [row.instant.time for row in rows]
    name, data = history_file_name(min(times), max(times), 0), render_history_file(rows)
    writer.lock.check(storage.put_timeout_s)
    storage.replace(f"{folder}/{name}", data)
    put_manifest(writer, number + 1, {**files, name: len(data)})
    if name not in history_version(storage, folder)[1]:
        raise WriteFailed(
            f"The archive of {storage.root} does not name {name}, which was just put there. "
            "Nothing was deleted. Does a program write to it that does not take the table's lock?",
            path=f"{folder}/{name}",
        )


def adopt_later_manifests(writer: Writer) -> None:
    """Make one archive of the newest manifest and of those above it, if there are any."""
    storage, folder = writer.table.storage, writer.table.config.history_folder
    greatest, files = whole_history(storage, folder)
    if greatest > history_version(storage, folder)[0]:
        put_manifest(writer, greatest + 1, files)


def put_manifest(writer: Writer, number: int, files: Mapping[str, int]) -> None:
    """Make ``files`` the archive, as manifest ``number``.

    ``WriterFenced`` if the lock is lost, ``WriteFailed`` if another program put this manifest.
    """
    storage, folder = writer.table.storage, writer.table.config.history_folder
    writer.lock.check(storage.put_timeout_s)
    path = f"{folder}/manifest_{number}"
    try:
        storage.put_if_absent(path, render_manifest(files))
    except FileExists as e:
        raise WriteFailed(
            f"Another program has put {path} of {storage.root} meanwhile. Nothing was deleted, and "
            "the next archive goes on. Does a program archive that does not take the table's lock?",
            path=path,
        ) from e
    writer.lock.check(storage.put_timeout_s)
    storage.replace(f"{folder}/{VERSION_FILE}", str(number).encode())


def merge_levels(writer: Writer) -> None:
    """Merge the oldest files of each level that has many, and delete what no kept manifest names.

    Without it each archive would leave one more file, of which readers of old commits read all.
    """
    storage, folder = writer.table.storage, writer.table.config.history_folder
    number, files = history_version(storage, folder)
    level = 0
    while chosen := _to_merge(files, level):
        data = merge_history_files(storage.read(f"{folder}/{name}") for name in chosen)
        spans = [span for name in chosen if (span := history_file_range(name)) is not None]
        level += 1
        name = history_file_name(min(s[0] for s in spans), max(s[1] for s in spans), level)
        writer.lock.check(storage.put_timeout_s)
        storage.replace(f"{folder}/{name}", data)
        files = {n: size for n, size in files.items() if n not in chosen} | {name: len(data)}
        number += 1
        put_manifest(writer, number, files)
    if level:
        _forget_manifests(writer, number - MANIFESTS - level)


def _to_merge(files: Mapping[str, int], level: int) -> list[str]:
    """The oldest files of a level, if there are enough of them."""
    here = sorted(name for name in files if history_file_level(name) == level)
    chosen = here[:BATCH]
    if len(chosen) < BATCH or sum(files[name] for name in chosen) > MERGED_BYTES:
        return []
    return chosen


def _forget_manifests(writer: Writer, last: int) -> None:
    """Delete the manifests up to ``last``, and the files that they alone name."""
    storage, folder = writer.table.storage, writer.table.config.history_folder
    named: dict[int, list[str]] = {}
    for file in storage.list(folder):
        if (number := manifest_number(file.name)) is not None:
            named[number] = parse_manifest(storage.read(file.path), file.path)
    kept = {name for number, names in named.items() if number > last for name in names}
    gone = {name for number, names in named.items() if number <= last for name in names}
    writer.lock.check(storage.put_timeout_s)
    storage.delete([f"{folder}/manifest_{number}" for number in named if number <= last])
    storage.delete([f"{folder}/{name}" for name in sorted(gone - kept)])
