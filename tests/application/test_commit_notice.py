from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pyhudi.application.commit_notice import Callbacks, CommitNotice, HttpCallback
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.timeline.history import entry_of

T, C = InstantTime("20240101000000000"), InstantTime("20240101000000500")
STAT = WriteStat(
    file_id=FileId("f-0"), path="a/f.parquet", partition_path="a", num_writes=7, num_inserts=3
)
METADATA = CommitMetadata(operation="UPSERT", stats=(STAT,), extra={"schema": "{}"})
DONE = Instant(T, Action.COMMIT, State.COMPLETED, C)
NOTICE = CommitNotice("/data/rides", "rides", entry_of(DONE, C, METADATA, True))

Log = pytest.LogCaptureFixture


# -- functions of the application


def test_a_callback_gets_instant_completion_time_and_statistics() -> None:
    callbacks, told = Callbacks(), list[CommitNotice]()
    callbacks.add(told.append)
    callbacks.tell(NOTICE)
    (notice,) = told
    assert (notice.path, notice.table) == ("/data/rides", "rides")
    assert (notice.commit.instant, notice.commit.completed_at) == (T, C)
    assert (notice.commit.operation, notice.commit.rows_inserted) == ("upsert", 3)


def test_a_callback_that_fails_is_logged_and_the_next_is_called(caplog: Log) -> None:
    callbacks, told = Callbacks(), list[CommitNotice]()

    def fails(_: CommitNotice) -> None:
        raise RuntimeError("no mail today")

    callbacks.add(fails)
    callbacks.add(told.append)
    callbacks.tell(NOTICE)
    assert told == [NOTICE]
    assert f"{T} is committed, but the callback" in caplog.text
    assert "no mail today" in caplog.text


def test_a_callback_that_was_taken_back_is_not_called() -> None:
    callbacks, told = Callbacks(), list[CommitNotice]()
    remove = callbacks.add(told.append)
    remove()
    remove()
    callbacks.tell(NOTICE)
    assert told == []


# -- Hudi's HTTP call


@dataclass
class Receiver:
    """What a receiver was sent, and how it answers."""

    status: int = 200
    answers: threading.Event = field(default_factory=threading.Event)
    drips: bool = False
    got: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    port: int = 0

    def callback(self, timeout_s: float = 20.0, **headers: str) -> HttpCallback:
        url = f"http://127.0.0.1:{self.port}/hook?team=a"
        return HttpCallback(url, "a key", timeout_s, headers)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    found.answers.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.got.append((self.path, dict(self.headers), body))
            if found.drips:
                while not found.answers.wait(0.05):
                    self.wfile.write(b"H")
            found.answers.wait()
            self.send_response(found.status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield found
        finally:
            found.answers.set()
            server.shutdown()
            thread.join()


def test_the_message_is_hudis(receiver: Receiver, caplog: Log) -> None:
    receiver.callback(Team="a b").tell(NOTICE, METADATA)
    ((path, headers, body),) = receiver.got
    assert path == "/hook?team=a"
    assert headers["HUDI-CALLBACK-KEY"] == "a key"
    assert headers["Content-Type"].startswith("application/json")
    assert headers["Team"] == "a b"
    message = json.loads(body)
    (stat,) = message.pop("hoodieWriteStat")
    assert message == {"commitTime": T, "tableName": "rides", "basePath": "/data/rides"}
    assert (stat["fileId"], stat["numWrites"], stat["path"]) == ("f-0", 7, "a/f.parquet")
    assert caplog.text == ""


def test_a_refusal_is_logged(receiver: Receiver, caplog: Log) -> None:
    receiver.status = 403
    receiver.callback().tell(NOTICE, METADATA)
    assert "is committed, but the callback to 127.0.0.1 failed: it answered 403" in caplog.text


def test_a_receiver_that_is_away_is_logged(receiver: Receiver, caplog: Log) -> None:
    HttpCallback("http://127.0.0.1:9/", "k", 5.0, {}).tell(NOTICE, METADATA)
    assert "ConnectionRefusedError" in caplog.text


@pytest.mark.timeout(60)
@pytest.mark.parametrize("drips", [False, True])
def test_a_receiver_that_does_not_come_to_an_end_is_left_after_the_timeout(
    receiver: Receiver, drips: bool, caplog: Log
) -> None:
    receiver.answers.clear()
    receiver.drips = drips
    receiver.callback(timeout_s=0.3).tell(NOTICE, METADATA)
    assert "failed: " in caplog.text


def test_keys_and_the_rest_of_the_address_are_not_logged(receiver: Receiver, caplog: Log) -> None:
    receiver.status = 500
    with caplog.at_level(logging.DEBUG):
        receiver.callback().tell(NOTICE, METADATA)
    assert "team" not in caplog.text
    assert "a key" not in caplog.text
