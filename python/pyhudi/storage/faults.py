"""A test kit: any storage, with crashes, failures and lost replies where a test wants them.

``FaultyStorage`` passes every call to a real storage, records it, and applies a ``Fault`` to the
n-th call that matches. After a crash all further calls also raise: a dead process does nothing, not
even its clean-up.

A put that stops half-way never shows under its final name, on any storage. It leaves a temporary
file on local disks and Hadoop file systems, and nothing on object stores. The kit leaves the
temporary file, the worse of the two. (A ``Storage`` does not put data files: workers write them in
place, and markers exist because half a file may stay.)

Typical use, a kill at each step of an operation::

    healthy = FaultyStorage(MemoryStorage())
    operation(healthy)
    for fault in every_crash(healthy):
        storage = MemoryStorage()
        with pytest.raises(SimulatedCrash):
            operation(FaultyStorage(storage, fault))
        ...  # look at what the crash has left in ``storage``
"""

from __future__ import annotations

import fnmatch
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeVar, cast

from pyhudi.errors import StorageError
from pyhudi.storage.base import (
    NOTHING_KNOWN,
    Files,
    FileVersion,
    Folders,
    Known,
    Storage,
    VersionedStorage,
)
from pyhudi.storage.names import TEMPORARY_PREFIX

WRITES: Final = frozenset({"put_if_absent", "replace", "swap", "delete", "delete_folder"})
PUTS: Final = frozenset({"put_if_absent", "replace", "swap"})
READS: Final = frozenset({"list", "list_folders", "walk", "exists", "read"})

_Result = TypeVar("_Result")


class SimulatedCrash(BaseException):
    """The process died here. ``except Exception`` does not catch it, just as with SIGKILL."""


class Effect(Enum):
    """What a fault does to a call."""

    FAIL_BEFORE = "StorageError; the call had no effect, and the error says so"
    FAIL_AFTER = "StorageError; the call had its effect and will not have it again (deletes)"
    LOSE_REQUEST = "StorageError without an answer; the call had no effect, but nobody knows"
    LOSE_REPLY = "StorageError without an answer; the call had its effect, but nobody knows"
    CRASH_BEFORE = "the process dies before the call has its effect"
    CRASH_AFTER = "the process dies after the call has had its effect"
    FAIL_HALFWAY = (
        "StorageError; half of a put's bytes lie in a temporary file, and the error says so (puts)"
    )
    CRASH_HALFWAY = "the process dies; half of a put's bytes lie in a temporary file (puts)"


_HAS_EFFECT: Final = {Effect.FAIL_AFTER, Effect.LOSE_REPLY, Effect.CRASH_AFTER}
_HALFWAY: Final = {Effect.FAIL_HALFWAY, Effect.CRASH_HALFWAY}
_CRASHES: Final = {Effect.CRASH_BEFORE, Effect.CRASH_AFTER, Effect.CRASH_HALFWAY}
_KNOWN: Final = {Effect.FAIL_BEFORE, Effect.FAIL_HALFWAY}


@dataclass(frozen=True, slots=True)
class Call:
    """One call that reached the storage: its method and its paths."""

    method: str
    paths: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.method} {' '.join(self.paths)}"


@dataclass(frozen=True, slots=True)
class Fault:
    """Applies to the matching calls number ``at`` to ``at + times - 1``.

    ``path`` is a shell pattern that one of the call's paths must match (``*`` also matches ``/``).
    """

    effect: Effect
    at: int = 1
    path: str = "*"
    methods: frozenset[str] = WRITES
    times: int = 1

    def matches(self, call: Call) -> bool:
        """Whether ``call`` matches this fault."""
        return call.method in self.methods and (
            self.path == "*" or any(fnmatch.fnmatchcase(path, self.path) for path in call.paths)
        )


