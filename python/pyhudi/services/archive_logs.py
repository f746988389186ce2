"""Puts instants into layout 1's archive: a block of its newest log file, or of a new one.

Invariant: the table's lock is held, and a log file is replaced as a whole. So what dies in between
leaves the archive as it was, or with the block.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyhudi.errors import WriteFailed
from pyhudi.format.archive import archive_log_number
from pyhudi.format.archive_records import ArchivedFile, archive_log_name, render_archive_block
from pyhudi.transactions.writer import Writer

#: a log file gets no more blocks than fit into so many bytes; Apache Hudi begins one each time
LOG_BYTES = 1_000_000


def add_to_logs(writer: Writer, files: Sequence[ArchivedFile]) -> None:
    """Put the records of ``files``, ascending by instant and state.

    ``TableCorrupt`` if one cannot be read, ``WriterFenced`` if the lock is lost, ``WriteFailed`` if
    the archive then lacks them.
    """
    storage, folder = writer.table.storage, writer.table.config.history_folder
    block = render_archive_block(files)
    logs = {archive_log_number(file.name) or 0: file for file in storage.list(folder)}
    number = max(logs, default=0)
    before = b""
    if number and logs[number].size_bytes + len(block) <= LOG_BYTES:
        path = logs[number].path
        before = storage.read(path)
    else:
        path = f"{folder}/{archive_log_name(number + 1)}"
    writer.lock.check(storage.put_timeout_s)
    storage.replace(path, before + block)
    if not storage.read(path).endswith(block):
        raise WriteFailed(
            f"The archive of {storage.root} does not have what was just put into {path}. Nothing "
            "was deleted. Does a program write to it that does not take the table's lock?",
            path=path,
        )
