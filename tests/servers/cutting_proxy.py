"""A TCP proxy that breaks connections at a chosen request, for protocols of any kind."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

from tests.servers.process import free_port

_CHUNK = 1 << 16


class Cut(Enum):
    """Where a connection breaks."""

    REQUEST = "before the server sees the request"
    REPLY = "after the server has done it and before the client hears so"


@dataclass
class CuttingProxy:
    """Passes bytes on to ``target``; ``cuts`` are for the next requests that hold ``mark``.

    The first ``silent`` connections are taken, and never answered.
    """

    target: tuple[str, int]
    port: int
    mark: bytes = b""
    cuts: deque[Cut] = field(default_factory=deque)
    met: list[Cut] = field(default_factory=list)
    silent: int = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def serve(self, client: socket.socket) -> None:
        """Pass one connection on until it ends or is cut."""
        if self.silent:
            self.silent -= 1
            with contextlib.suppress(OSError), client:
                while client.recv(_CHUNK):
                    pass
            return
        with contextlib.suppress(OSError), client, socket.create_connection(self.target) as server:
            swallowing = threading.Event()
            back = threading.Thread(target=self._back, args=(server, client, swallowing))
            back.start()
            try:
                self._forth(client, server, swallowing)
            finally:
                _close(server)
                back.join()

    def _forth(
        self, client: socket.socket, server: socket.socket, swallowing: threading.Event
    ) -> None:
        while data := client.recv(_CHUNK):
            if self.cuts and self.mark in data:
                cut = self.cuts.popleft()
                self.met.append(cut)
                if cut is Cut.REQUEST:
                    return
                swallowing.set()
            server.sendall(data)

    def _back(
        self, server: socket.socket, client: socket.socket, swallowing: threading.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(_CHUNK):
                if swallowing.is_set():
                    break
                client.sendall(data)
        _close(client)


def _close(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


@contextmanager
def cutting_proxy(target: str, mark: bytes, *cuts: Cut, silent: int = 0) -> Iterator[CuttingProxy]:
    """Run a proxy to ``host:port`` whose ``cuts`` befall the first requests that hold ``mark``."""
    host, _, port = target.rpartition(":")
    proxy = CuttingProxy((host, int(port)), free_port(), mark, deque(cuts), silent=silent)
    with socket.create_server(("127.0.0.1", proxy.port)) as listener:
        listener.settimeout(0.1)
        ended = threading.Event()

        def accept() -> None:
            while not ended.is_set():
                try:
                    client, _ = listener.accept()
                except TimeoutError:
                    continue
                client.settimeout(None)
                threading.Thread(target=proxy.serve, args=(client,), daemon=True).start()

        acceptor = threading.Thread(target=accept)
        acceptor.start()
        try:
            yield proxy
        finally:
            ended.set()
            acceptor.join()
