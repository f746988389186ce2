"""Hudi's lock file ``.hoodie/lock``, on any storage that has put-if-absent: the default guard.

Apache Hudi's ``FileSystemBasedLockProvider`` respects the file by its name alone, and deletes it
when its age by modification time exceeds ``hoodie.write.lock.filesystem.expire`` minutes. pyhudi
adds a lease to what it writes: a waiter that has seen one and the same content for a whole lease,
by its own monotonic clock, may take the lock over. No two wall clocks are ever compared.

Invariant: of pyhudi's writers at most one holds an unexpired lease, as long as no request takes
effect later than the margin (by default the storage's ``put_timeout_s``) after it was sent:

* a holder renews and releases only while more than the margin remains of its lease, so neither
  request can hit a successor's lock;
* a take-over (look once more, then replace) that took longer than the margin does not count, and
  its file is left to expire; one that counts waits a margin and then checks that its file was not
  replaced. So every rival that saw the old content has acted or given up by then.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from pyhudi.clock import Clock, SystemClock
from pyhudi.errors import ConfigError, FileExists, LockTimeout, StorageError, WriterFenced
from pyhudi.locks.base import LockHolder, LockOwner, lock_timeout
from pyhudi.locks.leased import Sightings, taken, wait_for
from pyhudi.locks.lock_file import LockFile, parse_lock_file, render_lock_file
from pyhudi.storage.base import Storage

LOCK_PATH: Final = ".hoodie/lock"

_LOG: Final = logging.getLogger(__name__)
_LEAST_LEASE_S: Final = 30.0
# How far Hudi's wall clock may be ahead of the storage's, which gives the age of our lock.
_DRIFT_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class _Lease:
    file: LockFile
    ends: float  # monotonic seconds


class FilesystemLock:
    """A ``TableLock`` in the file ``path`` of the table that ``storage`` holds.

    ``lease_s``: how long a lock outlives its holder's last sign of life; the default is 30 s or
    four margins. ``expire_minutes`` is ``hoodie.write.lock.filesystem.expire``: the age at which
    another program's lock counts as abandoned, 0 for never. ``sightings`` are shared with other
    handles: a dead holder's lock is taken over even if each handle waits for less than its lease.
    """

    def __init__(
        self,
        storage: Storage,
        clock: Clock | None = None,
        *,
        path: str = LOCK_PATH,
        lease_s: float | None = None,
        margin_s: float | None = None,
        expire_minutes: int = 0,
        sightings: Sightings | None = None,
    ) -> None:
        self._storage = storage
        self._clock = clock or SystemClock()
        self._path = path
        self._margin_s = storage.put_timeout_s if margin_s is None else margin_s
        self._lease_s = lease_s or max(_LEAST_LEASE_S, 4 * self._margin_s)
        if expire_minutes < 0:
            raise ConfigError(
                f"hoodie.write.lock.filesystem.expire is {expire_minutes}: it must be 0 (never) "
                "or a number of minutes.",
                key="hoodie.write.lock.filesystem.expire",
            )
        if expire_minutes:  # Hudi breaks our lock at that age, so we must not rely on it for longer
            self._lease_s = min(self._lease_s, expire_minutes * 60.0 - _DRIFT_S)
        if self._lease_s <= 3 * self._margin_s:
            raise ConfigError(
                f"A lock lease of {self._lease_s:g} s is too short for a storage whose puts may "
                f"take {self._margin_s:g} s: it must exceed {3 * self._margin_s:g} s.",
                key="hoodie.write.lock.filesystem.expire",
            )
        self._expire_ms = expire_minutes * 60_000
        self._lease: _Lease | None = None
        self._guard = threading.RLock()
        self._sightings = sightings or Sightings()

    def __repr__(self) -> str:
        return f"FilesystemLock({self._where()})"

    def acquire(self, timeout_s: float, owner: LockOwner) -> None:
        if self._lease is not None:
            raise RuntimeError(f"this handle already has the lock {self._where()}")
        attempt = partial(self._try, owner)
        if not wait_for(self._clock, attempt, timeout_s, what=self._taken):
            raise self._timeout(timeout_s)

    def _taken(self) -> str:
        return taken(self._where(), self.describe)

    def held(self) -> bool:
        lease = self._lease
        return lease is not None and lease.ends > self._clock.monotonic()

    def check(self, needed_s: float = 0.0) -> float:
        with self._guard:
            lease = self._still_ours()
            remaining = lease.ends - self._clock.monotonic()
            if remaining <= needed_s:
                raise WriterFenced(
                    f"Only {max(remaining, 0):.1f} s remain of the lease on the lock "
                    f"{self._where()}, and {needed_s:g} s are needed. "
                    "Start the write or the service again."
                )
            return remaining

    def renew(self) -> None:
        with self._guard:
            started = self._clock.monotonic()
            lease = self._still_ours()
            if lease.ends - started <= self._margin_s:
                raise WriterFenced(
                    f"It is too late to renew the lease on the lock {self._where()}: another "
                    "writer may be about to take it. Start the write or the service again."
                )
            beaten = replace(lease.file, beat=lease.file.beat + 1)
            self._storage.replace(self._path, render_lock_file(beaten))
            if self._clock.monotonic() >= lease.ends:
                # The process stood still in between, and a successor's lock may be overwritten.
                self._lease = None
                raise WriterFenced(
                    f"The lease on the lock {self._where()} ran out while it was being renewed: "
                    "another writer may have had it meanwhile. "
                    "Start the write or the service again."
                )
            self._lease = _Lease(beaten, started + self._lease_s)

    def release(self) -> None:
        with self._guard:
            lease, self._lease = self._lease, None
            if lease is None:
                return
            try:
                found = self._look()
                in_time = lease.ends - self._clock.monotonic() > self._margin_s
                if found and found.token == lease.file.token and in_time:
                    self._storage.delete([self._path])
            except StorageError as error:
                # What the lock guarded is done; the lease ends by itself.
                _LOG.warning("The lock %s could not be released: %s", self._where(), error)

    def describe(self) -> LockHolder | None:
        found = self._look()
        if found is None:
            return None
        since_ms = found.since_ms if found.owner else self._modified_ms()
        return LockHolder(found.owner, since_ms, found.lease_s, found.what)

    def _try(self, owner: LockOwner) -> bool:
        """One attempt, with its own token: an attempt that was given up must not count."""
        ours = LockFile(self._clock.uuid(), owner, self._clock.now_ms(), self._lease_s)
        started = self._clock.monotonic()
        try:
            self._storage.put_if_absent(self._path, render_lock_file(ours))
        except StorageError as error:
            if error.had_no_effect and not isinstance(error, FileExists):
                raise
            looked = self._clock.monotonic()
            found = self._look()
            if found is None:
                return False
            if found.token != ours.token:
                return self._is_expired(found, looked) and self._take_over(found, ours)
        self._lease = _Lease(ours, started + self._lease_s)
        return True

    def _is_expired(self, found: LockFile, looked: float) -> bool:
        """Whether ``found`` holds no longer for anybody; our look began at ``looked``."""
        after = self._clock.monotonic()
        unchanged_s = self._sightings.unchanged_s(self._where(), found.raw, looked, after)
        if found.lease_s is not None:
            return unchanged_s > found.lease_s
        modified_ms = self._modified_ms() if self._expire_ms else None
        return modified_ms is not None and self._clock.now_ms() - modified_ms > self._expire_ms

    def _take_over(self, dead: LockFile, ours: LockFile) -> bool:
        _LOG.warning("Taking the lock %s over from %s.", self._where(), dead.owner or dead.what)
        started = self._clock.monotonic()
        found = self._look()
        if found is None or found.raw != dead.raw:
            return False
        try:
            self._storage.replace(self._path, render_lock_file(ours))
        except StorageError as error:
            if error.had_no_effect:
                raise
            return False
        if self._clock.monotonic() - started >= self._margin_s:
            return False
        self._clock.sleep(self._margin_s)
        found = self._look()
        if found is None or found.token != ours.token:
            return False
        self._lease = _Lease(ours, started + self._lease_s)
        return True

    def _still_ours(self) -> _Lease:
        lease = self._lease
        if lease is None:
            raise WriterFenced(f"This writer does not hold the lock {self._where()}.")
        found = self._look()
        if found is None or found.token != lease.file.token:
            self._lease = None
            now = f"{self.describe()} has it now" if found else "the file is gone"
            raise WriterFenced(
                f"The lock {self._where()} is lost: {now}. Start the write or the service again."
            )
        return lease

    def _look(self) -> LockFile | None:
        try:
            return parse_lock_file(self._storage.read(self._path))
        except FileNotFoundError:
            return None

    def _modified_ms(self) -> int | None:
        folder = self._path.rpartition("/")[0]
        times = [f.modified_ms for f in self._storage.list(folder) if f.path == self._path]
        return times[0] if times else None

    def _where(self) -> str:
        return f"'{self._storage.root}/{self._path}'"

    def _timeout(self, timeout_s: float) -> LockTimeout:
        holder = self.describe()
        if holder and holder.lease_s is not None:
            remedy = (
                "Try again: if that writer is dead, its lock is taken over once it has been seen "
                f"unchanged for {holder.lease_s:g} s."
            )
        else:
            remedy = (
                "Try again. If the program that took it is gone, delete that file, or set "
                "hoodie.write.lock.filesystem.expire to the minutes after which it counts as dead."
            )
        return lock_timeout(self._where(), timeout_s, holder, remedy)
