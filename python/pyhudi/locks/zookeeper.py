"""The lock of Hudi's ``ZookeeperBasedLockProvider``: Curator's mutex, by kazoo.

Contenders queue as ephemeral sequential nodes ``_c_<uuid>-lock-<number>`` below the lock's path;
the lowest number has the lock. Curator sorts by the text after ``lock-``. If the reply to the
creation was lost, it recognizes its node by the uuid; so do we. (kazoo's own lock names its nodes
differently, so the two would not exclude each other.) The node's data is text of ``name=value``
pairs: Hudi says ``application_id``, we add who we are.

Invariant: our node lives as long as our session. ZooKeeper ends the session when it has not heard
of us for the session timeout that it granted, which is the lease; each request is a sign of life.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final
from urllib.parse import quote, unquote

from pyhudi.clock import Clock, SystemClock
from pyhudi.errors import StorageError
from pyhudi.locks.base import LockHolder, LockOwner
from pyhudi.locks.owner_text import owner_facts, owner_of
from pyhudi.locks.zookeeper_session import (
    KazooTimeoutError,
    ZookeeperPlace,
    ZookeeperSession,
    zk,
)

_LOG: Final = logging.getLogger(__name__)
_LOCK: Final = "lock-"


class ZookeeperLock:
    """A ``LockService`` in ZooKeeper. It is connected from the first ``ask`` to the end.

    Locks that are given one ``session`` are connected together.
    """

    def __init__(
        self,
        place: ZookeeperPlace,
        clock: Clock | None = None,
        session: ZookeeperSession | None = None,
    ) -> None:
        self._place = place
        self._clock = clock or SystemClock()
        self._session = session or ZookeeperSession(place)
        self._client: Any = None
        self._mark = ""  # how our node's name begins, from the first attempt to make it
        self._name: str | None = None  # of our node, once it is there

    @property
    def where(self) -> str:
        return _where(self._place)

    @property
    def lease_s(self) -> float:
        return self._session.granted_s

    def ask(self, owner: LockOwner) -> bool:
        client = self._connected()
        if self._name is None and not self._enter(client, owner):
            return False
        queue = self._queue(client)
        if self._name not in queue:
            self._name = None  # the session ended while we waited: go to the end of the queue
            return False
        return queue[0] == self._name

    def withdraw(self) -> None:
        self._leave()

    def is_ours(self) -> bool:
        if self._name is None or self._client is None:
            return False
        client, path = self._client, f"{self._place.path}/{self._name}"
        try:
            # A server with stale data may still show a node whose session has ended.
            self._ask(lambda: client.sync_async(self._place.path))
            stat = self._ask(lambda: client.exists_async(path))
        except FileNotFoundError:
            return False
        session = client.client_id
        return stat is not None and session is not None and stat.ephemeralOwner == session[0]

    def extend(self, remaining_s: float) -> bool:
        return self.is_ours()

    def free(self) -> None:
        self._leave()

    def holder(self) -> LockHolder | None:
        own = self._client is None
        client = self._connected()
        try:
            for name in self._queue(client):
                get = partial(client.get_async, f"{self._place.path}/{name}")
                try:
                    data, stat = self._ask(get)
                except FileNotFoundError:
                    continue
                return _holder(data, stat.ctime)
            return None
        finally:
            if own:
                self._leave()

    def remedy(self, holder: LockHolder | None) -> str:
        return (
            "Try again: if that program is dead, ZooKeeper ends its session, and the lock with "
            "it, after the session timeout that it asked for "
            "(hoodie.write.lock.zookeeper.session_timeout_ms)."
        )

    def _enter(self, client: Any, owner: LockOwner) -> bool:
        """Queue up; False if no reply came: the next attempt looks for our node."""
        self._mark = self._mark or f"_c_{self._clock.uuid()}-{_LOCK}"
        data = _data(owner, self._clock.now_ms(), self._session.granted_s)
        found = [name for name in self._queue(client) if name.startswith(self._mark)]
        if found:
            self._name = found[0]
            return True
        try:
            self._ask(lambda: client.ensure_path_async(self._place.path))
            path: str = self._ask(
                lambda: client.create_async(
                    f"{self._place.path}/{self._mark}", data, ephemeral=True, sequence=True
                )
            )
        except (StorageError, FileNotFoundError) as error:
            _LOG.warning("The request to queue up for the lock got no reply: %s", error)
            return False
        self._name = path.rpartition("/")[2]
        return True

    def _queue(self, client: Any) -> list[str]:
        """All contenders, the holder first."""
        try:
            names: list[str] = self._ask(lambda: client.get_children_async(self._place.path))
        except FileNotFoundError:
            return []
        return sorted(names, key=_order)

    def _connected(self) -> Any:
        if self._client is None:
            try:
                self._client = self._session.enter()
            except ConnectionError as error:
                raise _failed(self._place, str(error)) from error
        return self._client

    def _leave(self) -> None:
        """Take our node out of the queue and end the session."""
        client, self._client = self._client, None
        name, self._name, self._mark = self._name, None, ""
        if client is None:
            return
        try:
            if name is not None:
                # Without this the others wait until the server has noticed that we left.
                self._ask(lambda: client.delete_async(f"{self._place.path}/{name}"))
        except FileNotFoundError:
            _LOG.debug("%s was gone already", name)
        finally:
            self._session.leave()

    def _ask(self, send: Callable[[], Any]) -> Any:
        """The answer to one request; ``FileNotFoundError`` if the node does not exist.

        Our own nodes are gone too if the session has expired.
        """
        try:
            return send().get(timeout=self._place.connection_timeout_s)
        except (zk.NoNodeError, zk.SessionExpiredError) as error:
            raise FileNotFoundError(self._place.path) from error
        except zk.AuthFailedError as error:
            raise _failed(self._place, "the server refuses our credentials") from error
        except (zk.ZookeeperError, zk.KazooException, KazooTimeoutError) as error:
            raise _failed(self._place, f"{type(error).__name__} {error}".strip()) from error


def _where(place: ZookeeperPlace) -> str:
    return f"'{place.path}' in ZooKeeper at {place.servers}"


def _failed(place: ZookeeperPlace, reason: str) -> StorageError:
    return StorageError(
        f"The lock {_where(place)} cannot be requested: {reason}. Check that the servers of "
        "hoodie.write.lock.zookeeper.url are up and can be reached.",
        path=place.path,
    )


def _order(name: str) -> str:
    """Curator's sort key: the rest after the last ``lock-``, or a whole name without it."""
    before, found, after = name.rpartition(_LOCK)
    return after if found else before + after


def _data(owner: LockOwner, since_ms: int, lease_s: float) -> bytes:
    facts = {**owner_facts(owner, since_ms), "leaseSeconds": lease_s}
    pairs = {"application_id": owner.application or "pyhudi", **facts}
    return ",".join(f"{name}={quote(str(value))}" for name, value in pairs.items()).encode()


def _holder(data: bytes, created_ms: int) -> LockHolder:
    text = data.decode(errors="replace")
    pairs = dict(pair.partition("=")[::2] for pair in text.split(","))
    try:
        facts = {name: unquote(value) for name, value in pairs.items()}
        owner, since_ms = owner_of(facts)
        return LockHolder(owner, since_ms, float(facts["leaseSeconds"]))
    except (ValueError, KeyError):
        # Curator's own default is the holder's address; Hudi 1.x says which application it is.
        return LockHolder(None, created_ms, None, f"another program ({text[:200] or 'no name'})")
