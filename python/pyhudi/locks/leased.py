"""The lock contract over a service that keeps locks: what is the same for all of them.

A ``LockService`` asks its service (files, a register, ZooKeeper, a metastore) and says what it
found; ``LeasedLock`` waits, counts the lease and fences.

Invariant: the lease is counted by the holder's monotonic clock from before the request that took
or renewed it, so the holder takes it for ended no later than the service does.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final, Protocol

from pyhudi.clock import Clock, SystemClock
from pyhudi.errors import StorageError, WriterFenced
from pyhudi.locks.base import LockHolder, LockOwner, lock_timeout
from pyhudi.locks.cancelling import pause

_LOG: Final = logging.getLogger(__name__)
_FIRST_PAUSE_MS: Final = 20
_LONGEST_PAUSE_MS: Final = 1_000
#: seconds after which a wait says what it waits for
TELL_S: Final = 2
#: A holder relies on a shorter lease than it declares, as its clock may be slower than a waiter's.
#: The factor is twenty times what NTP slews a clock. Amazon's lock client has no such margin.
DECLARED: Final = 1.01
#: for services with a queue, whose next waiter should not be asleep
QUEUE_PAUSE_MS: Final = 100


class LockService(Protocol):
    """One handle on a lock service. ``StorageError`` if the service does not answer."""

    @property
    def where(self) -> str:
        """Names the lock, for people."""

    @property
    def lease_s(self) -> float:
        """How long the service keeps a silent holder's lock; asked after the lock is ours."""

    def ask(self, owner: LockOwner) -> bool:
        """One attempt to take the lock; repeated until it is true or withdrawn."""

    def withdraw(self) -> None:
        """Stop asking, and leave nothing behind; also ends requests whose replies were lost."""

    def is_ours(self) -> bool:
        """Whether the service still has us as the holder."""

    def extend(self, remaining_s: float) -> bool:
        """Restart the lease while ``remaining_s`` of it are left; False if it was lost."""

    def free(self) -> None:
        """Give up what is ours, and nothing else."""

    def holder(self) -> LockHolder | None:
        """The present holder, of any program."""

    def remedy(self, holder: LockHolder | None) -> str:
        """What a writer can do after it waited for the lock without success."""


class LeasedLock:
    """A ``TableLock`` on what ``service`` keeps; waiters pause ``longest_pause_ms`` at most."""

    def __init__(
        self,
        service: LockService,
        clock: Clock | None = None,
        longest_pause_ms: int = _LONGEST_PAUSE_MS,
    ) -> None:
        self._service = service
        self._clock = clock or SystemClock()
        self._longest_pause_ms = longest_pause_ms
        self._ends: float | None = None  # of the lease, monotonic seconds
        self._guard = threading.RLock()

    def __repr__(self) -> str:
        return f"LeasedLock({self._service.where})"

    def acquire(self, timeout_s: float, owner: LockOwner) -> None:
        service = self._service
        if self._ends is not None:
            raise RuntimeError(f"this handle has the lock {service.where} already")
        started = self._clock.monotonic()

        def attempt() -> bool:
            nonlocal started
            started = self._clock.monotonic()
            return service.ask(owner)

        try:
            if not wait_for(self._clock, attempt, timeout_s, self._longest_pause_ms, self._taken):
                holder = service.holder()
                raise lock_timeout(service.where, timeout_s, holder, service.remedy(holder))
        except BaseException:
            self._withdraw()
            raise
        self._ends = started + service.lease_s

    def _taken(self) -> str:
        return taken(self._service.where, self._service.holder)

    def held(self) -> bool:
        ends = self._ends
        return ends is not None and ends > self._clock.monotonic()

    def check(self, needed_s: float = 0.0) -> float:
        with self._guard:
            ends = self._held_until()
            if not self._service.is_ours():
                raise self._lost()
            remaining = ends - self._clock.monotonic()
            if remaining <= needed_s:
                raise WriterFenced(
                    f"Only {max(remaining, 0):.1f} s remain of the lease on the lock "
                    f"{self._service.where}, and {needed_s:g} s are needed. "
                    "Start the write or the service again."
                )
            return remaining

    def renew(self) -> None:
        with self._guard:
            ends, started = self._held_until(), self._clock.monotonic()
            if ends <= started:
                raise WriterFenced(
                    f"The lease on the lock {self._service.where} has run out. Start the write "
                    "again."
                )
            # If the process stood still during the request, a successor may have acted between
            # the request's effect and its answer.
            if not self._service.extend(ends - started) or self._clock.monotonic() >= ends:
                raise self._lost()
            self._ends = started + self._service.lease_s

    def release(self) -> None:
        with self._guard:
            ends, self._ends = self._ends, None
            if ends is None:
                return
            try:
                self._service.free()
            except StorageError as error:
                # What the lock guarded is done; the lease ends by itself.
                _LOG.warning("The lock %s was not released: %s", self._service.where, error)

    def describe(self) -> LockHolder | None:
        return self._service.holder()

    def _held_until(self) -> float:
        if self._ends is None:
            raise WriterFenced(f"This writer does not hold the lock {self._service.where}.")
        return self._ends

    def _lost(self) -> WriterFenced:
        self._ends = None
        try:
            holder = self._service.holder()
            now = f"{holder} has it now" if holder else "nobody holds it now"
        except StorageError:
            now = "the lock service does not say who has it now"
        self._withdraw()
        return WriterFenced(
            f"The lock {self._service.where} is lost: {now}. Start the write or the service again."
        )

    def _withdraw(self) -> None:
        try:
            self._service.withdraw()
        except StorageError as error:
            _LOG.warning("A request for the lock %s may remain: %s", self._service.where, error)


class Sightings:
    """What waiters saw, and when: a holder unchanged for a whole lease is dead.

    Times are monotonic, so no two clocks are compared. One object may serve many handles: if one
    write gives up waiting for a lock, the next can take it over.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[object, float]] = {}
        self._guard = threading.Lock()

    def unchanged_s(self, lock: str, mark: object, before: float, after: float) -> float:
        """Seconds for which the holder of ``lock`` has certainly shown the same ``mark``.

        ``before`` and ``after`` are the times around the look that found it.
        """
        with self._guard:
            if self._seen.get(lock, (None, 0.0))[0] != mark:
                self._seen[lock] = (mark, after)
            return before - self._seen[lock][1]


def taken(where: str, holder: Callable[[], LockHolder | None]) -> str:
    """The lock ``where`` and its present holder, for people."""
    try:
        found = holder()
    except StorageError:
        found = None
    return f"the lock {where}, held by {found}" if found else f"the lock {where}"


def wait_for(
    clock: Clock,
    attempt: Callable[[], bool],
    timeout_s: float,
    longest_pause_ms: int = _LONGEST_PAUSE_MS,
    what: Callable[[], str] | None = None,
) -> bool:
    """Repeat ``attempt`` until it succeeds or about ``timeout_s`` have passed; pauses grow.

    ``what`` says what a wait of more than two seconds waits for.
    """
    began = clock.monotonic()
    give_up, tell = began + timeout_s, began + TELL_S
    pause_ms = _FIRST_PAUSE_MS
    while not attempt():
        rest = give_up - clock.monotonic()
        if rest <= 0:
            return False
        if what is not None and clock.monotonic() >= tell:
            _LOG.warning("Waiting for %s, for %.0f s more at most.", what(), rest)
            what = None
        drawn_ms = pause_ms // 2 + clock.random_int(pause_ms)
        pause(clock, min(drawn_ms / 1_000, rest))
        pause_ms = min(2 * pause_ms, longest_pause_ms)
    return True
