"""Keeps a lease for each state of a table that a long query of this application reads.

A short query has none: the cleaner spares for a while what a commit has just made old. A query that
cannot put its lease, since it may only read the table, runs without one.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections import OrderedDict
from collections.abc import MutableMapping
from typing import Final

from pyhudi.application.runtime import Runtime
from pyhudi.errors import SetupError
from pyhudi.reads.scan import Query
from pyhudi.storage.base import Storage
from pyhudi.timeline.read_states import ReadState
from pyhudi.transactions.heartbeat import Heartbeat, HeartbeatPolicy
from pyhudi.transactions.leases import lease

log = logging.getLogger(__name__)

#: seconds that a query runs before it gets a lease, and between two looks at the queries
LONG_S: Final = 5.0
#: states that are known by their pins; a lease needs one of them
STATES: Final = 10_000


class LeaseKeeper:
    """The leases of one application; safe to share between threads."""

    def __init__(self, runtime: Runtime, policy: HeartbeatPolicy | None = None) -> None:
        self._runtime = runtime
        self._policy = policy or HeartbeatPolicy()
        self._states: OrderedDict[str, tuple[Storage, ReadState]] = OrderedDict()
        #: by pin; None for a query whose lease could not be put
        self._leases: dict[str, Heartbeat | None] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def note(self, pin: str, query: Query) -> None:
        """Remember what a pin stands for, before the query reads; looks begin with the first."""
        if query.instant is None:
            return
        state = ReadState(query.instant, query.timeline.layout, pin.rpartition("-")[2])
        with self._lock:
            self._states.pop(pin, None)
            self._states[pin] = query.table.storage, state
            if len(self._states) > STATES:
                self._states.popitem(last=False)
            if self._thread is None:
                looking = (weakref.ref(self), self._leases)
                self._thread = threading.Thread(
                    target=_look_on, args=looking, name="leases", daemon=True
                )
                self._thread.start()

    def look(self) -> None:
        """Give each long query that runs its lease, and end those of the others."""
        running = set(self._runtime.jobs.reading(LONG_S))
        for pin in self._leases.keys() - running:
            _end(self._leases.pop(pin))
        for pin in running - self._leases.keys():
            with self._lock:
                known = self._states.get(pin)
            if known is not None:
                self._leases[pin] = self._begin(*known)

    def _begin(self, storage: Storage, state: ReadState) -> Heartbeat | None:
        made = lease(storage, self._runtime.clock, state, self._policy)
        try:
            made.start()
        except Exception as e:
            log.info("a query of %s runs without a lease: %s", storage.root, e)
            return None
        return made


def _end(held: Heartbeat | None) -> None:
    try:
        if held is not None:
            held.stop()
    except Exception as e:
        log.info("a lease stays until it is stale: %s", e)


def _look_on(
    whose: weakref.ref[LeaseKeeper], leases: MutableMapping[str, Heartbeat | None]
) -> None:
    """Look at the queries until their session has been stopped, or is attached anew."""
    pause = threading.Event()
    while not pause.wait(LONG_S) and (keeper := whose()) is not None:
        try:
            keeper.look()
        except SetupError:  # the session has been stopped
            break
        except Exception as e:
            log.info("running queries are not known now: %s", e)
        del keeper
    while leases:
        _end(leases.popitem()[1])
