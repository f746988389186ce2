"""The marker service of one Spark application, and the server by which its executors ask it.

What the driver writes by itself asks the service directly, so the server starts with the first
write stage that needs it. Whether executors reach it is found out once; where they do not, the
writes of this application leave direct markers, and one warning says why.
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
    """Where the driver listens, and the name by which executors call it."""

    bind: str = "127.0.0.1"
    host: str = "127.0.0.1"


class ApplicationMarkers:
    """Takes the markers of all writes of one application; any number of threads may call."""

    def __init__(self, clock: Clock, addresses: Addresses, probe: Probe) -> None:
        """``probe(host, port, token)`` tells whether executors reach the server there."""
        self.service = MarkerService(clock)
        self._clock, self._addresses, self._probe = clock, addresses, probe
        self._guard = threading.Lock()
        self._server: MarkerServer | None = None
        self._token = ""
        self._unreachable = False

    def server_runs(self, port: int) -> bool:
        """Whether tasks can ask for markers; starts the server, at ``port`` or (0) anywhere."""
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
                    "spark.driver.host and hoodie.embed.timeline.server.port to what they reach"
                )
            except SetupError as e:
                trouble = str(e)
            self._unreachable = True
        log.warning("Markers are single files in this application, for %s.", trouble)
        return False

    def address(self, key: str) -> MarkerAddress:
        """Where tasks ask for the markers of the instant ``key``, once the server runs."""
        assert self._server is not None
        return MarkerAddress(self._addresses.host, self._server.port, key, self._token)

    def stop(self) -> None:
        """End with the application; idempotent."""
        with self._guard:
            server, self._server = self._server, None
            self._unreachable = True
        self.service.close()
        if server is not None:
            server.stop()

    def _start(self, port: int) -> bool:
        # Only here: aiohttp's import takes longer than a small write, which needs no server.
        from pyhudi.transactions.markers.marker_server import MarkerServer, new_token

        self._token = new_token(self._clock)
        server = MarkerServer(self.service, self._token, self._addresses.bind, port)
        server.start()
        if not self._probe(self._addresses.host, server.port, self._token):
            server.stop()
            return False
        self._server = server
        return True
