"""The lock of Hudi's ``StorageBasedLockProvider``: ``.hoodie/.locks/table_lock.json``.

An object with conditional puts is the register. It says ``expired`` (the lock is free), the time
``validUntil`` (epoch milliseconds by the holder's wall clock) and ``owner``. Hudi's reader ignores
other keys, so the facts about our writers are beside these, under ``pyhudi``.

Hudi takes the lock over when its own wall clock is half a second past ``validUntil``. Our writers
measure each other's leases by their own clocks (``register``). For Hudi's locks they use Hudi's
rule, if both their clock and the storage's agree; so the wall clocks of mixed writers must agree.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from pyhudi.clock import Clock, SystemClock
from pyhudi.errors import FileExists
from pyhudi.locks.owner_text import owner_facts, owner_of
from pyhudi.locks.register import Entry, Record
from pyhudi.storage.base import FileVersion, VersionedStorage

PATH: Final = ".hoodie/.locks/table_lock.json"

# How far the wall clocks of writers, or of a store's servers, may differ before a lock in use is
# taken over.
_DRIFT_MS: Final = 5_000
_ROUNDING_S: Final = 2.0  # object stores tell times in whole seconds


@dataclass(frozen=True, slots=True)
class _Said:
    """The keys that Hudi knows."""

    free: bool
    valid_until_ms: int
    owner: str


class StorageRegister:
    """A ``Register`` in one object of the table that ``storage`` holds."""

    def __init__(self, storage: VersionedStorage, clock: Clock | None = None) -> None:
        self._storage = storage
        self._clock = clock or SystemClock()

    @property
    def where(self) -> str:
        return f"'{self._storage.root}/{PATH}'"

    def read(self) -> Record | None:
        try:
            found = self._storage.read_version(PATH)
        except FileNotFoundError:
            return None
        content, said = _parse(found.data)
        # The clocks of several servers of the store.
        age_s = (found.now_ms - found.modified_ms - _DRIFT_MS) / 1_000 - _ROUNDING_S
        try:
            ours = content["pyhudi"]
            owner, since_ms = owner_of(ours)
            return Record(
                found.tag,
                str(ours["token"]),
                owner,
                since_ms,
                float(ours["leaseSeconds"]),
                free=said.free,
                age_s=age_s,
                state=said,
            )
        except (ValueError, KeyError, TypeError):
            return self._foreign(found, said)

    def write(self, entry: Entry, after: Record | None) -> bool:
        valid_until_ms = self._clock.now_ms() + int(entry.lease_s * 1_000) + _DRIFT_MS
        content = {
            "expired": False,
            "validUntil": valid_until_ms,
            "owner": f"pyhudi, {entry.owner}, {entry.token}",
            "pyhudi": {
                **owner_facts(entry.owner, entry.since_ms),
                "leaseSeconds": entry.lease_s,
                "token": entry.token,
                # So that a renewal within the same millisecond is also a new version.
                "written": self._clock.uuid(),
            },
        }
        return self._put(content, after)

    def clear(self, held: Record) -> None:
        said = held.state
        if isinstance(said, _Said):
            content = {"expired": True, "validUntil": said.valid_until_ms, "owner": said.owner}
            self._put(content, held)

    def _put(self, content: dict[str, Any], after: Record | None) -> bool:
        data = json.dumps(content).encode()
        try:
            if after is None:
                self._storage.put_if_absent(PATH, data)
            else:
                self._storage.swap(PATH, data, after.version)
        except FileExists:
            return False
        return True

    def _foreign(self, found: FileVersion, said: _Said) -> Record:
        now_ms = min(self._clock.now_ms(), found.now_ms)
        return Record(
            found.tag,
            "",
            None,
            found.modified_ms,
            None,
            free=said.free,
            expired=now_ms > said.valid_until_ms + _DRIFT_MS,
            what=f"Apache Hudi (owner '{said.owner}')" if said.owner else "another program",
            state=said,
        )


def _parse(data: bytes) -> tuple[dict[str, Any], _Said]:
    """The content; one that cannot be parsed is held for ever, by an unknown holder."""
    try:
        content = json.loads(data)
        said = _Said(bool(content["expired"]), int(content["validUntil"]), str(content["owner"]))
        return content, said
    except (ValueError, KeyError, TypeError):
        return {}, _Said(False, 1 << 62, "")
