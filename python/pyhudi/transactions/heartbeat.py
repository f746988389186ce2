"""Heartbeats: how other writers see that this one lives.

Invariants: the beating thread shares no lock with the planner; a writer judges its own lapse by
its monotonic clock from *before* the last beat that succeeded, so it never believes itself alive
longer than others do. Others judge it by the storage's clock alone: wall clocks may be apart. Only
a process that has certainly ended needs no wait (``processes.py``).
Layout: spec/other_files.md O1.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

from pyhudi.clock import Clock
from pyhudi.errors import StorageError, WriterFenced
from pyhudi.format.instants import InstantTime
from pyhudi.storage.base import Storage
from pyhudi.transactions.processes import LINUX, Process, Processes, parse_process

log = logging.getLogger(__name__)

FOLDER = ".hoodie/.heartbeat"
#: prefix of files that only tell the storage's time; every cleanup deletes them
PROBE = ".now-"
PROBES = 5
#: what the heartbeat of a write says that has failed, and of which nothing writes any more
GIVEN_UP = b'{"given_up": true}'


@dataclass(frozen=True, slots=True)
class HeartbeatPolicy:
    """How often to beat (milliseconds), and how many missed beats others tolerate.

    ``processes`` tells whether the process of a heartbeat has ended.
    """

    interval_ms: int = 60_000
    tolerable_misses: int = 2
    processes: Processes = LINUX

    @property
    def lapse_ms(self) -> int:
        """Silence after which a writer counts as dead."""
        return self.interval_ms * (self.tolerable_misses + 1)


class Heartbeat:
    """Beats for one instant, or for another thing in use, from a daemon thread until ``stop``.

    The file that it renews has the name of the instant. Its ``content`` names this process if
    nothing else is given.
    """

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        name: str,
        policy: HeartbeatPolicy,
        folder: str = FOLDER,
        content: bytes | None = None,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._path = f"{folder}/{name}"
        self._policy = policy
        if content is None:
            process = policy.processes.this()
            content = process.render() if process else b""
        self._content = content
        self._last = clock.monotonic()
        self._left = False
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Beat once, then continue in the background."""
        self.beat()
        self.go_on()

    def go_on(self) -> None:
        """Beat in the background; the first beat was already sent."""
        self._thread = threading.Thread(target=self._run, name=self._path, daemon=True)
        self._thread.start()

    def beat(self) -> None:
        """One beat; the time that counts is the one before the put was sent."""
        before = self._clock.monotonic()
        self._storage.replace(self._path, self._content)
        self._last = before

    def lapsed(self) -> bool:
        """Whether others may already take this writer for dead."""
        return (self._clock.monotonic() - self._last) * 1000 >= self._policy.lapse_ms

    def check(self, who: str) -> None:
        """``WriterFenced`` for the write ``who`` if others may already take it for dead."""
        if self.lapsed():
            raise WriterFenced(
                f"{who} has not reached the storage with a heartbeat for {self._policy.lapse_ms} "
                "ms, so other writers may take it for dead. It gives up. Nothing of it is visible. "
                "Run it again.",
                instant=self._path.rpartition("/")[2],
            )

    def stop(self, settled: bool = True) -> None:
        """Stop beating; if the instant has settled, remove the file.

        Otherwise the last beat stays, and others roll the instant back when it is stale.
        """
        self._end()
        if settled and not self._left:
            self._storage.delete([self._path])

    def leave(self) -> None:
        """Stop beating; the file is another program's by now, so from now on it stays as it is."""
        self._end()
        self._left = True

    def give_up(self) -> None:
        """Stop beating, and say in the file that others may roll the instant back at once."""
        self._end()
        if not self._left:
            self._storage.replace(self._path, GIVEN_UP)

    def _end(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._policy.interval_ms / 1000):
            try:
                self.beat()
            except Exception as error:
                # The next beat may succeed; if none does, lapsed() fences the commit. No other
                # error may end the beats either: a living writer would be rolled back.
                log.warning("%s: a heartbeat failed: %s", self._path, error)


def storage_now_ms(storage: Storage, clock: Clock) -> int:
    """The time by the clock that stamps the storage's files, which beats are compared with.

    Epoch milliseconds, read from a file that is put for it; 0 if others keep deleting that file.
    """
    for _ in range(PROBES):
        name = f"{PROBE}{clock.uuid()}"
        storage.replace(f"{FOLDER}/{name}", b"")
        found = [f.modified_ms for f in storage.list(FOLDER) if f.name == name]
        storage.delete([f"{FOLDER}/{name}"])
        if found:
            return found[0]
    return 0


def has_passed(storage: Storage, clock: Clock, since_ms: int, span_ms: int) -> bool:
    """Whether this much time has passed since a file was put.

    Our wall clock is asked first, since that costs nothing; the storage's clock decides.
    """
    if clock.now_ms() - since_ms < span_ms:
        return False
    return storage_now_ms(storage, clock) - since_ms >= span_ms


def last_words(storage: Storage, name: str, folder: str = FOLDER) -> bytes:
    """What the heartbeat ``name`` says: a process, ``GIVEN_UP``, or nothing."""
    try:
        return storage.read(f"{folder}/{name}")
    except (FileNotFoundError, StorageError):
        return b""


def ended_process(words: bytes, policy: HeartbeatPolicy) -> Process | None:
    """The process that a heartbeat names, if it has certainly ended."""
    process = parse_process(words)
    return process if process and policy.processes.has_ended(process) else None


def last_beat_ms(storage: Storage, instant: InstantTime) -> int | None:
    """When the instant's writer last beat (epoch milliseconds by the storage); None without."""
    for file in storage.list(FOLDER):
        if file.name == instant:
            return file.modified_ms
    return None
