"""The marker server as clients of all kinds meet it, over real sockets."""

from __future__ import annotations

import asyncio
import http.client
import logging
import select
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from pyhudi.clock import SystemClock
from pyhudi.errors import SetupError, StorageError
from pyhudi.format.instants import InstantTime
from pyhudi.format.markers import marker_folder
from pyhudi.rows.announce import MarkerAddress, reaches
from pyhudi.storage.faults import Call, Effect, Fault, FaultyStorage
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.transactions.markers import marker_log
from pyhudi.transactions.markers.marker_log import Batching
from pyhudi.transactions.markers.marker_server import Limits, MarkerServer, new_token
from pyhudi.transactions.markers.marker_service import MarkerService, OpenMarkers
from pyhudi.transactions.markers.markers import marked_files
from tests.fakes import FakeClock

T = InstantTime("20240101000000000")
FOLDER = marker_folder(T)
TOKEN = new_token(SystemClock())
SOON_S = 30
LIMITS = Limits(body_bytes=4_096, reading_bytes=8_192, body_s=SOON_S * 10, idle_s=SOON_S * 10)
HASTY = replace(LIMITS, body_s=1.0, idle_s=2.0)


def name(number: int) -> str:
    return f"dt=1/{number:04d}-0_0-1-2_{T}.parquet.marker.CREATE"


def data_files(count: int) -> list[str]:
    return [name(number).removesuffix(".marker.CREATE") for number in range(count)]


class Served:
    """A server over one open instant, and the plainest of clients."""

    def __init__(self, storage: FaultyStorage, limits: Limits) -> None:
        self.storage = storage
        self.service = MarkerService(SystemClock())
        self.markers: OpenMarkers = self.service.open(storage, T, Batching())
        self.server = MarkerServer(self.service, TOKEN, limits=limits)
        self.server.start()

    def ask(
        self, body: bytes, token: str = TOKEN, path: str = "", method: str = "POST", **headers: str
    ) -> tuple[int, str, http.client.HTTPMessage]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=SOON_S)
        try:
            given = {"Authorization": f"Bearer {token}", **headers}
            connection.request(method, path or f"/markers/{self.markers.key}", body, given)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), answer.headers
        finally:
            connection.close()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.server.port), timeout=SOON_S)

    def address(self) -> MarkerAddress:
        return MarkerAddress("127.0.0.1", self.server.port, self.markers.key, TOKEN)

    def close(self) -> None:
        self.service.close()
        self.server.stop()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(FaultyStorage(LocalStorage(str(tmp_path))), LIMITS)
    yield made
    made.close()


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[Served]:
    """A server that soon gives up a client that says nothing more."""
    made = Served(FaultyStorage(LocalStorage(str(tmp_path))), HASTY)
    yield made
    made.close()


def serves(served: Served) -> bool:
    return served.ask(name(0).encode())[0] == 200


def test_many_markers_in_one_request_are_on_storage_when_it_is_answered(served: Served) -> None:
    body = "".join(f"{name(number)}\n" for number in range(20)).encode()
    status, _, headers = served.ask(body)
    assert status == 200
    assert headers["Server"] == "pyhudi"
    assert marked_files(served.storage, T) == data_files(20)
    assert [c.paths[0].rpartition("/")[2] for c in served.storage.writes] == [
        "MARKERS.type", "MARKERS0",
    ]  # fmt: skip


@pytest.mark.parametrize("token", ["", "x", TOKEN[:-1], TOKEN + "0", TOKEN.upper() + "é"])
def test_a_wrong_token_gets_nothing_and_learns_nothing(served: Served, token: str) -> None:
    token = token.encode().decode("latin-1")
    for path in ("", "/markers/other", "/ready", "/nothing"):
        status, text, _ = served.ask(name(1).encode(), token, path)
        assert (status, text) == (401, "Unauthorized.")
    assert served.storage.calls == []
    assert serves(served)


def test_no_token_at_all_is_a_wrong_token(served: Served) -> None:
    with served.connect() as wire:
        wire.sendall(b"POST /markers/x HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n")
        assert wire.recv(100).startswith(b"HTTP/1.1 401 ")


def test_each_application_has_its_own_token() -> None:
    clock = FakeClock()
    first, second = new_token(clock), new_token(clock)
    assert first != second
    assert len(first) == len(second) == 64


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/markers/20240101000000000-99", "POST", 404),
        ("/nothing", "POST", 404),
        ("/ready", "GET", 200),
        ("/ready", "POST", 405),
        ("/markers/x", "GET", 405),
        ("/markers/../../etc/passwd", "POST", 404),
    ],
)
def test_places_that_do_not_exist_are_told_from_those_that_do(
    served: Served, path: str, method: str, status: int
) -> None:
    assert served.ask(b"", path=path, method=method)[0] == status
    assert serves(served)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\n",
        b"../../../etc/cron.d/x.marker.CREATE",
        b"/tmp/x.marker.CREATE",
        b".hoodie/hoodie.properties.marker.CREATE",
        b"a/x.parquet",
        b"a\x00b.marker.CREATE",
        b"\xff\xfe.marker.CREATE",
        b"a.marker.CREATE\n\nb.marker.CREATE",
        b"a.marker.CREATE\r\nb.marker.CREATE",
    ],
)
def test_malformed_markers_are_refused_and_nothing_is_written(served: Served, body: bytes) -> None:
    assert served.ask(body)[0] == 400
    assert served.storage.calls == []
    assert serves(served)
    assert all(f.path.startswith(f"{FOLDER}/MARKERS") for f in served.storage.walk(""))


