"""The lock of Hudi's ``HiveMetastoreBasedLockProvider``: an exclusive lock on a Hive table.

The metastore queues requests and grants one at a time. A lock lives while heartbeats come at least
every ``hive.txn.timeout``, which is the lease. The locked table is a mere name: it need not exist,
but all writers must spell it alike, since metastores before 3 distinguish upper and lower case.

Invariant: the number that the metastore gave to this request identifies the lock, so nobody can
release or prolong another's.
"""

from __future__ import annotations

import getpass
import logging
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyhudi.clock import Clock, SystemClock
from pyhudi.errors import SetupError, StorageError
from pyhudi.hive_thrift import connect
from pyhudi.locks.base import LockHolder, LockOwner

try:
    from pymetastore.hive_metastore import ttypes
    from thrift.Thrift import TException
except ImportError:
    if not TYPE_CHECKING:
        ttypes = None

_LOG: Final = logging.getLogger(__name__)
#: the longest pause of a waiter: each look costs the metastore transactions of its own
PAUSE_MS: Final = 500

_ANSWER_S: Final = 10
_AGENT: Final = "pyhudi"
_AGENT_CHARACTERS: Final = 128  # what the metastore's own tables take
_UNITS: Final = {
    "ms": 1e-3, "msec": 1e-3, "": 1.0, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0,
    "h": 3600.0, "hour": 3600.0, "d": 86400.0, "day": 86400.0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class HivePlace:
    """Which table is locked, and the ``thrift://host:port`` of the metastores to try in turn."""

    database: str
    table: str
    uris: tuple[str, ...]


class HiveLock:
    """A ``LockService`` in a Hive Metastore. It is connected from the first ``ask`` to the end."""

    def __init__(self, place: HivePlace, clock: Clock | None = None) -> None:
        if ttypes is None:
            raise SetupError(
                "The Hive Metastore lock needs the package pymetastore. Install it: pip install "
                "'pyhudi[hive]'."
            )
        self._place = place
        self._clock = clock or SystemClock()
        self._transport: Any = None
        self._client: Any = None
        self._lease_s = 0.0
        self._id: int | None = None  # what the metastore calls our request
        self._agent = ""  # names this writer in our requests
        self._lost = False  # whether a reply to one of them was lost

    @property
    def where(self) -> str:
        place = self._place
        return f"on {place.database}.{place.table} in the Hive Metastore {','.join(place.uris)}"

    @property
    def lease_s(self) -> float:
        return self._lease_s

    def ask(self, owner: LockOwner) -> bool:
        try:
            if self._id is None:
                return self._enter(owner)
            answer = self._call("check_lock", ttypes.CheckLockRequest(lockid=self._id))
        except KeyError:
            self._id = None  # it lapsed while we waited: ask again
            return False
        return bool(answer.state == ttypes.LockState.ACQUIRED)

    def withdraw(self) -> None:
        self._leave()

    def is_ours(self) -> bool:
        if self._id is None:
            return False
        try:
            answer = self._call("check_lock", ttypes.CheckLockRequest(lockid=self._id))
        except KeyError:
            return False
        return bool(answer.state == ttypes.LockState.ACQUIRED)

    def extend(self, remaining_s: float) -> bool:
        if self._id is None:
            return False
        try:
            self._call("heartbeat", ttypes.HeartbeatRequest(lockid=self._id))
        except KeyError:
            return False
        return True

    def free(self) -> None:
        self._leave()

    def holder(self) -> LockHolder | None:
        own = self._client is None
        try:
            for one in self._shown():
                if one.state == ttypes.LockState.ACQUIRED:
                    return self._holder(one)
            return None
        finally:
            if own:
                self._leave()

    def remedy(self, holder: LockHolder | None) -> str:
        return (
            "Try again: if that program is dead, the metastore drops its lock after "
            f"hive.txn.timeout ({self._lease_s:g} s there), provided that its housekeeping runs "
            "(hive.compactor.initiator.on); else use 'ABORT TRANSACTIONS' or its show_locks and "
            "unlock."
        )

    def _holder(self, shown: Any) -> LockHolder:
        agent = str(shown.agentInfo or "")
        try:
            name, _, instant, pid, since_ms, application = agent.split(" ", 5)
            if name != _AGENT:
                raise ValueError("another program")
            owner = LockOwner(instant, str(shown.hostname), int(pid), application)
            return LockHolder(owner, int(since_ms), self._lease_s)
        except ValueError:
            what = f"{shown.user} on {shown.hostname} ({agent or 'another program'})"
            return LockHolder(None, shown.acquiredat, self._lease_s, what)

    def _enter(self, owner: LockOwner) -> bool:
        """Ask for the lock; after a lost reply our agent text finds the request again."""
        self._agent = self._agent or f"{_AGENT} {self._clock.uuid()[:8]}"
        if self._lost:
            self._settle(keep=True)
            if self._id is not None:
                return False
        try:
            answer = self._call("lock", self._request(owner), once=True)
        except StorageError as error:
            if error.had_no_effect:
                raise
            _LOG.warning("The request for the lock got no reply: %s", error)
            self._lost = True
            return False
        self._id = int(answer.lockid)
        return bool(answer.state == ttypes.LockState.ACQUIRED)

    def _settle(self, keep: bool) -> None:
        """Drop our requests whose replies were lost; with ``keep`` all but the first, our lock."""
        for one in self._shown():
            if not str(one.agentInfo).startswith(f"{self._agent} ") or one.lockid == self._id:
                continue
            if keep and self._id is None:
                self._id = int(one.lockid)
            else:
                self._call("unlock", ttypes.UnlockRequest(lockid=one.lockid))

    def _shown(self) -> Any:
        """All requests for this lock, as the metastore lists them."""
        place = self._place
        asked = ttypes.ShowLocksRequest(dbname=place.database, tablename=place.table)
        return self._call("show_locks", asked).locks

    def _request(self, owner: LockOwner) -> Any:
        component = ttypes.LockComponent(
            type=ttypes.LockType.EXCLUSIVE,
            level=ttypes.LockLevel.TABLE,
            dbname=self._place.database,
            tablename=self._place.table,
        )
        since_ms = self._clock.now_ms()
        agent = f"{self._agent} {owner.instant} {owner.pid} {since_ms} {owner.application}"
        return ttypes.LockRequest(
            component=[component],
            user=getpass.getuser(),
            hostname=owner.host,
            agentInfo=agent[:_AGENT_CHARACTERS],
        )

    def _connected(self) -> Any:
        """The client, connected to the first metastore that answers."""
        if self._client is not None:
            return self._client

        def learn_lease(client: Any) -> None:
            self._lease_s = _seconds(client.get_config_value("hive.txn.timeout", "300s"))

        try:
            self._transport, self._client = connect(self._place.uris, _ANSWER_S, learn_lease)
        except ConnectionError as error:
            raise self._failed(str(error), had_no_effect=True) from error
        return self._client

    def _leave(self) -> None:
        number, self._id = self._id, None
        try:
            if number is not None:
                self._call("unlock", ttypes.UnlockRequest(lockid=number))
            if self._lost:
                self._settle(keep=False)
        except KeyError:
            _LOG.debug("lock %s was gone already", number)
        finally:
            self._agent, self._lost = "", False
            self._disconnect()

    def _disconnect(self) -> None:
        transport, self._transport, self._client = self._transport, None, None
        if transport is not None:
            transport.close()

    def _call(self, method: str, request: Any, *, once: bool = False) -> Any:
        """The answer to one call; ``KeyError`` if the metastore does not know our lock.

        All but the first request for a lock may be sent again, on a new connection.
        """
        for last in (once, True):
            client = self._connected()
            try:
                return getattr(client, method)(request)
            except (ttypes.NoSuchLockException, ttypes.TxnAbortedException) as error:
                raise KeyError(self._id) from error
            except (TException, OSError) as error:
                self._disconnect()
                if last:
                    reason = str(error) or type(error).__name__
                    raise self._failed(reason) from error
        raise AssertionError("the second round returns or raises")

    def _failed(self, reason: str, had_no_effect: bool = False) -> StorageError:
        return StorageError(
            f"The lock {self.where} cannot be requested: {reason}. Check that the addresses of "
            "hoodie.write.lock.hivemetastore.uris are right and the metastore is up.",
            path=f"{self._place.database}.{self._place.table}",
            had_no_effect=had_no_effect,
        )


def _seconds(text: str) -> float:
    """A Hive duration, such as ``300s`` or ``5m``; a bare number is of seconds."""
    number = text.rstrip(string.ascii_letters)
    return float(number) * _UNITS[text[len(number) :].lower()]
