"""A real S3 server behind a proxy that throttles: requests slow down, and none is given up early.

Time is real where many threads are told to slow down at once, and the test's own elsewhere.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from pyhudi.clock import Clock, SystemClock
from pyhudi.errors import FileExists, StorageError
from pyhudi.storage.open import open_storage
from pyhudi.storage.s3 import S3Storage
from tests.fakes import FakeClock
from tests.lossy_proxy import LossyProxy, lossy_proxy
from tests.s3_server import S3Server, s3_server

THREADS = 24


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@dataclass(frozen=True)
class Throttled:
    """One table behind the proxy; ``open`` gives a storage with a clock of one's own."""

    proxy: LossyProxy
    open: Callable[[Clock], S3Storage]
    straight: S3Storage


@pytest.fixture
def table(server: S3Server) -> Iterator[Throttled]:
    root = server.new_table()

    def open_at(endpoint: str, clock: Clock) -> S3Storage:
        options = {**server.hadoop_options, "fs.s3a.endpoint": endpoint}
        storage = open_storage(root, options, clock)
        assert isinstance(storage, S3Storage)
        return storage

    with lossy_proxy(server.endpoint) as (proxy, endpoint):
        straight = open_at(server.endpoint, SystemClock())
        yield Throttled(proxy, lambda clock: open_at(endpoint, clock), straight)


def test_many_puts_at_once_all_land_although_many_are_told_to_slow_down(table: Throttled) -> None:
    storage = table.open(SystemClock())
    storage.exists("warm")
    names = [f"p{n % 2}/{n:03}" for n in range(140)]
    table.proxy.rate, table.proxy.burst = 25.0, 5.0
    table.proxy.slow_downs["PUT"] = 2 * THREADS

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda name: storage.put_if_absent(name, name.encode()), names))

    assert [file.path for file in table.straight.walk("")] == sorted(names)
    assert table.proxy.passed["PUT"] == len(names)
    assert table.proxy.refused["PUT"] >= 2 * THREADS


def test_reads_listings_looks_and_deletes_wait_their_turn_too(table: Throttled) -> None:
    storage = table.open(SystemClock())
    names = [f"p/{n:02}" for n in range(24)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: table.straight.replace(name, name.encode()), names))
    table.proxy.rate, table.proxy.burst = 20.0, 2.0
    table.proxy.slow_downs.update(GET=THREADS, HEAD=THREADS, POST=THREADS)

    with ThreadPoolExecutor(THREADS) as pool:
        read = list(pool.map(storage.read, names))
        looks = list(pool.map(storage.exists, names))
        listings = list(pool.map(storage.list, ["p"] * len(names)))
        list(pool.map(lambda name: storage.delete([f"{name}-absent"]), names))

    assert read == [name.encode() for name in names]
    assert all(looks)
    assert [len(listing) for listing in listings] == [len(names)] * len(names)
    for method in ("GET", "HEAD", "POST"):
        assert table.proxy.refused[method] >= THREADS
        assert table.proxy.passed[method] >= len(names)


@pytest.mark.parametrize(
    ("call", "least_s", "most_s"),
    [
        (lambda s: s.put_if_absent("a", b""), 5, 9),
        (lambda s: s.replace("a", b""), 5, 9),
        (lambda s: s.read("a"), 56, 60),
        (lambda s: s.exists("a"), 56, 60),
        (lambda s: s.list("p"), 56, 60),
        (lambda s: s.delete(["a"]), 5, 9),
        (lambda s: s.delete(["a", "b"]), 56, 60),
    ],
)
def test_a_store_that_never_stops_refusing_is_given_up_when_the_time_is_over(
    table: Throttled, call: Callable[[S3Storage], object], least_s: float, most_s: float
) -> None:
    clock = FakeClock()
    storage = table.open(clock)
    table.straight.replace("a", b"")
    table.proxy.rate, table.proxy.burst = 1e-6, 1.0
    with contextlib.suppress(FileExists):
        call(storage)  # the first request of a prefix is let through
    begun = clock.monotonic()

    with pytest.raises(StorageError, match=r"(SlowDown|503), HTTP 503, after \d+ attempts") as gone:
        call(storage)

    assert gone.value.had_no_effect
    assert least_s < clock.monotonic() - begun < most_s


def test_keys_that_a_delete_refuses_for_now_are_named_again_by_the_next_one(
    table: Throttled,
) -> None:
    key = table.straight.root.split("/", 3)[3] + "/p"
    table.proxy.refused_keys.extend(
        [{f"{key}/1": "SlowDown", f"{key}/3": "InternalError"}, {f"{key}/3": "SlowDown"}]
    )
    clock = FakeClock()

    table.open(clock).delete(f"p/{n}" for n in range(5))

    assert table.proxy.deletes == [
        [f"{key}/{n}" for n in range(5)],
        [f"{key}/1", f"{key}/3"],
        [f"{key}/3"],
    ]
    assert len(clock.slept) == 2


def test_keys_that_a_delete_refuses_again_and_again_are_given_up_in_time(table: Throttled) -> None:
    key = table.straight.root.split("/", 3)[3]
    table.proxy.refused_keys.extend([{f"{key}/a": "SlowDown"}] * 100)
    clock = FakeClock()
    begun = clock.monotonic()

    with pytest.raises(StorageError, match=r"1 of 2 files, .*/a' among them: SlowDown, after"):
        table.open(clock).delete(["a", "b"])

    assert 56 < clock.monotonic() - begun < 60


def test_a_lone_file_is_deleted_in_the_time_of_a_put_or_not_at_all(table: Throttled) -> None:
    """It may be a lock, which belongs to another once its lease is over."""
    key = table.straight.root.split("/", 3)[3]
    table.proxy.refused_keys.extend([{f"{key}/lock": "InternalError"}, {f"{key}/lock": "SlowDown"}])
    table.proxy.refused_keys.extend([{f"{key}/lock": "SlowDown"}] * 100)
    clock = FakeClock()
    begun = clock.monotonic()

    with pytest.raises(StorageError, match="1 of 1 files"):
        table.open(clock).delete(["lock"])

    assert clock.monotonic() - begun < table.straight.put_timeout_s - 10


def test_keys_that_may_not_be_deleted_are_counted_and_named_at_once(table: Throttled) -> None:
    key = table.straight.root.split("/", 3)[3]
    table.proxy.refused_keys.append({f"{key}/0": "AccessDenied", f"{key}/2": "SlowDown"})

    with pytest.raises(StorageError, match=r"2 of 3 files, .*/0' among them: AccessDenied, Slow"):
        table.open(FakeClock()).delete(["0", "1", "2"])

    assert len(table.proxy.deletes) == 1


def test_a_missing_key_that_a_store_reports_is_deleted_all_the_same(table: Throttled) -> None:
    key = table.straight.root.split("/", 3)[3]
    table.proxy.refused_keys.append({f"{key}/0": "NoSuchKey"})

    table.open(FakeClock()).delete(["0"])

    assert len(table.proxy.deletes) == 1
