"""Keeps a lease for each state of a table that a long query of this application reads.

A short query has none: the cleaner spares for a while what a commit has just made old. A query that
cannot put its lease, since it may only read the table, runs without one. One that asks for it also
has a savepoint, for cleaners that know of no leases.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Final

from pyhudi.application.runtime import Runtime
from pyhudi.errors import SetupError
from pyhudi.reads.scan import Query
from pyhudi.services.query_savepoints import end_query_savepoints, save_for_query
from pyhudi.storage.base import Storage
from pyhudi.timeline.read_states import ReadState
from pyhudi.transactions.heartbeat import Heartbeat, HeartbeatPolicy
from pyhudi.transactions.leases import lease
from pyhudi.transactions.writer import Writer

log = logging.getLogger(__name__)

#: seconds that a query runs before it gets a lease
LONG_S: Final = 5.0
#: seconds between two looks at the queries
PAUSE_S: Final = 5.0
#: states that are known by their pins; a lease needs one of them
STATES: Final = 10_000


#: a writer of the table, whose lock is that of the table's writers
Saver = Callable[[], Writer]


@dataclass(frozen=True, slots=True)
class _Read:
    """What a query reads, and how it makes its savepoint, None for none."""

    storage: Storage
    state: ReadState
    saver: Saver | None


@dataclass(frozen=True, slots=True)
class _Held:
    """The lease of a query, and how its savepoint ends."""

    lease: Heartbeat
    root: str
    saver: Saver | None


class LeaseKeeper:
    """The leases of one application; safe to share between threads."""

    def __init__(self, runtime: Runtime, policy: HeartbeatPolicy | None = None) -> None:
        self._runtime = runtime
        self._policy = policy or HeartbeatPolicy()
        self._states: OrderedDict[str, _Read] = OrderedDict()
        #: by pin; None for a query whose lease could not be put
        self._leases: dict[str, _Held | None] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.closed = False

    def note(self, pin: str, query: Query, saver: Saver | None = None) -> None:
        """Remember what a pin stands for, before the query reads; looks begin with the first.

        With ``saver``, which gives a writer of the table, a long query has a savepoint too.
        """
        if query.instant is None:
            return
        state = ReadState(query.instant, query.timeline.layout, pin.rpartition("-")[2])
        with self._lock:
            self._states.pop(pin, None)
            self._states[pin] = _Read(query.table.storage, state, saver)
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
                self._leases[pin] = self._begin(known)

    def close(self) -> None:
        """The application has ended: no query of it runs any more, and nothing looks for one."""
        self.closed = True
        while self._leases:
            _end(self._leases.popitem()[1])

    def _begin(self, read: _Read) -> _Held | None:
        root, saver = read.storage.root, read.saver
        made = lease(read.storage, self._runtime.clock, read.state, self._policy, saver is not None)
        try:
            made.start()
        except Exception as e:
            log.info("a query of %s runs without a lease: %s", root, e)
            return None
        if saver is not None:
            what = f"a query of {root} runs without a savepoint"
            _aside(what, lambda: save_for_query(saver(), read.state))
        return _Held(made, root, saver)


def _end(held: _Held | None) -> None:
    if held is None:
        return
    try:
        held.lease.stop()
    except Exception as e:
        log.info("a lease stays until it is stale: %s", e)
    if (saver := held.saver) is not None:
        what = f"a query's savepoint of {held.root} stays until the next round of services"
        _aside(what, lambda: end_query_savepoints(saver()))


def _aside(failing: str, work: Callable[[], object]) -> None:
    """Do what may wait for the table's lock in a thread of its own: leases must not wait for it."""

    def told() -> None:
        try:
            work()
        except Exception as e:
            log.warning("%s: %s", failing, e)

    threading.Thread(target=told, name="savepoints", daemon=True).start()


def _look_on(whose: weakref.ref[LeaseKeeper], leases: MutableMapping[str, _Held | None]) -> None:
    """Look at the queries until their session has been stopped, or is attached anew."""
    pause = threading.Event()
    while not pause.wait(PAUSE_S) and (keeper := whose()) is not None and not keeper.closed:
        try:
            keeper.look()
        except SetupError:  # the session has been stopped
            break
        except Exception as e:
            log.info("running queries are not known now: %s", e)
        del keeper
    while leases:
        _end(leases.popitem()[1])
