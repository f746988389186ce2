"""The locks of file groups that one pessimistic write holds, from before its merge to its end.

They belong to the request, not to one of its attempts. If an attempt finds that its groups changed
while it waited, it begins again and keeps its locks; then nobody can change those groups any more.

Invariant: all writers take locks in one order, that of their names, and none waits for a lock while
it holds a later one; so no circle of writers can wait for each other. A daemon thread, which shares
no lock with the planner, renews the leases.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from pyhudi.clock import Clock
from pyhudi.errors import CommitUnknown, ConfigError, LockTimeout, StorageError, WriterFenced
from pyhudi.locks.base import LockOwner, TableLock

MOST_KEY: Final = "hoodie.write.lock.groups.max"
#: requests to the lock service at a time, where their order does not matter
_AT_ONCE: Final = 8
#: a lease is restarted when this part of it has passed
_PART_OF_LEASE: Final = 1 / 3

_LOG: Final = logging.getLogger(__name__)


class GroupLocks:
    """Locks by the names of the guarded groups; ``open_lock`` gives a fresh handle for a name.

    ``most`` bounds how many are held at a time, ``timeout_s`` how long one call of ``hold`` waits
    in all. Used by one thread, renewed by another.
    """

    def __init__(
        self, open_lock: Callable[[str], TableLock], clock: Clock, most: int, timeout_s: float
    ) -> None:
        self._open = open_lock
        self._clock = clock
        self._most = most
        self._timeout_s = timeout_s
        self._held: dict[str, TableLock] = {}
        self._lost: dict[str, str] = {}  # why, by name
        self._guard = threading.Lock()
        self._stopped = threading.Event()
        self._renewer: threading.Thread | None = None

    def __len__(self) -> int:
        return len(self._held)

    def __enter__(self) -> GroupLocks:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Release; after an unknown outcome let the leases end, as the commit may yet land."""
        if isinstance(error, CommitUnknown):
            self.stop()
        else:
            self.release()

    def hold(self, names: Iterable[str], owner: LockOwner) -> bool:
        """Hold exactly the locks of ``names``; whether any of them was taken just now.

        A group whose lock was taken just now may have changed before. ``ConfigError`` if there are
        too many, ``LockTimeout`` with ``group`` if one stays taken; locks taken so far stay held.
        """
        wanted = sorted(set(names))
        if len(wanted) > self._most:
            raise ConfigError(
                f"This write changes {len(wanted)} file groups, and a pessimistic write locks each "
                f"of them, but {MOST_KEY} is {self._most}. Nothing was written. Raise it, write "
                "to fewer groups at a time, or write to a table without pessimistic concurrency.",
                key=MOST_KEY,
                groups=len(wanted),
            )
        ours = {name for name in self._held if self._is_sure(name)}
        missing = [name for name in wanted if name not in ours]
        # A later lock in hand could close a circle of waiting writers: it is taken again.
        kept = {n for n in wanted if n in ours and not (missing and n > missing[0])}
        self._free([name for name in self._held if name not in kept])
        give_up = self._clock.monotonic() + self._timeout_s
        for name in wanted:
            if name not in kept:
                self._take(name, max(0.0, give_up - self._clock.monotonic()), owner)
        return bool(missing)

    def intact(self) -> bool:
        """Whether every lease holds by this process's own clock; asks nobody."""
        return all(map(self._is_sure, self._held))

    def check(self) -> None:
        """Check that every lock is still ours; ``WriterFenced`` with ``group`` if one is not."""

        def ask(name: str) -> None:
            try:
                self._held[name].check()
            except WriterFenced as error:
                self._lost.setdefault(name, _text(error))

        self._each(ask, [name for name in self._held if name not in self._lost])
        for name, why in sorted(self._lost.items()):
            raise WriterFenced(
                f"The lock of file group {name} did not last until the commit, so another writer "
                f"may have changed the group. {why}",
                group=name,
            )

    def renew(self) -> None:
        """Restart every lease; ``check`` and ``hold`` tell that one is lost."""
        with self._guard:
            held = dict(self._held)

        def extend(name: str) -> None:
            try:
                held[name].renew()
            except WriterFenced as error:
                with self._guard:
                    if self._held.get(name) is held[name]:
                        self._lost[name] = _text(error)
            except Exception as error:
                # The next round may succeed; if none does, the lease runs out.
                _LOG.warning("The lock of file group %s was not renewed: %s", name, error)

        self._each(extend, list(held))

    def release(self) -> None:
        """Give all of them up."""
        self.stop()
        self._free(list(self._held))

    def stop(self) -> None:
        """Stop renewing: the locks stay held until their leases end."""
        self._stopped.set()
        if self._renewer is not None:
            self._renewer.join()

    def _is_sure(self, name: str) -> bool:
        return name not in self._lost and self._held[name].held()

    def _take(self, name: str, timeout_s: float, owner: LockOwner) -> None:
        lock = self._open(name)
        try:
            lock.acquire(timeout_s, owner)
        except LockTimeout as error:
            late = error.restated(
                f"File group {name} stayed locked by another pessimistic write. {_text(error)}"
            )
            late.group = name
            raise late from error
        with self._guard:
            self._held[name] = lock
        if self._renewer is None:
            lease_s = lock.check()
            self._renewer = threading.Thread(
                target=self._run, args=(lease_s * _PART_OF_LEASE,), name="group locks", daemon=True
            )
            self._renewer.start()

    def _free(self, names: list[str]) -> None:
        with self._guard:
            locks = {name: self._held.pop(name) for name in names}
            for name in names:
                self._lost.pop(name, None)

        def give_up(name: str) -> None:
            try:
                locks[name].release()
            except StorageError as error:
                _LOG.warning("The lock of file group %s was not released: %s", name, error)

        self._each(give_up, names)

    def _each(self, do: Callable[[str], None], names: list[str]) -> None:
        if len(names) <= 1:
            for name in names:
                do(name)
            return
        with ThreadPoolExecutor(min(_AT_ONCE, len(names))) as pool:
            list(pool.map(do, names))

    def _run(self, interval_s: float) -> None:
        while not self._stopped.wait(interval_s):
            self.renew()


def _text(error: LockTimeout | WriterFenced) -> str:
    """The message without the error's name, which the error around it repeats."""
    return str(error).removeprefix(f"[{error.code()}] ")
