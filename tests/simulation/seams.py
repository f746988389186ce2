"""Storage, lock service, clock and threads whose every call is a step of the scheduler.

Below them is the real code: ``MemoryStorage`` keeps the files, ``InProcessLock`` the leases of
what stands for a lock service. ``real_threads_replaced`` gives the product's modules threads that
are tasks and pools that work in order, so that the heartbeat's own loop runs under the scheduler.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TypeVar
from unittest.mock import patch

from pyhudi.clock import Clock
from pyhudi.errors import FileExists, StorageError
from pyhudi.format.table_config import parse_table_config
from pyhudi.locks.base import LockHolder, LockOwner, TableLock
from pyhudi.storage.base import NOTHING_KNOWN, Files, Folders, Known
from pyhudi.storage.memory import MemoryStorage
from tests.simulation.scheduler import Event, FaultKind, Kind, Op, Process, Scheduler, Task

EPOCH_S = 1_700_000_000
PUT_TIMEOUT_S = 0.1
CUT_OFF_CALLS = 4
LOCK_SERVICE = ("lock service",)
COUNTER = ("counter",)
APOSTROPHE = "'"
#: what is no storage: a request to it is answered or not made at all
SERVICES = (LOCK_SERVICE, COUNTER)

_parse_table_config = lru_cache(maxsize=64)(parse_table_config)

_Result = TypeVar("_Result")
_NO_ANSWER = {
    FaultKind.LOSE_REQUEST,
    FaultKind.LOSE_REPLY,
    FaultKind.CUT_OFF,
    FaultKind.CUT_OFF_AFTER,
    FaultKind.LATE,
}
_NO_EFFECT = {FaultKind.LOSE_REQUEST, FaultKind.CUT_OFF, FaultKind.LATE}
_CUTS = {FaultKind.CUT_OFF, FaultKind.CUT_OFF_AFTER}


class TrueClock:
    """The storage's clock: the simulation's time itself."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def now_ms(self) -> int:
        return int((EPOCH_S + self._scheduler.now) * 1_000)

    def monotonic(self) -> float:
        return self._scheduler.now

    def sleep(self, seconds: float) -> None:
        raise AssertionError("the storage does not sleep")

    def uuid(self) -> str:
        raise AssertionError("the storage draws no lots")

    def random_int(self, bound: int) -> int:
        raise AssertionError("the storage draws no lots")


class ProcessClock:
    """A process' own clocks and lots: each reading is a step, equal seeds draw equal lots."""

    def __init__(self, scheduler: Scheduler, process: Process) -> None:
        self._scheduler, self._process = scheduler, process

    def now_ms(self) -> int:
        self._scheduler.reach(Op(Kind.CLOCK, "reads the time"))
        found = int((EPOCH_S + self._scheduler.now + self._process.skew_s) * 1_000)
        found -= found % self._process.coarse_ms
        self._process.observe(found)
        return found

    def monotonic(self) -> float:
        self._scheduler.reach(Op(Kind.CLOCK, "reads the monotonic clock"))
        found = 1_000.0 + self._scheduler.now - self._process.lost_s
        self._process.observe(found)
        return found

    def sleep(self, seconds: float) -> None:
        until = self._scheduler.now + seconds
        self._scheduler.reach(Op(Kind.SLEEP, f"sleeps {seconds:.3g} s"), until)
        self._process.observe("slept")

    def uuid(self) -> str:
        return str(uuid.UUID(bytes=self._draw()[:16], version=4))

    def random_int(self, bound: int) -> int:
        return int.from_bytes(self._draw(), "big") % bound

    def _draw(self) -> bytes:
        self._process.draws += 1
        text = f"{self._process.name}/{self._process.draws}"
        return hashlib.sha256(text.encode()).digest()


