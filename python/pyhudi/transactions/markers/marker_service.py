"""The markers of all running writes of an application, one ``MarkerLog`` each.

Workers reach it through ``marker_server``, the driver calls it. Which instants are open is known
here and outlives the server; after a restart of the server their files are read again.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from concurrent.futures import Future

from pyhudi.clock import Clock
from pyhudi.format.instants import InstantTime
from pyhudi.storage.base import Storage
from pyhudi.transactions.markers.marker_log import Batching, MarkerLog, MarkerRefused, Refusal


class MarkerService:
    """Which instants take markers; any number of threads may call."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._logs: dict[str, MarkerLog] = {}
        self._numbers = itertools.count(1)

    def open(self, storage: Storage, instant: InstantTime, batching: Batching) -> OpenMarkers:
        """Take markers for ``instant`` from now on; two tables may have the same instant."""
        log = MarkerLog(storage, instant, self._clock, batching)
        with self._guard:
            key = f"{instant}-{next(self._numbers)}"
            self._logs[key] = log
        return OpenMarkers(self, key)

    def knows(self, key: str) -> bool:
        """Whether the instant is open, sealed or not."""
        with self._guard:
            return key in self._logs

    def ask(self, key: str, names: Sequence[str]) -> Future[None]:
        """``MarkerLog.ask`` of the instant ``key``; ``MarkerRefused`` if it is not open."""
        return self._log(key).ask(names)

    def seal(self, key: str, timeout_s: float) -> bool:
        """``MarkerLog.seal``; does nothing if the instant is not open."""
        with self._guard:
            log = self._logs.get(key)
        return log is None or log.seal(timeout_s)

    def drop(self, key: str) -> None:
        """Forget an instant that has settled."""
        with self._guard:
            log = self._logs.pop(key, None)
        if log is not None:
            log.seal(0)

    def reopen(self) -> None:
        """Have the files of every open instant read again, as after a restart of the server."""
        with self._guard:
            logs = dict(self._logs)
        for key, log in logs.items():
            successor = log.successor()
            if successor is not None:
                with self._guard:
                    if self._logs.get(key) is log:
                        self._logs[key] = successor

    def close(self) -> None:
        """Refuse everything; for the end of the application."""
        with self._guard:
            logs = list(self._logs.values())
            self._logs.clear()
        for log in logs:
            log.seal(0)

    def _log(self, key: str) -> MarkerLog:
        with self._guard:
            log = self._logs.get(key)
        if log is None:
            raise MarkerRefused(
                "No write that takes markers goes by this name: it has ended. The task can stop.",
                refusal=Refusal.UNKNOWN,
            )
        return log


class OpenMarkers:
    """One instant of a service, for the transaction that writes it."""

    def __init__(self, service: MarkerService, key: str) -> None:
        self._service = service
        self.key = key

    def ask(self, names: Sequence[str]) -> Future[None]:
        """Put these markers on storage, see ``MarkerLog.ask``."""
        return self._service.ask(self.key, names)

    def seal(self, timeout_s: float) -> bool:
        """Take no more markers; whether no write of them is running after the time."""
        return self._service.seal(self.key, timeout_s)

    def drop(self) -> None:
        """Forget the instant, which has settled."""
        self._service.drop(self.key)
