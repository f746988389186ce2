"""The markers of one instant in a few files: many requests, one storage write (spec/markers.md M3).

Requests queue. A batch takes all waiting requests and puts them, after the file's earlier content,
into the next of a bounded set of ``MARKERS<n>`` files, in turn. The requests are answered when that
put is done. A file is always replaced whole: a reader sees the markers before or after a batch,
never part of a line. Since a batch has many markers, few bytes are written twice.

A lone request starts its batch at once. Under load the next batch waits as long as the last one
took to write, so that requests gather in proportion to what a write costs, but never longer than
the batch interval; other writers then take other files.

Invariants: ``MARKERS.type`` is there before the first list; one file is written by one thread at a
time; a request is answered only when its markers are on storage; after ``seal`` none is taken.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum

from pyhudi.clock import Clock
from pyhudi.errors import StorageError, TableCorrupt
from pyhudi.format.instants import InstantTime
from pyhudi.format.markers import (
    LIST_PREFIX,
    TYPE_FILE,
    MarkerForm,
    is_marker_list,
    marker_fault,
    marker_folder,
    parse_marker,
    parse_marker_form,
    parse_marker_list,
    render_marker_form,
)
from pyhudi.storage.base import Storage

MOST_FILES = 20
MOST_QUEUED = 200_000
MOST_QUEUED_BYTES = 32 << 20
_LOOK_AGAIN_S = 0.05


class Refusal(str, Enum):
    """Why a request was refused."""

    MALFORMED = "malformed"
    UNKNOWN = "unknown"
    SEALED = "sealed"
    BUSY = "busy"


@dataclass(eq=False, repr=False)
class MarkerRefused(StorageError):
    """A request for markers that was not taken; for users a ``StorageError`` like any other."""

    _: KW_ONLY
    refusal: Refusal

    @classmethod
    def code(cls) -> str:
        return StorageError.code()


@dataclass(frozen=True, slots=True)
class Batching:
    """How requests become writes: the longest pause between two batches, and how many at once."""

    interval_ms: int = 50
    threads: int = 20


@dataclass(slots=True)
class _Request:
    names: tuple[str, ...]
    size_bytes: int
    answer: Future[None] = field(default_factory=Future)


class MarkerLog:
    """The timeline-server-based markers of one instant; any number of threads may ask."""

    def __init__(
        self, storage: Storage, instant: InstantTime, clock: Clock, batching: Batching
    ) -> None:
        """Nothing is read or written until the first request."""
        self._storage, self._instant, self._clock = storage, instant, clock
        self._batching = batching
        self._folder = marker_folder(instant)
        self._interval_s = batching.interval_ms / 1000
        self._file_count = max(1, min(batching.threads, MOST_FILES))
        self._pool = ThreadPoolExecutor(self._file_count, f"markers-{instant}")
        self._state = threading.Condition()
        self._known: set[str] = set()
        self._lines = [bytearray() for _ in range(self._file_count)]
        #: when a file may be written again; None while a thread writes it
        self._free_at: list[float | None] = [float("-inf")] * self._file_count
        self._turn = 0
        self._queue: deque[_Request] = deque()
        self._queued = self._queued_bytes = self._writing = 0
        self._loaded = self._hired = False
        self._refusal: tuple[Refusal, str] | None = None
        self._next_start = float("-inf")

    def ask(self, names: Sequence[str]) -> Future[None]:
        """Put these markers on storage; the answer comes when they are there.

        Without names it only makes sure that the files were read. Raises ``MarkerRefused`` for a
        refused request. The answer raises the error of a failed write, whose markers may or may
        not be there: ask again.
        """
        for name in names:
            fault = marker_fault(name)
            if fault is not None:
                raise _refused(
                    Refusal.MALFORMED, f"'{name[:120]!a}' is no marker: {fault}. Nothing was kept."
                )
        request = _Request(tuple(names), sum(map(len, names)))
        request.answer.set_running_or_notify_cancel()
        with self._state:
            if self._refusal is not None:
                raise _refused(*self._refusal)
            if self._loaded and self._known.issuperset(request.names):
                request.answer.set_result(None)
                return request.answer
            full = self._queued + len(names) > MOST_QUEUED
            if full or self._queued_bytes + request.size_bytes > MOST_QUEUED_BYTES:
                raise _refused(
                    Refusal.BUSY,
                    f"{self._queued} markers of {self._instant} wait for the storage already. "
                    "Ask again in a moment.",
                )
            self._queue.append(request)
            self._queued += len(request.names)
            self._queued_bytes += request.size_bytes
            self._hire()
        return request.answer

    def seal(self, timeout_s: float) -> bool:
        """Refuse every request from now on; whether no write is running after the time."""
        text = (
            f"The write stage of {self._instant} has ended: no marker is taken any more, and a "
            "data file without one must not be written."
        )
        return self._close(Refusal.SEALED, text, timeout_s)

    def successor(self) -> MarkerLog | None:
        """A log of the same instant that reads the files again; this one takes no more.

        Callers of this one are told to ask again. ``None``, with nothing changed, if it is sealed;
        ``None`` also if its writes do not end in time.
        """
        with self._state:
            if self._refusal is not None:
                return None
        text = "The marker server starts again. Ask again in a moment."
        if not self._close(Refusal.BUSY, text, self._storage.put_timeout_s):
            return None
        log = MarkerLog(self._storage, self._instant, self._clock, self._batching)
        # A put without an answer may still land, so the successor does not use those files either.
        log._free_at = self._free_at
        return log

    def _close(self, refusal: Refusal, text: str, timeout_s: float) -> bool:
        with self._state:
            self._refusal = (refusal, text)
            waiting = list(self._queue)
            self._queue.clear()
            self._queued = self._queued_bytes = 0
            self._state.notify_all()
        for request in waiting:
            request.answer.set_exception(_refused(refusal, text))
        self._pool.shutdown(wait=False)
        with self._state:
            return self._state.wait_for(lambda: not self._writing, timeout_s)

    # -- batches -------------------------------------------------------------------------------

    def _hire(self) -> None:
        """Make sure that a thread comes to take the waiting requests."""
        if self._queue and not self._hired and self._refusal is None:
            self._hired = True
            self._pool.submit(self._serve)

    def _serve(self) -> None:
        """Take the waiting requests when it is time, write them, and answer."""
        with self._state:
            number = self._wait_for_turn()
            self._hired = False
            if number is None:
                return
            batch = list(self._queue)
            self._queue.clear()
            self._queued = self._queued_bytes = 0
            self._free_at[number] = None
            self._writing += 1
            started = self._clock.monotonic()
            self._next_start = started + self._interval_s
            # A second thread may gather the next batch meanwhile.
        error: BaseException | None = None
        fresh: list[str] = []
        try:
            if not self._loaded:
                self._load()
            fresh = self._fresh(batch)
            self._write(number, fresh)
        except BaseException as e:
            error = e
        self._done(number, fresh, started, error)
        for request in batch:
            if error is None:
                request.answer.set_result(None)
            else:
                request.answer.set_exception(error)

    def _wait_for_turn(self) -> int | None:
        """The number of the file to write next, when it is time; ``None`` if sealed."""
        while self._refusal is None:
            now = self._clock.monotonic()
            free = self._next_free(now)
            # Before the files have been read, it is not known what to keep in them.
            ready = self._loaded or not self._writing
            if ready and free is not None and now >= self._next_start:
                return free
            pause = self._next_start - now
            self._state.wait(pause if ready and pause > 0 else _LOOK_AGAIN_S)
        return None

    def _next_free(self, now: float) -> int | None:
        for step in range(self._file_count):
            number = (self._turn + step) % self._file_count
            free_at = self._free_at[number]
            if free_at is not None and free_at <= now:
                return number
        return None

    def _fresh(self, batch: Iterable[_Request]) -> list[str]:
        with self._state:
            wanted = dict.fromkeys(name for request in batch for name in request.names)
            return [name for name in wanted if name not in self._known]

    def _write(self, number: int, fresh: Sequence[str]) -> None:
        if fresh:
            lines = self._lines[number] + "".join(f"{name}\n" for name in fresh).encode()
            self._storage.replace(f"{self._folder}/{LIST_PREFIX}{number}", bytes(lines))
            self._lines[number] = lines

    def _done(
        self, number: int, fresh: list[str], started: float, error: BaseException | None
    ) -> None:
        known = isinstance(error, StorageError) and error.had_no_effect
        unknown = bool(fresh) and error is not None and not known
        with self._state:
            now = self._clock.monotonic()
            # A put without an answer may land until its time is up, over a later one's bytes.
            free_at = started + self._storage.put_timeout_s if unknown else now
            self._free_at[number] = free_at
            if fresh:
                self._turn = number + 1
            pause = now - started if fresh else 0.0
            self._next_start = min(self._next_start, now + pause)
            if error is None:
                self._known.update(fresh)
            self._writing -= 1
            self._hire()
            self._state.notify_all()

    # -- what is there already -----------------------------------------------------------------

    def _load(self) -> None:
        """Read the files of an earlier server, and say that this instant's markers are lists."""
        known: set[str] = set()
        lines = [bytearray() for _ in range(self._file_count)]
        form = False
        for file in self._storage.walk(self._folder):
            name = file.path[len(self._folder) + 1 :]
            if name == TYPE_FILE:
                found = parse_marker_form(self._storage.read(file.path), file.path)
                form = found is MarkerForm.TIMELINE_SERVER_BASED
            elif is_marker_list(name):
                markers = parse_marker_list(self._storage.read(file.path), file.path)
                known.update(marker.render() for marker in markers)
                number = int(name.removeprefix(LIST_PREFIX))
                if number < self._file_count:
                    text = "".join(f"{marker.render()}\n" for marker in markers)
                    lines[number] = bytearray(text.encode())
            elif parse_marker(name) is not None:
                raise TableCorrupt(
                    f"'{file.path}' is a direct marker, but {self._instant} keeps its markers in "
                    "lists, and Hudi reads one kind only. The write was given up; run it again.",
                    path=file.path,
                    rule="one instant has one kind of markers",
                )
        if not form:
            self._storage.replace(
                f"{self._folder}/{TYPE_FILE}", render_marker_form(MarkerForm.TIMELINE_SERVER_BASED)
            )
        with self._state:
            self._known, self._lines, self._loaded = known, lines, True


def _refused(refusal: Refusal, message: str) -> MarkerRefused:
    return MarkerRefused(message, refusal=refusal)
