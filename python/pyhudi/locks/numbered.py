"""RFC-22's lock of files with increasing numbers: ``.hoodie/locks/lock<N>.acquired``.

The writer that puts ``lock<N>.acquired`` has the lock until ``lock<N>.released`` exists; only then
may another take the next number. A file never changes its owner, so a late request of a dead holder
harms nobody. The acquired file holds the instant of the write that took it, and facts for people.
Renewals are ``lock<N>.heartbeat``, a count: a lock also guards rollbacks, which act for instants
whose own heartbeats must stay dead. Apache Hudi has no provider of this layout: it serves writers
of pyhudi among themselves, on any storage with put-if-absent.

Invariant: ``lock<N>.released`` is put by the holder, or by a waiter that saw acquired and heartbeat
unchanged for a whole lease. A holder renews only while more than the storage's ``put_timeout_s``
remains, so a beat has landed before its old lease ends, and nobody calls a living holder dead.
"""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass
from typing import Final

from pyhudi.clock import Clock, SystemClock
from pyhudi.errors import ConfigError, FileExists, StorageError
from pyhudi.locks.base import LockHolder, LockOwner
from pyhudi.locks.leased import DECLARED, Sightings
from pyhudi.locks.owner_text import owner_facts, owner_of
from pyhudi.storage.base import Storage

FOLDER: Final = ".hoodie/locks"
LEAST_LEASE_S: Final = 30.0

_LOG: Final = logging.getLogger(__name__)
_NAME: Final = re.compile(r"lock(\d+)\.(acquired|released|heartbeat)")
_KEPT: Final = 4  # numbers that stay behind, for people to read


@dataclass(frozen=True, slots=True)
class _Files:
    """The folder as listed: the highest number taken (0: none), and the names of all files."""

    top: int
    names: frozenset[str]

    def has(self, number: int, kind: str) -> bool:
        return f"lock{number}.{kind}" in self.names


@dataclass(frozen=True, slots=True)
class _Acquired:
    """What an acquired file says; without an owner if it is not one of ours."""

    token: str
    owner: LockOwner | None
    since_ms: int | None
    lease_s: float | None


class NumberedFiles:
    """A ``LockService`` in the folder ``.hoodie/locks`` of the table that ``storage`` holds."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock | None = None,
        *,
        lease_s: float | None = None,
        margin_s: float | None = None,
        sightings: Sightings | None = None,
    ) -> None:
        self._storage = storage
        self._clock = clock or SystemClock()
        self._margin_s = storage.put_timeout_s if margin_s is None else margin_s
        self._lease_s = lease_s or max(LEAST_LEASE_S, 4 * self._margin_s)
        if self._lease_s <= 3 * self._margin_s:
            raise ConfigError(
                f"A lock lease of {self._lease_s:g} s is too short for a storage whose puts may "
                f"take {self._margin_s:g} s: it must exceed {3 * self._margin_s:g} s."
            )
        self._sightings = sightings or Sightings()
        self._number = 0  # ours, while we hold it
        self._token = ""
        self._beats = 0

    @property
    def where(self) -> str:
        return f"'{self._storage.root}/{FOLDER}'"

    @property
    def lease_s(self) -> float:
        return self._lease_s

    def ask(self, owner: LockOwner) -> bool:
        before, files = self._clock.monotonic(), self._files()
        if files.top and not files.has(files.top, "released"):
            if not self._is_dead(files.top, before):
                return False
            _LOG.warning("Releasing lock %d in %s: its holder is dead.", files.top, self.where)
            self._release(files.top)
        number, token = files.top + 1, self._clock.uuid()
        try:
            self._storage.put_if_absent(_path(number, "acquired"), self._content(token, owner))
        except FileExists:
            return False
        except StorageError as error:
            if error.had_no_effect:
                raise
            found = self._acquired(number)
            if found is None or found.token != token:
                return False
                # An old number may have been deleted while its writer slept.
        if self._files().top != number:
            return False
        self._number, self._token, self._beats = number, token, 0
        self._tidy(files)
        return True

    def withdraw(self) -> None:
        self._number = 0

    def is_ours(self) -> bool:
        files = self._files()
        if files.top != self._number or files.has(self._number, "released"):
            return False
        found = self._acquired(self._number)
        return found is not None and found.token == self._token

    def extend(self, remaining_s: float) -> bool:
        if remaining_s <= self._margin_s:
            return False
        self._beats += 1
        self._storage.replace(_path(self._number, "heartbeat"), str(self._beats).encode())
        return self.is_ours()

    def free(self) -> None:
        number, self._number = self._number, 0
        self._release(number)

    def holder(self) -> LockHolder | None:
        files = self._files()
        if not files.top or files.has(files.top, "released"):
            return None
        found = self._acquired(files.top)
        if found is None:
            return None
        what = "" if found.owner else "another program"
        return LockHolder(found.owner, found.since_ms, found.lease_s, what)

    def remedy(self, holder: LockHolder | None) -> str:
        lease_s = (holder.lease_s if holder else None) or self._lease_s
        return (
            "Try again: if that writer is dead, its lock is released once it has been seen "
            f"unchanged for {lease_s:g} s."
        )

    def _is_dead(self, number: int, before: float) -> bool:
        """Whether a whole lease has passed without a sign of life; our look began at ``before``."""
        found = self._acquired(number)
        if found is None:
            return False
        try:
            beat = self._storage.read(_path(number, "heartbeat"))
        except FileNotFoundError:
            beat = b""
        mark, after = (number, found.token, beat), self._clock.monotonic()
        unchanged_s = self._sightings.unchanged_s(self.where, mark, before, after)
        return unchanged_s > (found.lease_s or self._lease_s)

    def _release(self, number: int) -> None:
        try:
            self._storage.put_if_absent(_path(number, "released"), b"")
        except FileExists:
            return

    def _files(self) -> _Files:
        listed = self._storage.list(FOLDER)
        found = [(m, f.name) for f in listed if (m := _NAME.fullmatch(f.name))]
        taken = [int(m[1]) for m, _ in found if m[2] == "acquired"]
        return _Files(max(taken, default=0), frozenset(name for _, name in found))

    def _acquired(self, number: int) -> _Acquired | None:
        try:
            raw = self._storage.read(_path(number, "acquired"))
        except FileNotFoundError:
            return None
        try:
            facts = json.loads(raw)
            owner, since_ms = owner_of(facts)
            return _Acquired(str(facts["token"]), owner, since_ms, float(facts["leaseSeconds"]))
        except (ValueError, KeyError, TypeError):
            return _Acquired("", None, None, None)

    def _content(self, token: str, owner: LockOwner) -> bytes:
        facts = owner_facts(owner, self._clock.now_ms())
        declared_s = self._lease_s * DECLARED
        return json.dumps({**facts, "leaseSeconds": declared_s, "token": token}).encode()

    def _tidy(self, files: _Files) -> None:
        """Delete old numbers; the next holder repeats what failed."""
        old = [name for name in files.names if int(_number(name)) <= files.top - _KEPT]
        try:
            self._storage.delete(f"{FOLDER}/{name}" for name in sorted(old))
        except StorageError as error:
            _LOG.warning("Old files in %s were not deleted: %s", self.where, error)


def _path(number: int, kind: str) -> str:
    return f"{FOLDER}/lock{number}.{kind}"


def _number(name: str) -> str:
    found = _NAME.fullmatch(name)
    return found[1] if found else "0"
