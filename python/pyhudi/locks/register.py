"""Locks in a register with compare-and-set: one small record that is written after a certain one.

A storage with conditional puts has such a register in an object, DynamoDB in an item. Every write
names the version that it follows, so of two rivals one is refused, and a late request of a dead
holder is refused as well.

Invariant: a waiter takes a lock over in three cases only. It has seen one version for the whole
lease that the holder declares. Or the register itself says that this much time has passed since the
version was written. Or the rule of the program that wrote it allows it. A holder declares a longer
lease than it relies on, as clocks may run at different rates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from pyhudi.clock import Clock, SystemClock
from pyhudi.errors import StorageError
from pyhudi.locks.base import LockHolder, LockOwner
from pyhudi.locks.leased import DECLARED, Sightings


@dataclass(frozen=True, slots=True)
class Record:
    """What a register holds.

    ``token`` names the attempt that took the lock, ``""`` for another program's. ``free``: nobody
    holds the lock. ``expired``: its writer's own rule calls it dead. ``lease_s`` is what the holder
    declares, ``age_s`` the time since the record was written by the register's own clock; None
    if it is not known. ``state`` is private to the register.
    """

    version: str
    token: str
    owner: LockOwner | None
    since_ms: int | None
    lease_s: float | None
    free: bool = False
    expired: bool = False
    age_s: float | None = None
    what: str = ""
    state: object = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Entry:
    """What a holder writes: its name, its token, since when and for how long."""

    token: str
    owner: LockOwner
    since_ms: int
    lease_s: float


class Register(Protocol):
    """One record with compare-and-set. ``StorageError`` if it cannot be reached."""

    @property
    def where(self) -> str:
        """Names the lock, for people."""

    def read(self) -> Record | None:
        """The record, or None if there is none."""

    def write(self, entry: Entry, after: Record | None) -> bool:
        """Put ``entry`` in place of ``after``; False if there is already another record."""

    def clear(self, held: Record) -> None:
        """Mark ``held`` as free; nothing happens if there is already another record."""


class RegisterLock:
    """A ``LockService`` over ``register``; the holder relies on ``lease_s``."""

    def __init__(
        self,
        register: Register,
        clock: Clock | None = None,
        *,
        lease_s: float,
        sightings: Sightings | None = None,
    ) -> None:
        self._register = register
        self._clock = clock or SystemClock()
        self._lease_s = lease_s
        self._sightings = sightings or Sightings()
        self._entry: Entry | None = None  # ours, while we hold it

    @property
    def where(self) -> str:
        return self._register.where

    @property
    def lease_s(self) -> float:
        return self._lease_s

    def ask(self, owner: LockOwner) -> bool:
        before = self._clock.monotonic()
        found = self._register.read()
        if found is not None and not found.free and not self._is_dead(found, before):
            return False
        declared_s = self._lease_s * DECLARED
        entry = Entry(self._clock.uuid(), owner, self._clock.now_ms(), declared_s)
        if not self._write(entry, found):
            return False
        self._entry = entry
        return True

    def withdraw(self) -> None:
        self._entry = None

    def is_ours(self) -> bool:
        return self._ours() is not None

    def extend(self, remaining_s: float) -> bool:
        found = self._ours()
        return found is not None and self._entry is not None and self._write(self._entry, found)

    def free(self) -> None:
        found = self._ours()
        self._entry = None
        if found is not None:
            self._register.clear(found)

    def holder(self) -> LockHolder | None:
        found = self._register.read()
        if found is None or found.free:
            return None
        return LockHolder(found.owner, found.since_ms, found.lease_s, found.what)

    def remedy(self, holder: LockHolder | None) -> str:
        if holder and holder.lease_s is not None:
            return (
                "Try again: if that writer is dead, its lock is taken over once it has been seen "
                f"unchanged for {holder.lease_s:g} s."
            )
        return (
            "Try again: if the program that took it is dead, it is taken over when the validity "
            "that it wrote there has passed."
        )

    def _ours(self) -> Record | None:
        found = self._register.read()
        entry = self._entry
        same = found and entry and found.token == entry.token and not found.free
        return found if same else None

    def _write(self, entry: Entry, after: Record | None) -> bool:
        try:
            return self._register.write(entry, after)
        except StorageError as error:
            if error.had_no_effect:
                raise
            found = self._register.read()
            landed = found is not None and found.token == entry.token and not found.free
            return landed and (after is None or found is None or found.version != after.version)

    def _is_dead(self, found: Record, before: float) -> bool:
        if found.expired:
            return True
        if found.lease_s is None:
            return False
        if found.age_s is not None and found.age_s > found.lease_s:
            return True
        after = self._clock.monotonic()
        unchanged_s = self._sightings.unchanged_s(self.where, found.version, before, after)
        return unchanged_s > found.lease_s
