"""A table on a file system that Hadoop's client reaches: HDFS, viewfs, ABFS and similar.

The JVM does the work, one call for each call here; this module gets the JVM's side as an object and
does not import py4j. A put writes a temporary file and renames it; the rename refuses a taken name.
So no file is ever visible with only a part of its bytes. This needs atomic renames: object stores
that only imitate them are refused by name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeVar

from pyhudi.clock import Clock, SystemClock
from pyhudi.errors import FileExists, StorageError
from pyhudi.storage.base import (
    NOTHING_KNOWN,
    Files,
    Folders,
    Known,
    StoredFile,
    checked,
)
from pyhudi.storage.names import MOST_PASSED, TEMPORARY_PREFIX, is_listed

#: there a rename copies and deletes, so two writers may both believe that they were first
NO_ATOMIC_RENAME: Final = frozenset({"gs", "oss", "cos", "cosn", "obs", "swift", "wasb", "wasbs"})

_CHANGES: Final = frozenset({"create", "replace", "delete"})

_Result = TypeVar("_Result")


class Refused(OSError):
    """Hadoop's client did not do what was asked, and never will."""


class HadoopFiles(Protocol):
    """The shim's ``HadoopFiles``: one table's folder, paths relative to it, lists as JSON.

    Errors: ``FileNotFoundError``, ``FileExistsError`` (the name to create is taken) and
    ``Refused`` (the request did not happen, and never will). After any other error of a put its
    outcome is unknown.
    """

    def authority(self) -> str:
        """The cluster's name, usually host and port, even if the path does not name it."""

    def list(self, folder: str, deep: bool) -> str:
        """``[[path, bytes, epoch milliseconds], ...]`` of the files in a folder, or below it."""

    def folders(self, folder: str) -> str:
        """The paths of the folders directly in ``folder``."""

    def exists(self, path: str) -> bool:
        """Whether a file of this name exists."""

    def read(self, path: str) -> bytes:
        """The whole file."""

    def create(self, path: str, temporary: str, data: bytes) -> None:
        """Make the file, whole or not at all: write ``temporary``, then rename it."""

    def replace(self, path: str, temporary: str, data: bytes) -> None:
        """Make or replace the file: write ``temporary``, then rename it."""

    def delete(self, paths: str) -> None:
        """Delete the files of a JSON list."""

    def delete_folder(self, folder: str) -> None:
        """Delete a folder with everything below it."""

    def delete_empty_folders(self, folder: str) -> None:
        """Delete a folder and the folders below it, unless they hold a file."""


class HadoopStorage:
    """Files below ``root``, reached through the JVM; ``clock`` gives temporary names."""

    # Nominal: Hadoop's client repeats a request by its own rules and cannot be stopped.
    put_timeout_s = 15.0

    def __init__(self, root: str, files: HadoopFiles, clock: Clock | None = None) -> None:
        self._root = root.rstrip("/")
        self._files = files
        self._clock = clock or SystemClock()
        self._passed: dict[str, StoredFile] = {}

    @property
    def root(self) -> str:
        return self._root

    def __repr__(self) -> str:
        return f"HadoopStorage({self._root!r})"

    def list(self, folder: str, known: Known = NOTHING_KNOWN) -> Files:
        return self._listed(folder, deep=False)

    def list_folders(self, folder: str) -> Folders:
        inside = checked(folder)
        found = self._ask("list", inside, lambda: self._files.folders(inside))
        return sorted(json.loads(found))

    def walk(self, folder: str) -> Files:
        return self._listed(folder, deep=True)

    def exists(self, path: str) -> bool:
        name = _named(path)
        return bool(self._ask("look for", name, lambda: self._files.exists(name)))

    def read(self, path: str) -> bytes:
        name = _named(path)
        return bytes(self._ask("read", name, lambda: self._files.read(name)))

    def put_if_absent(self, path: str, data: bytes) -> None:
        name = _named(path)
        self._ask("create", name, lambda: self._files.create(name, self._beside(name), data))

    def replace(self, path: str, data: bytes) -> None:
        name = _named(path)
        self._ask("replace", name, lambda: self._files.replace(name, self._beside(name), data))

    def delete(self, paths: Iterable[str]) -> None:
        names = [_named(path) for path in paths]
        if names:
            self._ask("delete", names[0], lambda: self._files.delete(json.dumps(names)))

    def delete_folder(self, folder: str) -> None:
        inside = checked(folder)
        self._ask("delete", inside, lambda: self._files.delete_folder(inside))

    def make_folder(self, folder: str) -> None:
        place = f"{_named(folder)}/.folder"
        self.replace(place, b"")
        self.delete([place])

    def delete_empty_folders(self, folder: str) -> None:
        inside = checked(folder)
        self._ask("delete", inside, lambda: self._files.delete_empty_folders(inside))

    def _listed(self, folder: str, deep: bool) -> Files:
        inside = checked(folder)
        found = json.loads(self._ask("list", inside, lambda: self._files.list(inside, deep)))
        files = [StoredFile(path, size, modified_ms) for path, size, modified_ms in found]
        if len(self._passed) < MOST_PASSED:
            left = (file for file in files if file.name.startswith(TEMPORARY_PREFIX))
            self._passed.update((file.path, file) for file in left)
        return sorted((f for f in files if is_listed(f.name)), key=lambda file: file.path)

    def passed_over(self) -> Files:
        passed, self._passed = self._passed, {}
        return sorted(passed.values(), key=lambda file: file.path)

    def _beside(self, name: str) -> str:
        folder, slash, _ = name.rpartition("/")
        return f"{folder}{slash}{TEMPORARY_PREFIX}{self._clock.uuid()}"

    def _ask(self, verb: str, path: str, call: Callable[[], _Result]) -> _Result:
        where = f"{self._root}/{path}"
        try:
            return call()
        except FileExistsError as error:
            raise FileExists(f"'{where}' exists already.", path=path) from error
        except FileNotFoundError as error:
            if verb in _CHANGES:
                raise _failed(verb, where, error) from error
            raise
        except Refused as error:
            raise _failed(verb, where, error) from error
        except OSError as error:
            if verb not in _CHANGES:
                raise _failed(verb, where, error) from error
            raise StorageError(
                f"The request to {verb} '{where}' got no answer ({error}): it may have landed. "
                "Look before you repeat it.",
                path=where,
            ) from error


def _failed(verb: str, where: str, error: OSError) -> StorageError:
    return StorageError(f"Cannot {verb} '{where}': {error}.", path=where, had_no_effect=True)


def _named(path: str) -> str:
    inside = checked(path)
    if not inside:
        raise StorageError("An empty path names no file.", path=path, had_no_effect=True)
    return inside
