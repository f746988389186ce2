"""Instant times from a counter in ZooKeeper: a node that holds the last one, by kazoo.

Each time is put with the version that was read, so two writers never take the same. The node is
kept beside the lock's, as ``<lock>.time``, and may be shared by tables: times are only later then.
"""

from __future__ import annotations

from typing import Any, Final

from pyhudi.clock import Clock
from pyhudi.errors import ConfigError, StorageError
from pyhudi.locks.zookeeper_session import (
    KazooTimeoutError,
    ZookeeperPlace,
    ZookeeperSession,
    zk,
)

ATTEMPTS: Final = 50
#: longest pause, in milliseconds, after another writer took a time first
PAUSE_MS: Final = 20


class ZookeeperTimes:
    """A ``TimeSource`` in the node ``place.path``; connected only while it is asked."""

    def __init__(self, place: ZookeeperPlace, clock: Clock) -> None:
        self._place = place
        self._session = ZookeeperSession(place, "A counter of instant times in ZooKeeper")
        self._clock = clock

    def next_ms(self, at_least: int) -> int:
        try:
            client = self._session.enter()
        except ConnectionError as error:
            raise self._failed(str(error)) from error
        try:
            client.ensure_path_async(self._place.path).get(timeout=self._timeout_s)
            for _ in range(ATTEMPTS):
                time = self._try(client, at_least)
                if time is not None:
                    return time
                self._clock.sleep((1 + self._clock.random_int(PAUSE_MS)) / 1000)
        except (zk.ZookeeperError, zk.KazooException, KazooTimeoutError) as error:
            raise self._failed(f"{type(error).__name__} {error}".strip()) from error
        finally:
            self._session.leave()
        raise self._failed(f"other writers were faster {ATTEMPTS} times")

    def _try(self, client: Any, at_least: int) -> int | None:
        """One step of the counter; None if another writer made it first, or if it is unknown.

        A step whose answer was lost only skips a time.
        """
        path = self._place.path
        try:
            data, stat = client.get_async(path).get(timeout=self._timeout_s)
            time = max(_last(data, path) + 1, at_least)
            step = client.set_async(path, str(time).encode(), version=stat.version)
            step.get(timeout=self._timeout_s)
        except (zk.BadVersionError, zk.ConnectionLoss):
            return None
        return time

    @property
    def _timeout_s(self) -> float:
        return self._place.connection_timeout_s

    def _failed(self, reason: str) -> StorageError:
        return StorageError(
            f"No instant time came from '{self._place.path}' in ZooKeeper at "
            f"{self._place.servers}: {reason}. Check that the servers of "
            "hoodie.write.lock.zookeeper.url are up and can be reached.",
            path=self._place.path,
        )


def _last(data: bytes, path: str) -> int:
    """The last time that was taken; a node that has just been made is empty."""
    try:
        return int(data or b"0")
    except ValueError:
        raise ConfigError(
            f"The ZooKeeper node '{path}' holds {data[:40]!r}, which is no counter of instant "
            "times. Give hoodie.write.lock.zookeeper.base_path a place that nothing else uses.",
            key="hoodie.write.lock.zookeeper.base_path",
        ) from None
