"""Opens the source of a table's instant times from options.

Counters are imported only when they are needed, like the clients of lock services.
"""

from __future__ import annotations

from dataclasses import replace

from pyhudi.choices import TimeSourceType
from pyhudi.clock import Clock
from pyhudi.lock_options import LockOptions
from pyhudi.locks.open import zookeeper_place
from pyhudi.transactions.times.times import CLOCK_TIMES, TimeSource

#: suffix that turns the lock's key or path into the counter's
SUFFIX = ".time"


def open_times(
    kind: TimeSourceType, said: LockOptions, table_name: str, root: str, clock: Clock
) -> TimeSource:
    """The source of instant times for the table ``table_name`` at ``root``.

    A counter is stored beside the table's lock, with the lock's options, even if the lock itself is
    of another kind. ``SetupError`` if a package is missing. Asks no service yet.
    """
    if kind is TimeSourceType.ZOOKEEPER:
        from pyhudi.transactions.times.zookeeper_times import ZookeeperTimes

        place = zookeeper_place(said, table_name, root)
        return ZookeeperTimes(replace(place, path=place.path + SUFFIX), clock)
    if kind is TimeSourceType.DYNAMODB:
        from pyhudi.locks.dynamodb import DynamoTable
        from pyhudi.transactions.times.dynamodb_times import DynamoTimes

        key = (said.dynamodb_partition_key or table_name) + SUFFIX
        return DynamoTimes(DynamoTable.of(said, said.dynamodb_table or ""), key, clock)
    return CLOCK_TIMES
