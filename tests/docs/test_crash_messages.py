"""What a user reads when a write dies: each message of docs/crashes.md is raised or logged here.

``python -m tests.docs.test_crash_messages`` writes the messages into the page again.
"""

from __future__ import annotations

import logging
import re
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pyhudi.cli.table_text import pending_text
from pyhudi.errors import HudiError
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat, render_commit
from pyhudi.format.filenames import BaseFileName, FileId
from pyhudi.format.instants import Action, Instant, InstantTime, State, instant_file_name
from pyhudi.rows.announce import MarkerAddress, ServedMarkers
from pyhudi.services.failed_writes import settle_and_tell
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.s3 import S3Storage
from pyhudi.timeline.active import timeline_of
from pyhudi.timeline.view import list_view
from pyhudi.transactions.recovery import settle as settling
from pyhudi.transactions.visible import VisibilityPolicy, await_visible
from pyhudi.writes.stage import worker_error
from tests.fakes import FakeClock
from tests.transactions.world import (
    LAPSE_S,
    LAZY,
    NEVER,
    World,
    dead_writer,
    settle,
    work,
)

PAGE = Path(__file__).parents[2] / "docs" / "crashes.md"
WIDTH = 96
SPARK_SAYS = """\
An error occurred while calling o177.collect.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 3 in stage 7.0 failed 4 \
times, most recent failure: Lost task 3.3 in stage 7.0 (TID 31) (etl-7 executor 2): \
java.lang.RuntimeException: no such city
\tat org.apache.spark.sql.catalyst.expressions.RaiseError.eval(misc.scala:100)

Driver stacktrace:
"""
SLOW_DOWN = (
    b"<?xml version='1.0'?><Error><Code>SlowDown</Code>"
    b"<Message>Please reduce your request rate.</Message></Error>"
)


def raised(scene: Callable[[World], object], world: World) -> str:
    with pytest.raises(HudiError) as error:
        scene(world)
    return str(error.value)


def waiting(world: World) -> str:
    """A writer beat 95 s ago, and another one begins."""
    heard: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
    settling.log.addHandler(handler)
    try:
        dead_writer(world)
        world.clock.advance(95)
        settle(world)
    finally:
        settling.log.removeHandler(handler)
    return heard[0]


def cleaned(world: World) -> str:
    dead_writer(world)
    world.clock.advance(LAPSE_S + 26)
    living = world.begin(policy=NEVER)
    work(living, {"j": "1"}, "b")
    found = settle_and_tell(world.writer(policy=LAZY))
    return pending_text(found)


def attempt(world: World) -> None:
    writer = world.begin()
    work(writer, {"k": "1"})
    writer.seal(lambda timeout_s: False, [])


def markers(_: World) -> None:
    nobody = MarkerAddress("127.0.0.1", 1, "key", "token")
    ServedMarkers(nobody, wait=lambda seconds: None).expect(f"a/{n}" for n in range(12))


@contextmanager
def busy_store() -> Iterator[str]:
    """The endpoint of an S3 server that has too much to do for ever."""

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(503)
            self.send_header("Content-Length", str(len(SLOW_DOWN)))
            self.end_headers()
            self.wfile.write(SLOW_DOWN)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def throttled(_: World) -> None:
    with busy_store() as endpoint:
        options = {"endpoint": endpoint, "access.key": "k", "secret.key": "s"}
        options["path.style.access"] = "true"
        given = {f"fs.s3a.{key}": value for key, value in options.items()}
        S3Storage("lake", "trips", given, FakeClock()).put_if_absent(".hoodie/lock", b"")


def lagging(world: World) -> None:
    wanted = [f"city=Oslo/{n}.parquet" for n in range(12)]
    time = world.begin().instant
    await_visible(world.memory, FakeClock(), VisibilityPolicy(), time, wanted, ())


def lost(_: World) -> None:
    storage, time = MemoryStorage("s3a://lake/trips"), InstantTime("20230101000000001")
    name = BaseFileName(FileId("5e7edde4-0"), "0-7-12", time).render()
    stat = WriteStat(FileId("5e7edde4-0"), f"city=Oslo/{name}", "city=Oslo")
    done = Instant(time, Action.COMMIT, State.COMPLETED, time)
    folder = ".hoodie/timeline"
    data = render_commit(CommitMetadata("UPSERT", (stat,)), 2)
    storage.put_if_absent(f"{folder}/{instant_file_name(done, 2)}", data)
    list_view(storage, timeline_of(storage.list(folder), 2, folder)).latest()


SCENES: dict[str, Callable[[World], str]] = {
    "waiting": waiting,
    "cleaned": cleaned,
    "task": lambda _: str(worker_error(RuntimeError(SPARK_SAYS), "pyhudi upsert trips")),
    **{
        scene.__name__: lambda world, scene=scene: raised(scene, world)  # type: ignore[misc]
        for scene in (attempt, markers, throttled, lagging, lost)
    },
}
_BLOCK = re.compile(r"<!-- message: (\w+) -->\n```text\n(.*?)```", re.DOTALL)


def message(name: str) -> str:
    """The scene's text as the page has it, with times that do not depend on the run."""
    world = World(9)
    try:
        text = SCENES[name](world)
    finally:
        world.close()
    seen: dict[str, str] = {}

    def instant(found: re.Match[str]) -> str:
        return seen.setdefault(found[0], f"202405011230051{len(seen) + 11}")

    text = re.sub(r"(?<!\d)2023\d{13}(?!\d)", instant, text)
    text = text.replace("127.0.0.1:1 ", "etl-7:40217 ")
    lines = text.splitlines()
    if len(lines) == 1:
        lines = textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


@pytest.mark.parametrize("name", SCENES)
def test_the_page_shows_what_is_said(name: str) -> None:
    shown = dict(_BLOCK.findall(PAGE.read_text(encoding="utf-8")))
    assert shown[name].strip() == message(name)


def test_the_page_shows_no_other_messages() -> None:
    assert {name for name, _ in _BLOCK.findall(PAGE.read_text(encoding="utf-8"))} == set(SCENES)


def main() -> None:
    """Write what the code says into the page."""
    text = PAGE.read_text(encoding="utf-8")
    text = _BLOCK.sub(lambda m: f"<!-- message: {m[1]} -->\n```text\n{message(m[1])}\n```", text)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
