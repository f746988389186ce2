"""What a MinIO server was asked, from its audit log: every request, its object and its time.

MinIO posts its audit log to a web hook; the receiver here runs in a thread and keeps, for each
request, a few words.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: without a new entry for so long, all of them have come
SETTLED_S = 3.0
LARGEST_POST = 64 << 20


@dataclass(frozen=True, slots=True)
class Request:
    """One request: S3's name of the call, the object or prefix, seconds until it was answered."""

    call: str
    path: str
    seconds: float


class StoreAudit:
    """The requests since the last ``take``."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._guard = threading.Lock()
        self._requests: list[Request] = []
        self._latest = time.monotonic()

    def add(self, entry: dict[str, Any]) -> None:
        """Take an entry of the audit log in."""
        api = entry.get("api", {})
        query = entry.get("requestQuery") or {}
        path = api.get("object") or query.get("prefix", "")
        nanoseconds = str(api.get("timeToResponseInNS") or "0")
        request = Request(api.get("name", "?"), path, int(nanoseconds) / 1e9)
        with self._guard:
            self._requests.append(request)
            self._latest = time.monotonic()

    def take(self) -> list[Request]:
        """All requests since the last time, once no more arrive."""
        while True:
            with self._guard:
                rest = SETTLED_S - (time.monotonic() - self._latest)
                if rest <= 0:
                    taken, self._requests = self._requests, []
                    return taken
            time.sleep(rest)


@contextmanager
def store_audit() -> Iterator[StoreAudit]:
    """A running receiver on a free port of the loopback device."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(min(size, LARGEST_POST))
            for entry in _entries(body.decode()):
                audit.add(entry)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    audit = StoreAudit(f"http://127.0.0.1:{server.server_port}/")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield audit
    finally:
        server.shutdown()
        server.server_close()


def _entries(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects of a post: one, or several one after the other."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        entry, at = decoder.raw_decode(text, at)
        yield from entry if isinstance(entry, list) else [entry]


def by_kind(requests: list[Request]) -> tuple[Counter[str], Counter[str]]:
    """Counts by call: those for markers, and all others."""
    markers, others = Counter[str](), Counter[str]()
    for request in requests:
        (markers if "/.hoodie/.temp/" in f"/{request.path}" else others)[request.call] += 1
    return markers, others
