"""Lists the data files of a table; today from its storage.

A ``FileListing`` gives all files; the timeline decides which of them count (``timeline/view.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from pyhudi.storage.base import Storage, StoredFile

LISTING_THREADS = 16
META_FOLDER = ".hoodie"


class FileListing(Protocol):
    """Lists the files of a table."""

    def files(self) -> Iterator[StoredFile]:
        """Every file outside the folder ``.hoodie``, in no order; paths are relative to the table.

        Not all of them are data files. ``StorageError`` if the listing fails.
        """


@dataclass(frozen=True, slots=True)
class StorageListing:
    """The table's folders as they are now, with the files of failed writes.

    A rollback always uses this one, even if readers use another.
    """

    storage: Storage

    def files(self) -> Iterator[StoredFile]:
        """Lists the root, and walks the folders in it, 16 at a time."""
        yield from self.storage.list("")
        found = self.storage.list_folders("")
        folders = [f for f in found if f.rsplit("/", 1)[-1] != META_FOLDER]
        if not folders:
            return
        with ThreadPoolExecutor(min(LISTING_THREADS, len(folders))) as pool:
            for files in pool.map(self.storage.walk, folders):
                yield from files
