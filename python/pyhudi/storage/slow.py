"""A test kit: any storage, as slow and as strict as an object store, with a count of requests.

Every request takes a latency, and each prefix has a limit of requests per second. S3's limits are
3,500 changes (a batched delete counts once for each of its keys) and 5,500 reads. A request above
the limit waits, or is refused with 503 SlowDown, as in S3; a refused request has no effect, and its
error says so. ``counts`` has the number of requests of each kind, refused ones included.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pyhudi.clock import Clock, SystemClock
from pyhudi.errors import StorageError
from pyhudi.storage.base import NOTHING_KNOWN, Files, Folders, Known, Storage

S3_PUTS_A_SECOND: Final = 3_500.0
S3_GETS_A_SECOND: Final = 5_500.0
PAGE: Final = 1_000  # names in one request of a listing or a delete
DELETE_THREADS: Final = 8

PrefixOf = Callable[[str], str]


class OverRate(Enum):
    """What happens to a request above the limit of its prefix."""

    WAIT = "it waits until the limit allows it"
    REFUSE = "StorageError, 503 SlowDown; it has no effect"


def one_prefix(path: str) -> str:
    """The whole table is one prefix, as on S3 before a load has lasted long."""
    return ""


def by_folder(path: str) -> str:
    """Each folder is a separate prefix."""
    return path.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a store is: milliseconds per request, and requests per second and prefix.

    With ``OverRate.REFUSE`` the requests of up to ``burst_s`` seconds may come at once.
    """

    latency_ms: float = 20.0
    puts_a_second: float = S3_PUTS_A_SECOND
    gets_a_second: float = S3_GETS_A_SECOND
    over: OverRate = OverRate.WAIT
    burst_s: float = 1.0
    prefix_of: PrefixOf = one_prefix


class Turns:
    """Allows ``a_second`` turns per second, evenly; ``now`` is a monotonic time in seconds."""

    def __init__(self, a_second: float) -> None:
        self._each_s = 1 / a_second
        self._next = -math.inf
        self._guard = threading.Lock()

    def wait_for(self, count: int, now: float) -> float:
        """Take ``count`` turns; returns the seconds until the last of them."""
        with self._guard:
            self._next = max(self._next, now) + count * self._each_s
            return self._next - now

    def take(self, count: int, now: float, burst_s: float) -> bool:
        """Take ``count`` turns if that many are free; after a pause any number is free."""
        with self._guard:
            begin = max(self._next, now - burst_s)
            then = begin + count * self._each_s
            if then > now and begin > now - burst_s:
                return False
            self._next = then
            return True


class SlowStorage:
    """``inner`` at the pace of an object store; any number of threads may call."""

    def __init__(
        self, inner: Storage, pace: Pace | None = None, clock: Clock | None = None
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.refused = 0
        self._inner = inner
        self._pace = pace or Pace()
        self._clock = clock or SystemClock()
        self._turns: dict[tuple[str, bool], Turns] = {}
        self._guard = threading.Lock()

    @property
    def root(self) -> str:
        return self._inner.root

    @property
    def put_timeout_s(self) -> float:
        return self._inner.put_timeout_s

    @property
    def requests(self) -> int:
        """Requests of all kinds so far."""
        return self.counts.total()

    def list(self, folder: str, known: Known = NOTHING_KNOWN) -> Files:
        return self._listed(folder, lambda: self._inner.list(folder, known))

    def list_folders(self, folder: str) -> Folders:
        self._request("list", folder, 1, changes=False)
        return self._inner.list_folders(folder)

    def walk(self, folder: str) -> Files:
        return self._listed(folder, lambda: self._inner.walk(folder))

    def exists(self, path: str) -> bool:
        self._request("head", path, 1, changes=False)
        return self._inner.exists(path)

    def read(self, path: str) -> bytes:
        self._request("get", path, 1, changes=False)
        return self._inner.read(path)

    def put_if_absent(self, path: str, data: bytes) -> None:
        self._request("put", path, 1, changes=True)
        self._inner.put_if_absent(path, data)

    def replace(self, path: str, data: bytes) -> None:
        self._request("put", path, 1, changes=True)
        self._inner.replace(path, data)

    def delete(self, paths: Iterable[str]) -> None:
        names = [*paths]
        for begin in range(0, len(names), PAGE):
            some = names[begin : begin + PAGE]
            self._request("delete", some[0], len(some), changes=True)
            self._inner.delete(some)

    def delete_folder(self, folder: str) -> None:
        names = [file.path for file in self.walk(folder)]
        batches = [names[begin : begin + PAGE] for begin in range(0, len(names), PAGE)]
        with ThreadPoolExecutor(DELETE_THREADS) as pool:
            for _ in pool.map(self.delete, batches):
                pass
        self._inner.delete_folder(folder)  # also deletes files that listings do not show

    def make_folder(self, folder: str) -> None:
        self._request("put", folder, 1, changes=True)
        self._inner.make_folder(folder)

    def delete_empty_folders(self, folder: str) -> None:
        self._inner.delete_empty_folders(folder)

    def _listed(self, folder: str, act: Callable[[], Files]) -> Files:
        self._request("list", folder, 1, changes=False)
        found = act()
        for _ in range(1, math.ceil(len(found) / PAGE)):
            self._request("list", folder, 1, changes=False)
        return found

    def _request(self, kind: str, path: str, turns: int, changes: bool) -> None:
        """One request; returns when it has been answered."""
        pace = self._pace
        rate = pace.puts_a_second if changes else pace.gets_a_second
        with self._guard:
            self.counts[kind] += 1
            served = self._turns.setdefault((pace.prefix_of(path), changes), Turns(rate))
        now, wait_s = self._clock.monotonic(), 0.0
        if pace.over is OverRate.WAIT:
            wait_s = served.wait_for(turns, now)
        elif not served.take(turns, now, pace.burst_s):
            with self._guard:
                self.refused += 1
            self._clock.sleep(pace.latency_ms / 1_000)
            raise StorageError(
                f"SlowDown, HTTP 503: more than {rate:g} requests a second at "
                f"'{self.root}/{pace.prefix_of(path)}'. Send it again later.",
                path=path,
                had_no_effect=True,
            )
        self._clock.sleep(wait_s + pace.latency_ms / 1_000)
