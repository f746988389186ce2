"""The HTTP side of the marker service, in a thread of the driver; the only module with aiohttp.

``POST /markers/<key>`` with one marker a line is answered 200 when the markers are on storage.
``GET /ready`` tells an executor that it reaches the driver. Every request carries the application's
token. The status says why a request is refused: 400 malformed, 401 wrong token, 404
unknown instant, 408 too slow, 409 sealed, 411 no length, 413 too large, 500 the storage failed,
503 busy (``Retry-After`` says when to ask again).

Invariants: no body is read before the request's token is checked; bodies, connections, the time of
each and the queue are bounded; neither tokens nor markers are logged.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from pyhudi.clock import Clock
from pyhudi.errors import SetupError, StorageError
from pyhudi.transactions.markers.marker_log import MarkerRefused, Refusal
from pyhudi.transactions.markers.marker_service import MarkerService

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

RESTARTS = 5
START_S = 30.0
STOP_S = 10.0
TOKEN_BITS = 256
_STATUS: Final = {
    Refusal.MALFORMED: 400,
    Refusal.UNKNOWN: 404,
    Refusal.SEALED: 409,
    Refusal.BUSY: 503,
}


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one server; seconds and bytes."""

    body_bytes: int = 8 << 20
    #: of all bodies that are being read at a time
    reading_bytes: int = 64 << 20
    body_s: float = 20.0
    #: without a whole request header
    idle_s: float = 60.0
    connections: int = 4_096
    backlog: int = 1_024


def new_token(clock: Clock) -> str:
    """A secret for one application."""
    return f"{clock.random_int(1 << TOKEN_BITS):0{TOKEN_BITS // 4}x}"


