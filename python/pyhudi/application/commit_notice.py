"""Notices of a visible commit: functions of the application, and Hudi's HTTP call.

Invariant: nothing here makes a commit fail, or wait longer than its timeout; failures are logged.
A notice is sent at most once: a reader that must not miss a commit follows ``pyhudi.commits``.
"""

from __future__ import annotations

import http.client
import json
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from pyhudi.format.commit_metadata import CommitMetadata, render_commit
from pyhudi.timeline.history import HistoryEntry

log = logging.getLogger(__name__)

API_KEY_HEADER = "HUDI-CALLBACK-KEY"


@dataclass(frozen=True, slots=True)
class CommitNotice:
    """A commit that has just been published to ``table`` at ``path``.

    ``commit`` has its instant, its completion time and its statistics, as in ``pyhudi.history``.
    """

    path: str
    table: str
    commit: HistoryEntry


Callback = Callable[[CommitNotice], object]


class Callbacks:
    """The functions that an application has registered to be called after its commits."""

    def __init__(self) -> None:
        self._callbacks: tuple[Callback, ...] = ()
        self._guard = threading.Lock()

    def add(self, callback: Callback) -> Callable[[], None]:
        """Call ``callback`` from now on; the returned function removes it."""
        with self._guard:
            self._callbacks = (*self._callbacks, callback)

        def remove() -> None:
            with self._guard:
                self._callbacks = tuple(each for each in self._callbacks if each is not callback)

        return remove

    def tell(self, notice: CommitNotice) -> None:
        """Call the functions one after the other, in the writer's thread."""
        for callback in self._callbacks:
            try:
                callback(notice)
            except Exception:
                log.warning(
                    "%s is committed, but the callback %r failed",
                    notice.commit.instant,
                    callback,
                    exc_info=True,
                )


@dataclass(frozen=True, slots=True)
class HttpCallback:
    """The receiver of Hudi's message; ``headers`` are sent beside key and content type."""

    url: str
    api_key: str
    timeout_s: float
    headers: Mapping[str, str]

    def tell(self, notice: CommitNotice, metadata: CommitMetadata) -> None:
        """Post the message and wait for the answer until the timeout."""
        outcome = [f"no answer within {self.timeout_s:g} s"]

        def send() -> None:
            try:
                outcome.append(self._post(message(notice, metadata)))
            except Exception as e:
                outcome.append(f"{type(e).__name__} {e}")

        # A server that answers byte by byte outlasts each timeout of a socket, but not this one.
        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        sender.join(self.timeout_s)
        if outcome[-1]:
            # Only the host of the URL: the rest may hold credentials.
            log.warning(
                "%s is committed, but the callback to %s failed: %s",
                notice.commit.instant,
                urlsplit(self.url).hostname,
                outcome[-1],
            )

    def _post(self, body: bytes) -> str:
        """Send it; returns the receiver's objection, or an empty text."""
        parts = urlsplit(self.url)
        secure = parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = {
            API_KEY_HEADER: self.api_key,
            "Content-Type": "application/json; charset=UTF-8",
            **self.headers,
        }
        connection = kind(parts.hostname or "", parts.port, timeout=self.timeout_s)
        try:
            connection.request("POST", target, body, headers)
            status = connection.getresponse().status
            return "" if status < 300 else f"it answered {status}"
        finally:
            connection.close()


def message(notice: CommitNotice, metadata: CommitMetadata) -> bytes:
    """The JSON that Apache Hudi posts: commit time, table, path, and the write statistics."""
    record = json.loads(render_commit(metadata, 1))
    stats = [stat for found in record["partitionToWriteStats"].values() for stat in found]
    return json.dumps(
        {
            "commitTime": notice.commit.instant,
            "tableName": notice.table,
            "basePath": notice.path,
            "hoodieWriteStat": stats,
        }
    ).encode()
