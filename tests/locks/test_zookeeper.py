"""The ZooKeeper lock on a real server: Curator's node form, ends of sessions, lost replies."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from pyhudi.clock import SystemClock
from pyhudi.errors import LockTimeout, StorageError, WriterFenced
from pyhudi.locks.base import LockOwner
from pyhudi.locks.leased import QUEUE_PAUSE_MS, LeasedLock
from pyhudi.locks.zookeeper import ZookeeperLock
from pyhudi.locks.zookeeper_session import ZookeeperPlace
from tests.servers.cutting_proxy import Cut, cutting_proxy
from tests.servers.process import free_port
from tests.servers.zookeeper import Zookeeper

ANN = LockOwner("20240101000000001", "ann.example", 11, "nightly load, 50% & more")
BOB = LockOwner("20240101000000002", "bob.example", 22)

_numbers = itertools.count()


@pytest.fixture
def place(zookeeper: Zookeeper) -> ZookeeperPlace:
    return ZookeeperPlace(zookeeper.address, f"/locks/rides-{next(_numbers)}", 30.0, 5.0)


@pytest.fixture
def admin(zookeeper: Zookeeper) -> Iterator[KazooClient]:
    client = KazooClient(hosts=zookeeper.address)
    client.start(timeout=60)
    yield client
    client.stop()
    client.close()


def handle(place: ZookeeperPlace) -> LeasedLock:
    return LeasedLock(ZookeeperLock(place), SystemClock(), QUEUE_PAUSE_MS)


def test_the_node_has_curators_form_and_says_who_we_are(
    place: ZookeeperPlace, admin: KazooClient
) -> None:
    lock = handle(place)
    lock.acquire(10, ANN)

    (name,) = admin.get_children(place.path)
    data, stat = admin.get(f"{place.path}/{name}")

    assert re.fullmatch(r"_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-lock-\d{10}", name)
    assert stat.ephemeralOwner != 0
    text = data.decode()
    assert text.startswith("application_id=nightly%20load%2C%2050%25%20%26%20more,")
    assert "instant=20240101000000001,host=ann.example,pid=11" in text
    holder = handle(place).describe()
    assert holder is not None
    assert holder.owner == ANN
    lock.release()
    assert admin.get_children(place.path) == []


def test_who_came_first_is_told_by_what_follows_lock(
    place: ZookeeperPlace, admin: KazooClient
) -> None:
    """A name that begins with a smaller letter is no reason to go first; nor is a larger uuid."""
    admin.ensure_path(place.path)
    first = admin.create(
        f"{place.path}/_c_ffffffff-0000-0000-0000-000000000000-lock-",
        b"application_id=app-7",
        ephemeral=True,
        sequence=True,
    )
    lock = handle(place)

    with pytest.raises(LockTimeout, match=r"another program \(application_id=app-7\) since"):
        lock.acquire(0.3, ANN)
    assert [f"{place.path}/{name}" for name in admin.get_children(place.path)] == [first]

    admin.delete(first)
    lock.acquire(10, ANN)
    lock.release()


def test_the_lease_is_what_the_server_grants_not_what_we_ask(zookeeper: Zookeeper) -> None:
    path = f"/locks/rides-{next(_numbers)}"
    lock = handle(ZookeeperPlace(zookeeper.address, path, 100.0, 5.0))
    lock.acquire(10, ANN)

    assert 59 < lock.check() <= 60  # the test server's maxSessionTimeout
    lock.release()


def test_a_session_that_the_server_ended_fences_its_holder(
    place: ZookeeperPlace, admin: KazooClient
) -> None:
    lock, other = handle(place), handle(place)
    lock.acquire(10, ANN)
    (name,) = admin.get_children(place.path)
    admin.delete(f"{place.path}/{name}")
    other.acquire(10, BOB)

    with pytest.raises(WriterFenced, match=r"bob\.example"):
        lock.check()
    assert other.check() > 0
    other.release()


def test_a_lock_is_lost_while_the_server_is_away_for_longer_than_the_lease(
    zookeeper: Zookeeper,
) -> None:
    path = f"/locks/rides-{next(_numbers)}"
    place = ZookeeperPlace(zookeeper.address, path, 1.0, 0.5)
    lock = handle(place)
    lock.acquire(10, ANN)
    try:
        with zookeeper.paused():
            with pytest.raises(StorageError, match=r"zookeeper\.url"):
                lock.check()
            SystemClock().sleep(1.0)
            assert not lock.held()

        with pytest.raises((WriterFenced, StorageError)):
            lock.check()
    finally:
        lock.release()


@pytest.mark.parametrize("cut", Cut)
def test_a_request_to_queue_up_whose_connection_breaks_leaves_one_node(
    zookeeper: Zookeeper, admin: KazooClient, cut: Cut
) -> None:
    path = f"/locks/rides-{next(_numbers)}"
    with cutting_proxy(zookeeper.address, b"-lock-", cut) as proxy:
        lock = handle(ZookeeperPlace(proxy.address, path, 30.0, 5.0))

        lock.acquire(20, ANN)

        assert proxy.met == [cut]
        (name,) = admin.get_children(path)
        assert name.endswith("lock-0000000000")
        assert lock.check() > 0
        lock.release()
    assert admin.get_children(path) == []


def test_the_lock_of_a_killed_process_is_free_after_its_session(zookeeper: Zookeeper) -> None:
    path = f"/locks/rides-{next(_numbers)}"
    place = ZookeeperPlace(zookeeper.address, path, 1.0, 5.0)
    program = f"""
        import time
        from pyhudi.locks.base import LockOwner
        from pyhudi.locks.leased import LeasedLock
        from pyhudi.locks.zookeeper import ZookeeperLock
        from pyhudi.locks.zookeeper_session import ZookeeperPlace
        LeasedLock(ZookeeperLock({place!r})).acquire(10, LockOwner("1", "doomed", 1))
        print("held", flush=True)
        time.sleep(1000)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as doomed:
        assert doomed.stdout is not None
        assert doomed.stdout.readline() == "held\n"
        lock = handle(place)
        with pytest.raises(LockTimeout, match="doomed"):
            lock.acquire(2, BOB)
        doomed.kill()

    lock.acquire(20, BOB)
    assert lock.check() > 0
    lock.release()


def test_a_server_that_is_silent_at_first_is_asked_again(zookeeper: Zookeeper) -> None:
    """One that has just started may take a connection and never answer on it."""
    path = f"/locks/rides-{next(_numbers)}"
    with cutting_proxy(zookeeper.address, b"", silent=1) as proxy:
        lock = handle(ZookeeperPlace(proxy.address, path, 60.0, 10.0))

        lock.acquire(20, ANN)

        assert proxy.silent == 0
        lock.release()


def test_servers_that_are_not_there_are_named(zookeeper: Zookeeper) -> None:
    place = ZookeeperPlace(f"127.0.0.1:{free_port()}", "/locks/x", 5.0, 0.5)

    with pytest.raises(StorageError, match=r"no connection within 0\.5 s.*zookeeper\.url"):
        handle(place).acquire(1, ANN)


def test_a_node_of_our_name_that_another_session_made_is_not_ours(
    place: ZookeeperPlace, admin: KazooClient
) -> None:
    """As a server shows it that lags behind: the node of a session that has ended."""
    lock = handle(place)
    lock.acquire(10, ANN)
    (name,) = admin.get_children(place.path)
    admin.delete(f"{place.path}/{name}")
    admin.create(f"{place.path}/{name}", b"", ephemeral=True)

    with pytest.raises(WriterFenced):
        lock.check()
