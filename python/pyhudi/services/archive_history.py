"""Puts files into layout 2's archive: the Parquet file, then a manifest, then ``_version_``.

Invariant: the table's lock is held. What dies in between leaves files that no manifest names, or a
manifest above the newest one; neither counts, and the next archive puts them anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyhudi.errors import WriteFailed
from pyhudi.format.archive import VERSION_FILE
from pyhudi.format.history_files import (
    HistoryRow,
    history_file_name,
    render_history_file,
    render_manifest,
)
from pyhudi.timeline.archived import history_version
from pyhudi.transactions.writer import Writer


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


def put_manifest(writer: Writer, number: int, files: Mapping[str, int]) -> None:
    """Make ``files`` the archive, as manifest ``number``."""
    storage, folder = writer.table.storage, writer.table.config.history_folder
    for name, data in (
        (f"manifest_{number}", render_manifest(files)),
        (VERSION_FILE, str(number).encode()),
    ):
        writer.lock.check(storage.put_timeout_s)
        storage.replace(f"{folder}/{name}", data)