def test_a_body_too_large_is_refused_by_its_length_alone(served: Served) -> None:
    with served.connect() as wire:
        head = f"POST /markers/{served.markers.key} HTTP/1.1\r\nHost: a\r\n"
        head += f"Authorization: Bearer {TOKEN}\r\nContent-Length: 99999999\r\n\r\n"
        wire.sendall(head.encode())
        assert wire.recv(100).startswith(b"HTTP/1.1 413 ")
    assert serves(served)


def test_a_body_that_grows_when_unpacked_is_refused(served: Served) -> None:
    import gzip

    packed = gzip.compress(b"a" * 200_000)
    assert served.ask(packed, **{"Content-Encoding": "gzip"})[0] in (400, 413)
    assert serves(served)


def test_a_body_without_a_length_is_refused(served: Served) -> None:
    with served.connect() as wire:
        head = f"POST /markers/{served.markers.key} HTTP/1.1\r\nHost: a\r\n"
        head += f"Authorization: Bearer {TOKEN}\r\nTransfer-Encoding: chunked\r\n\r\n"
        wire.sendall(head.encode())
        assert wire.recv(100).startswith(b"HTTP/1.1 411 ")
    assert serves(served)


@pytest.mark.parametrize(
    "noise", [b"", b"POST", b"\x16\x03\x01\x02\x00", b"GET / HTTP/1.1\r\nA: b\r\n"]
)
def test_a_client_that_never_ends_its_header_is_hung_up_on(hasty: Served, noise: bytes) -> None:
    with hasty.connect() as wire:
        wire.sendall(noise)
        while wire.recv(1_000):
            pass
    assert serves(hasty)


def test_connections_beyond_the_bound_are_hung_up_on(tmp_path: Path) -> None:
    limits = Limits(connections=1, idle_s=SOON_S * 10)
    served = Served(FaultyStorage(LocalStorage(str(tmp_path))), limits)
    with closing(served), served.connect() as one, served.connect() as other:
        ended, _, _ = select.select([one, other], [], [], SOON_S)
        assert [wire.recv(1) for wire in ended] == [b""]
        assert serves(served)


def test_a_body_that_trickles_is_given_up(hasty: Served) -> None:
    with hasty.connect() as wire:
        head = f"POST /markers/{hasty.markers.key} HTTP/1.1\r\nHost: a\r\n"
        head += f"Authorization: Bearer {TOKEN}\r\nContent-Length: 100\r\n\r\nabc"
        wire.sendall(head.encode())
        assert wire.recv(100).startswith(b"HTTP/1.1 408 ")
    assert serves(hasty)


def test_a_client_that_hangs_up_amid_its_request_disturbs_nobody(served: Served) -> None:
    for _ in range(20):
        with served.connect() as wire:
            head = f"POST /markers/{served.markers.key} HTTP/1.1\r\nHost: a\r\n"
            head += f"Authorization: Bearer {TOKEN}\r\nContent-Length: 100\r\n\r\nabc"
            wire.sendall(head.encode())
    assert serves(served)


def test_bodies_that_are_read_at_a_time_are_bounded(served: Served) -> None:
    head = f"POST /markers/{served.markers.key} HTTP/1.1\r\nHost: a\r\n"
    head += f"Authorization: Bearer {TOKEN}\r\nContent-Length: 4096\r\n\r\n"
    with ExitStack() as ends:
        wires = [ends.enter_context(served.connect()) for _ in range(3)]
        for wire in wires:
            wire.sendall(head.encode())
        answered, _, _ = select.select(wires, [], [], SOON_S)
        assert [wire.recv(12) for wire in answered] == [b"HTTP/1.1 503"]
        for wire in wires:
            if wire not in answered:
                wire.sendall(b"a" * 4_096)
                assert wire.recv(12) == b"HTTP/1.1 400", "it was read to its end"
    assert serves(served)


def test_a_full_queue_says_when_to_ask_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marker_log, "MOST_QUEUED", 1)
    opened, reached = threading.Event(), threading.Semaphore(0)

    def hold(call: Call) -> None:
        if call.paths[0].endswith("MARKERS0"):
            reached.release()
            assert opened.wait(SOON_S)

    served = Served(FaultyStorage(LocalStorage(str(tmp_path)), before=hold), Limits())
    served.markers.drop()
    served.markers = served.service.open(served.storage, T, Batching(interval_ms=3_600_000))
    try:
        with ThreadPoolExecutor(2) as clients:
            first = clients.submit(served.ask, name(0).encode())
            assert reached.acquire(timeout=SOON_S)
            served.markers.ask([name(1)])
            status, _, headers = served.ask(name(2).encode())
            assert (status, headers["Retry-After"]) == (503, "1")
            opened.set()
            assert first.result(SOON_S)[0] == 200
    finally:
        opened.set()
        served.close()


