"""Puts instants into layout 1's archive: a log file for each archive, as Apache Hudi does.

Invariant: the table's lock is held, and no log is put where one is. So a program that stood still
until its lock was another's takes nothing out of the archive.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyhudi.errors import FileExists, WriteFailed
from pyhudi.format.archive import archive_log_number
from pyhudi.format.archive_records import ArchivedFile, archive_log_name, render_archive_block
from pyhudi.transactions.writer import Writer


def add_to_logs(writer: Writer, files: Sequence[ArchivedFile]) -> None:
    """Put the records of ``files``, ascending by instant and state.

    ``TableCorrupt`` if one cannot be read, ``WriterFenced`` if the lock is lost, ``WriteFailed`` if
    another program has put a log meanwhile.
    """
    storage, folder = writer.table.storage, writer.table.config.history_folder
    block = render_archive_block(files)
    numbers = (archive_log_number(file.name) or 0 for file in storage.list(folder))
    path = f"{folder}/{archive_log_name(max(numbers, default=0) + 1)}"
    writer.lock.check(storage.put_timeout_s)
    try:
        storage.put_if_absent(path, block)
    except FileExists as e:
        raise WriteFailed(
            f"Another program has put {path} of {storage.root} meanwhile. Nothing was deleted, and "
            "the next archive goes on. Does a program archive that does not take the table's lock?",
            path=path,
        ) from e
