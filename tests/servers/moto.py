"""moto's server, which imitates AWS, made to answer one request at a time.

moto looks at an object and stores it in two steps, and its server has a thread for each
connection. So two conditional puts at once could both succeed, which no real store does.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment


@contextmanager
def moto_server() -> Iterator[str]:
    """Run a server of all services, which keeps everything in memory; gives its URL."""
    # Imported here: moto takes seconds to load, and most runs do not need it.
    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import make_server

    server = make_server(
        "127.0.0.1",
        0,
        one_at_a_time(DomainDispatcherApplication(create_backend_app)),
        threaded=True,
        request_handler=MotoRequestHandler,
    )
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        thread.join()


def one_at_a_time(app: WSGIApplication) -> WSGIApplication:
    """``app``, whose requests wait for each other once their bodies have arrived."""
    turn = threading.Lock()

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        # Read before the turn begins: a client that stands still must not stop the others.
        if length := environ.get("CONTENT_LENGTH"):
            environ["wsgi.input"] = BytesIO(environ["wsgi.input"].read(int(length)))
        with turn:
            return app(environ, start_response)

    return answer