class SteppedStorage:
    """One process' way to the shared files.

    ``overwrites``: the store lacks put-if-absent; such a put replaces what is there.
    ``landed(path)`` is told of each write that took effect.
    """

    put_timeout_s = PUT_TIMEOUT_S

    def __init__(
        self,
        scheduler: Scheduler,
        process: Process,
        files: MemoryStorage,
        landed: Callable[[Event], None],
        overwrites: bool = False,
        table: str = "",
    ) -> None:
        self._scheduler, self._process, self._files = scheduler, process, files
        self._landed, self._overwrites, self._table = landed, overwrites, table

    @property
    def root(self) -> str:
        # Each process has caches of its own, which know a table by its root.
        return f"sim:/{self._process.name}{self._table}"

    def list(self, folder: str, known: Known = NOTHING_KNOWN) -> Files:
        return self._read("list", folder, lambda: self._files.list(folder))

    def list_folders(self, folder: str) -> Folders:
        return self._read("list_folders", folder, lambda: self._files.list_folders(folder))

    def walk(self, folder: str) -> Files:
        return self._read("walk", folder, lambda: self._files.walk(folder))

    def exists(self, path: str) -> bool:
        return self._read("exists", path, lambda: self._files.exists(path))

    def read(self, path: str) -> bytes:
        return self._read("read", path, lambda: self._files.read(path))

    def put_if_absent(self, path: str, data: bytes) -> None:
        put = self._files.replace if self._overwrites else self._files.put_if_absent
        self._write("put_if_absent", (path,), lambda: put(path, data))

    def put_alone(self, path: str, start: str, data: bytes) -> None:
        """``put_if_absent`` that fails, too, if another file of the folder starts like this one."""

        def put() -> None:
            folder = path.rpartition("/")[0]
            taken = any(file.name.startswith(start) for file in self._files.list(folder))
            if taken:
                raise FileExists(f"Another file starts with {start}.", path=path)
            self._files.put_if_absent(path, data)

        self._write("put_if_absent", (path,), put)

    def replace(self, path: str, data: bytes) -> None:
        self._write("replace", (path,), lambda: self._files.replace(path, data))

    def delete(self, paths: Iterable[str]) -> None:
        named = tuple(paths)
        self._write("delete", named, lambda: self._files.delete(named))

    def delete_folder(self, folder: str) -> None:
        self._write("delete_folder", (folder,), lambda: self._files.delete_folder(folder))

    def make_folder(self, folder: str) -> None:
        self._files.make_folder(folder)

    def delete_empty_folders(self, folder: str) -> None:
        self._files.delete_empty_folders(folder)

    def _read(self, what: str, path: str, act: Callable[[], _Result]) -> _Result:
        event = self._scheduler.reach(Op(Kind.READ, what, (path,)))
        self._pass_the_cut(event)
        try:
            found = act()
        except FileNotFoundError:
            self._process.observe((what, path, None))
            event.result = "nothing is there"
            raise
        seen = tuple((f.path, f.size_bytes, f.modified_ms) if hasattr(f, "path") else f
                     for f in found) if isinstance(found, list) else found  # fmt: skip
        self._process.observe((what, path, seen))
        event.result = found
        self._wait_for(event)
        return found

    def _write(self, what: str, paths: tuple[str, ...], act: Callable[[], None]) -> None:
        event = self._scheduler.reach(Op(Kind.WRITE, what, paths))
        self._pass_the_cut(event)
        fault = event.fault.kind if event.fault is not None else None
        if fault in _CUTS:
            self._process.cut_off = CUT_OFF_CALLS - 1
        if fault is FaultKind.LATE:
            self._send_late(event.op, act)
        if fault not in _NO_EFFECT:
            self._strike(event, act, answered=fault not in _NO_ANSWER)
        self._process.observe((what, paths, fault))
        if fault in _NO_ANSWER:
            if fault is not FaultKind.LATE:
                self._wait_in_vain()
            raise StorageError("No answer.", path=paths[0] if paths else "")
        self._wait_for(event)

    def _wait_for(self, event: Event) -> None:
        """The answer of a slow store; the rest of the process goes on meanwhile."""
        if event.fault is not None and event.fault.kind is FaultKind.SLOW:
            until = self._scheduler.now + event.fault.seconds
            self._scheduler.reach(Op(Kind.SLEEP, "waits for an answer"), until)

    def _wait_in_vain(self) -> None:
        """A write that gets no answer is given up after the time that the storage states.

        One that lands late is given up at once, as where the connection breaks: all of that time
        is then left to the request.
        """
        until = self._scheduler.now + self.put_timeout_s
        self._scheduler.reach(Op(Kind.SLEEP, "waits for an answer"), until)

    def _strike(self, event: Event, act: Callable[[], None], answered: bool = True) -> None:
        try:
            act()
        except StorageError as error:
            event.result = "the name is taken"
            self._process.observe((event.op.what, event.op.paths, type(error)))
            if answered:
                raise
            return
        self._landed(event)

    def _send_late(self, op: Op, act: Callable[[], None]) -> None:
        """The request is under way: it lands within the time after which a put is given up."""

        def land() -> None:
            event = self._scheduler.reach(Op(Kind.WRITE, f"late {op.what}", op.paths))
            self._strike(event, act, answered=False)

        name = f"late put of {self._process.name}"
        self._scheduler.spawn(Process(name), name, land)

    def _pass_the_cut(self, event: Event) -> None:
        if self._process.cut_off:
            self._process.cut_off -= 1
            event.result = "is cut off"
            self._process.observe((event.op.what, event.op.paths, "cut off"))
            path = event.op.paths[0] if event.op.paths else ""
            if event.op.kind is Kind.WRITE:
                self._wait_in_vain()
            raise StorageError("Cut off.", path=path)


