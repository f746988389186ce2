"""A table in a dict: the storage of unit tests and of the simulation.

Each call is atomic. As on an object store, a folder exists only while it holds a file.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable

from pyhudi.clock import Clock, SystemClock
from pyhudi.errors import FileExists
from pyhudi.storage.base import (
    NOTHING_KNOWN,
    Files,
    FileVersion,
    Folders,
    Known,
    StoredFile,
    checked,
)
from pyhudi.storage.names import is_listed


class MemoryStorage:
    """Files of one table in this process's memory; ``clock`` gives modification times."""

    put_timeout_s = 1.0

    def __init__(self, root: str = "memory:/table", clock: Clock | None = None) -> None:
        self._root = root
        self._clock = clock or SystemClock()
        self._files: dict[str, tuple[bytes, int]] = {}
        self._guard = threading.Lock()

    @property
    def root(self) -> str:
        return self._root

    def __repr__(self) -> str:
        return f"MemoryStorage({self._root!r})"

    def list(self, folder: str, known: Known = NOTHING_KNOWN) -> Files:
        prefix = _prefix(folder)
        return [file for file in self.walk(folder) if "/" not in file.path[len(prefix) :]]

    def list_folders(self, folder: str) -> Folders:
        prefix = _prefix(folder)
        with self._guard:
            below = [p[len(prefix) :] for p in self._files if p.startswith(prefix)]
        return sorted({prefix + rest.split("/", 1)[0] for rest in below if "/" in rest})

    def walk(self, folder: str) -> Files:
        prefix = _prefix(folder)
        with self._guard:
            found = [
                StoredFile(path, len(data), modified_ms)
                for path, (data, modified_ms) in self._files.items()
                if path.startswith(prefix)
            ]
        return sorted((f for f in found if is_listed(f.name)), key=lambda f: f.path)

    def exists(self, path: str) -> bool:
        name = checked(path)
        with self._guard:
            return name in self._files

    def read(self, path: str) -> bytes:
        name = checked(path)
        with self._guard:
            if name not in self._files:
                raise FileNotFoundError(f"{self._root}/{name}")
            return self._files[name][0]

    def put_if_absent(self, path: str, data: bytes) -> None:
        name, now = checked(path), self._clock.now_ms()
        with self._guard:
            if name in self._files:
                raise FileExists(f"'{self._root}/{name}' exists already.", path=name)
            self._files[name] = (bytes(data), now)

    def replace(self, path: str, data: bytes) -> None:
        name, now = checked(path), self._clock.now_ms()
        with self._guard:
            self._files[name] = (bytes(data), now)

    def read_version(self, path: str) -> FileVersion:
        name = checked(path)
        with self._guard:
            if name not in self._files:
                raise FileNotFoundError(f"{self._root}/{name}")
            data, modified_ms = self._files[name]
        return FileVersion(data, _tag(data, modified_ms), self._clock.now_ms(), modified_ms)

    def swap(self, path: str, data: bytes, tag: str) -> None:
        name, now = checked(path), self._clock.now_ms()
        with self._guard:
            if name not in self._files or _tag(*self._files[name]) != tag:
                raise FileExists(f"'{self._root}/{name}' has another version now.", path=name)
            self._files[name] = (bytes(data), now)

    def delete(self, paths: Iterable[str]) -> None:
        names = [checked(path) for path in paths]
        with self._guard:
            for name in names:
                self._files.pop(name, None)

    def delete_folder(self, folder: str) -> None:
        prefix = _prefix(folder)
        with self._guard:
            for path in [p for p in self._files if p.startswith(prefix)]:
                del self._files[path]

    def make_folder(self, folder: str) -> None:
        checked(folder)

    def delete_empty_folders(self, folder: str) -> None:
        checked(folder)


def _prefix(folder: str) -> str:
    inside = checked(folder)
    return f"{inside}/" if inside else ""


def _tag(data: bytes, modified_ms: int) -> str:
    return hashlib.sha256(data + str(modified_ms).encode()).hexdigest()
