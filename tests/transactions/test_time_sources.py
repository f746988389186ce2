"""Counters of instant times, in a real ZooKeeper and in DynamoDB."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from kazoo.client import KazooClient

from pyhudi.choices import TimeSourceType
from pyhudi.clock import SystemClock
from pyhudi.errors import ConfigError, StorageError
from pyhudi.format.instants import format_time
from pyhudi.lock_options import LockOptions
from pyhudi.transactions.times.time_sources import open_times
from pyhudi.transactions.times.times import CLOCK_TIMES, TimeSource, next_time
from tests.fakes import FakeClock
from tests.servers.cutting_proxy import Cut, cutting_proxy
from tests.servers.dynamodb import DynamoDb
from tests.servers.process import free_port
from tests.servers.zookeeper import Zookeeper
from tests.transactions.test_times import NOW, timeline
from tests.transactions.world import POLICY, World

ROOT = "s3a://bucket/t"
Open = Callable[[], TimeSource]

_names = itertools.count()


def zookeeper_options(address: str) -> LockOptions:
    return LockOptions(
        zookeeper_url=address, zookeeper_base_path="/hudi", zookeeper_connection_timeout_ms=30_000
    )


@pytest.fixture(params=[TimeSourceType.ZOOKEEPER, TimeSourceType.DYNAMODB], ids=lambda k: k.value)
def counter(request: pytest.FixtureRequest) -> Open:
    """Opens sources of one counter, new for each test, as so many writers would."""
    kind, name = request.param, f"table{next(_names)}"
    if kind is TimeSourceType.ZOOKEEPER:
        zookeeper: Zookeeper = request.getfixturevalue("zookeeper")
        said = zookeeper_options(zookeeper.address)
    else:
        dynamodb: DynamoDb = request.getfixturevalue("dynamodb")
        said = LockOptions(dynamodb_table="locks", dynamodb_endpoint_url=dynamodb.endpoint)
    return lambda: open_times(kind, said, name, ROOT, SystemClock())


def test_a_counter_gives_what_is_asked_or_later_and_nothing_twice(counter: Open) -> None:
    one, other = counter(), counter()
    assert one.next_ms(NOW) == NOW
    assert other.next_ms(NOW) == NOW + 1
    assert one.next_ms(NOW - 5_000) == NOW + 2
    assert other.next_ms(NOW + 100) == NOW + 100
    assert one.next_ms(NOW) == NOW + 101


def test_writers_with_skewed_clocks_never_get_equal_or_decreasing_times(counter: Open) -> None:
    empty = timeline()
    clocks = FakeClock(NOW + 60_000), FakeClock(NOW - 60_000, seed=1)
    sources = counter(), counter()
    times = [
        next_time(clock, empty, True, source)
        for _ in range(4)
        for clock, source in zip(clocks, sources, strict=True)
    ]
    assert all(earlier < later for earlier, later in itertools.pairwise(times))
    assert times[0] == format_time(NOW + 60_000, True)


def test_many_writers_at_once_get_times_of_their_own(counter: Open) -> None:
    counter().next_ms(NOW)

    def take(_: int) -> list[int]:
        source = counter()
        return [source.next_ms(NOW) for _ in range(5)]

    with ThreadPoolExecutor(4) as writers:
        taken = list(writers.map(take, range(4)))
    assert all(times == sorted(times) for times in taken)
    assert sorted(itertools.chain(*taken)) == list(range(NOW + 1, NOW + 21))


def test_a_write_takes_its_times_from_the_counter(
    counter: Open, new_world: Callable[..., World]
) -> None:
    world = new_world(9)
    counter().next_ms(NOW + 5_000)
    done = world.upsert({"k": "1"}, policy=replace(POLICY, times=counter()))
    assert done.instant == format_time(NOW + 5_001, True)
    assert done.completion_time == format_time(NOW + 5_002, True)


def test_the_clock_gives_what_is_asked() -> None:
    source = open_times(TimeSourceType.CLOCK, LockOptions(), "t", ROOT, SystemClock())
    assert source is CLOCK_TIMES
    assert source.next_ms(NOW) == NOW


def test_a_zookeeper_that_is_away_is_an_error_that_names_the_option() -> None:
    said = replace(
        zookeeper_options(f"127.0.0.1:{free_port()}"), zookeeper_connection_timeout_ms=200
    )
    source = open_times(TimeSourceType.ZOOKEEPER, said, "t", ROOT, SystemClock())
    with pytest.raises(StorageError, match=r"no connection within 0.2 s.*zookeeper\.url"):
        source.next_ms(NOW)


def test_a_dynamodb_that_is_away_is_an_error_that_names_the_option(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    said = LockOptions(dynamodb_table="t", dynamodb_endpoint_url=f"http://127.0.0.1:{free_port()}")
    source = open_times(TimeSourceType.DYNAMODB, said, "t", ROOT, SystemClock())
    with pytest.raises(StorageError, match=r"dynamodb\.region"):
        source.next_ms(NOW)


@pytest.mark.parametrize(("cut", "given"), [(Cut.REQUEST, NOW), (Cut.REPLY, NOW + 1)])
def test_a_lost_connection_to_zookeeper_costs_a_time_at_most(
    zookeeper: Zookeeper, cut: Cut, given: int
) -> None:
    with cutting_proxy(zookeeper.address, str(NOW).encode(), cut) as proxy:
        said = zookeeper_options(proxy.address)
        name = f"table{next(_names)}"
        source = open_times(TimeSourceType.ZOOKEEPER, said, name, ROOT, SystemClock())
        assert source.next_ms(NOW) == given
        assert proxy.met == [cut]


def test_a_lost_connection_to_dynamodb_costs_a_time_at_most(dynamodb: DynamoDb) -> None:
    address = dynamodb.endpoint.removeprefix("http://")
    with cutting_proxy(address, str(NOW).encode(), Cut.REPLY) as proxy:
        said = LockOptions(dynamodb_table="locks", dynamodb_endpoint_url=f"http://{proxy.address}")
        name = f"table{next(_names)}"
        source = open_times(TimeSourceType.DYNAMODB, said, name, ROOT, SystemClock())
        assert source.next_ms(NOW) == NOW + 1
        assert proxy.met == [Cut.REPLY]


def test_a_node_that_is_no_counter_is_not_overwritten(zookeeper: Zookeeper) -> None:
    client = KazooClient(hosts=zookeeper.address)
    client.start(timeout=60)
    try:
        client.create("/other/t.time", b"not ours", makepath=True)
        said = replace(zookeeper_options(zookeeper.address), zookeeper_base_path="/other")
        source = open_times(TimeSourceType.ZOOKEEPER, said, "t", ROOT, SystemClock())
        with pytest.raises(ConfigError, match="no counter of instant times"):
            source.next_ms(NOW)
        assert client.get("/other/t.time")[0] == b"not ours"
    finally:
        client.stop()
        client.close()
