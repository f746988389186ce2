"""Files by which Python hands a long answer to the JVM: plans of scans, rows of log files.

Invariant: no file outlives its use. The shim deletes a file when it has read it. A file that the
answer does not name goes with its question: the answer was an error, the plan was made again, or
the statement was cancelled. What the JVM has not read within ``UNREAD_S`` goes with a later file.
The rest goes with its process, or after a kill with the next process of the same user that makes a
file.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa

from pyhudi.clock import Clock, SystemClock
from pyhudi.errors import StorageError
from pyhudi.transactions.processes import LINUX, Processes, parse_process

#: how the folder of a process is named, and the file in it that says whose it is
FOLDER: Final = "pyhudi-handed-"
OWNER: Final = "owner"
#: seconds after which nobody reads a file any more: the JVM reads it as soon as it has its name
UNREAD_S: Final = 3600.0
#: seconds without a new file after which a folder goes whose process nobody knows
IDLE_S: Final = 86_400.0


class _Questions(threading.local):
    """The questions that a thread answers, each inside the one before: the files made for it."""

    def __init__(self) -> None:
        self.made: list[list[str]] = []


class HandedFiles:
    """The files of this process, in a private folder; safe to share between threads.

    The folder lies in ``parent``, by default in that of Python's temporary files.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        processes: Processes = LINUX,
        parent: Path | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._processes = processes
        self._parent = parent
        self._questions = _Questions()
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._pid = 0
        #: what was made, and when by the monotonic clock, the oldest first
        self._unread: deque[tuple[float, str]] = deque()

    def make(self, kind: str, table: pa.Table) -> str:
        """The path of a new private file: ``table`` as an Arrow stream. ``kind`` begins its name.

        ``StorageError`` if the disk does not take it; nothing of it stays.
        """
        try:
            handle, name = self._opened(kind)
            try:
                _write(handle, table)
            except BaseException:
                delete(name)
                raise
        except OSError as full:
            where = self._parent or os.environ.get("TMPDIR", "/tmp")
            raise StorageError(
                f"A long answer for Spark could not be put into a file in {where} on the driver: "
                f"{full.strerror or full}. Make room there, or set TMPDIR to another folder before "
                "the driver starts. Nothing was changed.",
                path=full.filename if isinstance(full.filename, str) else None,
            ) from full
        if self._questions.made:
            self._questions.made[-1].append(name)
        return name

    def answering(self, answer: Callable[[], str]) -> str:
        """What ``answer`` returns; the files that it makes on this thread and does not name go."""
        self._questions.made.append([])
        told = ""
        try:
            told = answer()
            return told
        finally:
            for name in self._questions.made.pop():
                if os.path.basename(name) not in told:
                    delete(name)

    def close(self) -> None:
        """Delete the folder with all files; a later file makes another one."""
        with self._lock:
            folder = self._folder if self._pid == os.getpid() else None
            self._folder = None
            self._unread.clear()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def _opened(self, kind: str) -> tuple[int, str]:
        with self._lock:
            now = self._clock.monotonic()
            while self._unread and now - self._unread[0][0] > UNREAD_S:
                delete(self._unread.popleft()[1])
            folder = self._own_folder()
            try:
                found = tempfile.mkstemp(".arrow", f"{kind}-", folder)
            except FileNotFoundError:  # what cleans the folder of temporary files took it
                self._folder = None
                found = tempfile.mkstemp(".arrow", f"{kind}-", self._own_folder())
            self._unread.append((now, found[1]))
            return found

    def _own_folder(self) -> Path:
        """The folder of this process; a process that was forked has another one."""
        if self._folder is None or self._pid != os.getpid():
            parent = self._parent or Path(tempfile.gettempdir())
            folder = Path(tempfile.mkdtemp(prefix=FOLDER, dir=parent))
            this = self._processes.this()
            try:
                (folder / OWNER).write_bytes(this.render() if this is not None else b"")
            except OSError:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            if self._pid != os.getpid():
                self._unread.clear()
                atexit.register(self.close)
            self._folder, self._pid = folder, os.getpid()
            self._sweep(parent, folder)
        return self._folder

    def _sweep(self, parent: Path, own: Path) -> None:
        """Delete the folders of this user's processes that have ended."""
        now_s = own.stat().st_mtime  # by the clock of the same disk
        with suppress(OSError), os.scandir(parent) as entries:
            for entry in entries:
                if entry.name.startswith(FOLDER) and entry.name != own.name:
                    with suppress(OSError):
                        if self._is_left(entry, now_s):
                            shutil.rmtree(entry.path, ignore_errors=True)

    def _is_left(self, entry: os.DirEntry[str], now_s: float) -> bool:
        told = entry.stat(follow_symlinks=False)
        if not stat.S_ISDIR(told.st_mode) or told.st_uid != os.getuid():
            return False
        owner = Path(entry.path, OWNER)
        process = parse_process(owner.read_bytes()) if owner.exists() else None
        if process is not None and self._processes.has_ended(process):
            return True
        return now_s - told.st_mtime > IDLE_S


def _write(handle: int, table: pa.Table) -> None:
    with os.fdopen(handle, "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)


def delete(name: str) -> None:
    """Delete a file that may be gone."""
    with suppress(OSError):
        os.unlink(name)


#: those of this process
FILES: Final = HandedFiles()