class MarkerServer:
    """Serves a ``MarkerService`` at ``host``; ``port`` 0 takes a free one at the first start."""

    def __init__(
        self,
        service: MarkerService,
        token: str,
        host: str = "127.0.0.1",
        port: int = 0,
        limits: Limits | None = None,
    ) -> None:
        self._service, self._token = service, token.encode()
        self._host, self.port = host, port
        self._limits = limits or Limits()
        self._thread: threading.Thread | None = None
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._reading = 0
        self._busy: set[web.RequestHandler] = set()
        self._idle: dict[web.RequestHandler, float] = {}

    def start(self) -> int:
        """Listen and serve in a new thread; returns the port. ``SetupError`` if that fails."""
        if self._thread is not None and self._thread.is_alive():
            return self.port
        self._started.clear()
        self._failure = None
        self._thread = threading.Thread(target=self._run, name="pyhudi-markers", daemon=True)
        self._thread.start()
        self._started.wait(START_S)
        if self._failure is not None or not self._started.is_set():
            raise SetupError(
                f"The marker server cannot listen at {self._host}:{self.port}: {self._failure}. "
                "Set hoodie.embed.timeline.server.port to a free port, or "
                "hoodie.write.markers.type=direct to do without a server."
            )
        return self.port

    def stop(self) -> None:
        """Answer the running requests, then end; idempotent."""
        thread, loop, stop = self._thread, self._loop, self._stop
        if thread is None:
            return
        if loop is not None and stop is not None and thread.is_alive():
            try:
                loop.call_soon_threadsafe(stop.set)
            except RuntimeError:  # it has ended in this moment
                log.debug("the marker server had ended")
        thread.join(STOP_S)
        self._thread = None

    # -- the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        """Serve until told to stop; after an unexpected end start again."""
        for attempt in range(RESTARTS + 1):
            if attempt:
                self._service.reopen()
            try:
                self._serve()
                return
            except BaseException as e:
                if not self._started.is_set():
                    self._failure = e
                    self._started.set()
                    return
                log.warning("the marker server broke (%s) and starts again", type(e).__name__)
        log.error("the marker server broke %d times and is given up", RESTARTS + 1)

    def _serve(self) -> None:
        loop = asyncio.new_event_loop()
        self._loop = loop
        self._busy.clear()
        self._idle.clear()
        self._reading = 0
        try:
            loop.run_until_complete(self._main())
        finally:
            self._loop = None
            _end(loop)

    async def _main(self) -> None:
        self._stop = asyncio.Event()
        app = web.Application(middlewares=[self._guarded], client_max_size=self._limits.body_bytes)
        app.router.add_get("/ready", self._ready)
        app.router.add_post("/markers/{key}", self._markers)
        app.on_response_prepare.append(_say_little)
        runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            keepalive_timeout=self._limits.idle_s,
            lingering_time=1.0,
            shutdown_timeout=STOP_S / 2,
            logger=_QUIET,
        )
        await runner.setup()
        try:
            site = web.TCPSite(
                runner, self._host, self.port, backlog=self._limits.backlog, reuse_address=True
            )
            await site.start()
            self.port = int(runner.addresses[0][1])
            self._started.set()
            await self._watch(runner)
        finally:
            await runner.cleanup()

    async def _watch(self, runner: web.AppRunner) -> None:
        """Until the end, close connections that bring no request, and those beyond the bound."""
        assert self._stop is not None
        pause = min(1.0, self._limits.idle_s / 4)
        while not self._stop.is_set():
            try:
                await asyncio.wait_for(self._stop.wait(), pause)
                return
            except asyncio.TimeoutError:
                self._close_idle(runner)

    def _close_idle(self, runner: web.AppRunner) -> None:
        assert runner.server is not None
        now = asyncio.get_running_loop().time()
        waiting = [c for c in runner.server.connections if c not in self._busy]
        idle = {c: self._idle.get(c, now) for c in waiting}
        excess = len(runner.server.connections) - self._limits.connections
        oldest = set(sorted(waiting, key=lambda c: idle[c])[: max(0, excess)])
        for connection, since in idle.items():
            if now - since > self._limits.idle_s or connection in oldest:
                connection.force_close()
        self._idle = idle

    # -- requests ------------------------------------------------------------------------------

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.headers.get("Authorization", "").encode("utf-8", "replace")
        if not hmac.compare_digest(given, b"Bearer " + self._token):
            return _closing(web.Response(status=401, text="Unauthorized."))
        connection = request.protocol
        self._busy.add(connection)
        self._idle.pop(connection, None)
        try:
            return await handler(request)
        except web.HTTPException as e:
            return _closing(web.Response(status=e.status, text=e.reason, headers=_allow(e)))
        finally:
            self._busy.discard(connection)

    async def _ready(self, request: web.Request) -> web.Response:
        return web.Response(text="ready")

    async def _markers(self, request: web.Request) -> web.Response:
        key, length = request.match_info["key"], request.content_length
        if not self._service.knows(key):
            return _closing(web.Response(status=404, text="No such write takes markers."))
        if length is None:
            return _closing(web.Response(status=411, text="The length of the body is missing."))
        if length > self._limits.body_bytes:
            text = f"A request may have {self._limits.body_bytes} bytes at most."
            return _closing(web.Response(status=413, text=text))
        if self._reading + length > self._limits.reading_bytes:
            return _closing(_busy("Too much is being read already."))
        with self._reads(length):
            try:
                body = await asyncio.wait_for(request.read(), self._limits.body_s)
            except asyncio.TimeoutError:
                return _closing(web.Response(status=408, text="The body came too slowly."))
            return await self._answer(key, body)

    @contextmanager
    def _reads(self, length: int) -> Iterator[None]:
        self._reading += length
        try:
            yield
        finally:
            self._reading -= length

    async def _answer(self, key: str, body: bytes) -> web.Response:
        try:
            names = body.decode().removesuffix("\n").split("\n")
        except UnicodeDecodeError:
            return web.Response(status=400, text="The body is no UTF-8 text.")
        try:
            await asyncio.wrap_future(self._service.ask(key, names))
        except MarkerRefused as e:
            if e.refusal is Refusal.BUSY:
                return _busy(str(e))
            return web.Response(status=_STATUS[e.refusal], text=str(e))
        except StorageError as e:
            return web.Response(status=500, text=str(e))
        except Exception as e:
            log.warning("markers of %s could not be written: %s", key, e)
            return web.Response(status=500, text=str(e))
        return web.Response(text="on storage")


def _busy(text: str) -> web.Response:
    return web.Response(status=503, text=text, headers={"Retry-After": "1"})


def _closing(response: web.Response) -> web.Response:
    """``response``, after which the connection ends: what the client still sends is not read."""
    response.force_close()
    return response


def _allow(error: web.HTTPException) -> dict[str, str]:
    return {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}


async def _say_little(request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = "pyhudi"


def _end(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what is left of a loop, close its sockets and the loop itself."""
    try:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()

        # aiohttp logs a line for each request that is not HTTP; strangers could flood the log.


_QUIET = logging.getLogger(f"{__name__}.http")
_QUIET.setLevel(logging.CRITICAL)
