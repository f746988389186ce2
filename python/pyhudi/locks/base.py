"""The lock contract: who may change a table, and until when.

A lock is a lease. The holder counts it by its own monotonic clock from *before* the request that
took or renewed it, so it takes the lease for ended no later than anybody else does. Right before
the guarded action it calls ``check`` with the most seconds that the action may take: a holder whose
lease is shorter is fenced. Every implementation passes ``tests/contracts``.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Protocol

from pyhudi.errors import LockTimeout


@dataclass(frozen=True, slots=True)
class LockOwner:
    """The writer that asks for the lock; ``instant`` is the instant time that it writes."""

    instant: str
    host: str
    pid: int
    application: str = ""

    @classmethod
    def this_process(cls, instant: str, application: str = "") -> LockOwner:
        """The owner for a write of this process."""
        return cls(instant, socket.gethostname(), os.getpid(), application)

    def __str__(self) -> str:
        program = f" ({self.application})" if self.application else ""
        return f"the writer of instant {self.instant} on {self.host}, process {self.pid}{program}"


@dataclass(frozen=True, slots=True)
class LockHolder:
    """What is known of the present holder.

    ``owner`` is None if another program took the lock and did not name itself; ``what`` then has
    the little that is known. ``since_ms`` is epoch milliseconds by the holder's clock or, for
    another program's lock, by the storage's; ``lease_s`` is None if the lock never expires.
    """

    owner: LockOwner | None
    since_ms: int | None
    lease_s: float | None
    what: str = ""

    def __str__(self) -> str:
        who = str(self.owner) if self.owner else self.what or "an unknown program"
        return f"{who} since {iso_utc(self.since_ms)}" if self.since_ms is not None else who


class TableLock(Protocol):
    """One writer's handle on the lock of one table; not re-entrant, safe to use from threads."""

    def acquire(self, timeout_s: float, owner: LockOwner) -> None:
        """Take the lock, waiting at most about ``timeout_s``; ``LockTimeout`` names the holder.

        A handle that has the lock must release it first, even if its lease has lapsed.
        """

    def held(self) -> bool:
        """Whether this handle holds an unexpired lease by its own clock; asks nobody."""

    def check(self, needed_s: float = 0.0) -> float:
        """Ask the lock service whether we still hold it; gives the remaining lease in seconds.

        ``WriterFenced`` if somebody else has it or no more than ``needed_s`` seconds remain.
        """

    def renew(self) -> None:
        """Restart the lease; ``WriterFenced`` if it has lapsed or somebody else has it."""

    def release(self) -> None:
        """Give the lock up; nothing happens if it is not, or no longer, ours."""

    def describe(self) -> LockHolder | None:
        """The present holder, of any program, or None if the lock is free."""


def lock_timeout(
    where: str, timeout_s: float, holder: LockHolder | None, remedy: str
) -> LockTimeout:
    """The error of a wait that ended without the lock ``where``."""
    if holder is None:
        taken = "others took it each time that it was free"
    else:
        taken = f"it is held by {holder}"
    return LockTimeout(
        f"The lock {where} was not free within {timeout_s:g} s: {taken}. {remedy}",
        owner=holder.owner if holder else None,
        host=holder.owner.host if holder and holder.owner else None,
        since=holder.since_ms if holder else None,
    )


def iso_utc(epoch_ms: int) -> str:
    """A time for people, in UTC: ``2024-05-01 12:30:05 UTC``."""
    moment = datetime.fromtimestamp(epoch_ms / 1_000, tz=timezone.utc)
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")