def test_a_sealed_instant_and_one_that_has_settled_take_nothing(served: Served) -> None:
    assert serves(served)
    assert served.markers.seal(SOON_S)
    status, text, _ = served.ask(name(2).encode())
    assert status == 409
    assert "has ended" in text
    served.markers.drop()
    assert served.ask(name(2).encode())[0] == 404
    assert marked_files(served.storage, T) == data_files(1)


def test_a_storage_that_fails_is_told_to_its_requests_only(tmp_path: Path) -> None:
    fault = Fault(Effect.FAIL_BEFORE, path="*MARKERS0")
    served = Served(FaultyStorage(LocalStorage(str(tmp_path)), fault), Limits())
    try:
        assert served.ask(name(1).encode())[0] == 500
        assert served.ask(name(0).encode())[0] == 200
        assert marked_files(served.storage, T) == data_files(1)
    finally:
        served.close()


def test_two_tables_with_one_instant_do_not_meet(served: Served) -> None:
    other = MemoryStorage()
    markers = served.service.open(other, T, Batching())
    assert markers.key != served.markers.key
    assert served.ask(name(5).encode(), path=f"/markers/{markers.key}")[0] == 200
    assert marked_files(other, T) == [name(5).removesuffix(".marker.CREATE")]
    assert marked_files(served.storage, T) is None


def test_a_thousand_clients_at_a_time_are_all_answered(tmp_path: Path) -> None:
    served = Served(FaultyStorage(LocalStorage(str(tmp_path))), Limits())

    async def client(number: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.server.port)
        body = name(number).encode()
        head = f"POST /markers/{served.markers.key} HTTP/1.1\r\nHost: a\r\n"
        head += f"Authorization: Bearer {TOKEN}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        answer = await reader.readline()
        writer.close()
        return answer

    async def all_at_once() -> list[bytes]:
        return await asyncio.gather(*(client(number) for number in range(1_000)))

    try:
        answers = asyncio.run(all_at_once())
        assert set(answers) == {b"HTTP/1.1 200 OK\r\n"}
        assert marked_files(served.storage, T) == data_files(1_000)
        lists = [f.name for f in served.storage.list(FOLDER) if f.name != "MARKERS.type"]
        assert len(lists) <= 20
    finally:
        served.close()


@pytest.mark.parametrize("ending", ["stop", "crash"])
def test_a_server_that_starts_again_amid_a_write_loses_no_marker(
    served: Served, ending: str
) -> None:
    first = served.address().open()
    first.expect([name(number) for number in range(10)])
    port = served.server.port
    before = len(served.storage.calls)
    if ending == "stop":
        served.server.stop()
        served.service.reopen()
        served.server.start()
    else:
        loop = served.server._loop
        assert loop is not None
        loop.call_soon_threadsafe(loop.stop)

    # The same client goes on: its connection is gone, its address is not.
    first.expect([name(number) for number in range(8, 20)])
    first.close()

    assert served.server.port == port
    assert marked_files(served.storage, T) == data_files(20)
    read = [c.paths[0] for c in served.storage.calls[before:] if c.method == "read"]
    assert f"{FOLDER}/MARKERS0" in read, "what was written before was read again"


def test_after_a_stop_nothing_listens_and_no_thread_is_left(served: Served) -> None:
    port, thread = served.server.port, served.server._thread
    assert thread is not None
    assert thread.is_alive()
    served.server.stop()
    served.server.stop()
    assert not reaches("127.0.0.1", port, TOKEN, 1.0)
    assert not thread.is_alive()


def test_executors_learn_whether_they_reach_the_driver(served: Served) -> None:
    assert reaches("127.0.0.1", served.server.port, TOKEN, SOON_S)
    assert not reaches("127.0.0.1", served.server.port, "another", SOON_S)


def test_a_port_that_is_taken_is_an_error_with_the_remedy(served: Served) -> None:
    other = MarkerServer(served.service, TOKEN, port=served.server.port)
    with pytest.raises(SetupError, match="markers.type=direct"):
        other.start()


def test_nothing_secret_is_logged(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    served.ask(name(0).encode())
    served.ask(b"../x.marker.CREATE")
    served.ask(name(0).encode(), "wrong")
    served.storage._faults = (Fault(Effect.FAIL_BEFORE, at=1),)
    served.storage._seen = [0]
    served.ask(name(3).encode())
    assert TOKEN not in caplog.text
    assert TOKEN not in repr(served.address())
    assert str(served.server.port) in repr(served.address())


def test_a_service_that_is_closed_refuses_everything(served: Served) -> None:
    served.service.close()
    with pytest.raises(StorageError, match="it has ended"):
        served.markers.ask([name(1)])
    assert served.markers.seal(0), "there is nothing to wait for"
