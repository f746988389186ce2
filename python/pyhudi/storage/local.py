"""A table on a local (or locally mounted) disk, safe against crashes and power loss.

Invariant: no file is ever visible with only a part of its bytes. A file is written and synced under
a hidden temporary name in its own folder. Then it gets its real name, by ``link(2)``, which fails
if the name is taken, or by ``rename(2)``, which replaces a file. Then the folder is synced.
Hadoop's checksum file is deleted first: otherwise Hudi would refuse the new bytes
(spec/other_files.md O3).
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Iterator

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
from pyhudi.storage.names import MOST_PASSED, TEMPORARY_PREFIX, crc_neighbour, is_listed

_ABSENT = (errno.ENOENT, errno.ENOTDIR)
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
#: the errno values after which link(2) or rename(2) did nothing; after others nobody knows
_REFUSED = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EISDIR),
    *(errno.ENAMETOOLONG, errno.ELOOP, errno.EXDEV, errno.EEXIST, errno.ENOTEMPTY, errno.EBUSY),
    *(errno.ENOSPC, errno.EDQUOT, errno.EMLINK, errno.ENOMEM, errno.EINVAL),
)
_FULL = (errno.ENOSPC, errno.EDQUOT)
_FOLDER_ATTEMPTS = 5  # another process may delete an empty folder between our mkdir and our open


class LocalStorage:
    """Files below ``root``, an absolute path of this machine; ``clock`` gives unique names."""

    put_timeout_s = 2.0  # nominal: a local call cannot be given up

    def __init__(self, root: str, clock: Clock | None = None) -> None:
        if not root.startswith("/"):
            raise StorageError(f"The root '{root}' is not an absolute path.", path=root)
        self._root = root.rstrip("/") or "/"
        self._base = self._root if self._root.endswith("/") else self._root + "/"
        self._clock = clock or SystemClock()
        self._passed: dict[str, StoredFile] = {}

    @property
    def root(self) -> str:
        return self._root

    def __repr__(self) -> str:
        return f"LocalStorage({self._root!r})"

    def list(self, folder: str, known: Known = NOTHING_KNOWN) -> Files:
        inside = checked(folder)
        found = []
        for entry in self._scan(inside):
            # Names are read in bulk; size and time of each file cost a system call.
            file = known.get(_join(inside, entry.name)) or _stored(inside, entry)
            if file is not None:
                found.append(file)
            else:
                self._pass_over(inside, entry)
        return sorted(found, key=_path)

    def passed_over(self) -> Files:
        passed, self._passed = self._passed, {}
        return sorted(passed.values(), key=_path)

    def list_folders(self, folder: str) -> Folders:
        inside = checked(folder)
        return sorted(_join(inside, e.name) for e in self._scan(inside) if e.is_dir())

    def walk(self, folder: str) -> Files:
        found: list[StoredFile] = []
        waiting = [checked(folder)]
        while waiting:
            inside = waiting.pop()
            for entry in self._scan(inside):
                if entry.is_dir():
                    waiting.append(_join(inside, entry.name))
                elif file := _stored(inside, entry):
                    found.append(file)
                else:
                    self._pass_over(inside, entry)
        return sorted(found, key=lambda file: file.path)

    def exists(self, path: str) -> bool:
        return os.path.isfile(self._full(path))

    def read(self, path: str) -> bytes:
        full = self._full(path)
        try:
            with open(full, "rb") as file:
                return file.read()
        except OSError as error:
            if error.errno in _ABSENT:
                raise FileNotFoundError(full) from error
            raise _failed("read", full, error) from error

    def put_if_absent(self, path: str, data: bytes) -> None:
        full = self._full(path)
        # Hadoop creates a checksum after its file and deletes it before its file. So a checksum
        # that exists before the file is found missing is left over. A later one may belong to a
        # file that another program is creating: if we deleted it, Hudi's lock provider would leave
        # its lock behind.
        checksum = crc_neighbour_path(full)
        left_over = os.path.lexists(checksum)
        if os.path.lexists(full):
            raise FileExists(f"'{full}' exists already.", path=path)
        if left_over:
            _remove_checksum(checksum, "create", full)
        temporary = self._write_temporary(full, data)
        try:
            _link(temporary, full, path)
        finally:
            _remove_quietly(temporary)
        _sync_named(full)

    def replace(self, path: str, data: bytes) -> None:
        full = self._full(path)
        temporary = self._write_temporary(full, data)
        try:
            # The checksum goes first: readers accept old bytes without a checksum, but not new
            # bytes with the old one.
            _remove_checksum(crc_neighbour_path(full), "replace", full)
            os.rename(temporary, full)
        except BaseException as error:
            _remove_quietly(temporary)
            if isinstance(error, OSError):
                raise _unnamed("replace", full, error) from error
            raise
        _sync_named(full)

    def delete(self, paths: Iterable[str]) -> None:
        folders: set[str] = set()
        for path in paths:
            full = self._full(path)
            try:
                _remove(crc_neighbour_path(full))
                _remove(full)
            except OSError as error:
                raise _failed("delete", full, error) from error
            folders.add(os.path.dirname(full))
        for folder in sorted(folders):
            _sync_folder(folder)

    def delete_folder(self, folder: str) -> None:
        full = self._base + checked(folder)
        for _ in range(_FOLDER_ATTEMPTS):
            try:
                shutil.rmtree(full)
            except FileNotFoundError:
                # The folder is gone, or another process deletes in it at the same time.
                if not os.path.lexists(full):
                    return
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:  # a late file arrived while we deleted
                    raise _failed("delete", full, error) from error
            else:
                _sync_folder(os.path.dirname(full.rstrip("/")))
                return
        raise StorageError(
            f"New files appear in '{full}' while it is deleted. Stop what writes there.", path=full
        )

    def _pass_over(self, inside: str, entry: os.DirEntry[str]) -> None:
        if not entry.name.startswith(TEMPORARY_PREFIX) or len(self._passed) >= MOST_PASSED:
            return
        if file := _facts(inside, entry):
            self._passed[file.path] = file

    def make_folder(self, folder: str) -> None:
        full = self._base + checked(folder)
        try:
            _make_folders(full.rstrip("/"))
        except OSError as error:
            raise _failed("make", full, error) from error

    def delete_empty_folders(self, folder: str) -> None:
        full = self._base + checked(folder)
        for path, _, _ in os.walk(full.rstrip("/"), topdown=False):
            try:
                os.rmdir(path)
            except OSError as error:
                if error.errno not in (*_ABSENT, errno.ENOTEMPTY, errno.EEXIST):
                    raise _failed("delete", path, error) from error

    def _full(self, path: str) -> str:
        inside = checked(path)
        if not inside:
            raise StorageError("An empty path names no file.", path=path, had_no_effect=True)
        return self._base + inside

    def _scan(self, inside: str) -> Iterator[os.DirEntry[str]]:
        full = self._base + inside
        try:
            with os.scandir(full) as entries:
                yield from entries
        except OSError as error:
            if error.errno not in _ABSENT:
                raise _failed("list", full, error) from error

    def _write_temporary(self, full: str, data: bytes) -> str:
        """Write and sync ``data`` under a unique name in the folder of ``full``."""
        folder = os.path.dirname(full)
        temporary = f"{folder}/{TEMPORARY_PREFIX}{self._clock.uuid()}"
        try:
            descriptor = _open_new(temporary, folder)
            try:
                _write_all(descriptor, data)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except BaseException as error:
            _remove_quietly(temporary)
            if isinstance(error, OSError):
                raise _failed("create", full, error, had_no_effect=True) from error
            if isinstance(error, StorageError):  # the folder's error: the name is still untouched
                error.had_no_effect = True
            raise
        return temporary


def crc_neighbour_path(full: str) -> str:
    """The absolute path of Hadoop's checksum file for the file ``full``."""
    folder, name = os.path.split(full)
    return f"{folder}/{crc_neighbour(name)}"


