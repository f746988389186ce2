"""Sessions with ZooKeeper, by kazoo: for locks, and for the counter of instant times."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyhudi.errors import ConfigError, SetupError

try:
    from kazoo import exceptions as zk
    from kazoo.client import KazooClient
    from kazoo.handlers.threading import KazooTimeoutError
    from kazoo.retry import KazooRetry
except ImportError:
    if not TYPE_CHECKING:
        zk = KazooClient = KazooTimeoutError = None

__all__ = ["KazooTimeoutError", "ZookeeperPlace", "ZookeeperSession", "zk"]

#: the number of clients that share the connection timeout, one after the other
TRIES: Final = 5
#: kazoo's warnings of lost and retried connections repeat what our errors say
_QUIET: Final = logging.getLogger("pyhudi.kazoo")
_QUIET.setLevel(logging.ERROR)


@dataclass(frozen=True, slots=True)
class ZookeeperPlace:
    """Where a lock is: ``servers`` as host:port with commas, ``path`` of its node, timeouts."""

    servers: str
    path: str
    session_timeout_s: float
    connection_timeout_s: float


class ZookeeperSession:
    """The connection of one or more locks to ``place``: open while one of them uses it."""

    def __init__(self, place: ZookeeperPlace, what: str = "The ZooKeeper lock") -> None:
        """``what`` needs the session; the ``SetupError`` names it if kazoo is missing."""
        if KazooClient is None:
            raise SetupError(
                f"{what} needs the package kazoo. Install it: pip install 'pyhudi[zookeeper]'."
            )
        self._place = place
        self._client: Any = None
        self._users = 0
        self._guard = threading.Lock()
        self.granted_s = place.session_timeout_s

    def enter(self) -> Any:
        """The connected client; each ``enter`` has its ``leave``. ``ConnectionError`` if none."""
        with self._guard:
            if self._client is None:
                self._client = self._connected()
            self._users += 1
            return self._client

    def leave(self) -> None:
        """Stop using the client: the last user ends the session."""
        with self._guard:
            self._users -= 1
            if self._users == 0:
                client, self._client = self._client, None
                _end(client)

    def _connected(self) -> Any:
        """A client that has a session.

        kazoo waits as long for the answer to its first request as for a session. A server that has
        just started may not answer: so a new client asks again.
        """
        place = self._place
        for _ in range(TRIES):
            client = self._client_of(place)
            client.start_async().wait(place.connection_timeout_s / TRIES)
            if client.connected:
                return client
            # A stop may wait for the server as long as a session lasts, so it runs elsewhere.
            threading.Thread(target=_end, args=(client,), daemon=True).start()
        raise ConnectionError(f"no connection within {place.connection_timeout_s:g} s")

    def _client_of(self, place: ZookeeperPlace) -> Any:
        try:
            client = KazooClient(
                hosts=place.servers,
                timeout=place.session_timeout_s,
                connection_retry=KazooRetry(max_tries=-1, max_delay=1.0),
                logger=_QUIET,
            )
        except ValueError as error:
            raise ConfigError(
                f"hoodie.write.lock.zookeeper.url is '{place.servers}': {error}. Give servers as "
                "host:port, separated by commas.",
                key="hoodie.write.lock.zookeeper.url",
            ) from error
        self._note_session(client)
        return client

    def _note_session(self, client: Any) -> None:
        """Learn the session timeout that the server grants: kazoo does not publish it."""
        connection = client._connection
        connect = connection._connect

        def noting(*arguments: Any) -> Any:
            answer = connect(*arguments)
            # kazoo's read timeout is two thirds of the granted timeout, in milliseconds.
            self.granted_s = min(self._place.session_timeout_s, answer[0] * 1.5 / 1_000)
            return answer

        connection._connect = noting


def _end(client: Any) -> None:
    client.stop()
    client.close()
