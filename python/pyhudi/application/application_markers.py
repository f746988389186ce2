"""The marker service of one Spark application, and the server by which its executors ask it.

The driver's own code calls the service directly, so the server starts with the first write stage
that needs it. One job finds out whether executors reach it. If they do not, the writes of this
application leave direct markers, and one warning says why.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyhudi.clock import Clock
from pyhudi.errors import SetupError
from pyhudi.rows.announce import MarkerAddress
from pyhudi.transactions.markers.marker_service import MarkerService

if TYPE_CHECKING:
    from pyhudi.transactions.markers.marker_server import MarkerServer

log = logging.getLogger(__name__)

Probe = Callable[[str, int, str], bool]


@dataclass(frozen=True, slots=True)
class Addresses:
    """The address at which the driver listens, and the host name that executors use."""

    bind: str = "127.0.0.1"
    host: str = "127.0.0.1"


class ApplicationMarkers:
    """Keeps the markers of all writes of one application; any number of threads may call it."""

    def __init__(self, clock: Clock, addresses: Addresses, probe: Probe) -> None:
        """``probe(host, port, token)`` says whether executors reach the server there."""
        self.service = MarkerService(clock)
        self._clock, self._addresses, self._probe = clock, addresses, probe
        self._guard = threading.Lock()
        self._server: MarkerServer | None = None
        self._token = ""
        self._unreachable = False

    def server_runs(self, port: int) -> bool:
        """Whether tasks can ask for markers; starts the server at ``port`` (0: any free port)."""
        with self._guard:
            if self._unreachable:
                return False
            try:
                if self._server is not None:
                    self._server.start()
                    return True
                if self._start(port):
                    return True
                trouble = (
                    f"executors do not reach the driver at {self._addresses.host}: set "
                    "spark.driver.host and hoodie.embed.timeline.server.port to a host and a port "
                    "that they reach"
                )
            except SetupError as e:
                trouble = str(e)
            self._unreachable = True
        log.warning("In this application each marker is a file of its own, because %s.", trouble)
        return False

    def address(self, key: str) -> MarkerAddress:
        """The address at which tasks ask for markers of the instant ``key``; the server runs."""
        assert self._server is not None
        return MarkerAddress(self._addresses.host, self._server.port, key, self._token)

    def stop(self) -> None:
        """Stop the server when the application ends; idempotent."""
        with self._guard:
            server, self._server = self._server, None
            self._unreachable = True
        self.service.close()
        if server is not None:
            server.stop()

    def _start(self, port: int) -> bool:
        # Imported only here: aiohttp's import takes longer than a small write, which needs no
        # server.
        from pyhudi.transactions.markers.marker_server import MarkerServer, new_token

        self._token = new_token(self._clock)
        server = MarkerServer(self.service, self._token, self._addresses.bind, port)
        server.start()
        if not self._probe(self._addresses.host, server.port, self._token):
            server.stop()
            return False
        self._server = server
        return True
