"""An HTTP proxy before a real S3 server, which loses requests and replies on demand.

It can also throttle: more requests a second at one prefix than it is told get 503 SlowDown.
"""

from __future__ import annotations

import http.client
import re
import socket
import struct
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from pyhudi.storage.slow import Turns

_HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "expect"}


class Fate(Enum):
    """What happens to one PUT request; all other requests pass."""

    PASS = "passes"
    LOSE_REQUEST = "the connection is reset before the server sees it"
    LOSE_REPLY = "the server does it, and the connection is reset"
    SLOW_DOWN = "503 SlowDown, and the server does not see it"
    INTERNAL_ERROR = "500 InternalError, although the server did it"


_DELETES = "POST"  # DeleteObjects, the only POST that a storage sends


class LossyProxy:
    """Passes requests on to ``target``; ``fates`` are those of the next PUTs, in order.

    ``refused_keys`` (key to code) are said to be left by the next multi-object deletes, one set for
    each, and ``deletes`` are the keys that all of them named. ``rate`` is the requests a second of
    a prefix, PUTs and others apart, and ``burst`` how many may come at once; None throttles none.
    ``slow_downs`` is how many of the next requests of a method are refused whatever their rate, so
    that a slow machine sees refusals as well.
    """

    def __init__(self, target: str) -> None:
        self.target = urlsplit(target)
        self.fates: deque[Fate] = deque()
        self.refused_keys: deque[dict[str, str]] = deque()
        self.deletes: list[list[str]] = []
        self.rate: float | None = None
        self.burst = 1.0
        self.slow_downs: Counter[str] = Counter()
        self.puts = 0
        self.refused: Counter[str] = Counter()
        self.passed: Counter[str] = Counter()
        self._turns: dict[tuple[str, bool], Turns] = {}
        self._guard = threading.Lock()

    def next_fate(self, method: str, path: str) -> Fate:
        """What becomes of a request that has arrived now."""
        if self.rate is not None:
            return self._throttled(method, path, self.rate)
        if method != "PUT":
            return Fate.PASS
        self.puts += 1
        return self.fates.popleft() if self.fates else Fate.PASS

    def _throttled(self, method: str, path: str, rate: float) -> Fate:
        with self._guard:
            prefix = path.partition("?")[0].rpartition("/")[0], method == "PUT"
            turns = self._turns.setdefault(prefix, Turns(rate))
            served = turns.take(1, time.monotonic(), self.burst / rate)
            if self.slow_downs[method] > 0:
                self.slow_downs[method] -= 1
                served = False
            (self.passed if served else self.refused)[method] += 1
            return Fate.PASS if served else Fate.SLOW_DOWN

    def lie_about(self, method: str, body: bytes) -> bytes:
        """The errors that the answer to a delete shall have, although the server did it."""
        if method != _DELETES:
            return b""
        self.deletes.append([key.decode() for key in re.findall(rb"<Key>(.*?)</Key>", body)])
        named = self.refused_keys.popleft() if self.refused_keys else {}
        return b"".join(
            f"<Error><Key>{key}</Key><Code>{code}</Code></Error>".encode()
            for key, code in named.items()
        )


@contextmanager
def lossy_proxy(target: str) -> Iterator[tuple[LossyProxy, str]]:
    """Run a proxy to the server at ``target``; gives its controls and its own endpoint."""
    proxy = LossyProxy(target)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fate = proxy.next_fate(self.command, self.path)
            if fate is Fate.LOSE_REQUEST:
                return self._reset()
            if fate is Fate.SLOW_DOWN:
                return self._refuse(503, b"<Error><Code>SlowDown</Code></Error>")
            reply = self._pass_on(body)
            if errors := proxy.lie_about(self.command, body):
                return self._refuse(200, b"<DeleteResult>" + errors + b"</DeleteResult>")
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
            head = self.command == "HEAD"
            self.send_header("Content-Length", length if head else str(len(body)))
            self.end_headers()
            self.wfile.write(b"" if head else body)

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
