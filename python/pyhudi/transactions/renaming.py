"""The name that a table's properties give it; sessions with Apache Hudi sync to a catalog by it."""

from __future__ import annotations

from typing import Final

from pyhudi.clock import Clock
from pyhudi.format.properties import table_checksum
from pyhudi.locks.base import LockOwner, TableLock
from pyhudi.timeline.table import Table, open_table
from pyhudi.transactions.properties import rewrite_properties
from pyhudi.transactions.settle import Policy
from pyhudi.transactions.times import next_time

_NAME: Final = "hoodie.table.name"
_DATABASE: Final = "hoodie.database.name"
_CHECKSUM: Final = "hoodie.table.checksum"


def rename_table(table: Table, name: str, lock: TableLock, clock: Clock, policy: Policy) -> Table:
    """The table under another name, which its checksum covers: spec/properties.md P3.

    It is put under the lock. ``LockTimeout`` where the lock stayed taken; nothing is changed then.
    """
    time = next_time(clock, table.timeline(), table.config.utc, policy.times)
    lock.acquire(policy.lock_timeout_s, LockOwner.this_process(time))
    try:
        table = open_table(table.storage)
        raw = {**table.config.raw, _NAME: name}
        if _CHECKSUM in raw:
            raw[_CHECKSUM] = str(table_checksum(raw.get(_DATABASE, ""), name))
        return rewrite_properties(table, raw, lock)
    finally:
        lock.release()