class SteppedLock:
    """A lock service beside the storage: ``inner`` does the work, its calls are steps."""

    def __init__(
        self, scheduler: Scheduler, process: Process, inner: Callable[[Clock], TableLock]
    ) -> None:
        self._scheduler, self._process = scheduler, process
        # Its own readings of the clock happen inside the step.
        self._inner = inner(_InsideStep(scheduler))

    def acquire(self, timeout_s: float, owner: LockOwner) -> None:
        give_up = self._scheduler.now + timeout_s
        while True:
            last = self._scheduler.now >= give_up
            self._step("takes the lock", Kind.WRITE)
            try:
                self._inner.acquire(0.0, owner)
            except Exception:
                self._process.observe("lock taken")
                if last:
                    raise
                wake = self._scheduler.now + 0.05
                self._scheduler.reach(Op(Kind.SLEEP, "waits for the lock"), wake)
                continue
            self._process.observe("lock acquired")
            return

    def held(self) -> bool:
        return self._inner.held()

    def check(self, needed_s: float = 0.0) -> float:
        self._step("asks for the lock", Kind.READ)
        remaining = self._inner.check(needed_s)
        self._process.observe(remaining)
        return remaining

    def renew(self) -> None:
        self._step("renews the lock", Kind.WRITE)
        self._inner.renew()
        self._process.observe("renewed")

    def release(self) -> None:
        self._step("releases the lock", Kind.WRITE)
        self._inner.release()

    def describe(self) -> LockHolder | None:
        return self._inner.describe()

    def _step(self, what: str, kind: Kind) -> None:
        event = self._scheduler.reach(Op(kind, what, LOCK_SERVICE))
        event.result = what


class _InsideStep:
    """The service's clock, read within one step."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def now_ms(self) -> int:
        return int((EPOCH_S + self._scheduler.now) * 1_000)

    def monotonic(self) -> float:
        return self._scheduler.now

    def sleep(self, seconds: float) -> None:
        pass

    def uuid(self) -> str:
        raise AssertionError("the lock service draws no lots")

    def random_int(self, bound: int) -> int:
        raise AssertionError("the lock service draws no lots")


class SteppedCounter:
    """Instant times from a counter that all writers share; ``last`` holds the one given last."""

    def __init__(self, scheduler: Scheduler, process: Process, last: list[int]) -> None:
        self._scheduler, self._process, self._last = scheduler, process, last

    def next_ms(self, at_least: int) -> int:
        self._scheduler.reach(Op(Kind.WRITE, "asks the counter", COUNTER))
        self._last[0] = max(self._last[0] + 1, at_least)
        self._process.observe(self._last[0])
        return self._last[0]


class SteppedThreading:
    """``threading`` as the product uses it: its threads are tasks of the same process."""

    def __init__(self, scheduler: Scheduler, what: str = "heartbeat") -> None:
        self._scheduler, self._what = scheduler, what

    def Thread(  # noqa: N802
        self,
        target: Callable[..., None],
        name: str,
        daemon: bool,
        args: tuple[object, ...] = (),
    ) -> _Thread:
        return _Thread(self._scheduler, lambda: target(*args), self._what)

    def Lock(self) -> _Mutex:  # noqa: N802
        return _Mutex(self._scheduler)

    RLock = Lock

    def Condition(self) -> _Condition:  # noqa: N802
        return _Condition(self._scheduler)

    def Event(self) -> _Flag:  # noqa: N802
        return _Flag(self._scheduler)


class _Thread:
    def __init__(self, scheduler: Scheduler, target: Callable[[], None], what: str) -> None:
        self._scheduler, self._target, self._what = scheduler, target, what
        self._task: Task | None = None

    def start(self) -> None:
        starter = self._scheduler.current
        assert starter is not None
        name = f"{starter.name.split(APOSTROPHE)[0]}'s {self._what}"
        self._task = self._scheduler.start(starter.process, name, self._target)

    def join(self) -> None:
        task = self._task
        assert task is not None
        if not task.done:
            op = Op(Kind.SLEEP, f"waits for its {self._what}")
            self._scheduler.reach(op, float("inf"), lambda: task.done)


class _Mutex:
    """A re-entrant lock between the tasks of one process."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._holder: Task | None = None
        self._depth = 0

    def __enter__(self) -> _Mutex:
        me = self._scheduler.current
        if self._holder is not None and self._holder is not me:
            op = Op(Kind.SLEEP, "waits for a thread of its own")
            self._scheduler.reach(op, float("inf"), lambda: self._holder is None)
        self._holder, self._depth = me, self._depth + 1
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._holder = None


