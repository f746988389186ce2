"""A writer for a service that was started by a path, without Spark."""

from __future__ import annotations

from collections.abc import Mapping

from pyhudi.clock import SystemClock
from pyhudi.config import WriteOptions, resolve_write
from pyhudi.locks.open import LockOpener
from pyhudi.storage.base import Storage
from pyhudi.storage.open import open_storage
from pyhudi.timeline.table import open_table
from pyhudi.transactions.policy import writer_policy
from pyhudi.transactions.writer import Writer


def open_writer(
    path: str, options: Mapping[str, str] | None, hadoop_options: Mapping[str, str] | None
) -> tuple[Writer, WriteOptions]:
    """A writer of the table at ``path``, and its options.

    ``options`` are those of a write and name the lock; ``hadoop_options`` are ``fs.s3a.*``
    settings. Errors: ``TableNotFound``, ``UnsupportedTable``, ``ConfigError``.
    """
    clock = SystemClock()

    def storage(root: str) -> Storage:
        return open_storage(root, hadoop_options or {}, clock)

    table = open_table(storage(path))
    resolved = resolve_write(options or {}, table.config.raw, {})
    lock = LockOpener(clock, storage).open(resolved.lock, table.config.name, table.storage)
    return Writer(table, lock, clock, writer_policy(resolved, table, clock)), resolved
