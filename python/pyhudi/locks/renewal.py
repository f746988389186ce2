"""Keeps a lock until the work under it is done."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyhudi.errors import WriterFenced
from pyhudi.locks.base import TableLock

#: the part of the remaining lease after which it is renewed
_PART_OF_LEASE: Final = 1 / 3

_LOG: Final = logging.getLogger(__name__)


@contextmanager
def kept(lock: TableLock) -> Iterator[None]:
    """While the block runs, a daemon thread renews the lease on ``lock``, which is held.

    ``WriterFenced`` at the start if the lock is already lost. The next ``check`` finds a later
    loss; every user of the lock calls it anyway. Others wait as long as the block runs, so it must
    come to an end.
    """
    stopped = threading.Event()
    interval_s = lock.check() * _PART_OF_LEASE
    thread = threading.Thread(
        target=_renew, name="table lock", daemon=True, args=(lock, stopped, interval_s)
    )
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def _renew(lock: TableLock, stopped: threading.Event, interval_s: float) -> None:
    while not stopped.wait(interval_s):
        try:
            lock.renew()
            interval_s = lock.check() * _PART_OF_LEASE
        except WriterFenced:
            return
        except Exception as error:
            # The next attempt may succeed; if none does, the lease runs out.
            _LOG.warning("The lease on %s was not renewed: %s", lock, error)
