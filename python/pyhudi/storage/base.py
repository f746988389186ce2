"""The storage contract: reads and writes bytes below one table's root.

Paths are relative to the root and separated by ``/``, never absolute and never with ``..``, so that
names from outside cannot leave the table. Every implementation passes ``tests/contracts``.
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


# Named here because in the classes below ``list`` is a method.
Files: TypeAlias = list[StoredFile]
Folders: TypeAlias = list[str]
Known: TypeAlias = Mapping[str, StoredFile]
NOTHING_KNOWN: Known = {}


class Storage(Protocol):
    """What the driver needs of a file system or object store.

    Errors: ``StorageError`` with ``path``; ``FileNotFoundError`` if a file is absent;
    ``FileExists`` from ``put_if_absent``. After an error of a put its outcome is unknown, unless
    the error is a ``StorageError`` with ``had_no_effect``. An implementation sets that if it knows
    that the put did not happen and never will (docs/decisions/typed_failures.md).
    """

    @property
    def root(self) -> str:
        """The table's base path as a URI or absolute path, without a trailing slash."""

    @property
    def put_timeout_s(self) -> float:
        """Seconds after which a put is given up: it has no effect later than that.

        This is also the limit for the deletion of a single file, such as a lock file.
        """

    def list(self, folder: str, known: Known = NOTHING_KNOWN) -> Files:
        """Files directly in ``folder``, sorted by path; empty if the folder is absent.

        ``known`` are files, by path, that the caller knows never to change. A storage may return
        such a file from there, if asking for it again costs more.
        """

    def list_folders(self, folder: str) -> Folders:
        """Relative paths of the folders directly in ``folder``, sorted; empty if it is absent."""

    def walk(self, folder: str) -> Files:
        """Files at any depth below ``folder``, sorted by path; empty if it is absent."""

    def exists(self, path: str) -> bool:
        """Whether a file of this name exists."""

    def read(self, path: str) -> bytes:
        """The whole file."""

    def put_if_absent(self, path: str, data: bytes) -> None:
        """Create the file whole or not at all; raise ``FileExists`` if the name is taken."""

    def replace(self, path: str, data: bytes) -> None:
        """Create or replace the file: a reader sees either the old or the new bytes."""

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; an absent file is no error."""

    def delete_folder(self, folder: str) -> None:
        """Delete a folder with everything below it; an absent folder is no error."""

    def make_folder(self, folder: str) -> None:
        """Make a folder for other programs, which list it; a folder that is there is no error.

        An object store, which has no folders, keeps a marker that is no file of any listing.
        """

    def delete_empty_folders(self, folder: str) -> None:
        """Delete a folder and the folders below it, and their markers, unless they hold a file."""


@dataclass(frozen=True, slots=True)
class FileVersion:
    """A file as it was read; ``tag`` names this version. ``now_ms`` and ``modified_ms`` are by the
    storage's clock: when it answered, and when the file was written."""

    data: bytes
    tag: str
    now_ms: int
    modified_ms: int


@runtime_checkable
class VersionedStorage(Storage, Protocol):
    """A storage that can replace a file only if the file still has a given version."""

    def read_version(self, path: str) -> FileVersion:
        """The whole file, and the tag of its version."""

    def swap(self, path: str, data: bytes, tag: str) -> None:
        """Replace the file if its version is ``tag``; otherwise ``FileExists``."""


@runtime_checkable
class PassesTemporariesOver(Storage, Protocol):
    """A storage that writes to temporary names first; a killed process leaves such a file."""

    def passed_over(self) -> Files:
        """The temporary files of any process that listings since the last call left out."""


def checked(path: str) -> str:
    """``path`` without one ``/`` at its end, if it stays below the root.

    ``StorageError`` for all other paths, also for other spellings of a good path, such as ``a//b``
    or ``a/./b``: to an object store they are different files.
    """
    inside = path.removesuffix("/")
    parts = inside.split("/")
    strange = inside and any(part in ("", ".", "..") for part in parts)
    if path.startswith("/") or strange or "\\" in path or "\0" in path:
        raise StorageError(
            f"'{path}' is not a path inside the table.", path=path, had_no_effect=True
        )
    return inside
