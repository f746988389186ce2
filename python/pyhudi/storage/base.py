"""The storage contract: bytes in and out, below one table's root.

Paths are relative to the root, separated by ``/``, never absolute and never with ``..``: names
from outside cannot leave the table. Every implementation passes ``tests/contracts``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from pyhudi.errors import StorageError


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file of a listing; ``path`` is relative to the root, times are epoch milliseconds."""

    path: str
    size_bytes: int
    modified_ms: int

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]


# Named here because inside the classes below ``list`` is the method.
Files: TypeAlias = list[StoredFile]
Folders: TypeAlias = list[str]
Known: TypeAlias = Mapping[str, StoredFile]
NOTHING_KNOWN: Known = {}


class Storage(Protocol):
    """What the driver needs of a file system or object store.

    Errors: ``StorageError`` with ``path``; ``FileNotFoundError`` where a file is absent;
    ``FileExists`` from ``put_if_absent``. What a put raises says that its outcome is unknown, but
    for a ``StorageError`` with ``had_no_effect``: an implementation sets it where it knows that the
    put never happened and never will (docs/decisions/typed_failures.md).
    """

    @property
    def root(self) -> str:
        """The table's base path as a URI or absolute path, without a trailing slash."""

    @property
    def put_timeout_s(self) -> float:
        """Seconds after which a put is given up: none has an effect later than that.

        The same holds for the deletion of a single file, such as a lock's.
        """

    def list(self, folder: str, known: Known = NOTHING_KNOWN) -> Files:
        """Files directly in ``folder``, sorted by path; empty where the folder is absent.

        ``known`` are files by path of which the caller knows that they never change: what is
        listed under such a name may be answered from there, where asking again costs more.
        """

    def list_folders(self, folder: str) -> Folders:
        """Relative paths of the folders directly in ``folder``, sorted; empty where absent."""

    def walk(self, folder: str) -> Files:
        """Files at any depth below ``folder``, sorted by path; empty where it is absent."""

    def exists(self, path: str) -> bool:
        """Whether a file of this name exists."""

    def read(self, path: str) -> bytes:
        """The whole file."""

    def put_if_absent(self, path: str, data: bytes) -> None:
        """Create the file whole or not at all; raise ``FileExists`` where the name is taken."""

    def replace(self, path: str, data: bytes) -> None:
        """Create the file or replace it whole: a reader sees the old or the new bytes."""

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; those already absent are no error."""

    def delete_folder(self, folder: str) -> None:
        """Delete a folder with all below it; absent is no error."""

    def delete_empty_folders(self, folder: str) -> None:
        """Delete a folder and those below it, as far as they hold no file.

        Nothing happens where a folder exists by its files alone, as on an object store.
        """


@dataclass(frozen=True, slots=True)
class FileVersion:
    """A file as read: ``tag`` names this version, ``now_ms`` and ``modified_ms`` are times of the
    storage's own clock, when it answered and when it took the file."""

    data: bytes
    tag: str
    now_ms: int
    modified_ms: int


@runtime_checkable
class VersionedStorage(Storage, Protocol):
    """A storage that replaces a file only where it still is a certain version of it."""

    def read_version(self, path: str) -> FileVersion:
        """The whole file, and what names this version of it."""

    def swap(self, path: str, data: bytes, tag: str) -> None:
        """Replace the version ``tag`` of the file; ``FileExists`` where it is no longer there."""


@runtime_checkable
class PassesTemporariesOver(Storage, Protocol):
    """A storage that gives files their names late; a process that is killed leaves such a file."""

    def passed_over(self) -> Files:
        """Temporary files, anybody's, that the listings since the last call left out."""


def checked(path: str) -> str:
    """``path`` itself, less one ``/`` at its end, if it stays below the root.

    ``StorageError`` for all else, also for a second spelling of a good path such as ``a//b`` or
    ``a/./b``: an object store would keep it as another file.
    """
    inside = path.removesuffix("/")
    parts = inside.split("/")
    strange = inside and any(part in ("", ".", "..") for part in parts)
    if path.startswith("/") or strange or "\\" in path or "\0" in path:
        raise StorageError(
            f"'{path}' is not a path inside the table.", path=path, had_no_effect=True
        )
    return inside
