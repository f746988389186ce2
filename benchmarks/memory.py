"""Memory of a whole process tree, from /proc: what it held at the most while something ran."""

from __future__ import annotations

import os
import threading
from types import TracebackType

from benchmarks.cpu import tree

_PAGE = os.sysconf("SC_PAGE_SIZE")
_EVERY_SECONDS = 0.5


def resident_bytes(root: int) -> int:
    """Resident bytes of process ``root`` and its living descendants.

    A page that forked processes share counts for each of them.
    """
    total = 0
    for pid in tree(root):
        try:
            with open(f"/proc/{pid}/statm") as file:
                total += int(file.read().split()[1]) * _PAGE
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total


class PeakMemory:
    """The largest ``resident_bytes`` that looks twice a second see while the context lasts."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.bytes = 0

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        self._measure()

    def _look(self) -> None:
        while not self._over.wait(_EVERY_SECONDS):
            self._measure()

    def _measure(self) -> None:
        self.bytes = max(self.bytes, resident_bytes(self._root))
