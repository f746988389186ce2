"""Where the data files of a table are known from: its storage today.

A ``FileListing`` tells what is there; which of it counts is the timeline's to say
(``timeline/view.py``).
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
    """What tells the files of a table."""

    def files(self) -> Iterator[StoredFile]:
        """Every file outside the folder ``.hoodie``, in no order; paths begin at the table.

        Others than data files may be among them. ``StorageError`` where it cannot be told.
        """


@dataclass(frozen=True, slots=True)
class StorageListing:
    """The table's folders as they are now: the files of failed writes are there as well.

    So a rollback lists by this one, whatever else readers have.
    """

    storage: Storage

    def files(self) -> Iterator[StoredFile]:
        """Lists the root, and walks each folder in it, 16 at a time."""
        yield from self.storage.list("")
        found = self.storage.list_folders("")
        folders = [f for f in found if f.rsplit("/", 1)[-1] != META_FOLDER]
        if not folders:
            return
        with ThreadPoolExecutor(min(LISTING_THREADS, len(folders))) as pool:
            for files in pool.map(self.storage.walk, folders):
                yield from files
