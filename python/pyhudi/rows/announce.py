"""How a task announces its data files: each has a marker on storage before the file exists.

A direct marker is an empty file. With the driver's marker server one request has many markers, and
the task asks in advance for the files that it will write. A connection lives as long as its task: a
function that is sent by value keeps nothing in the worker process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import Protocol

from pyhudi.errors import StorageError
from pyhudi.rows.by_value import ByValue

ATTEMPTS = 16
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0
ANSWER_S = 60.0
MOST_NAMES = 2_000
_BUSY = 503


class Announcer(Protocol):
    """Puts markers before data files; a marker is a path below the instant's folder."""

    def expect(self, markers: Iterable[str]) -> None:
        """A hint: these markers will be announced soon, and may go in one request."""

    def announce(self, marker: str) -> None:
        """Begin to put the marker."""

    def settle(self, marker: str) -> None:
        """Wait until the announced marker is on storage; ``StorageError`` if that fails."""

    def close(self) -> None:
        """End; the task writes no more files."""


class MarkersPlace(Protocol):
    """The place for the markers of one write's tasks."""

    def open(self) -> Announcer:
        """An announcer for one task."""


class DirectMarkers:
    """An empty file for each marker; to ask in advance would gain nothing."""

    def __init__(self, put: Callable[[str], None]) -> None:
        """``put`` writes the empty file of a marker."""
        self._put = put

    def expect(self, markers: Iterable[str]) -> None:
        """Does nothing: each marker costs a file, so none is made before it is needed."""

    def announce(self, marker: str) -> None:
        """Put the file."""
        self._put(marker)

    def settle(self, marker: str) -> None:
        """Does nothing: the marker has been on storage since it was announced."""

    def close(self) -> None:
        """Does nothing: nothing is held."""


class HeldMarkers:
    """The marker service itself, for files that the driver writes; it is never pickled."""

    def __init__(self, ask: Callable[[Sequence[str]], Future[None]]) -> None:
        self._ask = ask
        self._answers: dict[str, Future[None]] = {}

    def open(self) -> Announcer:
        """This object: it holds nothing that ends with a task."""
        return self

    def expect(self, markers: Iterable[str]) -> None:
        """Ask for all of them, without waiting."""
        new = [marker for marker in markers if marker not in self._answers]
        if new:
            self._answers.update(dict.fromkeys(new, self._ask(new)))

    def announce(self, marker: str) -> None:
        """Ask for it, unless that was done in advance."""
        self.expect([marker])

    def settle(self, marker: str) -> None:
        """Wait for the answer."""
        self._answers[marker].result()

    def close(self) -> None:
        """Does nothing: nothing is held."""


@dataclass(frozen=True, slots=True)
class MarkerAddress(ByValue):
    """The driver's address for markers of one write; ``token`` is the application's secret."""

    host: str
    port: int
    key: str
    token: str = field(repr=False)

    def open(self) -> Announcer:
        """A connection for one task, opened by its first request."""
        return ServedMarkers(self)


class ServedMarkers:
    """The marker server, through one connection that is kept as long as the task lives."""

    def __init__(
        self, address: MarkerAddress, wait: Callable[[float], object] | None = None
    ) -> None:
        """``wait`` pauses for seconds between two attempts."""
        self._address = address
        self._wait = wait or threading.Event().wait
        self._there: set[str] = set()
        self._connection: HTTPConnection | None = None

    def expect(self, markers: Iterable[str]) -> None:
        """Put all of them on storage, with as few requests as possible."""
        new = [marker for marker in dict.fromkeys(markers) if marker not in self._there]
        for begin in range(0, len(new), MOST_NAMES):
            some = new[begin : begin + MOST_NAMES]
            self._ask("\n".join(some).encode())
            self._there.update(some)

    def announce(self, marker: str) -> None:
        """Put it on storage, unless that was done in advance."""
        self.expect([marker])

    def settle(self, marker: str) -> None:
        """Does nothing: the marker has been on storage since it was announced."""

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self, body: bytes) -> None:
        """One request, repeated while the server is busy or down; a second request does no harm."""
        trouble = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                self._wait(_pause_s(attempt))
            try:
                status, text = self._request(body)
            except (OSError, HTTPException) as error:
                self.close()
                trouble = f"no answer ({type(error).__name__})"
                continue
            if status == 200:
                return
            if status != _BUSY:
                raise StorageError(
                    f"The driver's marker server did not take {self._count(body)} (HTTP {status}: "
                    f"{text}). Their data files were not written."
                )
            trouble = "it is busy"
        raise StorageError(
            f"The driver's marker server at {self._address.host}:{self._address.port} did not "
            f"take {self._count(body)} in {ATTEMPTS} attempts: {trouble}. Their data files were "
            "not written. If executors cannot reach the driver, set "
            "hoodie.write.markers.type=direct."
        )

    def _request(self, body: bytes) -> tuple[int, str]:
        address = self._address
        if self._connection is None:
            self._connection = HTTPConnection(address.host, address.port, timeout=ANSWER_S)
        headers = {"Authorization": f"Bearer {address.token}", "Content-Type": "text/plain"}
        self._connection.request("POST", f"/markers/{address.key}", body, headers)
        answer = self._connection.getresponse()
        text = " ".join(answer.read(2_000).decode("utf-8", "replace").split())
        if answer.will_close:
            self.close()
        return answer.status, text

    def _count(self, body: bytes) -> str:
        return f"{body.count(10) + 1} markers"


def _pause_s(attempt: int) -> float:
    """Pauses double; they differ a little between processes, so that these do not ask together."""
    pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** (attempt - 1))
    return pause * (1 + os.getpid() % 17 / 17)


def reaches(host: str, port: int, token: str, timeout_s: float) -> bool:
    """Whether a marker server that knows the token answers this process."""
    connection = HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request("GET", "/ready", headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