class FaultyStorage:
    """``inner`` with faults; ``before`` runs before each call, so that a test can create races."""

    def __init__(
        self,
        inner: Storage,
        *faults: Fault,
        before: Callable[[Call], None] | None = None,
    ) -> None:
        self.calls: list[Call] = []
        self.crashed = False
        self._inner = inner
        self._faults = faults
        self._seen = [0] * len(faults)
        self._before = before
        self._guard = threading.Lock()

    @property
    def root(self) -> str:
        return self._inner.root

    @property
    def put_timeout_s(self) -> float:
        return self._inner.put_timeout_s

    @property
    def writes(self) -> list[Call]:
        """The recorded calls that change something, in order."""
        return [call for call in self.calls if call.method in WRITES]

    def list(self, folder: str, known: Known = NOTHING_KNOWN) -> Files:
        return self._do("list", (folder,), lambda: self._inner.list(folder, known))

    def list_folders(self, folder: str) -> Folders:
        return self._do("list_folders", (folder,), lambda: self._inner.list_folders(folder))

    def walk(self, folder: str) -> Files:
        return self._do("walk", (folder,), lambda: self._inner.walk(folder))

    def exists(self, path: str) -> bool:
        return self._do("exists", (path,), lambda: self._inner.exists(path))

    def read(self, path: str) -> bytes:
        return self._do("read", (path,), lambda: self._inner.read(path))

    def put_if_absent(self, path: str, data: bytes) -> None:
        self._do("put_if_absent", (path,), lambda: self._inner.put_if_absent(path, data), data)

    def replace(self, path: str, data: bytes) -> None:
        self._do("replace", (path,), lambda: self._inner.replace(path, data), data)

    def read_version(self, path: str) -> FileVersion:
        return self._do("read", (path,), lambda: self._versioned().read_version(path))

    def swap(self, path: str, data: bytes, tag: str) -> None:
        self._do("swap", (path,), lambda: self._versioned().swap(path, data, tag))

    def _versioned(self) -> VersionedStorage:
        return cast("VersionedStorage", self._inner)

    def delete(self, paths: Iterable[str]) -> None:
        named = tuple(paths)
        self._do("delete", named, lambda: self._inner.delete(named))

    def delete_folder(self, folder: str) -> None:
        self._do("delete_folder", (folder,), lambda: self._inner.delete_folder(folder))

    def make_folder(self, folder: str) -> None:
        self._inner.make_folder(folder)

    def delete_empty_folders(self, folder: str) -> None:
        self._inner.delete_empty_folders(folder)

    def _do(
        self, method: str, paths: tuple[str, ...], act: Callable[[], _Result], data: bytes = b""
    ) -> _Result:
        call = Call(method, paths)
        if self._before is not None:
            self._before(call)
        effect = self._record(call)
        if effect is None:
            return act()
        moment = "before"
        if effect in _HAS_EFFECT:
            act()
            moment = "after"
        elif effect in _HALFWAY:
            folder = paths[0].rpartition("/")[0]
            half = f"{TEMPORARY_PREFIX}half-{len(self.calls)}"
            self._inner.replace(f"{folder}/{half}" if folder else half, data[: len(data) // 2])
            moment = "halfway through"
        where = f"{moment} {call}"
        if effect in _CRASHES:
            self.crashed = True
            raise SimulatedCrash(where)
        raise StorageError(
            f"A fault was injected {where}.",
            path=paths[0] if paths else "",
            had_no_effect=effect in _KNOWN,
        )

    def _record(self, call: Call) -> Effect | None:
        with self._guard:
            if self.crashed:
                raise SimulatedCrash(f"dead already at {call}")
            self.calls.append(call)
            struck = None
            for number, fault in enumerate(self._faults):
                if fault.matches(call):
                    self._seen[number] += 1
                    if fault.at <= self._seen[number] < fault.at + fault.times:
                        struck = struck or fault.effect
            return struck


def every_crash(healthy: FaultyStorage) -> Iterator[Fault]:
    """Crashes before, during (puts) and after each of the writes that ``healthy`` recorded."""
    for at, call in enumerate(healthy.writes, 1):
        yield Fault(Effect.CRASH_BEFORE, at)
        if call.method in PUTS:
            yield Fault(Effect.CRASH_HALFWAY, at)
        yield Fault(Effect.CRASH_AFTER, at)
