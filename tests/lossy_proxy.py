"""An HTTP proxy that loses requests and replies on demand, to stand before a real S3 server."""

from __future__ import annotations

import http.client
import socket
import struct
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "expect"}


class Fate(Enum):
    """What happens to one PUT request; all other requests pass."""

    PASS = "passes"
    LOSE_REQUEST = "the connection is reset before the server sees it"
    LOSE_REPLY = "the server does it, and the connection is reset"
    SLOW_DOWN = "503 SlowDown, and the server does not see it"
    INTERNAL_ERROR = "500 InternalError, although the server did it"


class LossyProxy:
    """Passes requests on to ``target``; ``fates`` are those of the next PUTs, in order."""

    def __init__(self, target: str) -> None:
        self.target = urlsplit(target)
        self.fates: deque[Fate] = deque()
        self.puts = 0

    def next_fate(self, method: str) -> Fate:
        if method != "PUT":
            return Fate.PASS
        self.puts += 1
        return self.fates.popleft() if self.fates else Fate.PASS


@contextmanager
def lossy_proxy(target: str) -> Iterator[tuple[LossyProxy, str]]:
    """Run a proxy to the server at ``target``; gives its controls and its own endpoint."""
    proxy = LossyProxy(target)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fate = proxy.next_fate(self.command)
            if fate is Fate.LOSE_REQUEST:
                return self._reset()
            if fate is Fate.SLOW_DOWN:
                return self._refuse(503, b"<Error><Code>SlowDown</Code></Error>")
            reply = self._pass_on(body)
            if fate is Fate.LOSE_REPLY:
                return self._reset()
            if fate is Fate.INTERNAL_ERROR:
                return self._refuse(500, b"<Error><Code>InternalError</Code></Error>")
            return self._answer(*reply)

        do_GET = do_HEAD = do_POST = do_DELETE = do_PUT  # noqa: N815

        def _pass_on(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            upstream = http.client.HTTPConnection(proxy.target.hostname or "", proxy.target.port)
            try:
                headers = {k: v for k, v in self.headers.items() if k.lower() != "expect"}
                upstream.request(self.command, self.path, body, headers)
                reply = upstream.getresponse()
                return reply.status, reply.getheaders(), reply.read()
            finally:
                upstream.close()

        def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() not in _HOP_BY_HOP:
                    self.send_header(name, value)
            length = {k.lower(): v for k, v in headers}.get("content-length", "0")
            self.send_header("Content-Length", length if self.command == "HEAD" else str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _refuse(self, status: int, body: bytes) -> None:
            self._answer(status, [("Content-Type", "application/xml")], body)

        def _reset(self) -> None:
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.close_connection = True
            self.connection.close()

        def log_message(self, *_: object) -> None:
            """Keep the test output clean."""

        def finish(self) -> None:
            if not self.connection._closed:  # type: ignore[attr-defined]
                super().finish()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield proxy, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