def _path(file: StoredFile) -> str:
    return file.path


def _join(inside: str, name: str) -> str:
    return f"{inside}/{name}" if inside else name


def _stored(inside: str, entry: os.DirEntry[str]) -> StoredFile | None:
    return _facts(inside, entry) if is_listed(entry.name) else None


def _facts(inside: str, entry: os.DirEntry[str]) -> StoredFile | None:
    try:
        if not entry.is_file():
            return None
        facts = entry.stat()
    except FileNotFoundError:  # deleted since the folder was opened
        return None
    return StoredFile(_join(inside, entry.name), facts.st_size, facts.st_mtime_ns // 1_000_000)


def _open_new(temporary: str, folder: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    for _ in range(_FOLDER_ATTEMPTS):
        try:
            return os.open(temporary, flags, 0o666)
        except FileNotFoundError:
            _make_folders(folder)
    raise FileNotFoundError(errno.ENOENT, "the folder is deleted again and again", folder)


def _make_folders(folder: str) -> None:
    """Make ``folder`` and its parents; each is synced, so that it survives a power cut."""
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for new in reversed(missing):
        try:
            os.mkdir(new)
        except FileExistsError:
            if not os.path.isdir(new):
                raise
        _sync_folder(os.path.dirname(new))


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _link(temporary: str, full: str, path: str) -> None:
    try:
        os.link(temporary, full, follow_symlinks=False)
    except FileExistsError as error:
        # NFS repeats a request if its reply was lost: two names of our file mean that we won.
        if _links(temporary, full) < 2:
            raise FileExists(f"'{full}' exists already.", path=path) from error
    except OSError as error:
        if error.errno in _NO_LINKS:
            raise StorageError(
                f"The file system of '{full}' has no hard links. Without them two writers could "
                "both create one file. Keep the table on another disk.",
                path=path,
                had_no_effect=True,
            ) from error
        raise _unnamed("create", full, error) from error


def _links(temporary: str, full: str) -> int:
    try:
        return os.stat(temporary).st_nlink
    except OSError as error:
        raise _unclear("create", full, error) from error


def _unnamed(verb: str, full: str, error: OSError) -> StorageError:
    """The error of a link or rename: a known failure only if the errno proves it."""
    if error.errno in _REFUSED:
        return _failed(verb, full, error, had_no_effect=True)
    return _unclear(verb, full, error)


def _unclear(verb: str, full: str, error: OSError) -> StorageError:
    done = {"create": "created", "replace": "replaced"}[verb]
    return StorageError(f"'{full}' may or may not have been {done}: {_reason(error)}.", path=full)


def _sync_named(full: str) -> None:
    """Make a finished name durable; an error here comes after the effect."""
    try:
        _sync_folder(os.path.dirname(full))
    except StorageError as error:
        raise StorageError(
            f"'{full}' was written, but it may not survive a power cut.",
            path=full,
        ) from error


def _sync_folder(folder: str) -> None:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _ABSENT:
            return
        raise _failed("sync", folder, error) from error
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # EINVAL: this file system cannot sync folders
            raise _failed("sync", folder, error) from error
    finally:
        os.close(descriptor)


def _remove(full: str) -> None:
    try:
        os.unlink(full)
    except OSError as error:
        if error.errno not in _ABSENT:
            raise


def _remove_checksum(checksum: str, verb: str, full: str) -> None:
    """Remove the checksum of ``full`` before its new bytes get that name."""
    try:
        _remove(checksum)
    except OSError as error:
        raise _failed(verb, full, error, had_no_effect=True) from error


def _remove_quietly(full: str) -> None:
    """Delete a temporary file; errors are ignored, as the caller reports its own outcome."""
    try:
        os.unlink(full)
    except OSError:
        return


def _failed(verb: str, full: str, error: OSError, had_no_effect: bool = False) -> StorageError:
    advice = " Make room on this disk, then run it again." if error.errno in _FULL else ""
    why = f"Cannot {verb} '{full}': {_reason(error)}.{advice}"
    return StorageError(why, path=full, had_no_effect=had_no_effect)


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)
