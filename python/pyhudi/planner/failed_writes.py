"""``pyhudi clean --failed-writes``: from a path and options to the outcome of failed writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyhudi.clock import Clock, SystemClock
from pyhudi.config import FailedWrites, WriteOptions, resolve_write
from pyhudi.locks.base import TableLock
from pyhudi.locks.open import LockOpener
from pyhudi.planner.writable import refuse_writes_to
from pyhudi.services.failed_writes import PendingWrite, settle_and_tell
from pyhudi.storage.base import Storage
from pyhudi.storage.open import open_storage
from pyhudi.timeline.table import Table, open_table
from pyhudi.transactions.policy import writer_policy
from pyhudi.transactions.writer import Writer

POLICY_KEYS = ("hoodie.clean.failed.writes.policy", "hoodie.cleaner.policy.failed.writes")


def clean_failed_writes(
    path: str,
    *,
    options: Mapping[str, str] | None = None,
    hadoop_options: Mapping[str, str] | None = None,
) -> tuple[PendingWrite, ...]:
    """Roll back the failed writes of the table at ``path``, without Spark; tells of each.

    One entry for each instant that was pending: living writers are named and left alone. The
    policy is LAZY unless ``options`` name another: EAGER waits for heartbeats to come or to lapse,
    NEVER only reports. ``options`` are a write's, and must name the lock that the table's writers
    use; ``hadoop_options`` are ``fs.s3a.*`` settings. Errors: ``TableNotFound``,
    ``UnsupportedTable``, ``ConfigError``, ``LockTimeout``.
    """
    clock = SystemClock()

    def storage(root: str) -> Storage:
        return open_storage(root, hadoop_options or {}, clock)

    def lock(table: Table, resolved: WriteOptions) -> TableLock:
        opener = LockOpener(clock, storage)
        return opener.open(resolved.lock, table.config.name, table.storage)

    return settle_now(open_table(storage(path)), lock, clock, options or {}, {})


def settle_now(
    table: Table,
    lock: Callable[[Table, WriteOptions], TableLock],
    clock: Clock,
    options: Mapping[str, str],
    session: Mapping[str, str],
) -> tuple[PendingWrite, ...]:
    """``clean_failed_writes`` by the clock and the locks of an application, and its settings."""
    refuse_writes_to(table)
    given = dict(options)
    if not any(key.lower() in POLICY_KEYS for key in (*options, *session)):
        given[POLICY_KEYS[0]] = FailedWrites.LAZY.value
    resolved = resolve_write(given, table.config.raw, session)
    policy = writer_policy(resolved, table, clock)
    return settle_and_tell(Writer(table, lock(table, resolved), clock, policy))
