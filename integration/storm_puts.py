"""A store whose puts take very long now and then, by the seed, in a writer of a storm.

Invariant: it keeps what a ``Storage`` promises. A put has its effect within ``put_timeout_s`` of
its request or never; its answer may come later, or not at all.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from pyhudi.errors import StorageError
from pyhudi.storage.base import NOTHING_KNOWN, Files, Folders, Known, Storage

#: completed files are published once in a write, other puts come a dozen times
PUBLISHED = (".commit", ".replacecommit")
MORE_OFTEN = 10


class Fate(Enum):
    """What becomes of a put that is late."""

    LATE = "its effect comes late, and its answer at once then"
    LATE_ANSWER = "its effect comes at once, and its answer late"
    NO_ANSWER = "its effect comes, and no answer within the time of a put"
    LOST = "neither effect nor answer comes"


class LatePuts:
    """``inner``, but ``late`` of a thousand puts take up to ``put_s`` seconds.

    ``tell`` hears of each of them before it begins to wait.
    """

    def __init__(
        self,
        inner: Storage,
        put_s: float,
        late: int,
        seed: str,
        tell: Callable[..., Any],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._inner, self._put_s, self._late, self._tell = inner, put_s, late, tell
        self._lots, self._sleep = random.Random(seed), sleep

    @staticmethod
    def fate_by(seed: str) -> Fate:
        """The fate of the first put, where all are late."""
        lots = random.Random(seed)
        lots.random()
        return lots.choice(list(Fate))

    @property
    def root(self) -> str:
        return self._inner.root

    @property
    def put_timeout_s(self) -> float:
        return self._put_s + self._inner.put_timeout_s

    def list(self, folder: str, known: Known = NOTHING_KNOWN) -> Files:
        return self._inner.list(folder, known)

    def list_folders(self, folder: str) -> Folders:
        return self._inner.list_folders(folder)

    def walk(self, folder: str) -> Files:
        return self._inner.walk(folder)

    def exists(self, path: str) -> bool:
        return self._inner.exists(path)

    def read(self, path: str) -> bytes:
        return self._inner.read(path)

    def put_if_absent(self, path: str, data: bytes) -> None:
        self._put(path, lambda: self._inner.put_if_absent(path, data))

    def replace(self, path: str, data: bytes) -> None:
        self._put(path, lambda: self._inner.replace(path, data))

    def delete(self, paths: Iterable[str]) -> None:
        self._inner.delete(paths)

    def delete_folder(self, folder: str) -> None:
        self._inner.delete_folder(folder)

    def _put(self, path: str, put: Callable[[], None]) -> None:
        often = MORE_OFTEN if path.endswith(PUBLISHED) else 1
        if self._lots.random() * 1_000 >= self._late * often:
            put()
            return
        fate = self._lots.choice(list(Fate))
        late_s = self._lots.uniform(0.2, 1.0) * self._put_s
        self._tell("late", fate=fate.name, path=path, seconds=round(late_s, 1))
        if fate is Fate.LATE_ANSWER:
            put()
            self._sleep(late_s)
            return
        self._sleep(late_s)
        if fate is not Fate.LOST:
            put()
        if fate is not Fate.LATE:
            self._sleep(self._put_s - late_s)
            raise StorageError(f"'{path}' was put and got no answer.", path=path)