class _Condition(_Mutex):
    """Who waits lets the others in meanwhile."""

    def wait(self, timeout: float) -> None:
        self.wait_for(lambda: False, timeout)

    def wait_for(self, so: Callable[[], bool], timeout: float) -> bool:
        me, depth = self._holder, self._depth
        self._holder, self._depth = None, 0
        until = self._scheduler.now + timeout
        self._scheduler.reach(Op(Kind.SLEEP, "waits for its markers"), until, so)
        while self._holder is not None:
            op = Op(Kind.SLEEP, "waits for a thread of its own")
            self._scheduler.reach(op, float("inf"), lambda: self._holder is None)
        self._holder, self._depth = me, depth
        return so()

    def notify_all(self) -> None:
        """Who waits looks by itself."""


class _Flag:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler, self._set = scheduler, False

    def set(self) -> None:
        self._set = True

    def wait(self, timeout: float) -> bool:
        until = self._scheduler.now + timeout
        self._scheduler.reach(Op(Kind.SLEEP, "waits to beat"), until, lambda: self._set)
        return self._set


class InOrder:
    """A thread pool that works in the order of its tasks, each call of storage being a step."""

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> InOrder:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, work: Callable[[], None]) -> None:
        work()

    def shutdown(self, wait: bool) -> None:
        pass

    def map(self, work: Callable[..., _Result], *items: Iterable[object]) -> Iterator[_Result]:
        return iter([work(*each) for each in zip(*items, strict=True)])


@contextmanager
def real_threads_replaced(scheduler: Scheduler) -> Iterator[None]:
    """While this lasts, what the product's modules take for threads are tasks."""
    with (
        patch("pyhudi.transactions.heartbeat.threading", SteppedThreading(scheduler)),
        patch("pyhudi.locks.group_locks.threading", SteppedThreading(scheduler, "renewals")),
        patch("pyhudi.locks.group_locks.ThreadPoolExecutor", InOrder),
        patch("pyhudi.locks.renewal.threading", SteppedThreading(scheduler, "renewals")),
        patch("pyhudi.locks.filesystem.threading", SteppedThreading(scheduler)),
        patch("pyhudi.transactions.markers.markers.ThreadPoolExecutor", InOrder),
        patch("pyhudi.transactions.markers.marker_log.ThreadPoolExecutor", InOrder),
        patch(
            "pyhudi.transactions.markers.marker_log.threading",
            SteppedThreading(scheduler, "markers"),
        ),
        patch("pyhudi.transactions.markers.marker_service.threading", SteppedThreading(scheduler)),
        patch("pyhudi.slices.file_listing.ThreadPoolExecutor", InOrder),
        patch("pyhudi.timeline.promises.ThreadPoolExecutor", InOrder),
        # The same bytes again and again: a fifth of the time, for a function of them alone.
        patch("pyhudi.timeline.table.parse_table_config", _parse_table_config),
        # Bounds that tables of a few files reach: a clean of two gives the lock back meanwhile.
        patch("pyhudi.services.clean.FEW", 1),
        patch("pyhudi.services.archive_history.BATCH", 2),
    ):
        yield
