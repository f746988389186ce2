"""A lock among the threads of one process: for tests and the simulation, no guard for real tables.

Handles made from one ``InProcessLocks`` for one table exclude each other.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

from pyhudi.clock import Clock, SystemClock
from pyhudi.errors import WriterFenced
from pyhudi.locks.base import LockHolder, LockOwner, lock_timeout
from pyhudi.locks.cancelling import pause

_POLL_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class _Lease:
    handle: InProcessLock
    owner: LockOwner
    since_ms: int
    ends: float  # monotonic seconds


class InProcessLocks:
    """The leases of this process, by table."""

    def __init__(self) -> None:
        self.guard = threading.Lock()
        self.leases: dict[str, _Lease] = {}


class InProcessLock:
    """A ``TableLock`` on ``table``, any text that names it, kept in ``locks``."""

    def __init__(
        self,
        locks: InProcessLocks,
        table: str,
        clock: Clock | None = None,
        lease_s: float = 60.0,
    ) -> None:
        self._locks = locks
        self._table = table
        self._clock = clock or SystemClock()
        self._lease_s = lease_s

    def acquire(self, timeout_s: float, owner: LockOwner) -> None:
        give_up = self._clock.monotonic() + timeout_s
        while not self._try(owner):
            if self._clock.monotonic() >= give_up:
                remedy = "Wait until it is released, or for its lease to end."
                raise lock_timeout(f"of '{self._table}'", timeout_s, self.describe(), remedy)
            pause(self._clock, _POLL_S)

    def held(self) -> bool:
        with self._locks.guard:
            lease = self._locks.leases.get(self._table)
            return lease is not None and lease.handle is self and self._remaining(lease) > 0

    def check(self, needed_s: float = 0.0) -> float:
        with self._locks.guard:
            return self._remaining(self._ours(needed_s))

    def renew(self) -> None:
        with self._locks.guard:
            lease = self._ours(0.0)
            ends = self._clock.monotonic() + self._lease_s
            self._locks.leases[self._table] = _Lease(self, lease.owner, lease.since_ms, ends)

    def release(self) -> None:
        with self._locks.guard:
            lease = self._locks.leases.get(self._table)
            if lease is not None and lease.handle is self:
                del self._locks.leases[self._table]

    def describe(self) -> LockHolder | None:
        with self._locks.guard:
            lease = self._locks.leases.get(self._table)
        return LockHolder(lease.owner, lease.since_ms, self._lease_s) if lease else None

    def _try(self, owner: LockOwner) -> bool:
        with self._locks.guard:
            lease = self._locks.leases.get(self._table)
            if lease is not None and lease.handle is self:
                raise RuntimeError(f"this handle already has the lock of '{self._table}'")
            if lease is not None and self._remaining(lease) > 0:
                return False
            ends = self._clock.monotonic() + self._lease_s
            self._locks.leases[self._table] = _Lease(self, owner, self._clock.now_ms(), ends)
            return True

    def _ours(self, needed_s: float) -> _Lease:
        lease = self._locks.leases.get(self._table)
        if lease is None or lease.handle is not self:
            taken = f"{lease.owner} has it now" if lease else "nobody holds it"
            raise WriterFenced(
                f"The lock of '{self._table}' is lost: {taken}. "
                "Start the write or the service again."
            )
        if self._remaining(lease) <= needed_s:
            raise WriterFenced(
                f"The lease on the lock of '{self._table}' has run out. "
                "Start the write or the service again."
            )
        return lease

    def _remaining(self, lease: _Lease) -> float:
        return lease.ends - self._clock.monotonic()
